// compress (phi) on the CPU against its formula by plain loops.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/cpu.h"
#include "tests/support/compress_case.h"
#include "tests/support/nsa_case.h"
#include "tests/support/tree_attention_case.h"

using namespace versieve;
using namespace versieve::testing;

TEMPLATE_TEST_CASE("compress agrees with its formula", "", double, float, Bf16) {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 40; ++i) {
    const CompressCase c = random_compress_case(rng, false);
    CAPTURE(c.text(), test_seed());
    CompressBuffers<TestType> buffers(c);
    kernels::compress_cpu<TestType>(buffers.params(), 1 + i % 3);
    const CompressResult expected = plain_compress<TestType>(c);
    const CompressResult got = buffers.result();
    CHECK(relative_norm(expected.k_cmp, got.k_cmp) <= tolerance_of<TestType>().norm);
    CHECK(relative_norm(expected.v_cmp, got.v_cmp) <= tolerance_of<TestType>().norm);
  }
}

TEST_CASE("a compressed token has the same bits whether its tokens are cached or drafted") {
  std::mt19937_64 rng(test_seed());
  CompressCase c = random_compress_case(rng, false);
  c.k_tree.insert(c.k_tree.end(), c.k_cache.begin(), c.k_cache.end());
  c.v_tree.insert(c.v_tree.end(), c.v_cache.begin(), c.v_cache.end());
  const std::int32_t moved = static_cast<std::int32_t>(c.tree_tokens);
  CompressCase drafted = c;
  for (std::int32_t& source : drafted.source) {
    source = source >= 0 ? -1 - (source + moved) : source;
  }
  CompressBuffers<float> cached_buffers(c);
  CompressBuffers<float> drafted_buffers(drafted);
  kernels::compress_cpu<float>(cached_buffers.params(), 1);
  kernels::compress_cpu<float>(drafted_buffers.params(), 1);
  CHECK(cached_buffers.result().k_cmp == drafted_buffers.result().k_cmp);
  CHECK(cached_buffers.result().v_cmp == drafted_buffers.result().v_cmp);
}
