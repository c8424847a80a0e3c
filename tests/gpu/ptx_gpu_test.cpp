// The wrappers of kernels/ptx on a GPU: right uses pass, packets come whole, and what a wrapper
// requires is checked where device asserts are on. Each use runs in a process of its own, for a
// failed assertion ends the CUDA context.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <exception>

#include "tests/gpu/ptx_checks.h"

using versieve::test::PtxOutcome;
using versieve::test::PtxUse;

namespace {

PtxOutcome outcome_of(PtxUse use) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    int code = static_cast<int>(PtxOutcome::kFailed);
    try {
      code = static_cast<int>(versieve::test::run_ptx(use));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    _exit(code);
  }
  int status = 0;
  REQUIRE(child > 0);
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return static_cast<PtxOutcome>(WEXITSTATUS(status));
}

}  // namespace

TEST_CASE("wrappers of PTX pass where they are used as they require, and packets come whole") {
  const PtxOutcome outcome = outcome_of(PtxUse::kRight);
  if (outcome == PtxOutcome::kNoGpu) {
    std::puts("skipped: this machine has no GPU that the CUDA runtime can use");
    return;
  }
  CHECK(outcome == PtxOutcome::kPassed);
}

TEST_CASE("device asserts notice arguments that a wrapper of PTX cannot take") {
  const PtxUse use = GENERATE(PtxUse::kWrongParity, PtxUse::kCrookedBarrier, PtxUse::kForeignBlock,
                              PtxUse::kCrookedStore, PtxUse::kCrookedPackets);
  CAPTURE(static_cast<int>(use));
  const PtxOutcome outcome = outcome_of(use);
  if (outcome != PtxOutcome::kNoGpu) {
    CHECK(outcome == PtxOutcome::kAsserted);
  }
}
