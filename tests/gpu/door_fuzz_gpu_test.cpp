// Random legal shapes of every family of the kernel door on CUDA, against the CPU: through the
// door's own functions, in one process whose GPU memory and scratch live from case to case.
//   VERSIEVE_FUZZ_CASES  cases a family, 10,000 unless set (VERSIEVE_TEST_REDUCED: 60)
//   VERSIEVE_SEED        of the first case; case i has the seed + i
// A failure names family, seed and shape; that seed with one case gives it again.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "engine/measure/door/workspace.h"
#include "tests/gpu/device.h"
#include "tests/support/door_fuzz.h"
#include "tests/support/nsa_case.h"

using namespace versieve;

namespace {

std::uint64_t case_count() {
  if (const char* text = std::getenv("VERSIEVE_FUZZ_CASES")) {
    return std::strtoull(text, nullptr, 10);
  }
  return std::getenv("VERSIEVE_TEST_REDUCED") != nullptr ? 60 : 10'000;
}

void fuzz(const char* family) {
  if (testing::no_gpu()) {
    return;
  }
  const std::uint64_t seed = testing::test_seed();
  const std::uint64_t count = case_count();
  std::printf("door fuzz: %s, %llu cases from seed %llu\n", family,
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  engine::DoorDevice device;
  for (std::uint64_t i = 0; i < count; ++i) {
    const testing::DoorCase c = testing::random_door_case(family, seed + i);
    CAPTURE(family, seed + i, c.text());  // Catch prints them after an abort, too
    REQUIRE(testing::door_fault(c, engine::DoorBackend::kCuda, &device) == "");
  }
}

}  // namespace

TEST_CASE("random shapes of nsa_verify on CUDA") {
  fuzz("nsa_verify");
}
TEST_CASE("random shapes of topk on CUDA") {
  fuzz("topk");
}
TEST_CASE("random shapes of spec_sample on CUDA") {
  fuzz("spec_sample");
}
TEST_CASE("random shapes of tree_sample on CUDA") {
  fuzz("tree_sample");
}
TEST_CASE("random shapes of layer_map on CUDA") {
  fuzz("layer_map");
}
TEST_CASE("random shapes of top_p on CUDA") {
  fuzz("top_p");
}
TEST_CASE("random shapes of block_keys on CUDA") {
  fuzz("block_keys");
}
TEST_CASE("random shapes of resa_decode on CUDA") {
  fuzz("resa_decode");
}
