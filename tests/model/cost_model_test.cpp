// Bytes and times of the cost model against numbers worked out by hand.
#include "model/cost/cost_model.h"
#include "model/launches/distinct_blocks.h"
#include "model/launches/nsa_fused.h"
#include "model/launches/nsa_shape.h"
#include "model/launches/step_composition.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace versieve;

namespace {

// L = 16,384, N = 64 of nsa-1b: 1023 compressed tokens, 257 selection blocks.
traffic::NsaVerifyShape shape_16k() {
  return {.nsa = {},
          .num_heads = 32,
          .num_kv_heads = 8,
          .head_dim = 64,
          .context_len = 16384,
          .num_queries = 64,
          .element_bytes = 2,
          .unique_blocks = 100.0};
}

const LaunchWork& launch(const StepWork& work, LaunchKind kind) {
  for (const LaunchWork& w : work) {
    if (w.kind == kind) {
      return w;
    }
  }
  throw std::logic_error("no such launch");
}

// Everything ideal: no over-fetch, no misses, nothing fixed.
CostParameters ideal() {
  CostParameters p = initial_parameters();
  p[index_of(SharedParameter::kFixedWrite)] = 0.0;
  for (std::size_t kind = 0; kind < kLaunchKindCount; ++kind) {
    p[index_of(static_cast<LaunchKind>(kind), KindParameter::kFixedRead)] = 0.0;
  }
  p[index_of(SharedParameter::kHandoverMiss)] = 0.0;
  p[index_of(SharedParameter::kWriteBack)] = 0.0;
  p[index_of(SharedParameter::kOverfetchSparse)] = 1.0;
  p[index_of(SharedParameter::kOverfetchStream)] = 1.0;
  p[index_of(SharedParameter::kReloadMiss)] = 0.0;
  return p;
}

const HardwareSpec& h200() {
  return hardware_by_key("h200-sxm");
}

}  // namespace

TEST_CASE("distinct blocks follow n (1 + (C - 1)(1 - rho)), clipped to what can be") {
  CHECK(distinct_blocks(1, 16, 257, 0.6, 1.0) == Approx(16.0));
  CHECK(distinct_blocks(4, 16, 257, 0.5, 1.0) == Approx(40.0));     // 16 (1 + 3 / 2)
  CHECK(distinct_blocks(4, 16, 257, 1.0, 1.0) == Approx(16.0));     // all agree
  CHECK(distinct_blocks(4, 16, 257, 0.0, 1.0) == Approx(64.0));     // none agree: C n
  CHECK(distinct_blocks(128, 16, 257, 0.2, 1.0) == Approx(257.0));  // not more than there are
  CHECK(distinct_blocks(4, 16, 5, 0.5, 1.0) == Approx(5.0));        // a short context
}

TEST_CASE("a chain of block sets draws anew from all other blocks, and routed queries return") {
  CHECK(chain_blocks(0, 16, 257, 0.5) == Approx(16.0));
  // One step replaces 8 of 16 by 8 of the other 241; the next draws 8 of 241, 233 of them new.
  CHECK(chain_blocks(1, 16, 257, 0.5) == Approx(24.0));
  CHECK(chain_blocks(2, 16, 257, 0.5) == Approx(24.0 + 8.0 * 233 / 241));
  CHECK(chain_blocks(1e6, 16, 257, 0.5) == Approx(257.0));
  CHECK(chain_blocks(3, 16, 10, 0.5) == Approx(10.0));
  const double returning = distinct_blocks(64, 16, 1025, 0.8, 0.6);
  CHECK(returning > distinct_blocks(16, 16, 1025, 0.8, 0.6));
  CHECK(returning < chain_blocks(63, 16, 1025, 0.8));
  // Queries that share nothing return to nothing.
  CHECK(distinct_blocks(64, 16, 1025, 0.0, 0.6) == Approx(chain_blocks(63, 16, 1025, 0.0)));
  CHECK(distinct_blocks(1, 16, 257, 0.6, 0.6) == Approx(16.0));
}

TEST_CASE("far apart queries bring the least that a step does, not ever less") {
  // Between 64 and 128 queries of rho 0.8 each brings 0.2 / 0.43 of the 3.2 blocks that its
  // neighbour lacks; a billion blocks are too many to meet one twice.
  const double near = distinct_blocks(64, 16, 1e9, 0.8, 0.54);
  const double far = distinct_blocks(128, 16, 1e9, 0.8, 0.54);
  CHECK((far - near) / 64 == Approx(3.2 * 0.2 / 0.43).epsilon(1e-6));
  // Routings of synthetic queries counted on an H200 (L 256K): 24.0, 45.5, 118.5 and 212.2 blocks.
  CHECK(distinct_blocks(4, 16, 4097, 0.8, 0.54) == Approx(24.0).epsilon(0.03));
  CHECK(distinct_blocks(16, 16, 4097, 0.8, 0.54) == Approx(45.5).epsilon(0.05));
  CHECK(distinct_blocks(64, 16, 4097, 0.8, 0.54) == Approx(118.5).epsilon(0.05));
  CHECK(distinct_blocks(128, 16, 4097, 0.8, 0.54) == Approx(212.2).epsilon(0.05));
}

TEST_CASE("a chain that remembers draws what seven sets lack, as long as there are blocks") {
  CHECK(remembering_chain_blocks(0, 16, 257, 0.5) == Approx(16.0));
  CHECK(remembering_chain_blocks(7, 16, 257, 0.5) == Approx(16.0 + 7 * 8.0));
  // The ninth set draws 8 of 193 blocks that the last seven lack; 185 of them are new.
  CHECK(remembering_chain_blocks(8, 16, 257, 0.5) == Approx(72.0 + 8.0 * 185 / 193));
  CHECK(remembering_chain_blocks(15, 16, 65, 0.5) == Approx(65.0));  // none is left that all lack
  CHECK(remembering_chain_blocks(3, 10, 10, 0.5) == Approx(10.0));
  CHECK(remembering_chain_blocks(100, 16, 257, 1.0) == Approx(16.0));
}

TEST_CASE("representatives of approximate groups share less than neighbours, more than none") {
  StepShape shape{.target = named_llm_shape("nsa-1b")};
  shape.context_len = 65536;
  shape.num_queries = 64;
  shape.overlap = 0.8;
  shape.group_size = 8;
  const double exact = attention_shape(shape, 0.54).unique_blocks;
  shape.group_mode = GroupMode::kApprox;
  const double routed = attention_shape(shape, 0.54).unique_blocks;
  CHECK(routed < exact);
  CHECK(routed == Approx(61.1).epsilon(0.06));  // counted on an H200
  shape.imposed_chain = true;
  CHECK(attention_shape(shape, 0.54).unique_blocks == Approx(83.1).epsilon(0.1));
  shape.overlap = 1.0;
  CHECK(attention_shape(shape, 0.54).unique_blocks == Approx(16.0));
}

TEST_CASE("groups load what was measured along their order, whole trees what they did before") {
  StepShape shape{.target = named_llm_shape("nsa-1b")};
  shape.context_len = 16384;
  shape.num_queries = 64;
  shape.overlap = 0.6;
  shape.group_size = 8;
  const traffic::NsaVerifyShape by_law = attention_shape(shape, 0.54);
  CHECK(by_law.overlap == 0.6);
  shape.group_overlap = 0.75;
  const traffic::NsaVerifyShape by_overlap = attention_shape(shape, 0.54);
  CHECK(by_overlap.group_blocks < by_law.group_blocks);
  CHECK(by_overlap.unique_blocks == by_law.unique_blocks);
  CHECK(by_overlap.overlap == 0.75);
  shape.group_share = {1.5, 2.0, 3.0};
  const traffic::NsaVerifyShape measured = attention_shape(shape, 0.54);
  CHECK(measured.group_blocks == Approx(3.0 * 16));
  CHECK(measured.row_tile_blocks == Approx(2.0 * 16));  // four queries of four heads
  CHECK(measured.unique_blocks == by_law.unique_blocks);
  shape.num_queries = 5;  // between groups of four and of eight
  CHECK(attention_shape(shape, 0.54).group_blocks ==
        Approx(16 * 2.0 * std::pow(1.5, std::log2(5.0 / 4.0))));
  shape.num_queries = 64;
  shape.group_size = 2;
  CHECK(attention_shape(shape, 0.54).group_blocks == Approx(1.5 * 16));
  shape.group_share[0] = 0.0;  // nobody counted pairs
  CHECK(attention_shape(shape, 0.54).group_blocks ==
        Approx(distinct_blocks(2, 16, 257, 0.75, 0.54)));
  shape.group_size = 1;
  CHECK(attention_shape(shape, 0.54).overlap == 0.6);
}

TEST_CASE("each term's unique bytes are those of the formulas") {
  StepWork work;
  add_attention(shape_16k(), NsaForm::kVanilla, false, 1.0, work);
  REQUIRE(work.count == 5);
  const double token = 2.0 * 8 * 64 * 2;  // K and V of one token: 2 G d e
  const RunConditions cold;
  const auto bytes = [&](LaunchKind kind, TrafficTerm term) {
    return cost_of(launch(work, kind), h200(), ideal(), cold)
        .term_bytes[static_cast<std::size_t>(term)];
  };
  CHECK(bytes(LaunchKind::kNsaCompressed, TrafficTerm::kCompressedCache) ==
        Approx(1023 * token).epsilon(1e-4));
  CHECK(bytes(LaunchKind::kNsaSelected, TrafficTerm::kSelectedBlocks) ==
        Approx(99 * 64 * token).epsilon(1e-4));  // the newest block's tokens are still to come
  // Of the window 64 tokens lie in a forced block, of the others as many as of all blocks.
  const double elsewhere = 448.0 * (1.0 - 97.0 / 254.0);
  CHECK(bytes(LaunchKind::kNsaWindow, TrafficTerm::kWindow) ==
        Approx(elsewhere * token).epsilon(1e-4));
  // Loads that L2 must serve: every query reads the whole compressed cache and its own 16 blocks.
  CHECK(launch(work, LaunchKind::kNsaCompressed).loaded == Approx(64 * 1023 * token));
  CHECK(launch(work, LaunchKind::kNsaSelected).loaded == Approx(64 * 16 * 64 * token));
}

TEST_CASE("a reuse layer runs no selection and keeps the compressed cache's bytes") {
  StepWork work;
  add_attention(shape_16k(), NsaForm::kVanilla, true, 3.0, work);
  CHECK(work.count == 4);
  for (const LaunchWork& w : work) {
    CHECK(w.kind != LaunchKind::kNsaSelect);
    CHECK(w.launches == 3.0);
  }
  CHECK(launch(work, LaunchKind::kNsaCompressed).reused > 0.0);
}

TEST_CASE("spans of compressed tokens are short at first, and cut by position alone") {
  CHECK(traffic::nsa_route_spans(0) == 0.0);
  CHECK(traffic::nsa_route_spans(1) == 1.0);
  CHECK(traffic::nsa_route_spans(129) == 2.0);
  CHECK(traffic::nsa_route_spans(1024) == 8.0);
  CHECK(traffic::nsa_route_spans(1025) == 9.0);
  CHECK(traffic::nsa_route_spans(4095) == 20.0);  // 8 and ceil(3071 / 256)

  traffic::NsaVerifyShape shape = shape_16k();
  shape.context_len = 65536;
  shape.num_queries = 8;  // 8 groups: a CTA a part
  CHECK(traffic::nsa_compressed_parts(shape, 8.0) == 20.0);
  shape.num_queries = 16;  // 16 groups of eight: joins of 512 tokens
  CHECK(traffic::nsa_compressed_parts(shape, 8.0) == 8.0);
  CHECK(traffic::nsa_compressed_parts(shape, 0.0) == 20.0);
  shape.num_queries = 64;  // 32 groups of 16 spans and more: joins, too
  CHECK(traffic::nsa_compressed_parts(shape, 0.0) == 8.0);
  shape.context_len = 16384;  // 32 groups of 8 spans, 256 CTAs, fit; not beside 8 segments
  CHECK(traffic::nsa_compressed_parts(shape, 0.0) == 8.0);
  CHECK(traffic::nsa_compressed_parts(shape, 8.0) == 2.0);
}

TEST_CASE("a fused refresh layer is two launches, a reuse layer one, each unique byte once") {
  const traffic::NsaVerifyShape shape = shape_16k();
  const double token = 2.0 * 8 * 64 * 2;
  const double q = 64.0 * 2048 * 2;
  const auto read = [](const Traffic& t, TrafficTerm term) {
    return t.read_bytes[static_cast<std::size_t>(term)];
  };
  const auto written = [](const Traffic& t, TrafficTerm term) {
    return t.write_bytes[static_cast<std::size_t>(term)];
  };
  const Traffic route = traffic::nsa_route(shape);
  CHECK(read(route, TrafficTerm::kCompressedCache) == 1023 * token);
  const double states = 64.0 * 32 * 8 * 66 * 4;  // N H spans (d + 2) f32
  CHECK(read(route, TrafficTerm::kQueryOutput) == q + states);
  CHECK(written(route, TrafficTerm::kQueryOutput) == states + 64.0 * 2048 * 4);
  const double sums = 64.0 * 32 * 64 * (4 * 4 + 8);  // N H slices, four blocks and two f32 each
  CHECK(read(route, TrafficTerm::kScores) == sums);
  CHECK(written(route, TrafficTerm::kScores) == sums + 64.0 * 8 * 16 * 4);

  const Traffic attend = traffic::nsa_attend(shape);
  const double partials = 64.0 * 32 * 8 * 66 * 4;  // N H 8 (d + 2) f32
  CHECK(read(attend, TrafficTerm::kSelectedBlocks) == 100 * 64 * token);
  CHECK(read(attend, TrafficTerm::kWindow) == 512 * token);
  CHECK(read(attend, TrafficTerm::kTreeBuffer) == 64 * token);
  CHECK(read(attend, TrafficTerm::kQueryOutput) == q + partials + 64.0 * 2048 * 4 + 64.0 * 96 * 2);
  CHECK(written(attend, TrafficTerm::kQueryOutput) == partials + q);
  traffic::NsaVerifyShape narrow = shape;
  narrow.head_dim = 48;  // parts are as wide as tiles, their rows not
  CHECK(written(traffic::nsa_attend(narrow), TrafficTerm::kQueryOutput) ==
        partials + 64.0 * 32 * 48 * 2);

  const Traffic reuse = traffic::nsa_reuse(shape);
  CHECK(written(reuse, TrafficTerm::kScores) == 0.0);
  CHECK(read(reuse, TrafficTerm::kScores) == 64.0 * 8 * 16 * 4);
  CHECK(read(reuse, TrafficTerm::kCompressedCache) == 1023 * token);
  CHECK(read(reuse, TrafficTerm::kSelectedBlocks) == 100 * 64 * token);
  const double joins =
      64.0 * 32 * 2 * 66 * 4;  // 32 groups of 16 parts are more than the chip holds
  CHECK(read(reuse, TrafficTerm::kQueryOutput) == q + joins + partials + 64.0 * 96 * 2);
  CHECK(written(reuse, TrafficTerm::kQueryOutput) == joins + partials + q);

  StepWork work;
  add_attention(shape, NsaForm::kFused, false, 2.0, work);
  add_attention(shape, NsaForm::kFused, true, 3.0, work);
  REQUIRE(work.count == 3);
  CHECK(launch(work, LaunchKind::kNsaRoute).launches == 2.0);
  CHECK(launch(work, LaunchKind::kNsaAttend).launches == 2.0);
  CHECK(launch(work, LaunchKind::kNsaReuse).launches == 3.0);
  // Four row tiles of four queries share the compressed cache's loads.
  CHECK(launch(work, LaunchKind::kNsaRoute).loaded == 4 * 1023 * token);
}

TEST_CASE("a group loads each of its distinct blocks once, U(C, rho) of them") {
  StepShape step{.target = named_llm_shape("nsa-1b")};
  step.context_len = 65536;
  step.num_queries = 64;
  step.overlap = 0.8;
  const double block = 64.0 * 2 * 8 * 64 * 2;
  const auto attend = [&](std::int64_t group, GroupMode mode) {
    step.group_size = group;
    step.group_mode = mode;
    StepWork work;
    add_attention(attention_shape(step, 1.0), NsaForm::kFused, false, 1.0, work);
    return launch(work, LaunchKind::kNsaAttend);
  };
  const double window = 512.0 * 2048;
  // U = 16 (1 + (C - 1) 0.2); the window is shared by the 16 queries of a CTA.
  CHECK(attend(1, GroupMode::kExact).loaded == Approx(64 * 16 * block + 4 * window));
  CHECK(attend(2, GroupMode::kExact).loaded == Approx(32 * 19.2 * block + 4 * window));
  CHECK(attend(4, GroupMode::kExact).loaded == Approx(16 * 25.6 * block + 4 * window));
  CHECK(attend(8, GroupMode::kExact).loaded == Approx(8 * 38.4 * block + 4 * window));
  CHECK(attend(8, GroupMode::kApprox).loaded == Approx(8 * 16 * block + 4 * window));
  // What one group has beyond n is what all groups together touch once.
  CHECK(attend(8, GroupMode::kExact).reused ==
        Approx((16 * (1 + 63 * 0.2) - 1) * block + (448.0 * 2048) * (1 - (217.6 - 3) / 1022))
            .epsilon(1e-9));
  // Rows of a tensor-core tile beyond 4 queries x 4 heads cost arithmetic, not the padding below.
  CHECK(attend(1, GroupMode::kExact).unique.flops > attend(4, GroupMode::kExact).unique.flops);
  // A short last group counts as one.
  step.num_queries = 65;
  CHECK(attend(8, GroupMode::kApprox).loaded == Approx(9 * 16 * block + 5 * window));
}

TEST_CASE("repeated loads cost DRAM bytes only when L2 cannot hold what they touch") {
  StepWork work;
  traffic::NsaVerifyShape shape = shape_16k();
  shape.context_len = 65536;
  shape.num_queries = 128;
  shape.unique_blocks = 1000.0;  // 131 MB of 60 MiB
  add_attention(shape, NsaForm::kVanilla, false, 1.0, work);
  CostParameters p = ideal();
  p[index_of(SharedParameter::kReloadMiss)] = 1.0;
  const LaunchWork& selected = launch(work, LaunchKind::kNsaSelected);
  const double unique = 1000.0 * 64 * 2048;
  const double spilled = cost_of(selected, h200(), p, {}).read_bytes;
  CHECK(spilled > 1.9 * unique);
  CHECK(spilled <= 128 * 16 * 64 * 2048.0 * 1.001 + selected.unique.total_read());
  HardwareSpec roomy = h200();
  roomy.fields[static_cast<std::size_t>(HardwareField::kL2Mib)].value = 4096.0;
  CHECK(cost_of(selected, roomy, p, {}).read_bytes == Approx(unique).epsilon(0.01));
}

TEST_CASE("a warm cache that holds everything reads nothing from DRAM") {
  StepWork work;
  add_attention(shape_16k(), NsaForm::kVanilla, false, 1.0, work);
  const LaunchWork& window = launch(work, LaunchKind::kNsaWindow);
  const double cold = cost_of(window, h200(), ideal(), {.warm = false}).read_bytes;
  const double warm = cost_of(window, h200(), ideal(), {.warm = true}).read_bytes;
  CHECK(cold == Approx(448 * 2048.0 * (1.0 - 97.0 / 254.0)).epsilon(1e-3));
  CHECK(warm < 0.01 * cold);
}

TEST_CASE("each limit bounds the launch that it should") {
  const CostParameters p = initial_parameters();
  Traffic stream;
  stream.read(TrafficTerm::kWeights, 1e9);
  const LaunchWork copy{.kind = LaunchKind::kLinear, .unique = stream};
  const LaunchCost dram = cost_of(copy, h200(), p, {});
  CHECK(dram.bound == Bound::kDram);
  const double by_dram = 1e9 * 1.005 / (4917e9 * 0.9) * 1e6;
  const double by_l2 = 1e9 / (26.0 * 132 * 1980e6) * 1e6;  // overlaps imperfectly: a soft maximum
  CHECK(dram.time_us ==
        Approx(std::pow(std::pow(by_dram, 4) + std::pow(by_l2, 4), 0.25)).epsilon(0.01));
  Traffic arithmetic;
  arithmetic.flops = 1e12;
  const LaunchCost compute =
      cost_of({.kind = LaunchKind::kLinear, .unique = arithmetic}, h200(), p, {});
  CHECK(compute.bound == Bound::kCompute);
  CHECK(compute.time_us == Approx(1e12 / (66.9e12 * 0.2) * 1e6).epsilon(0.01));
  const LaunchCost latency =
      cost_of({.kind = LaunchKind::kLinear, .blocks = 132 * 4 * 3, .steps = 100}, h200(), p, {});
  CHECK(latency.bound == Bound::kLatency);
  CHECK(latency.time_us == Approx(2.0 + 3 * 100 * 0.5).epsilon(0.01));  // three waves
}

TEST_CASE("latency stands beside the flow, before it, or takes turns with products") {
  CostParameters p = ideal();
  const LaunchKind kind = LaunchKind::kDensePass;
  p[index_of(kind, KindParameter::kBaseUs)] = 5.0;
  p[index_of(kind, KindParameter::kRoundUs)] = 2.0;
  p[index_of(kind, KindParameter::kStepNs)] = 1000.0;
  p[index_of(kind, KindParameter::kComputeShare)] = 10.0;
  LaunchWork work{.kind = kind, .steps = 40.0, .rounds = 3.0};
  work.unique.flops = 60e-6 * 10.0 * h200().fp32_flops();  // 60 us of products
  const auto us = [&](LatencyOrder order) {
    work.order = order;
    return cost_of(work, h200(), p, {}).time_us;
  };
  const auto soft = [](double a, double b) {
    return std::pow(std::pow(a, 4) + std::pow(b, 4), 0.25);
  };
  CHECK(us(LatencyOrder::kBeside) == Approx(soft(5.0 + 6.0 + 40.0, 60.0)));
  CHECK(us(LatencyOrder::kBefore) == Approx(5.0 + 6.0 + 40.0 + 60.0));
  CHECK(us(LatencyOrder::kInTurn) == Approx(5.0 + 6.0 + (40.0 + 60.0)));
}
