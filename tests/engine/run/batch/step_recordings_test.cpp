// Is a step's work recorded once, replayed by its shape, and forgotten when memory goes?
#include <catch2/catch.hpp>

#include "engine/run/model/step_recordings.h"

namespace versieve::engine {
namespace {

TEST_CASE("the second step of a shape is recorded, and recordings go with the memory they name") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  StepRecordings<float> recordings;
  int ran = 0;
  const auto step = [&](const kernels::StepShape& shape) {
    recordings.run(*ops, shape, [&] { ++ran; });
  };
  const auto counts = [&](std::int64_t recorded, std::int64_t replayed) {
    CHECK(recordings.recordings() == recorded);
    CHECK(recordings.replays() == replayed);
  };
  for (int i = 0; i < 3; ++i) {
    step({});
  }
  counts(0, 0);  // without a shape each runs as it is
  step({1, 2});
  counts(0, 0);
  step({1, 2});
  counts(1, 1);
  step({1, 3});
  step({1, 2});
  counts(1, 2);
  CHECK(ran == 7);  // on a CPU a replay runs the work

  recordings.run(*ops, {1, 4}, [&] { ops->release(ops->allocate(8)); });  // a step that makes room
  step({1, 2});
  counts(1, 2);  // runs as it is
  step({1, 2});
  counts(2, 3);
  ops->release(ops->allocate(8));  // between two steps
  step({1, 2});
  counts(2, 3);

  for (std::int64_t shape = 0; shape < 100; ++shape) {  // more than are kept
    step({7, shape});
  }
  step({1, 2});
  counts(2, 3);
  step({7, 99});
  counts(3, 4);
}

}  // namespace
}  // namespace versieve::engine
