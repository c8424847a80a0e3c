// The engine's interface on the CPU, and what the CUDA engine says where there is none.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "kernels/ops.h"
#include "kernels/staged_upload.h"
#include "model/words/error.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::kernels {
namespace {

struct Watcher final : LaunchObserver {
  std::vector<std::string> names = {};
  Traffic total = {};
  int open = 0;

  void launch_begins(const char* name, const Traffic& traffic) override {
    names.push_back(name);
    total += traffic;
    ++open;
  }
  void launch_ends(const char*) override { --open; }
};

// Of a device that is lost.
struct LostMarker final : Marker {
  int waits = 0;

  void mark() override {}
  void wait() override {
    ++waits;
    throw Error(ExitCode::kEnvironment, "CUDA: the device is lost");
  }
};

}  // namespace

TEST_CASE("who ends beside a device that is lost waits for it once and goes on", "[ops]") {
  LostMarker marker;
  wait_at_end(marker);
  CHECK(marker.waits == 1);
}

TEST_CASE("the CPU engine reports each launch to its observer with its bytes", "[ops]") {
  const std::unique_ptr<Ops<float>> ops = make_cpu_ops<float>(1);
  const OpsBuffer<float> x(*ops, test::random_tensor<float>(2 * 8, 1));
  const OpsBuffer<float> w(*ops, test::random_tensor<float>(3 * 8, 2));
  const OpsBuffer<float> y(*ops, 2 * 3);
  Watcher watcher;
  ops->set_observer(&watcher);
  ops->linear({.n = 2,
               .k = 8,
               .m = 3,
               .x = x.data(),
               .w = w.data(),
               .y = y.data(),
               .weight_term = TrafficTerm::kDraft});
  ops->sigmoid({.count = 6, .x = y.data(), .y = y.data()});
  ops->set_observer(nullptr);
  ops->sigmoid({.count = 6, .x = y.data(), .y = y.data()});
  CHECK(watcher.names == std::vector<std::string>{"linear", "sigmoid"});
  CHECK(watcher.open == 0);
  CHECK(watcher.total.read_bytes[static_cast<std::size_t>(TrafficTerm::kDraft)] == 3 * 8 * 4);
  CHECK(watcher.total.flops > 2.0 * 2 * 3 * 8);
}

TEST_CASE("a step of the CPU engine has the same bits on one thread and on many", "[ops]") {
  const std::int64_t n = 9, k = 256, m = 1031, top = 5;
  std::vector<std::vector<float>> laws;
  std::vector<std::vector<std::int32_t>> choices;
  for (const int threads : {1, 3}) {
    const std::unique_ptr<Ops<float>> ops = make_cpu_ops<float>(threads);
    const OpsBuffer<float> x(*ops, test::random_tensor<float>(n * k, 3));
    const OpsBuffer<float> norm(*ops, test::random_tensor<float>(k, 4));
    const OpsBuffer<float> w(*ops, test::random_tensor<float>(m * k, 5));
    const OpsBuffer<float> h(*ops, n * k), logits(*ops, n * m), law(*ops, n * top);
    const OpsBuffer<float, std::int32_t> index(*ops, n * top);
    ops->embed({.token = {.n = n, .k = k, .x = x.data(), .weight = norm.data(), .y = h.data()}});
    ops->linear({.n = n, .k = k, .m = m, .x = h.data(), .w = w.data(), .y = logits.data()});
    ops->top_logits({.rows = n,
                     .vocab = m,
                     .k = top,
                     .logits = logits.data(),
                     .index = index.data(),
                     .log_probability = law.data()});
    laws.push_back(law.read());
    choices.push_back(index.read());
  }
  CHECK(choices[0] == choices[1]);
  CHECK(std::memcmp(laws[0].data(), laws[1].data(), laws[0].size() * sizeof(float)) == 0);
}

TEST_CASE("memory that cannot be had is one sentence and exit code 4", "[ops]") {
  const std::unique_ptr<Ops<double>> ops = make_cpu_ops<double>(1);
  try {
    ops->release(ops->allocate(std::size_t{1} << 60));
    FAIL("a machine with an exbibyte");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kEnvironment);
    CHECK(std::string(error.what()).find("out of memory") != std::string::npos);
  }
}

TEST_CASE("without a GPU the CUDA engine says so with exit code 4", "[ops]") {
  try {
    const std::unique_ptr<Ops<float>> ops = make_cuda_ops<float>();
    CHECK(ops != nullptr);  // a machine with a GPU
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kEnvironment);
#ifdef VERSIEVE_HAS_CUDA
    CHECK_THAT(error.what(), Catch::Contains("NVIDIA driver"));
#else
    CHECK_THAT(error.what(), Catch::Contains("no CUDA engine"));
#endif
  }
}

}  // namespace versieve::kernels
