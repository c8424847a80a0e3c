// Steps of many requests: what a point's key says of them, how contexts of their own are composed,
// and what the measured terms add.
#include "model/cost/batch_fit.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/cost/batch_error.h"
#include "model/cost/cost_model.h"
#include "model/launches/draft_tree.h"
#include "model/launches/step_composition.h"
#include "model/words/batch_point.h"

using namespace versieve;

namespace {

StepShape asked(const std::string& geometry, const std::string& strategy, std::int64_t requests) {
  const LlmShape target = named_llm_shape(geometry);
  StepShape shape =
      asked_step(Strategy::parse(strategy), target, draft_shape_for(target), 16384, 2);
  shape.requests = requests;
  return shape;
}

StepWork composed(const StepShape& shape) {
  StepWork work;
  add_step(shape, 0.7, work);
  return work;
}

double cache_bytes(const StepWork& work) {
  double bytes = 0.0;
  for (const LaunchWork& w : work) {
    for (const TrafficTerm term :
         {TrafficTerm::kCompressedCache, TrafficTerm::kSelectedBlocks, TrafficTerm::kWindow}) {
      bytes += w.launches * w.unique.read_bytes[static_cast<std::size_t>(term)];
    }
  }
  return bytes;
}

double attention_launches(const StepWork& work) {
  double launches = 0.0;
  for (const LaunchWork& w : work) {
    launches += w.kind == LaunchKind::kNsaAttend ? w.launches : 0.0;
  }
  return launches;
}

double time_us(const StepWork& work) {
  return cost_of(work, hardware_by_key("h100-sxm"), initial_parameters(),
                 {.launch = LaunchMode::kGraph})
      .time_us;
}

double launches_of(const StepWork& work, LaunchKind kind, Phase phase) {
  double launches = 0.0;
  for (const LaunchWork& w : work) {
    launches += w.kind == kind && w.phase == phase ? w.launches : 0.0;
  }
  return launches;
}

// Next to nothing of everything.
BatchTerms no_terms() {
  BatchTerms terms{};
  for (std::size_t i = 0; i < kBatchTermCount; ++i) {
    terms[i] = i < 3 ? 1.0 : batch_term_table()[i].low;
  }
  return terms;
}

PointKey key_of(const std::string& strategy, std::int64_t rows, const char* regime) {
  return {.workload = WorkloadKind::kBatch,
          .regime = regime,
          .strategy = strategy,
          .context_len = 16384,
          .num_queries = rows};
}

}  // namespace

TEST_CASE("samplers of many requests share launches, but for the baseline's") {
  const auto sampled = [](const char* strategy, SamplingAlgorithm sampling, std::int64_t requests) {
    StepShape shape = asked("nsa-1b", strategy, requests);
    shape.sampling = sampling;
    return composed(shape);
  };
  constexpr Phase kAccepts = Phase::kAcceptance;
  const StepWork coupled = sampled("nsa/d4k4n16/bfs/c8e/F*", SamplingAlgorithm::kCoupled, 32);
  CHECK(launches_of(coupled, LaunchKind::kGumbelNoise, kAccepts) == 1.0);
  CHECK(launches_of(coupled, LaunchKind::kTopLogits, kAccepts) == 0.0);  // none kept the rows
  const StepWork one = sampled("nsa/d4k4n16/bfs/c8e/F*", SamplingAlgorithm::kCoupled, 1);
  CHECK(launches_of(one, LaunchKind::kTopLogits, kAccepts) == 1.0);
  const StepWork tree = sampled("nsa/d4k4n16/bfs/c8e/F*", SamplingAlgorithm::kExact, 32);
  CHECK(launches_of(tree, LaunchKind::kTreeTests, kAccepts) == 1.0);
  const StepWork baseline = sampled("nsa/d4k4n16/bfs/c8e/F*", SamplingAlgorithm::kBaseline, 32);
  CHECK(launches_of(baseline, LaunchKind::kTreeTau, kAccepts) == 32.0);
}

TEST_CASE("the key of a step of many requests says how many, and each one's context") {
  CHECK(batch_requests(key_of("nsa/ar", 128, "synthetic")) == 128);
  CHECK(batch_requests(key_of("nsa/d4k4n16/bfs/c8e/F*", 128, "synthetic")) == 8);
  CHECK(batch_contexts(key_of("nsa/ar", 3, "synthetic")) == std::vector<std::int64_t>(3, 16384));
  CHECK(batch_contexts(key_of("nsa/ar", 1, kMixedContexts)) == std::vector<std::int64_t>{16384});
  const std::vector<std::int64_t> mixed = batch_contexts(key_of("nsa/ar", 5, kMixedContexts));
  CHECK(mixed.front() == 4096);
  CHECK(mixed.back() == 28672);
  CHECK(std::accumulate(mixed.begin(), mixed.end(), std::int64_t{0}) == 5 * 16384);
}

TEST_CASE("requests of contexts of their own read what each of them would") {
  for (const auto& [geometry, strategy] :
       {std::pair{"nsa-1b", "nsa/ar"}, std::pair{"nsa-1b", "nsa/d4k4n16/bfs/c8e/F*"},
        std::pair{"dense-1b", "dense/d4k1n5/bfs/c1/F*"}}) {
    CAPTURE(geometry, strategy);
    StepShape shape = asked(geometry, strategy, 4);
    const std::vector<std::int64_t> alike(4, 16384);
    const double of_one = cache_bytes(composed(shape));
    const double time = time_us(composed(shape));
    shape.contexts = alike;
    CHECK(cache_bytes(composed(shape)) == Approx(of_one));
    CHECK(time_us(composed(shape)) == Approx(time));
    const std::vector<std::int64_t> mixed = {4096, 4096, 65536, 65536};
    shape.contexts = mixed;
    const double together = cache_bytes(composed(shape));
    shape.contexts = {};
    shape.context_len = 4096;
    const double shorter = cache_bytes(composed(shape));
    shape.context_len = 65536;
    CHECK(together == Approx(0.5 * (shorter + cache_bytes(composed(shape)))));
  }
}

TEST_CASE("a batch's rows that are no whole number of its trees are refused in a sentence") {
  for (const std::int64_t rows : {0, 8, 130}) {
    CHECK_THROWS_WITH(
        batch_requests(key_of("nsa/d4k4n16/bfs/c8e/F*", rows, "synthetic")),
        "a batch of " + std::to_string(rows) + " nodes is no whole number of trees of 16");
  }
}

// A short row is one block's, a long one a cluster's: kernels/topk launches both.
TEST_CASE("requests of short and long contexts whose launches differ are composed together") {
  StepShape shape = asked("dense-1b", "indexer:k2048/ar", 4);
  shape.dense = asked_read(Strategy::parse("indexer:k2048/ar"));
  const double layers = static_cast<double>(shape.target.layers);
  const auto of_topk = [&](LaunchKind kind) {
    return launches_of(composed(shape), kind, Phase::kAttention);
  };
  const std::vector<std::int64_t> contexts =
      GENERATE(std::vector<std::int64_t>{4096, 4096, 4096, 65536},
               std::vector<std::int64_t>{65536, 4096, 4096, 4096});
  shape.contexts = contexts;
  CHECK(of_topk(LaunchKind::kTopkShort) == layers);
  CHECK(of_topk(LaunchKind::kTopkGvr) == layers);
  const auto scores = [&] {
    double bytes = 0.0;
    for (const LaunchWork& w : composed(shape)) {
      bytes += w.launches * w.unique.read_bytes[static_cast<std::size_t>(TrafficTerm::kScores)];
    }
    return bytes;
  };
  const double together = scores();
  shape.contexts = {};
  shape.context_len = 4096;
  CHECK(of_topk(LaunchKind::kTopkGvr) == 0.0);
  const double shorter = scores();
  shape.context_len = 65536;
  CHECK(of_topk(LaunchKind::kTopkShort) == 0.0);
  CHECK(together == Approx(0.75 * shorter + 0.25 * scores()));
}

TEST_CASE("a context without compressed tokens stands beside longer ones") {
  StepShape shape = asked("nsa-1b", "nsa/ar", 2);
  shape.form = NsaForm::kVanilla;
  shape.contexts = {};
  shape.context_len = 16384;
  const StepWork alone = composed(shape);
  const std::vector<std::int64_t> contexts = {16, 16384};
  shape.contexts = contexts;
  const StepWork together = composed(shape);
  CHECK(together.count == alone.count);
  CHECK(cache_bytes(together) < 0.6 * cache_bytes(alone));
  CHECK(cache_bytes(together) > 0.5 * cache_bytes(alone));
}

TEST_CASE("a batch's trees are grown to their last level, and the host waits for them once") {
  const auto draft_of = [](const StepWork& work) {
    return launches_of(work, LaunchKind::kTreeAttention, Phase::kDraft);
  };
  for (const std::int64_t requests : {2, 32}) {
    // Its eight nodes are found on three levels, as a lone request's host stops there.
    const StepWork work = composed(asked("nsa-1b", "nsa/d6k3n8/bfs/c8e/F*", requests));
    CHECK(draft_of(work) == 6.0);
    CHECK(launches_of(work, LaunchKind::kGrowTree, Phase::kDraft) == 6.0);
    CHECK(work.host_trips == 2.0);
    CHECK(composed(asked("nsa-1b", "nsa/ar", requests)).host_trips == 1.0);
  }
  const StepShape alone = asked("nsa-1b", "nsa/d6k3n8/bfs/c8e/F*", 1);
  CHECK(draft_of(composed(alone)) == draft_passes(alone.tree).passes);
  CHECK(composed(alone).host_trips == 3.0 + draft_passes(alone.tree).passes);
  StepShape of_batch = alone;  // by the batched engine
  of_batch.together = 1;
  CHECK(draft_of(composed(of_batch)) == 6.0);
  CHECK(composed(of_batch).host_trips == 2.0);
  // Chains that are drawn from the draft's own law wait level by level.
  StepShape drawn = asked("nsa-1b", "nsa/d4k1n5/bfs/c1/F*", 32);
  drawn.sampling = SamplingAlgorithm::kExact;
  CHECK(composed(drawn).host_trips == 1.0 + 4.0);
}

TEST_CASE("products of a measured batch's rows go at the rate that its tiles leave") {
  // Least rate of the target's layers, whose widths are whole tiles.
  const auto slowest = [](std::int64_t requests, std::int64_t together) {
    StepShape shape = asked("nsa-1b", "nsa/d4k1n5/bfs/c1/F*", requests);
    shape.together = together;
    double rate = 2.0;
    for (const LaunchWork& w : composed(shape)) {
      const bool layers = w.kind == LaunchKind::kLinear && w.phase == Phase::kMatrices;
      rate = layers && w.launches > 1.0 ? std::min(rate, w.product_rate) : rate;
    }
    return rate;
  };
  CHECK(slowest(32, 0) == 1.0);   // of batches that nobody measured the rate is the fit's
  CHECK(slowest(12, 12) == 1.0);  // 60 rows: weights bound them
  const double few = slowest(16, 16), many = slowest(128, 128);  // 80 and 640 rows
  CHECK(few > 0.2);
  CHECK(few < 0.7);
  CHECK(many > few);
  CHECK(slowest(1024, 1024) > 0.85);
  CHECK(slowest(1024, 1024) < 1.05);
}

TEST_CASE("attention of more requests than a launch takes is more launches") {
  StepShape shape = asked("nsa-1b", "nsa/ar", 64);
  const double layers = static_cast<double>(shape.target.layers);
  const StepWork all = composed(shape);
  CHECK(attention_launches(all) == layers);
  shape.together = 16;
  const StepWork some = composed(shape);
  CHECK(attention_launches(some) == 4.0 * layers);
  CHECK(cache_bytes(some) == Approx(cache_bytes(all)));
  shape.together = 64;
  CHECK(attention_launches(composed(shape)) == layers);
}

TEST_CASE("the host's time stands beside the device's, and its waits on top") {
  const StepShape shape = asked("nsa-1b", "nsa/d4k4n16/bfs/c8e/F*", 32);
  StepWork bare = composed(shape);
  bare.host_trips = 0.0;
  const double device = time_us(bare);
  const auto with = [&](BatchTerm term, double value) {
    BatchTerms terms = no_terms();
    terms[static_cast<std::size_t>(term)] = value;
    StepWork work = composed(shape);
    apply_batch(terms, {}, shape, work);
    return time_us(work);
  };
  // Recorded steps have next to none of it.
  CHECK(with(BatchTerm::kProducts, 1.0) == Approx(device).epsilon(0.01));
  // A host that is slower than the device leads.
  const double layer = 20.0 * device / (32.0 * static_cast<double>(shape.target.layers));
  CHECK(with(BatchTerm::kLayer, layer) == Approx(20.0 * device).epsilon(0.01));
  CHECK(with(BatchTerm::kRequest, 10.0) == Approx(device + 320.0).epsilon(0.01));
  // A step that drafts nothing is prepared while the device runs the one before.
  const StepShape plain = asked("nsa-1b", "nsa/ar", 32);
  BatchTerms slow = no_terms();
  slow[static_cast<std::size_t>(BatchTerm::kRequest)] = 100.0;
  StepWork prepared = composed(plain), before = prepared;
  apply_batch(slow, {}, plain, prepared);
  apply_batch(no_terms(), {}, plain, before);
  CHECK(time_us(prepared) == time_us(before));
  CHECK(with(BatchTerm::kTrip, 100.0) ==
        Approx(device + 100.0 * composed(shape).host_trips).epsilon(0.01));
  CHECK(with(BatchTerm::kAttention, 2.0) > device);
  CHECK(with(BatchTerm::kProducts, 0.1) > with(BatchTerm::kProducts, 1.0));
}

TEST_CASE("an interval of many requests is what whole numbers left out missed, and wider beyond") {
  BatchFit batch{.points = 100, .log_latency = 0.1, .most_requests = 64, .most_rows = 1024};
  const double measured = 0.1 / kNinety;
  CHECK(batch_log_error(1, 16.0, 256.0, batch) == 0.0);
  CHECK(batch_log_error(2, 32.0, 256.0, batch) == Approx(measured));
  CHECK(batch_log_error(64, 1024.0, 256.0, batch) == Approx(measured));
  CHECK(batch_log_error(256, 1024.0, 256.0, batch) == Approx(measured + 2.0 * kRequestsLogError));
  CHECK(batch_log_error(64, 4096.0, 256.0, batch) == Approx(measured + 2.0 * kRowsLogError));
}

TEST_CASE("numbers of requests have widths of their own; between two of them the wider holds") {
  BatchFit batch{.points = 100, .log_latency = 0.1, .most_requests = 64, .most_rows = 1024};
  CHECK(batch.width_of(8) == 0.1);
  batch.widths = {{2, 0.07}, {8, 0.05}, {32, 0.09}};
  CHECK(batch.width_of(1) == 0.07);
  CHECK(batch.width_of(2) == 0.07);
  CHECK(batch.width_of(8) == 0.05);
  CHECK(batch.width_of(16) == 0.09);
  CHECK(batch.width_of(128) == 0.09);
  CHECK(batch_log_error(8, 64.0, 256.0, batch) == Approx(0.05 / kNinety));
}

TEST_CASE(
    "what groups share beyond any measured batch widens an interval, most where it is assumed") {
  const BatchFit batch{.points = 100,
                       .log_latency = 0.0885,
                       .least_overlap = 0.24,
                       .most_requests = 64,
                       .most_rows = 8192};
  CHECK(sharing_log_error(1, 8.0, 0.85, false, batch) == 0.0);
  CHECK(sharing_log_error(32, 1.0, 0.85, true, batch) == 0.0);
  CHECK(sharing_log_error(32, 8.0, 0.24, false, batch) == 0.0);
  CHECK(sharing_log_error(32, 8.0, 0.85, false, {}) == 0.0);  // no batch: batch_log_error alone
  CHECK(sharing_log_error(32, 8.0, 0.5, false, batch) <
        sharing_log_error(32, 8.0, 0.85, false, batch));
  CHECK(sharing_log_error(8, 8.0, 0.85, false, batch) <
        sharing_log_error(32, 8.0, 0.85, false, batch));
  CHECK(sharing_log_error(32, 8.0, 0.85, false, batch) <
        sharing_log_error(32, 8.0, 0.85, true, batch));
  CHECK(sharing_log_error(32, 8.0, 0.24, true, batch) > 0.0);
  // Steps of many that shared as much leave what they miss to batch_log_error.
  StepShape shape = asked("nsa-1b", "nsa/d6k3n8/bfs/c8e/F*", 8);
  shape.overlap = 0.9;
  BatchFit shared = batch;
  const Regime regime = batch_regime(shape);
  shared.time.families.push_back(
      {.family = regime.family, .anchors = {regime.at}, .weights = {0.0}});
  CHECK(sharing_log_error(32, 8.0, 0.85, false, shared) == 0.0);
  CHECK(sharing_log_error(32, 8.0, 0.9, false, shared) == Approx(0.0).margin(1e-12));
  CHECK(sharing_log_error(32, 8.0, 0.96, false, shared) > 0.0);
  CHECK(sharing_log_error(32, 8.0, 0.96, false, shared) <
        sharing_log_error(32, 8.0, 0.96, false, batch));
  CHECK(sharing_log_error(32, 8.0, 0.85, true, shared) > 0.0);
  // Planned with a trained pair's 0.85, played with random weights
  // (engine/measure/bench/README.md).
  struct Played {
    std::int64_t requests;
    double predicted_us, measured_us;
  };
  for (const Played& step :
       {Played{8, 2689, 2993}, Played{16, 3453, 4366}, Played{32, 5215, 7610},
        Played{64, 8813, 12436}, Played{8, 2451, 2548}, Played{32, 4335, 5116}}) {
    CAPTURE(step.requests, step.predicted_us);
    const double half_width =
        kNinety *
        std::hypot(
            batch_log_error(step.requests, 8.0 * static_cast<double>(step.requests), 256.0, batch),
            sharing_log_error(step.requests, 8.0, 0.85, false, batch));
    CHECK(std::log(step.measured_us / step.predicted_us) < half_width);
    CHECK(half_width < 0.5);
  }
}

TEST_CASE("batches of another geometry than the measured ones are borrowed") {
  StepShape shape = asked("nsa-1b", "nsa/ar", 8);
  BatchFit batch{.points = 8};
  CHECK(!is_batch_geometry(batch, shape.target));
  const Regime regime = batch_regime(shape);
  batch.time.families.push_back(
      {.family = regime.family, .anchors = {regime.at}, .weights = {0.0}});
  CHECK(is_batch_geometry(batch, shape.target));
  CHECK(!is_batch_geometry(batch, named_llm_shape("nsa-8b")));
  CHECK(!is_batch_geometry(batch, named_llm_shape("dense-1b")));
}
