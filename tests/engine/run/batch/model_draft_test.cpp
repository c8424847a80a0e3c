// Requests whose draft is a model of its own: has each the text and the trees that it has alone?
#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/engine/run/batch/batch_cases.h"

namespace versieve::engine {
namespace {

template <class T>
void check_model(std::uint64_t draft_seed, std::int64_t layers, std::uint64_t seed,
                 std::int64_t prefixes) {
  tiny::DenseEngine<T> engine(draft_seed, layers);
  const tiny::BatchTally tally = tiny::compare_random_batches(engine, 8, 330, seed, prefixes);
  CHECK(tally.identical == tally.requests);
  CHECK((prefixes == 0 || tally.shared_tokens > 0));
  CHECK(tally.yielded > tally.steps);
  std::printf("draft model: %d requests, %d identical, %.2f tokens a drafted step\n",
              tally.requests, tally.identical,
              static_cast<double>(tally.yielded) / static_cast<double>(tally.steps));
}

TEMPLATE_TEST_CASE("a draft model drafts for many requests what it drafts for one", "", float,
                   Bf16) {
  check_model<TestType>(11, 3, 31, 0);  // the target's own weights: much is accepted
  check_model<TestType>(12, 2, 32, 2);
}

}  // namespace
}  // namespace versieve::engine
