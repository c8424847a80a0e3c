// Steps of several requests: what they share and what each brings, and which way their time goes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "model/cost/batch_error.h"
#include "model/cost/cost_model.h"
#include "model/launches/step_composition.h"
#include "model/launches/step_shape.h"

using namespace versieve;

namespace {

StepShape asked(const std::string& geometry, const std::string& strategy, std::int64_t requests,
                std::int64_t context_len = 16384) {
  const LlmShape target = named_llm_shape(geometry);
  StepShape shape =
      asked_step(Strategy::parse(strategy), target, draft_shape_for(target), context_len, 2);
  shape.recorded = true;
  shape.requests = requests;
  return shape;
}

StepWork composed(const StepShape& shape) {
  StepWork work;
  add_step(shape, 0.7, work);
  return work;
}

double moved(const StepWork& work, TrafficTerm term) {
  double bytes = 0.0;
  for (const LaunchWork& w : work) {
    bytes += w.launches * (w.unique.read_bytes[static_cast<std::size_t>(term)] +
                           w.unique.write_bytes[static_cast<std::size_t>(term)]);
  }
  return bytes;
}

double launches_of(const StepWork& work) {
  double launches = 0.0;
  for (const LaunchWork& w : work) {
    launches += w.is_phase ? 0.0 : w.launches;
  }
  return launches;
}

double flops_of(const StepWork& work, bool attention) {
  double flops = 0.0;
  for (const LaunchWork& w : work) {
    flops += (w.phase == Phase::kAttention) == attention ? w.launches * w.unique.flops : 0.0;
  }
  return flops;
}

// What the fit of db/measured/h100.db says of linear layers and attention, rounded.
CostParameters h100_parameters() {
  CostParameters p = initial_parameters();
  p[index_of(LaunchKind::kLinear, KindParameter::kBaseUs)] = 2.4;
  p[index_of(LaunchKind::kLinear, KindParameter::kComputeShare)] = 6.45;
  p[index_of(SharedParameter::kStreamL2)] = 32.8;
  p[index_of(SharedParameter::kDramEfficiency)] = 0.9;
  return p;
}

double step_us(const StepShape& shape) {
  return cost_of(composed(shape), hardware_by_key("h100-sxm"), h100_parameters(),
                 {false, LaunchMode::kGraph})
      .time_us;
}

const std::vector<std::pair<std::string, std::string>> kSteps = {
    {"nsa-1b", "nsa/ar"},
    {"nsa-1b", "nsa/d6k8n64/bfs/c8e/(FR)*"},
    {"nsa-8b", "nsa/d4k1n5/bfs/c1/F*"},
    {"dense-1b", "dense/ar"},
    {"dense-1b", "dense/d7k6n64/bfs/c1/F*"}};

}  // namespace

TEST_CASE("a step of several requests reads its weights once and every request's cache") {
  for (const auto& [geometry, strategy] : kSteps) {
    for (const bool ragged : {true, false}) {
      StepShape one = asked(geometry, strategy, 1), many = asked(geometry, strategy, 8);
      one.ragged = many.ragged = ragged;
      const StepWork a = composed(one), b = composed(many);
      CAPTURE(geometry, strategy, ragged);
      CHECK(moved(b, TrafficTerm::kWeights) == moved(a, TrafficTerm::kWeights));
      for (const TrafficTerm term :
           {TrafficTerm::kCompressedCache, TrafficTerm::kSelectedBlocks, TrafficTerm::kWindow,
            TrafficTerm::kKvAppend, TrafficTerm::kLogits}) {
        CHECK(moved(b, term) == Approx(8.0 * moved(a, term)).epsilon(1e-12));
      }
      CHECK(flops_of(b, true) == Approx(8.0 * flops_of(a, true)).epsilon(1e-12));
      CHECK(flops_of(b, false) == Approx(8.0 * flops_of(a, false)).epsilon(0.02));
    }
  }
}

TEST_CASE("attention is one launch over all requests, or one a request") {
  StepShape shape = asked("nsa-1b", "nsa/d6k8n64/bfs/c8e/F*", 8);
  const double ragged = launches_of(composed(shape));
  shape.ragged = false;
  // 16 layers route and attend; the draft attends once a level.
  CHECK(launches_of(composed(shape)) == ragged + 7.0 * (2.0 * 16.0 + 6.0));
  shape.requests = 1;
  CHECK(launches_of(composed(shape)) == ragged);
}

TEST_CASE("what requests choose by and read is a launch of all, but for sorts") {
  const auto launches = [](const std::string& strategy, std::int64_t requests) {
    StepShape shape = asked("dense-1b", strategy, requests);
    shape.dense = asked_read(Strategy::parse(strategy));
    return launches_of(composed(shape));
  };
  for (const std::string strategy :
       {"resa:b16p0.1f32/ar", "indexer:k2048/ar", "indexer:k512/ar/bfs/c1/F*/topk=radix",
        "indexer:k512/d4k4n16/bfs/c1/F*"}) {
    CAPTURE(strategy);
    CHECK(launches(strategy, 8) == launches(strategy, 1));
  }
  const std::string sorting = "indexer:k512/ar/bfs/c1/F*/topk=sort";
  CHECK(launches(sorting, 8) == launches(sorting, 1) + 7.0 * 16.0);
}

TEST_CASE("a draft's weights do not grow with the requests that it drafts for") {
  const StepWork one = composed(asked("nsa-1b", "nsa/d6k8n64/bfs/c8e/F*", 1));
  const StepWork many = composed(asked("nsa-1b", "nsa/d6k8n64/bfs/c8e/F*", 32));
  const DraftShape draft = draft_shape_for(named_llm_shape("nsa-1b"));
  const double weights = 2.0 * static_cast<double>(draft.parameter_count());
  // Its window and captured streams do: a request's are less than 2 % of the weights of six levels.
  const double more = moved(many, TrafficTerm::kDraft) - moved(one, TrafficTerm::kDraft);
  CHECK(more > 0.0);
  CHECK(more < 31.0 * 0.02 * 6.0 * weights);
}

TEST_CASE("a step of more requests takes longer and yields more, up to a bound") {
  for (const auto& [geometry, strategy] : kSteps) {
    double before = 0.0, rate = 0.0;
    for (std::int64_t requests = 1; requests <= 128; requests *= 2) {
      const double us = step_us(asked(geometry, strategy, requests));
      CAPTURE(geometry, strategy, requests, us);
      CHECK(us > before);
      CHECK(static_cast<double>(requests) / us > 0.99 * rate);
      before = us;
      rate = static_cast<double>(requests) / us;
    }
  }
}

TEST_CASE("speculation is worth less of many requests, whose products take the time") {
  const auto break_even = [](std::int64_t requests) {
    return step_us(asked("nsa-1b", "nsa/d6k8n64/bfs/c8e/F*", requests, 4096)) /
           step_us(asked("nsa-1b", "nsa/ar", requests, 4096));
  };
  CHECK(break_even(16) > 1.5 * break_even(1));
  CHECK(break_even(64) > break_even(16));
  CHECK(break_even(64) < 64.0);
}

// 378 Tflop/s of kernels/linear/stream.cu at 4,096 rows of a matrix of 4,096 x 8,192 on an H100:
// what the fit of db/measured/h100.db knows. kernels/linear/gemm.cu reaches 614 to 648 there; a
// database measured with it has another share of products.
TEST_CASE("linear layers turn from bandwidth to products as rows grow") {
  StepShape shape = asked("nsa-1b", "nsa/ar", 1);
  shape.target.hidden = 4096;
  shape.target.num_heads = 128;  // the output projection is 8,192 inputs to 4,096
  const auto output_of = [&](std::int64_t rows) {
    shape.requests = rows;
    const StepWork work = composed(shape);
    const auto found = std::find_if(work.begin(), work.end(), [&](const LaunchWork& w) {
      return w.kind == LaunchKind::kLinear &&
             w.unique.flops >= 2.0 * 4096.0 * 8192.0 * static_cast<double>(rows) &&
             w.unique.flops < 2.01 * 4096.0 * 8192.0 * static_cast<double>(rows);
    });
    REQUIRE(found != work.end());
    return cost_of(*found, hardware_by_key("h100-sxm"), h100_parameters(),
                   {false, LaunchMode::kGraph});
  };
  CHECK(output_of(1).bound == Bound::kDram);
  const LaunchCost many = output_of(4096);
  CHECK((many.bound == Bound::kCompute || many.bound == Bound::kL2));
  CHECK(2.0 * 4096.0 * 4096.0 * 8192.0 / many.time_us * 1e-6 == Approx(378.0).epsilon(0.15));
}

TEST_CASE("less is known of a step the more requests it is of") {
  CHECK(batch_log_error(1, 512.0, 64.0) == 0.0);
  CHECK(batch_log_error(2, 2.0, 256.0) == Approx(kRequestsLogError));
  CHECK(batch_log_error(64, 64.0, 256.0) == Approx(6.0 * kRequestsLogError));
  CHECK(batch_log_error(64, 4096.0, 256.0) ==
        Approx(6.0 * kRequestsLogError + 4.0 * kRowsLogError));
}
