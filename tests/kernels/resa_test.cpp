// ReSA on the CPU: block keys, the number of blocks, their choice, and attention over them.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/cpu.h"
#include "model/launches/block_keys.h"
#include "model/launches/resa_decode.h"
#include "model/words/traffic.h"
#include "tests/support/nsa_case.h"
#include "tests/support/resa_case.h"
#include "tests/support/rounding.h"

using namespace versieve;
using namespace versieve::testing;
using kernels::BlockKeysParams;
using kernels::ResaSelection;

namespace {

template <class T>
ResaAnswer run(const ResaCase& c, bool newest_apart = false, std::int64_t splits = 0,
               int threads = 1) {
  ResaBuffers<T> buffers(c);
  kernels::block_keys_cpu(buffers.key_params(), threads);
  kernels::ResaDecodeParams<T> p = buffers.params(newest_apart);
  p.splits = splits;
  kernels::resa_decode_cpu(p, threads);
  return buffers.answer();
}

std::int64_t count(std::int64_t blocks, double ratio, std::int64_t n_min, std::int64_t n_local) {
  return kernels::resa_block_count(blocks,
                                   {.active_ratio = ratio, .n_min = n_min, .n_local = n_local});
}

}  // namespace

TEST_CASE("block keys are the least and greatest of the tokens that a block has") {
  const std::vector<float> k = {1, -5, 4, 2, -3, 0, 7, 8, 6, -9};  // L = 5, G = 1, d = 2
  std::vector<float> kmin(6);
  std::vector<float> kmax(6);
  kernels::block_keys_cpu<float>({.num_kv_heads = 1,
                                  .head_dim = 2,
                                  .key_block = 2,
                                  .length = 5,
                                  .k = k.data(),
                                  .kmin = kmin.data(),
                                  .kmax = kmax.data()},
                                 1);
  CHECK(kmin == std::vector<float>{1, -5, -3, 0, 6, -9});
  CHECK(kmax == std::vector<float>{4, 2, 7, 8, 6, -9});
}

TEMPLATE_TEST_CASE("appending token by token gives the block keys of the whole", "", double, float,
                   Bf16) {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 20; ++i) {
    const ResaCase c = random_resa_case(rng, false);
    CAPTURE(c.text(), test_seed());
    ResaBuffers<TestType> whole(c);
    kernels::block_keys_cpu(whole.key_params(), 2);
    ResaBuffers<TestType> grown(c);
    const std::int64_t step = pick(rng, 1, 9);
    for (std::int64_t length = 0; length < c.length;) {
      BlockKeysParams<TestType> p = grown.key_params();
      p.first_token = length;
      length = std::min(c.length, length + step);
      const kernels::StepCounts counts{.context_len = static_cast<std::int32_t>(length)};
      p.length = length;
      if (i % 2 == 0) {  // the same given by device memory: the newest tokens of a count
        p.first_token += 1000;
        p.length += 1000;
        p.counts = &counts;
      }
      kernels::block_keys_cpu(p, 1);
    }
    CHECK(widened_rows(grown.kmin) == widened_rows(whole.kmin));
    CHECK(widened_rows(grown.kmax) == widened_rows(whole.kmax));
  }
}

TEST_CASE("an update leaves older blocks alone") {
  ResaBuffers<float> buffers(
      {.length = 40, .q = std::vector<double>(64), .k = std::vector<double>(1280, 2.0)});
  std::fill(buffers.kmin.begin(), buffers.kmin.end(), -1.0F);
  BlockKeysParams<float> p = buffers.key_params();
  p.first_token = 33;  // of block 2
  kernels::block_keys_cpu(p, 1);
  CHECK(buffers.kmin[2 * 32 - 1] == -1.0F);
  CHECK(buffers.kmin[2 * 32] == 2.0F);
}

TEST_CASE("the number of blocks is the formula in double") {
  CHECK(count(10, 0.1, 0, 0) == 1);
  CHECK(count(30, 0.1, 0, 0) == 3);  // 30 x 0.1 is 3.0000000000000004
  CHECK(count(11, 0.1, 0, 0) == 2);
  CHECK(count(70, 0.7, 0, 0) == 49);
  CHECK(count(100, 0.29, 0, 0) == 29);  // 28.999999999999996
  CHECK(count(16384, 0.1, 16, 1) == 1639);
  CHECK(count(100, 0.1, 16, 1) == 16);
  CHECK(count(9, 0.1, 16, 1) == 9);
  CHECK(count(100, 0.01, 0, 5) == 5);
  CHECK(count(3, 0.01, 0, 5) == 3);
  CHECK(count(7, 1.0, 0, 0) == 7);
}

TEMPLATE_TEST_CASE("resa_decode agrees with plain loops", "", double, float, Bf16) {
  std::mt19937_64 rng(test_seed());
  const Tolerance tolerance = tolerance_of<TestType>();
  for (int i = 0; i < 60; ++i) {
    const ResaCase c = random_resa_case(rng, false);
    CAPTURE(c.text(), test_seed());
    CHECK(resa_disagreement(rounded_case<TestType>(c), run<TestType>(c, false, 0, 1 + i % 3),
                            tolerance.norm, sizeof(TestType) == 8 ? 1e-12 : 1e-5) == "");
  }
}

TEST_CASE("the lower block wins a tie and the newest are always there") {
  ResaCase c{.heads = 1, .kv_heads = 1, .head_dim = 1, .length = 12};
  c.selection = {.key_block = 2, .active_ratio = 0.5, .n_min = 0, .n_local = 1};
  c.q = {1};
  c.v = std::vector<double>(12, 1.0);
  c.k = {3, 3, 5, 5, 3, 1, 3, 0, 2, 2, 0, 0};  // block maxima 3 5 3 3 2 0
  CHECK(run<double>(c).indices == std::vector<std::int32_t>{0, 1, 5});
  c.selection.n_local = 2;
  CHECK(run<double>(c).indices == std::vector<std::int32_t>{1, 4, 5});
  c.selection.n_local = 0;
  CHECK(run<double>(c).indices == std::vector<std::int32_t>{0, 1, 2});
  c.q = {0};  // all scores equal
  CHECK(run<double>(c).indices == std::vector<std::int32_t>{0, 1, 2});
  c.q = {-1};  // by the least key: 3 5 1 0 2 0, so -3 -5 -1 0 -2 0
  CHECK(run<double>(c).indices == std::vector<std::int32_t>{2, 3, 5});
}

TEST_CASE("a group scores by its mean query, not by a head of it") {
  ResaCase c{.heads = 2, .kv_heads = 1, .head_dim = 2, .length = 3};
  c.selection = {.key_block = 1, .active_ratio = 0.3, .n_min = 0, .n_local = 0};
  c.q = {4, 0, -2, 6};  // mean (1, 3); head 0 alone would take block 0, head 1 alone block 2
  c.k = {9, -9, 2, 3, -5, 4};
  c.v = {1, 2, 3, 4, 5, 6};
  const ResaAnswer answer = run<double>(c);  // scores -18, 11, 7
  CHECK(answer.indices == std::vector<std::int32_t>{1});
  CHECK(answer.out == std::vector<double>{3, 4, 3, 4});
}

TEMPLATE_TEST_CASE("neither splits nor threads nor where the newest row lies change a bit", "",
                   double, float, Bf16) {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 20; ++i) {
    ResaCase c = random_resa_case(rng, false);
    c.selection.n_local = std::max<std::int64_t>(1, c.selection.n_local);
    CAPTURE(c.text(), test_seed());
    const ResaAnswer answer = run<TestType>(c);
    for (const std::int64_t splits : {1, 2, 7, 1000}) {
      const ResaAnswer other = run<TestType>(c, true, splits, 3);
      CHECK(other.out == answer.out);
      CHECK(other.indices == answer.indices);
    }
  }
}

TEST_CASE("block keys of forced blocks are not looked at") {
  std::mt19937_64 rng(3);
  ResaCase c{.length = 100};
  c.selection = {.key_block = 16, .active_ratio = 0.4, .n_min = 0, .n_local = 2};
  c = make_resa_case(c, rng);
  ResaBuffers<float> buffers(c);
  kernels::block_keys_cpu(buffers.key_params(), 1);
  std::fill(buffers.kmax.end() - 2 * 32, buffers.kmax.end(), NAN);
  kernels::resa_decode_cpu(buffers.params(), 1);
  CHECK(buffers.answer().indices == plain_resa_decode(c).indices);
}

TEMPLATE_TEST_CASE("with every block active the bits are those of dense attention", "", double,
                   float, Bf16) {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 20; ++i) {
    ResaCase c = random_resa_case(rng, false);
    c.selection.active_ratio = 1.0;
    CAPTURE(c.text(), test_seed());
    const ResaAnswer sparse = run<TestType>(c, c.selection.n_local > 0);
    ResaBuffers<TestType> b(c);
    const std::int64_t width = c.kv_heads * c.head_dim;
    const std::int32_t parent = -1;
    const std::int32_t position = static_cast<std::int32_t>(c.length - 1);
    kernels::tree_attention_cpu<TestType>({.num_heads = c.heads,
                                           .num_kv_heads = c.kv_heads,
                                           .head_dim = c.head_dim,
                                           .context_len = c.length - 1,
                                           .num_queries = 1,
                                           .num_nodes = 1,
                                           .parent = &parent,
                                           .position = &position,
                                           .q = b.q.data(),
                                           .k = b.k.data(),
                                           .v = b.v.data(),
                                           .k_tree = b.k.data() + (c.length - 1) * width,
                                           .v_tree = b.v.data() + (c.length - 1) * width,
                                           .out = b.out.data()},
                                          1);
    CHECK(b.answer().out == sparse.out);
  }
}

TEST_CASE("scores that are not numbers rank last and break nothing") {
  ResaCase c{.heads = 1, .kv_heads = 1, .head_dim = 2, .length = 64};
  c.selection = {.key_block = 1, .active_ratio = 0.25, .n_min = 0, .n_local = 0};
  c.q = {3e38, 3e38};
  c.v = std::vector<double>(128, 1.0);
  for (int t = 0; t < 64; ++t) {  // odd tokens: inf - inf
    c.k.push_back(t % 2 == 1 ? 3e38 : 1e-38);
    c.k.push_back(t % 2 == 1 ? -3e38 : 1e-38);
  }
  const ResaAnswer answer = run<float>(c);
  CHECK(answer.indices.size() == 16);
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(answer.indices[i] == static_cast<std::int32_t>(2 * i));
  }
}

TEST_CASE("a step's predicted bytes are those of the memory model") {
  // Rectified Sparse Attention, section 2.3: KV(L) (1/b + p + 1/f); here of one layer, bf16.
  const traffic::ResaShape shape{.num_heads = 32,
                                 .num_kv_heads = 8,
                                 .head_dim = 64,
                                 .context_len = 65536,
                                 .key_block = 16,
                                 .blocks = 4097,
                                 .active_blocks = 410};
  const double kv = 65536.0 * 2048.0;
  const Traffic step = traffic::resa_decode(shape);
  CHECK(step.read_bytes[static_cast<std::size_t>(TrafficTerm::kCompressedCache)] == kv / 16);
  CHECK(step.read_bytes[static_cast<std::size_t>(TrafficTerm::kSelectedBlocks)] ==
        410.0 * 16 * 2048);
  // The newest blocks are chosen whatever their keys say: nobody reads those.
  traffic::ResaShape local = shape;
  local.local_blocks = 9;
  const double pair = 2.0 * 8 * 64 * 2;
  CHECK(traffic::resa_score(shape).total_read() - traffic::resa_score(local).total_read() ==
        8.0 * pair);
  CHECK(traffic::resa_select(shape).total_read() - traffic::resa_select(local).total_read() ==
        8.0 * 8 * 4);
  CHECK(traffic::resa_attend(local).total_read() == traffic::resa_attend(shape).total_read());
  const Traffic pass = traffic::rectify(shape, 32);
  CHECK(pass.read_bytes[static_cast<std::size_t>(TrafficTerm::kWindow)] == kv);
  CHECK(pass.write_bytes[static_cast<std::size_t>(TrafficTerm::kKvAppend)] == 32.0 * 2048);
  const double model = kv * (1.0 / 16 + 0.1 + 1.0 / 32);
  CHECK(step.total_read() + pass.total_read() / 32 == Approx(model).epsilon(0.02));
  const Traffic keys = traffic::block_keys(16, 1, 16, 512, 2);
  CHECK(keys.total_read() == 16.0 * 16 * 1024);
  CHECK(keys.total_write() == 16.0 * 2 * 1024);
}
