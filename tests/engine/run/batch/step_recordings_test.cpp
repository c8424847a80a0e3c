// Is a step's work recorded once, replayed by its shape, and forgotten when memory goes?
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <vector>

#include "engine/run/model/step_recordings.h"
#include "kernels/memory_log.h"

namespace versieve::engine {
namespace {

TEST_CASE("the second step of a shape is recorded, and recordings go with the memory they name") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  StepRecordings<float> recordings;
  void* const early = ops->allocate(8);
  void* const between = ops->allocate(8);
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

  recordings.run(*ops, {1, 4}, [&] { ops->release(early); });  // a step that makes room
  step({1, 2});
  counts(1, 2);  // runs as it is
  step({1, 2});
  counts(2, 3);
  ops->release(between);  // between two steps
  step({1, 2});
  counts(2, 3);
  step({1, 2});
  counts(3, 4);
  ops->release(ops->allocate(8));  // which no recording names
  step({1, 2});
  counts(3, 5);

  for (std::int64_t shape = 0; shape < 100; ++shape) {  // more than are kept
    step({7, shape});
  }
  step({1, 2});
  counts(3, 5);
  step({7, 99});
  counts(4, 6);
}

// Against a list of all that ever was there.
TEST_CASE("a log of memory keeps what was made before or after memory that went, and no more") {
  kernels::MemoryLog log;
  struct Lived {
    std::int64_t from = 0, to = 0;
  };
  std::vector<Lived> lived;
  std::map<const char*, std::int64_t> live;
  std::vector<char> addresses(40);
  std::mt19937 random(3);
  std::int64_t kept = 0, falsely_gone = 0;
  for (int i = 0; i < 3000; ++i) {
    const char* const memory = &addresses[random() % addresses.size()];
    if (const auto at = live.find(memory); at != live.end()) {
      log.released(memory);
      lived.push_back({at->second, log.now()});
      live.erase(at);
    } else {
      log.allocated(memory);
      live[memory] = log.now();
    }
    const std::int64_t then = log.now() - static_cast<std::int64_t>(random() % 400);
    const bool keeps = std::none_of(lived.begin(), lived.end(), [&](const Lived& block) {
      return block.from <= then && then < block.to;
    });
    CHECK((keeps || !log.keeps(then)));
    kept += keeps ? 1 : 0;
    falsely_gone += keeps && !log.keeps(then) ? 1 : 0;
  }
  CHECK(kept > 100);
  CHECK(falsely_gone == 0);
  log.released(nullptr);
  CHECK(log.keeps(log.now()));
}

TEST_CASE("a log of memory says no of times long past, never yes of what went") {
  kernels::MemoryLog log;
  std::vector<char> addresses(2000);
  for (const char& memory : addresses) {  // each there for a moment, one after the other
    log.allocated(&memory);
    log.released(&memory);
  }
  CHECK(log.keeps(log.now()));
  CHECK(log.keeps(log.now() - 2));        // between two
  CHECK_FALSE(log.keeps(log.now() - 1));  // while the last was there
  for (std::int64_t then = 1; then < log.now(); then += 2) {
    CHECK_FALSE(log.keeps(then));
  }
  CHECK_FALSE(log.keeps(2));  // the oldest are one
}

}  // namespace
}  // namespace versieve::engine
