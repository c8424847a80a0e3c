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
#include "tests/support/door_fuzz_cases.h"
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

// What outgrows a form of resa_decode takes the next.
void check_resa(testing::ResaCase c, const std::string& ratio, const std::string& dtype) {
  if (testing::no_gpu()) {
    return;
  }
  std::mt19937_64 rng(testing::test_seed());
  c.selection.active_ratio = std::stod(ratio);
  const testing::DoorCase door =
      testing::resa_door(testing::make_resa_case(c, rng), ratio, 3, dtype);
  CAPTURE(door.text());
  CHECK(testing::door_fault(door, engine::DoorBackend::kCuda) == "");
}

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

TEST_CASE("resa_decode of more KV heads than shared memory has mean queries for") {
  for (const char* dtype : {"f32", "bf16"}) {
    check_resa({.heads = 2048,
                .kv_heads = 1024,
                .head_dim = 80,
                .length = 50,
                .selection = {.key_block = 4, .n_min = 3}},
               "0.3", dtype);
  }
}

TEST_CASE("resa_decode of more key blocks than one launch takes", "[large]") {
  check_resa({.heads = 2,
              .kv_heads = 1,
              .head_dim = 64,
              .length = 1'048'570,
              .selection = {.key_block = 1, .n_min = 16}},
             "0.0001", "bf16");
}
