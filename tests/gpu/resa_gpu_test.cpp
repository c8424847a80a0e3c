// ReSA's CUDA kernels and the split dense attention against plain loops in double, and bit for bit
// against themselves in other forms of the same problem.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "kernels/cpu.h"
#include "kernels/launch.h"
#include "tests/gpu/device.h"
#include "tests/support/nsa_case.h"
#include "tests/support/resa_case.h"
#include "tests/support/rounding.h"
#include "tests/support/tree_attention_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

// How a problem is posed; none of it may change a bit.
struct Form {
  bool newest_apart = false;
  std::int64_t splits = 0;
  std::int64_t slack =
      0;  // above 0: the length comes from device memory, this much below the bound
};

// `rows` more than the problem has, of values that no result may depend on.
template <class T>
std::vector<T> with_more_rows(std::vector<T> values, std::int64_t rows, std::int64_t width) {
  values.resize(values.size() + static_cast<std::size_t>(rows * width), narrowed<T>(NAN));
  return values;
}

template <class T>
ResaAnswer run(const ResaCase& c, const Form& form = {}) {
  ResaBuffers<T> host(c);
  const std::int64_t width = c.kv_heads * c.head_dim;
  const std::int64_t room = kernels::key_block_count(c.length + form.slack, c.selection.key_block);
  host.kmin.resize(static_cast<std::size_t>(room * width));
  const DeviceArray<T> q(host.q), k(with_more_rows(host.k, form.slack, width)),
      v(with_more_rows(host.v, form.slack, width)), kmin(host.kmin), kmax(host.kmin), out(host.out);
  kernels::BlockKeysParams<T> keys = host.key_params();
  keys.k = k.data();
  keys.kmin = kmin.data();
  keys.kmax = kmax.data();
  kernels::launch_block_keys(keys, kernels::LaunchContext{});
  kernels::ResaDecodeParams<T> p = host.params(form.newest_apart);
  const DeviceArray<std::uint8_t> counts(sizeof(kernels::StepCounts));
  if (form.slack > 0) {
    const kernels::StepCounts known{.context_len = static_cast<std::int32_t>(p.context_len)};
    kernels::check(cudaMemcpy(counts.data(), &known, sizeof known, cudaMemcpyHostToDevice));
    p.counts = reinterpret_cast<const kernels::StepCounts*>(counts.data());
    p.context_len += form.slack;
  }
  const std::size_t stride = static_cast<std::size_t>(p.active_count());
  std::vector<std::int32_t> indices(stride * static_cast<std::size_t>(c.kv_heads), -7);
  const DeviceArray<std::int32_t> chosen(indices);
  p.splits = form.splits;
  p.q = q.data();
  p.k = k.data();
  p.v = v.data();
  p.k_new = form.newest_apart ? k.data() + (c.length - 1) * width : nullptr;
  p.v_new = form.newest_apart ? v.data() + (c.length - 1) * width : nullptr;
  p.kmin = kmin.data();
  p.kmax = kmax.data();
  p.out = out.data();
  p.indices = chosen.data();
  const DeviceArray<std::uint8_t> scratch(kernels::resa_decode_scratch_bytes(p));
  kernels::check(cudaMemset(scratch.data(), 0xFF, kernels::resa_decode_scratch_bytes(p)));
  kernels::LaunchContext context;
  context.scratch = scratch.data();
  context.scratch_bytes = kernels::resa_decode_scratch_bytes(p);
  kernels::launch_resa_decode(p, context);
  kernels::check(cudaDeviceSynchronize());
  out.read(host.out);
  chosen.read(indices);
  const std::size_t count = host.indices.size() / static_cast<std::size_t>(c.kv_heads);
  host.indices.clear();
  for (std::size_t g = 0; g < static_cast<std::size_t>(c.kv_heads); ++g) {
    const auto row = indices.begin() + static_cast<std::ptrdiff_t>(g * stride);
    host.indices.insert(host.indices.end(), row, row + static_cast<std::ptrdiff_t>(count));
  }
  return host.answer();
}

template <class T>
void check_case(const ResaCase& c) {
  CAPTURE(c.text(), test_seed());
  CHECK(resa_disagreement(rounded_case<T>(c), run<T>(c), tolerance_of<T>().norm, 1e-5) == "");
}

// Dense attention of a chain of `nodes` queries over `context` keys.
TreeAttentionCase chain_case(std::int64_t context, std::int64_t nodes, std::int64_t head_dim,
                             std::int64_t kv_heads, std::int64_t group, std::mt19937_64& rng) {
  TreeAttentionCase c{.heads = kv_heads * group, .kv_heads = kv_heads, .head_dim = head_dim};
  c.context_len = context;
  for (std::int32_t i = 0; i < nodes; ++i) {
    c.parent.push_back(i - 1);
    c.position.push_back(static_cast<std::int32_t>(context) + i);
    c.query_node.push_back(i);
  }
  const std::int64_t width = kv_heads * head_dim;
  c.q = random_rows(rng, nodes * c.heads * head_dim);
  c.k = random_rows(rng, context * width);
  c.v = random_rows(rng, context * width);
  c.k_tree = random_rows(rng, nodes * width);
  c.v_tree = random_rows(rng, nodes * width);
  return c;
}

std::vector<double> run_flash(const TreeAttentionCase& c, std::int64_t slack = 0) {
  TreeAttentionBuffers<Bf16> host(c);
  kernels::TreeAttentionParams<Bf16> p = host.params();
  const std::int64_t width = c.kv_heads * c.head_dim;
  const DeviceArray<Bf16> q(host.q), k(with_more_rows(host.k, slack, width)),
      v(with_more_rows(host.v, slack, width)), k_tree(host.k_tree), v_tree(host.v_tree),
      out(host.out);
  const kernels::StepCounts known{.context_len = static_cast<std::int32_t>(c.context_len)};
  const DeviceArray<std::uint8_t> counts(sizeof known);
  kernels::check(cudaMemcpy(counts.data(), &known, sizeof known, cudaMemcpyHostToDevice));
  p.counts = slack > 0 ? reinterpret_cast<const kernels::StepCounts*>(counts.data()) : nullptr;
  p.context_len += slack;
  p.query_node = nullptr;
  p.splits_chain = true;
  p.q = q.data();
  p.k = k.data();
  p.v = v.data();
  p.k_tree = k_tree.data();
  p.v_tree = v_tree.data();
  p.out = out.data();
  REQUIRE(kernels::flash_decode_takes(p));
  const DeviceArray<std::uint8_t> scratch(kernels::flash_decode_scratch_bytes(p));
  kernels::check(cudaMemset(scratch.data(), 0xFF, kernels::flash_decode_scratch_bytes(p)));
  kernels::LaunchContext context;
  context.scratch = scratch.data();
  context.scratch_bytes = kernels::flash_decode_scratch_bytes(p);
  kernels::launch_flash_decode(p, context);
  kernels::check(cudaDeviceSynchronize());
  out.read(host.out);
  return host.result();
}

}  // namespace

TEMPLATE_TEST_CASE("the GPU's block keys are the CPU's, appended or whole", "", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 12; ++i) {
    const ResaCase c = random_resa_case(rng, true);
    CAPTURE(c.text(), test_seed());
    ResaBuffers<TestType> host(c);
    kernels::block_keys_cpu(host.key_params(), 1);
    const std::vector<TestType> poison(host.kmin.size(), narrowed<TestType>(-99.0));
    const DeviceArray<TestType> k(host.k), kmin(poison), kmax(poison);
    kernels::BlockKeysParams<TestType> p = host.key_params();
    p.k = k.data();
    p.kmin = kmin.data();
    p.kmax = kmax.data();
    const std::int64_t step = i % 3 == 0 ? c.length : pick(rng, c.length / 9 + 1, c.length);
    const DeviceArray<std::uint8_t> counts(sizeof(kernels::StepCounts));
    for (std::int64_t length = 0; length < c.length;) {
      p.first_token = length;
      length = std::min(c.length, length + step);
      p.length = length;
      if (i % 2 == 1) {
        const kernels::StepCounts known{.context_len = static_cast<std::int32_t>(length)};
        kernels::check(cudaMemcpy(counts.data(), &known, sizeof known, cudaMemcpyHostToDevice));
        p.counts = reinterpret_cast<const kernels::StepCounts*>(counts.data());
        p.length += 500;
        p.first_token += 500;
      }
      kernels::launch_block_keys(p, kernels::LaunchContext{});
      kernels::check(cudaDeviceSynchronize());
    }
    std::vector<TestType> got(host.kmin.size());
    kmin.read(got);
    CHECK(widened_rows(got) == widened_rows(host.kmin));
    kmax.read(got);
    CHECK(widened_rows(got) == widened_rows(host.kmax));
  }
}

TEMPLATE_TEST_CASE("resa_decode on the GPU agrees with plain loops", "[resa]", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 40; ++i) {
    ResaCase c = random_resa_case(rng, true);
    if (i % 2 == 0) {  // the fused form
      c.head_dim = i % 4 == 0 ? 64 : 128;
      if (i % 8 == 0) {
        c.heads = c.kv_heads * 16;
      }
      c = make_resa_case(c, rng);
    }
    check_case<TestType>(c);
  }
}

TEMPLATE_TEST_CASE("resa_decode over long contexts agrees with plain loops", "", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const std::int64_t head_dim : {64, 128}) {
    ResaCase c{.heads = 8, .kv_heads = 2, .head_dim = head_dim, .length = 40003};
    c.selection = {.key_block = 16, .active_ratio = 0.1, .n_min = 16, .n_local = 1};
    check_case<TestType>(make_resa_case(c, rng));
    c.selection.active_ratio = 0.95;  // chunks of 512
    check_case<TestType>(make_resa_case(c, rng));
    c.selection = {.key_block = 1, .active_ratio = 0.01, .n_min = 0, .n_local = 0};
    c.length = 60000;  // more blocks than fit into shared memory
    check_case<TestType>(make_resa_case(c, rng));
  }
}

TEST_CASE("resa_decode with many KV heads and in few blocks agrees with plain loops", "[resa]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const std::int64_t kv_heads : {1, 8, 20, 70}) {
    ResaCase c{.heads = kv_heads * 2, .kv_heads = kv_heads, .head_dim = 64, .length = 900};
    c.selection = {.key_block = 8, .active_ratio = 0.2, .n_min = 3, .n_local = 1};
    check_case<Bf16>(make_resa_case(c, rng));
  }
  // One block a KV head: its order keys lie in scratch, the others' in shared memory.
  ResaCase c{.heads = 2, .kv_heads = 1, .head_dim = 64, .length = 20001};
  c.selection = {.key_block = 2, .active_ratio = 0.3, .n_min = 0, .n_local = 0};
  c = make_resa_case(c, rng);
  const ResaAnswer whole = run<Bf16>(c);
  const ResaAnswer alone = run<Bf16>(c, {.splits = 1});
  CHECK(alone.indices == whole.indices);
  CHECK(alone.out == whole.out);
}

TEST_CASE("scores that crowd in few digits are chosen exactly", "[race]") {
  if (no_gpu()) {
    return;
  }
  // Keys of one element differ in their last bits only, and one far outlier stretches the range.
  constexpr std::int64_t kLength = 5000;
  ResaCase c{.heads = 1, .kv_heads = 1, .head_dim = 64, .length = kLength};
  c.selection = {.key_block = 1, .active_ratio = 0.1, .n_min = 0, .n_local = 0};
  c.q.assign(64, 0.0);
  c.q[0] = c.q[1] = 1.0;
  c.k.assign(static_cast<std::size_t>(kLength * 64), 0.0);
  c.v.assign(c.k.size(), 1.0);
  for (std::int64_t i = 0; i < kLength; ++i) {
    c.k[static_cast<std::size_t>(i * 64)] = 1.0;
    c.k[static_cast<std::size_t>(i * 64 + 1)] = static_cast<double>(i * 7 % kLength / 20) / 65536.0;
  }
  c.k[64 * 77] = -1e30;
  CHECK(run<Bf16>(c).indices == plain_resa_decode(rounded_case<Bf16>(c)).indices);
  CHECK(run<float>(c).indices == plain_resa_decode(rounded_case<float>(c)).indices);
}

TEMPLATE_TEST_CASE("the form of a problem changes no bit of resa_decode", "", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 10; ++i) {
    ResaCase c = random_resa_case(rng, true);
    c.head_dim = i % 3 == 0 ? c.head_dim : 64;
    c.length += 700;
    c.selection.n_local = 1;
    c = make_resa_case(c, rng);
    CAPTURE(c.text(), test_seed());
    const ResaAnswer answer = run<TestType>(c);
    for (const Form form :
         {Form{.splits = 1}, Form{.splits = 3}, Form{.splits = 1000}, Form{.newest_apart = true},
          Form{.slack = 900}, Form{.newest_apart = true, .splits = 2, .slack = 33000}}) {
      const ResaAnswer other = run<TestType>(c, form);
      CHECK(other.indices == answer.indices);
      CHECK(other.out == answer.out);
    }
  }
}

TEST_CASE("equal scores take the lower blocks on the GPU") {
  if (no_gpu()) {
    return;
  }
  for (const std::int64_t length : {1, 17, 16000, 70000}) {
    ResaCase c{.heads = 2, .kv_heads = 2, .head_dim = 64, .length = length};
    c.selection = {.key_block = 1, .active_ratio = 0.3, .n_min = 0, .n_local = 1};
    c.q.assign(128, 1.0);
    c.k.assign(static_cast<std::size_t>(length * 128), 0.5);
    c.v.assign(c.k.size(), 2.0);
    const ResaAnswer answer = run<Bf16>(c);
    std::vector<std::int32_t> expected(answer.indices.size() / 2);
    std::iota(expected.begin(), expected.end(), 0);
    expected.back() = static_cast<std::int32_t>(length - 1);
    CAPTURE(length);
    CHECK(std::equal(expected.begin(), expected.end(), answer.indices.begin()));
    CHECK(std::equal(expected.begin(), expected.end(),
                     answer.indices.begin() + static_cast<std::ptrdiff_t>(expected.size())));
    CHECK(answer.out == std::vector<double>(128, 2.0));
  }
}

TEST_CASE("split dense attention of a chain agrees with plain loops", "[flash]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const std::int64_t head_dim : {64, 128}) {
    for (const auto& [context, nodes] :
         {std::pair(0, 1), std::pair(0, 40), std::pair(63, 1), std::pair(64, 2), std::pair(255, 3),
          std::pair(1000, 1), std::pair(1000, 32), std::pair(777, 70)}) {
      for (const std::int64_t group : {1, 4, 7, 16}) {
        CAPTURE(head_dim, context, nodes, group, test_seed());
        const TreeAttentionCase c = chain_case(context, nodes, head_dim, 2, group, rng);
        CHECK(relative_norm(plain_tree_attention<Bf16>(c), run_flash(c)) <=
              tolerance_of<Bf16>().norm);
      }
    }
  }
}

TEST_CASE("a row of split dense attention has the bits of its own decoding step", "[flash]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  // The second straddles 16,384 keys, where chunks double.
  for (const auto& [context, nodes] : {std::pair(500, 33), std::pair(16384 - 9, 20)}) {
    const TreeAttentionCase c = chain_case(context, nodes, 64, 2, 4, rng);
    const std::vector<double> whole = run_flash(c);
    CHECK(run_flash(c, 5000) == whole);  // the length from device memory
    CHECK(relative_norm(plain_tree_attention<Bf16>(c), whole) <= tolerance_of<Bf16>().norm);
    for (std::int64_t query = 0; query < nodes; query += 3) {
      CAPTURE(context, query, test_seed());
      const std::vector<double> alone = run_flash(decoded_last(c, query));
      CHECK(std::equal(alone.begin(), alone.end(), whole.begin() + query * c.heads * c.head_dim));
    }
  }
}
