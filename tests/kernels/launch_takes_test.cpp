// What a launch says that it takes is what it takes: predicates are asked on the host, before
// anything runs, so no GPU is needed.
#include <algorithm>
#include <catch2/catch.hpp>

#include "kernels/common/row_slices.h"
#include "kernels/launch.h"
#include "kernels/nsa_verify/prompt.h"
#include "model/launches/dense_pass.h"
#include "model/words/llm_shape.h"

namespace versieve::kernels {
namespace {

NsaVerifyParams<Bf16> prompt_call() {
  NsaVerifyParams<Bf16> p{.nsa = {.cmp_block = 32,
                                  .cmp_stride = 16,
                                  .sel_block = 64,
                                  .sel_count = 16,
                                  .init_blocks = 1,
                                  .local_blocks = 2,
                                  .window = 512},
                          .num_heads = 16,
                          .num_kv_heads = 2,
                          .head_dim = 128,
                          .context_len = 4096,
                          .num_queries = 512};
  p.num_compressed = compressed_count(p.nsa, p.context_len);
  p.num_blocks = (p.context_len + p.num_queries - 1) / p.nsa.sel_block + 1;
  return p;
}

TreeAttentionParams<Bf16> rectifying_call(std::int64_t context_len) {
  return {.num_heads = 32,
          .num_kv_heads = 8,
          .head_dim = 128,
          .context_len = context_len,
          .num_queries = 64,
          .num_nodes = 64,
          .splits_chain = true,
          .dense_pass = true};
}

}  // namespace

TEST_CASE("a prompt's launch takes rows side by side, and in pages") {
  const std::int32_t table[72] = {};
  const NsaVerifyParams<Bf16> plain = prompt_call();
  REQUIRE(prompt_takes(plain));
  NsaVerifyParams<Bf16> paged = plain;
  paged.pages = paged.compressed_pages = {.page = table, .count = 80};
  CHECK(prompt_takes(paged));
  NsaVerifyParams<Bf16> reuse = plain;
  reuse.indices_in = table;
  CHECK_FALSE(prompt_takes(reuse));
}

TEST_CASE("a prompt's launch takes each geometry of NSA that has a name") {
  for (const char* name : {"nsa-1b", "nsa-8b", "demo"}) {
    CAPTURE(name);
    const LlmShape shape = named_llm_shape(name);
    NsaVerifyParams<Bf16> p = prompt_call();
    p.nsa = shape.nsa;
    p.num_heads = shape.num_heads;
    p.num_kv_heads = shape.num_kv_heads;
    p.head_dim = shape.head_dim;
    p.num_compressed = compressed_count(p.nsa, p.context_len);
    p.num_blocks = (p.context_len + p.num_queries - 1) / p.nsa.sel_block + 1;
    CHECK(prompt_takes(p));  // plans count on it (engine/analyse/plan/prefill_file.cpp)
  }
}

TEST_CASE("memory for a prompt's launch covers every piece of the prompt") {
  constexpr std::int64_t kTokens = 20000, kRows = 2048;
  for (const std::int64_t head_dim : {64, 128}) {
    const auto piece = [&](std::int64_t end, std::int64_t rows) {
      NsaVerifyParams<Bf16> p = prompt_call();
      p.head_dim = head_dim;
      p.context_len = end - rows;
      p.num_queries = rows;
      p.num_compressed = compressed_count(p.nsa, p.context_len);
      p.num_blocks = (end - 1) / p.nsa.sel_block + 1;
      return p;
    };
    const std::size_t most = most_prompt_scratch_bytes(piece(kTokens, kRows));
    std::size_t taken = 0;
    for (std::int64_t rows = 257; rows <= kRows; ++rows) {
      for (const std::int64_t end : {rows, (rows + kTokens) / 2, kTokens}) {
        REQUIRE(prompt_takes(piece(end, rows)));
        taken = std::max(taken, prompt_scratch_bytes(piece(end, rows)));
      }
    }
    CHECK(taken <= most);
    CHECK(most <= taken + taken / 4);  // no more than that
  }
  NsaVerifyParams<Bf16> other = prompt_call();
  other.nsa.cmp_stride = 32;
  CHECK(most_prompt_scratch_bytes(other) == 0);
}

TEST_CASE("the dense pass takes no more positions than it counts, and no table of pages") {
  const std::int64_t most = INT32_MAX / kPassSplits;
  CHECK(dense_pass_takes(rectifying_call(4096)));
  CHECK(dense_pass_takes(rectifying_call(most - 65)));
  CHECK_FALSE(dense_pass_takes(rectifying_call(most - 64)));
  CHECK(flash_decode_takes(rectifying_call(most - 64)));  // which runs in its place
  const std::int32_t table[64] = {};
  TreeAttentionParams<Bf16> paged = rectifying_call(4096);
  paged.pages = {.page = table, .count = 64};
  CHECK_FALSE(dense_pass_takes(paged));
}

TEST_CASE("rows that no grid holds go in slices, each row once and in order") {
  for (const std::int64_t rows : {0, 1, 65535, 65536, 131070, 131071, 262144}) {
    std::int64_t next = 0;
    launch_row_slices(rows, [&](std::int64_t first, std::int64_t count) {
      CHECK(first == next);
      CHECK((count >= 1 && count <= 65535));
      next = first + count;
    });
    CHECK(next == rows);
  }
}

}  // namespace versieve::kernels
