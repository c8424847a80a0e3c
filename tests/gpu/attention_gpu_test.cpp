// The CUDA attention kernels against plain loops in double, and bit for bit against themselves in
// other forms of the same problem.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/launch.h"
#include "model/words/error.h"
#include "tests/gpu/device.h"
#include "tests/gpu/nsa_run.h"
#include "tests/support/compress_case.h"
#include "tests/support/nsa_case.h"
#include "tests/support/tree_attention_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

template <class T>
std::vector<double> run(const TreeAttentionCase& c) {
  TreeAttentionBuffers<T> host(c);
  kernels::TreeAttentionParams<T> p = host.params();
  const DeviceArray<T> q(host.q), k(host.k), v(host.v), k_tree(host.k_tree), v_tree(host.v_tree),
      out(host.out);
  const DeviceArray<std::int32_t> parent(c.parent), position(c.position), query_node(c.query_node);
  p.q = q.data();
  p.k = k.data();
  p.v = v.data();
  p.k_tree = k_tree.data();
  p.v_tree = v_tree.data();
  p.out = out.data();
  p.parent = parent.data();
  p.position = position.data();
  p.query_node = query_node.data();
  kernels::launch_tree_attention(p, kernels::LaunchContext{});
  kernels::check(cudaDeviceSynchronize());
  out.read(host.out);
  return host.result();
}

template <class T>
CompressResult run(const CompressCase& c) {
  CompressBuffers<T> host(c);
  kernels::CompressParams<T> p = host.params();
  const DeviceArray<T> k_cache(host.k_cache), v_cache(host.v_cache), k_tree(host.k_tree),
      v_tree(host.v_tree), compress_key(host.compress_key), compress_value(host.compress_value),
      pe(host.intra_block_pe), k_cmp(host.k_cmp), v_cmp(host.v_cmp);
  const DeviceArray<std::int32_t> source(c.source), block(c.block);
  p.k_cache = k_cache.data();
  p.v_cache = v_cache.data();
  p.k_tree = k_tree.data();
  p.v_tree = v_tree.data();
  p.compress_key = compress_key.data();
  p.compress_value = compress_value.data();
  p.intra_block_pe = c.intra_block_pe.empty() ? nullptr : pe.data();
  p.source = source.data();
  p.block = block.data();
  p.k_cmp = k_cmp.data();
  p.v_cmp = v_cmp.data();
  kernels::launch_compress(p, kernels::LaunchContext{});
  kernels::check(cudaDeviceSynchronize());
  k_cmp.read(host.k_cmp);
  v_cmp.read(host.v_cmp);
  return host.result();
}

template <class T>
void check_shape(const NsaCaseShape& shape, std::mt19937_64& rng) {
  CAPTURE(shape.text(), test_seed());
  const NsaCase c = rounded<T>(make_nsa_case(shape, rng));
  // A score of 10^4 carries an f32 rounding error of some 6e-4, which the exponential passes on.
  const double scale = std::max(1.0, std::fabs(shape.logit_scale) / 1000.0);
  Tolerance tolerance = tolerance_of<T>();
  tolerance.norm *= scale;
  tolerance.row *= scale;
  CHECK(disagreement(c, run_nsa<T>(c), tolerance) == "");
}

// Long enough for several spans of compressed tokens.
NsaCaseShape long_shape() {
  return {{32, 16, 64, 16, 1, 2, 512}, 4, 1, 64, 20000, 6, TreeForm::kRandom, 1.0, false, false};
}

}  // namespace

TEMPLATE_TEST_CASE("nsa_verify on CUDA agrees with the plain answer on random shapes", "", float,
                   Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 80; ++i) {
    check_shape<TestType>(random_nsa_shape(rng, true), rng);
  }
  check_shape<TestType>(long_shape(), rng);
}

TEMPLATE_TEST_CASE("nsa_verify on CUDA agrees with the plain answer on adversarial shapes", "",
                   float, Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const NsaCaseShape& shape : adversarial_nsa_shapes()) {
    check_shape<TestType>(shape, rng);
  }
}

TEMPLATE_TEST_CASE("a node's bits on CUDA depend on its path alone", "", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 61; ++i) {
    const NsaCaseShape shape = i == 60 ? long_shape() : random_nsa_shape(rng, true);
    CAPTURE(shape.text(), test_seed());
    const NsaCase c = rounded<TestType>(make_nsa_case(shape, rng));
    CHECK(invariance_failure(
              c, [](const NsaCase& x) { return run_nsa<TestType>(x); }, rng) == "");
  }
}

namespace {

// Whatever ranks the blocks of that case, the bits are the sort's.
template <class T>
void check_ranks(const NsaCase& c) {
  const NsaCaseShape& shape = c.shape;
  const NsaResult sorted = run_nsa<T>(c);
  for (const kernels::TopkVariant variant :
       {kernels::TopkVariant::kRadix, kernels::TopkVariant::kGvr}) {
    std::vector<std::int32_t> hint(sorted.indices.end() - shape.kv_heads * shape.nsa.sel_count,
                                   sorted.indices.end());
    hint[hint.size() / 2] = 1 << 30;
    for (const std::vector<std::int32_t>& given : {std::vector<std::int32_t>(), hint}) {
      const NsaResult got = run_nsa<T>(c, {.topk = variant, .hint = given});
      CHECK(got.indices == sorted.indices);
      CHECK(got.out == sorted.out);
      // Bit for bit: rows that a representative speaks for keep their poison, which is no number.
      REQUIRE(got.importance.size() == sorted.importance.size());
      CHECK(std::memcmp(got.importance.data(), sorted.importance.data(),
                        got.importance.size() * sizeof(double)) == 0);
    }
  }
}

}  // namespace

TEST_CASE("whatever ranks the blocks of one shape on CUDA, the bits are the same", "[rank][race]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  const NsaCaseShape shape{{8, 8, 8, 16, 1, 2, 64}, 2, 1, 16, 1500, 3};
  check_ranks<float>(rounded<float>(make_nsa_case(shape, rng)));
}

TEMPLATE_TEST_CASE("whatever ranks the blocks on CUDA, the bits are the same", "[rank]", float,
                   Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  std::vector<NsaCaseShape> shapes = adversarial_nsa_shapes();
  for (int i = 0; i < 30; ++i) {
    shapes.push_back(random_nsa_shape(rng, true));
  }
  shapes.push_back(long_shape());
  shapes.push_back({{8, 8, 8, 16, 1, 2, 64}, 2, 1, 16, 280000, 2});  // rows that gvr guesses in
  for (NsaCaseShape shape : shapes) {
    shape.group_mode = rng() % 2 == 0 ? GroupMode::kApprox : GroupMode::kExact;
    shape.group_size = shape.group_mode == GroupMode::kApprox ? 2 : 1;
    CAPTURE(shape.text(), test_seed());
    const NsaCase c = rounded<TestType>(make_nsa_case(shape, rng));
    check_ranks<TestType>(c);
  }
}

TEMPLATE_TEST_CASE("given indices are used as they are on CUDA", "", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  NsaCase c = rounded<TestType>(make_nsa_case({{4, 2, 8, 4, 1, 2, 6}, 4, 2, 16, 100, 3}, rng));
  const NsaResult chosen = run_nsa<TestType>(c);
  c.indices_in = chosen.indices;
  CHECK(run_nsa<TestType>(c).out == chosen.out);
  c.indices_in = {0,  3,  12, -1, 1, 2,  3,  4,  5, -1, -1, -1,
                  -1, -1, -1, -1, 0, 11, 12, 13, 7, 9,  12, -1};
  CHECK(disagreement(c, run_nsa<TestType>(c), tolerance_of<TestType>()) == "");
}

TEST_CASE("shapes that the CUDA kernels do not take are refused with a sentence") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const auto& [heads, kv_heads, head_dim] :
       {std::tuple<int, int, int>{4, 2, 20}, {4, 2, 144}, {34, 2, 16}}) {
    const NsaCase c =
        make_nsa_case({{4, 2, 8, 4, 1, 2, 6}, heads, kv_heads, head_dim, 100, 3}, rng);
    try {
      run_nsa<float>(c);
      FAIL_CHECK("taken");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::kAnswerNo);
    }
  }
}

TEMPLATE_TEST_CASE("tree_attention on CUDA agrees with plain loops and with its decoded self", "",
                   float, Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 60; ++i) {
    const TreeAttentionCase c = random_tree_attention_case(rng, true);
    CAPTURE(c.text(), test_seed());
    const std::vector<double> whole = run<TestType>(c);
    CHECK(relative_norm(plain_tree_attention<TestType>(c), whole) <= tolerance_of<TestType>().norm);
    const std::int64_t width = c.heads * c.head_dim;
    for (std::size_t query = 0; query < c.query_node.size(); ++query) {
      const std::int64_t row = static_cast<std::int64_t>(query);
      const std::vector<double> alone = run<TestType>(decoded_last(c, row));
      CHECK(std::equal(alone.begin(), alone.end(), whole.begin() + row * width));
    }
  }
}

// The same queries again and again, up to `count`.
TreeAttentionCase repeated(const TreeAttentionCase& c, std::size_t count) {
  TreeAttentionCase out = c;
  const std::size_t width = static_cast<std::size_t>(c.heads * c.head_dim);
  out.q.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t from = i % c.query_node.size();
    out.query_node.resize(i + 1);
    out.query_node[i] = c.query_node[from];
    out.q.insert(out.q.end(), c.q.begin() + static_cast<std::ptrdiff_t>(from * width),
                 c.q.begin() + static_cast<std::ptrdiff_t>((from + 1) * width));
  }
  return out;
}

// Few queries share out a KV head's heads to several CTAs, many do not.
TEMPLATE_TEST_CASE("tree_attention has a head's bits whoever holds its other heads", "", float,
                   Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 40; ++i) {
    const TreeAttentionCase c = random_tree_attention_case(rng, true);
    CAPTURE(c.text(), test_seed());
    const std::vector<double> few = run<TestType>(c);
    for (const std::size_t count : {40, 90}) {
      const std::vector<double> many = run<TestType>(repeated(c, count));
      std::size_t different = 0;
      for (std::size_t at = 0; at < many.size(); ++at) {
        different += many[at] == few[at % few.size()] ? 0 : 1;
      }
      CHECK(different == 0);
    }
  }
}

TEMPLATE_TEST_CASE("compress on CUDA agrees with its formula", "", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 40; ++i) {
    const CompressCase c = random_compress_case(rng, true);
    CAPTURE(c.text(), test_seed());
    const CompressResult expected = plain_compress<TestType>(c);
    const CompressResult got = run<TestType>(c);
    CHECK(relative_norm(expected.k_cmp, got.k_cmp) <= tolerance_of<TestType>().norm);
    CHECK(relative_norm(expected.v_cmp, got.v_cmp) <= tolerance_of<TestType>().norm);
  }
}
