// How a rectification's attention is cut and priced.
#include "model/launches/dense_pass.h"

#include <catch2/catch.hpp>
#include <string>

#include "model/launches/dense_attention.h"
#include "model/launches/step_shape.h"

namespace versieve {
namespace {

StepShape rectification(std::int64_t context, std::int64_t queries) {
  StepShape s;
  s.target = named_llm_shape("nsa-1b");
  s.target.attention = AttentionKind::kDense;
  s.context_len = context;
  s.num_queries = queries;
  s.dense.rewrites = true;
  return s;
}

std::string launches_of(const StepShape& s) {
  StepWork work;
  add_dense_attention(s, 16.0, work);
  std::string names;
  for (const LaunchWork& launch : work) {
    names += std::string(path_of(launch.kind)) + " ";
  }
  return names;
}

}  // namespace

TEST_CASE("a dense pass has a block an SM, each with keys") {
  for (const std::int64_t queries : {17, 32, 64, 100, 128, 256, 1000, 4096}) {
    for (const std::int64_t kv_heads : {1, 2, 5, 8, 32}) {
      for (const std::int64_t keys : {1, 128, 1000, 16416, 262272}) {
        CAPTURE(queries, kv_heads, keys);
        const DensePassCut cut = dense_pass_cut(4 * kv_heads, kv_heads, queries, keys);
        CHECK(cut.row_blocks == (4 * queries + 127) / 128);
        CHECK(cut.splits >= 1);
        CHECK(cut.splits <= (keys + 127) / 128);
        CHECK(cut.splits <= most_pass_splits(4 * kv_heads, kv_heads, queries));
        CHECK(most_pass_splits(4 * kv_heads, kv_heads, queries) <= kPassSplits);
      }
    }
  }
  for (const std::int64_t queries : {32, 64, 128}) {  // 8, 16 and 32 blocks of rows
    const DensePassCut cut = dense_pass_cut(32, 8, queries, 262144 + queries);
    CHECK(cut.row_blocks * 8 * cut.splits == 128);
  }
}

TEST_CASE("a rectification is priced as the launches that it makes") {
  CHECK(launches_of(rectification(16384, 32)) == "dense_pass dense_pass_merge ");
  CHECK(launches_of(rectification(16384, 17)) == "dense_pass dense_pass_merge ");
  // 64 rows a KV head and fewer are flash_decode's, as are other types and head sizes.
  CHECK(launches_of(rectification(16384, 16)) == "flash_decode flash_combine ");
  StepShape other = rectification(16384, 32);
  other.element_bytes = 4;
  CHECK(launches_of(other) == "flash_decode flash_combine ");
  // A chain that is verified keeps the bits of its steps.
  StepShape verified = rectification(16384, 32);
  verified.dense.rewrites = false;
  CHECK(launches_of(verified) == "flash_decode flash_combine ");
}

TEST_CASE("a dense pass charges the cache once, and products for whole blocks of rows") {
  const StepShape whole = rectification(65536, 32);
  StepWork work;
  add_dense_attention(whole, 1.0, work);
  const LaunchWork& pass = *work.begin();
  const double cache = 65536.0 * 2.0 * 8.0 * 64.0 * 2.0;
  CHECK(pass.reused == cache);
  CHECK(pass.loaded == cache);
  CHECK(pass.unique.flops == 4.0 * 32.0 * 32.0 * 64.0 * 65536.0);
  const StepShape padded = rectification(65536, 33);  // 132 rows a KV head
  StepWork more;
  add_dense_attention(padded, 1.0, more);
  CHECK(more.begin()->unique.flops == Approx(2.0 * pass.unique.flops));
  CHECK(more.begin()->loaded == 2.0 * cache);
}

}  // namespace versieve
