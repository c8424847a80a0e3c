// One launch for all layers of a token: what it takes, and that its price is that of its parts but
// for what lies between them.
#include "model/launches/decode_layers.h"

#include <catch2/catch.hpp>

#include "model/cost/cost_model.h"
#include "model/launches/launch_work.h"
#include "model/launches/step_composition.h"
#include "model/launches/step_shape.h"
#include "model/words/joint_rows.h"

using namespace versieve;

namespace {

StepShape plain_step(const char* model, std::int64_t context_len, std::int64_t reuse_layers = 0) {
  StepShape s{.target = named_llm_shape(model)};
  s.draft = draft_shape_for(s.target);
  s.context_len = context_len;
  s.refresh_layers = s.target.layers - reuse_layers;
  s.reuse_layers = reuse_layers;
  s.recorded = true;
  return s;
}

Traffic moved_by(const StepShape& shape) {
  StepWork work;
  add_step(shape, 1.0, work);
  Traffic sum;
  for (const LaunchWork& launch : work) {
    for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
      sum.read_bytes[i] += launch.launches * launch.unique.read_bytes[i];
      sum.write_bytes[i] += launch.launches * launch.unique.write_bytes[i];
    }
    sum.flops += launch.launches * launch.unique.flops;
  }
  return sum;
}

StepCost cost_of_step(const StepShape& shape) {
  StepWork work;
  add_step(shape, 1.0, work);
  return cost_of(work, hardware_by_key("h200-sxm"), initial_parameters(),
                 {false, LaunchMode::kGraph});
}

bool takes(const LlmShape& shape, std::int64_t context_len = 4096) {
  return decodes_in_one_launch(shape, context_len);
}

// 27 gates: the joint projection's 987 rows come with five of zeros.
LlmShape smollm2() {
  return {.name = "smollm2",
          .layers = 30,
          .hidden = 576,
          .intermediate = 1536,
          .vocab = 49152,
          .num_heads = 9,
          .num_kv_heads = 3,
          .head_dim = 64,
          .max_position = 8192,
          .rope_theta = 1e5};
}

}  // namespace

TEST_CASE("a joint projection has whole words of 16 bytes") {
  CHECK(joint_rows(smollm2()) == 992);
  CHECK(joint_gates(smollm2()) == 27);
  CHECK(joint_rows(named_llm_shape("nsa-1b")) == 3072 + 96);
  CHECK(joint_rows(named_llm_shape("dense-1b")) == 3072);
}

TEST_CASE("one launch takes the named sparse geometries, and what its parts allow") {
  for (const char* name : {"nsa-1b", "nsa-8b", "demo"}) {
    CAPTURE(name);
    for (const std::int64_t context : {0, 1, 16384, 65536}) {
      CHECK(takes(named_llm_shape(name), context));
    }
    CHECK(!takes(named_llm_shape(name), 1 << 20));
  }
  CHECK(!takes(named_llm_shape("dense-1b")));
  const auto changed = [](auto change) {
    LlmShape shape = named_llm_shape("nsa-1b");
    change(shape);
    return shape;
  };
  CHECK(takes(smollm2()));
  CHECK(!takes(changed([](LlmShape& s) { s.head_dim = 32; })));
  CHECK(!takes(changed([](LlmShape& s) { s.num_kv_heads = 2; })));   // 16 query heads each
  CHECK(!takes(changed([](LlmShape& s) { s.num_kv_heads = 32; })));  // 4 SMs a KV head
  CHECK(!takes(changed([](LlmShape& s) { s.hidden = 2048 + 32; })));
  CHECK(!takes(changed([](LlmShape& s) { s.hidden = 16384; })));        // wide blocks of its rows
  CHECK(!takes(changed([](LlmShape& s) { s.intermediate = 65536; })));  // its slices are too long
  CHECK(!takes(changed([](LlmShape& s) { s.nsa.sel_block = 32; })));
  CHECK(!takes(changed([](LlmShape& s) { s.nsa.cmp_block = 16; })));
  CHECK(!takes(changed([](LlmShape& s) { s.nsa.sel_count = 65; })));
  CHECK(!decodes_in_one_launch(named_llm_shape("nsa-1b"), 4096, 60));  // down's slices do not fit
  LlmShape other = named_llm_shape("nsa-1b");
  CHECK(decodes_in_one_launch(other, 4096));
  other.rope.kind = RopeKind::kLinear;
  CHECK(!decodes_in_one_launch(other, 4096));
  other = named_llm_shape("nsa-1b");
  other.qkv_bias = true;
  CHECK(!decodes_in_one_launch(other, 4096));
}

TEST_CASE("one launch moves what the launches move that it replaces, term by term") {
  for (const char* model : {"nsa-1b", "nsa-8b", "demo"}) {
    for (const std::int64_t context : {500, 1024, 16384, 65536}) {
      for (const std::int64_t reuse : {0, 3}) {
        CAPTURE(model, context, reuse);
        StepShape shape = plain_step(model, context, reuse);
        const Traffic parts = moved_by(shape);
        shape.one_launch = true;
        const Traffic one = moved_by(shape);
        for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
          CAPTURE(name_of(static_cast<TrafficTerm>(i)));
          CHECK(one.read_bytes[i] == Approx(parts.read_bytes[i]));
          CHECK(one.write_bytes[i] == Approx(parts.write_bytes[i]));
        }
        CHECK(one.flops == Approx(parts.flops));
      }
    }
  }
}

TEST_CASE("one launch saves launches, and takes longer for more layers and longer contexts") {
  StepShape shape = plain_step("nsa-1b", 16384);
  const StepCost parts = cost_of_step(shape);
  shape.one_launch = true;
  const StepCost one = cost_of_step(shape);
  CHECK(parts.launches - one.launches == 16 * (4 + 1 + 2) - 1);
  CHECK(one.time_us < parts.time_us);
  CHECK(one.dram_bytes == Approx(parts.dram_bytes).epsilon(0.02));
  StepShape longer = shape;
  longer.context_len = 65536;
  CHECK(cost_of_step(longer).time_us > one.time_us);
  StepShape deeper = shape;
  deeper.target.layers = deeper.refresh_layers = 32;
  CHECK(cost_of_step(deeper).time_us > 1.5 * one.time_us);
  StepShape reusing = shape;
  reusing.refresh_layers = 4;
  reusing.reuse_layers = 12;
  CHECK(cost_of_step(reusing).time_us < one.time_us);
}

TEST_CASE("a plain step takes its chain and what memory needs beyond the rings") {
  CostParameters p = initial_parameters();
  const HardwareSpec& h200 = hardware_by_key("h200-sxm");
  struct Timed {
    double us = 0.0, steps = 0.0, rounds = 0.0;
  };
  const auto time = [&](const char* model, double step_ns) {
    StepWork work;
    StepShape shape = plain_step(model, 4096);
    shape.one_launch = true;
    add_step(shape, 1.0, work);
    p[index_of(LaunchKind::kDecodeLayers, KindParameter::kStepNs)] = step_ns;
    for (const LaunchWork& launch : work) {
      if (launch.kind == LaunchKind::kDecodeLayers) {
        return Timed{cost_of(launch, h200, p, {false, LaunchMode::kGraph}).time_us, launch.steps,
                     launch.rounds};
      }
    }
    return Timed{};
  };
  for (const char* model : {"demo", "nsa-1b", "nsa-8b"}) {
    CAPTURE(model);
    const Timed quick = time(model, 100.0);
    REQUIRE(quick.steps > 0.0);
    CHECK(time(model, 600.0).us - quick.us == Approx(0.5 * quick.steps));  // none behind memory
    // Nor does a layer's round of meetings.
    CHECK(quick.rounds == static_cast<double>(named_llm_shape(model).layers));
    double& round_us = p[index_of(LaunchKind::kDecodeLayers, KindParameter::kRoundUs)];
    round_us += 3.0;
    CHECK(time(model, 100.0).us - quick.us == Approx(3.0 * quick.rounds));
    round_us -= 3.0;
  }
  // The demo's weights fit the rings, nsa-1b's do not: 16 layers less 25 MB each, of 1.9 GB.
  const auto memory = [&](const char* model) {
    const Timed timed = time(model, 500.0);
    return timed.us - 0.5 * timed.steps - 12.0 * timed.rounds;
  };
  CHECK(memory("demo") < 15.0);
  CHECK(memory("nsa-1b") > 300.0);
  CHECK(memory("nsa-1b") < 450.0);
}

TEST_CASE("the launch announces compressed tokens and kept streams beside its layers") {
  const LlmShape target = named_llm_shape("nsa-1b");
  traffic::DecodeLayersShape shape{.context_len = 1000, .refresh_layers = 16};
  const Traffic none = traffic::decode_layers(target, shape);
  shape.pooled = 1;
  shape.captures = 3;
  const Traffic all = traffic::decode_layers(target, shape);
  const std::size_t append = static_cast<std::size_t>(TrafficTerm::kKvAppend);
  CHECK(all.read_bytes[append] - none.read_bytes[append] == 16 * 32 * 2 * 512 * 2);
  CHECK(all.write_bytes[append] - none.write_bytes[append] == 16 * 2 * 512 * 2);
  CHECK(all.write_bytes[static_cast<std::size_t>(TrafficTerm::kDraft)] == 3 * 2048 * 2);
}
