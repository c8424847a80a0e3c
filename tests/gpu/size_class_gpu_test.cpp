// Steps that idle requests fill up to a size class, on the GPU: does nobody notice, and what do
// they gain where requests leave?
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "engine/run/model/kv_pool.h"
#include "engine/run/model/synthetic.h"
#include "tests/engine/run/batch/batch_cases.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::engine {
namespace {

LlmShape demo_shape(AttentionKind attention) {
  LlmShape shape = named_llm_shape("demo");
  shape.layers = 3;
  shape.attention = attention;
  return shape;
}

template <class Pair>
void check(Pair&& engine, const std::vector<std::string>& strategies, int batches,
           std::int64_t longest, std::uint64_t seed) {
  const tiny::BatchTally tally =
      tiny::compare_padded_batches(engine, strategies, batches, longest, seed);
  CHECK(tally.identical == tally.requests);
  CHECK(tally.steps_padded > 0);
  std::printf("%d of %d requests identical, %d steps filled up, %d replayed of %d recordings\n",
              tally.identical, tally.requests, static_cast<int>(tally.steps_padded),
              static_cast<int>(engine.target.recordings().replays()),
              static_cast<int>(engine.target.recordings().recordings()));
}

TEMPLATE_TEST_CASE("a request's text is the same alone and in steps that are filled up on the GPU",
                   "[size_classes]", float, Bf16) {
  std::unique_ptr<kernels::Ops<TestType>> ops = test::try_gpu_ops<TestType>();
  if (ops == nullptr) {
    return;
  }
  const std::vector<std::string> dense = {"dense/ar", "dense/d4k3n12/bfs/c1/F*",
                                          "dense/d6k1n7/bfs/c1/F*"};
  SECTION("NSA") {
    tiny::Engine<TestType> engine(std::move(ops), demo_shape(AttentionKind::kNsa));
    check(engine, tiny::batch_strategies(engine.target.shape()), 12, 300, 61);
    check(engine, {"nsa/d4k3n12/bfs/c4e/F*", "nsa/ar"}, 2, 1300, 62);
  }
  SECTION("a dense target with a draft head") {
    tiny::Engine<TestType> engine(std::move(ops), demo_shape(AttentionKind::kDense));
    check(engine, dense, 10, 300, 63);
    check(engine, dense, 2, 1300, 64);
  }
  SECTION("a dense target with a draft model, SpecAttn too") {
    tiny::ChoosingEngine<TestType> engine(std::move(ops), demo_shape(AttentionKind::kDense), 12);
    check(engine, {"specattn:p0.3/d4k1n5/bfs/c1/F*", "dense/d6k1n7/bfs/c1/F*"}, 10, 300, 65);
  }
}

TEST_CASE("six requests that leave, filled up, for the checkers of memory and races [race]",
          "[size_classes_race][race]") {
  std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  const auto [attention, strategy] =
      GENERATE(std::pair(AttentionKind::kNsa, "nsa/d1k2n3/bfs/c1/F*"),
               std::pair(AttentionKind::kDense, "dense/d1k2n3/bfs/c1/F*"));
  tiny::Engine<Bf16> engine(std::move(ops), demo_shape(attention));
  std::vector<BatchRequest> requests;
  for (std::int64_t i = 0; i < 6; ++i) {
    requests.push_back({.prompt = tiny::prompt(40 + i, static_cast<std::uint64_t>(i)),
                        .options = tiny::options(strategy, i == 0 ? 2 : 6)});
  }
  tiny::BatchTally tally;
  tiny::compare_batch(engine, requests,
                      {.concurrency = 6, .pages = 12, .padding = Padding::kAlways}, 6, tally);
  CHECK(tally.identical == tally.requests);
  CHECK(tally.steps_padded > 0);
}

// 64 requests of prompts of 60 tokens, of which one leaves every few steps.
void time_leaving(kernels::Ops<Bf16>& ops, Target<Bf16>& target, Draft<Bf16>& draft,
                  const std::string& strategy, Padding padding) {
  constexpr std::int64_t kRequests = 64, kMost = 20 + 5 * kRequests;
  const std::int64_t recorded = target.recordings().recordings();
  const std::int64_t replayed = target.recordings().replays();
  BatchSession<Bf16> session(ops, target, &draft,
                             {.concurrency = kRequests,
                              .pages = kRequests * pages_of(60 + kMost + kDeepestTree),
                              .prefill_rows = 4096,
                              .drafts_by_rank = true,
                              .padding = padding});
  for (std::int64_t id = 0; id < kRequests; ++id) {
    BatchRequest request{.prompt = tiny::prompt(60, static_cast<std::uint64_t>(id)),
                         .options = tiny::options(strategy, 20 + 5 * id)};
    request.forced_yield = request.options.strategy.draft.speculates() ? 4 : 0;
    session.submit(id, std::move(request));
  }
  std::int64_t tokens = 0;
  double begin = 1e300, end = 0.0;
  while (session.running() + session.waiting() > 0) {
    for (const FinishedRequest& finished : session.step()) {
      tokens += std::ssize(finished.generation.tokens);
      begin = std::min(begin, finished.submitted);
      end = std::max(end, finished.finished);
    }
  }
  const SessionSeconds& spent = session.seconds();
  const double steps = static_cast<double>(session.steps());
  std::printf(
      "%-24s %s: %.0f tokens/s, %lld steps of %.0f us (enqueue %.0f, accept %.0f, draft %.0f), "
      "%lld filled up, %lld recorded, %lld replayed\n",
      strategy.c_str(), padding == Padding::kNever ? "never" : "classes",
      static_cast<double>(tokens) / (end - begin), static_cast<long long>(session.steps()),
      (end - begin) / steps * 1e6, spent.enqueue / steps * 1e6, spent.accept / steps * 1e6,
      spent.draft / steps * 1e6, static_cast<long long>(session.steps_padded()),
      static_cast<long long>(target.recordings().recordings() - recorded),
      static_cast<long long>(target.recordings().replays() - replayed));
}

TEST_CASE("what size classes gain where requests leave", "[.size_class_timing]") {
  for (const char* geometry : {"demo", "nsa-1b", "dense-1b"}) {
    std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
    if (ops == nullptr) {
      return;
    }
    const LlmShape shape = named_llm_shape(geometry);
    const DraftShape drafts = draft_shape_for(shape);
    Target<Bf16> target = make_synthetic_target(*ops, shape, drafts, 1);
    Draft<Bf16> draft = make_synthetic_draft(*ops, drafts, target, 2);
    const bool dense = shape.attention == AttentionKind::kDense;
    std::printf("%s\n", geometry);
    for (const std::string& strategy :
         {std::string(dense ? "dense/ar" : "nsa/ar"),
          std::string(dense ? "dense/d7k1n8/bfs/c1/F*" : "nsa/d7k1n8/bfs/c8e/F*")}) {
      // The first one loads kernels.
      for (const Padding padding : {Padding::kNever, Padding::kNever, Padding::kWhereRecorded,
                                    Padding::kNever, Padding::kWhereRecorded}) {
        time_leaving(*ops, target, draft, strategy, padding);
      }
    }
  }
}

}  // namespace
}  // namespace versieve::engine
