// A prompt's rows in one launch (kernels/nsa_verify/prompt.h) beside the fused launches of the same
// chain, bit for bit, and against plain loops in double.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

#include "kernels/nsa_verify/prompt.h"
#include "tests/gpu/device.h"
#include "tests/gpu/graph_timer.h"
#include "tests/gpu/nsa_run.h"
#include "tests/support/nsa_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

using Params = kernels::NsaVerifyParams<Bf16>;

// Pages of a sequence's rows among those of a pool, in any order.
std::vector<std::int32_t> shuffled_pages(std::size_t rows, std::mt19937_64& rng) {
  std::vector<std::int32_t> page((rows + kernels::kPageRows - 1) / kernels::kPageRows * 2 + 3);
  std::iota(page.begin(), page.end(), 0);
  std::shuffle(page.begin(), page.end(), rng);
  return page;
}

// A chain whose rows lie in caches behind the committed ones, and NaNs behind those. With `pages`
// they lie in shuffled pages, and behind and between them others' rows, which are numbers.
struct PromptProblem {
  NsaBuffers<Bf16> host;
  std::int64_t width;
  std::vector<std::int32_t> page, compressed_page;  // empty: side by side
  DeviceArray<std::int32_t> page_table, compressed_table;
  DeviceArray<Bf16> q, k, v, k_cmp, v_cmp, gates, out;
  DeviceArray<std::int32_t> indices;
  std::optional<DeviceArray<unsigned char>> scratch;
  Params p;

  explicit PromptProblem(const NsaCase& c, std::mt19937_64* pages = nullptr)
      : host(c),
        width(host.params().num_kv_heads * host.params().head_dim),
        page(pages_for(host.k.size() + host.k_tree.size(), pages)),
        compressed_page(pages_for(host.k_cmp.size() + host.k_cmp_tree.size(), pages)),
        page_table(page),
        compressed_table(compressed_page),
        q(host.q),
        k(behind(host.k, host.k_tree, page)),
        v(behind(host.v, host.v_tree, page)),
        k_cmp(behind(host.k_cmp, host.k_cmp_tree, compressed_page)),
        v_cmp(behind(host.v_cmp, host.v_cmp_tree, compressed_page)),
        gates(host.gates),
        out(host.out),
        indices(host.indices),
        p(params()) {
    REQUIRE(kernels::prompt_takes(p));
    scratch.emplace(std::vector<unsigned char>(kernels::prompt_scratch_bytes(p), 0xFF));
  }

  void launch(cudaStream_t stream = nullptr) const {
    kernels::LaunchContext context;
    context.stream = stream;
    context.scratch = scratch->data();
    context.scratch_bytes = kernels::prompt_scratch_bytes(p);
    kernels::launch_nsa_prompt(p, context);
  }
  NsaResult run() {
    launch();
    kernels::check(cudaDeviceSynchronize());
    out.read(host.out);
    indices.read(host.indices);
    return host.result();
  }

 private:
  std::vector<std::int32_t> pages_for(std::size_t elements, std::mt19937_64* rng) const {
    return rng == nullptr ? std::vector<std::int32_t>()
                          : shuffled_pages(elements / static_cast<std::size_t>(width), *rng);
  }
  std::vector<Bf16> behind(std::vector<Bf16> committed, const std::vector<Bf16>& rows,
                           const std::vector<std::int32_t>& pages) const {
    committed.insert(committed.end(), rows.begin(), rows.end());
    if (pages.empty()) {
      committed.resize(committed.size() + 4096, to_bf16(std::numeric_limits<float>::quiet_NaN()));
      return committed;
    }
    const auto row = static_cast<std::size_t>(width);
    std::vector<Bf16> pool(pages.size() * kernels::kPageRows * row, to_bf16(3.0F));
    for (std::size_t i = 0; i < committed.size() / row; ++i) {
      const std::size_t to = kernels::row_in_page(pages.data(), i);
      std::copy_n(committed.begin() + static_cast<std::ptrdiff_t>(i * row), row,
                  pool.begin() + static_cast<std::ptrdiff_t>(to * row));
    }
    return pool;
  }
  Params params() {
    Params of = host.params();
    of.form = kernels::NsaForm::kFused;
    of.q = q.data();
    of.k = k.data();
    of.v = v.data();
    of.k_cmp = k_cmp.data();
    of.v_cmp = v_cmp.data();
    of.k_tree = of.k + of.context_len * width;
    of.v_tree = of.v + of.context_len * width;
    of.k_cmp_tree = of.k_cmp + of.num_compressed * width;
    of.v_cmp_tree = of.v_cmp + of.num_compressed * width;
    if (!page.empty()) {
      of.pages = {page_table.data(), std::ssize(page)};
      of.compressed_pages = {compressed_table.data(), std::ssize(compressed_page)};
      of.k_tree = of.v_tree = of.k_cmp_tree = of.v_cmp_tree = nullptr;
    }
    of.gates = gates.data();
    of.parent = of.position = of.cmp_tree_owner = nullptr;  // a chain's
    of.out = out.data();
    of.indices = indices.data();
    of.importance = nullptr;
    return of;
  }
};

std::int64_t pick(std::mt19937_64& rng, std::initializer_list<std::int64_t> values) {
  return *(values.begin() + rng() % values.size());
}

NsaCaseShape random_prompt_shape(std::mt19937_64& rng) {
  NsaCaseShape shape;
  const std::int64_t stride = pick(rng, {4, 8, 16, 16, 16, 32});
  shape.nsa = {.cmp_block = 2 * stride,
               .cmp_stride = stride,
               .sel_block = 4 * stride,
               .sel_count = pick(rng, {3, 5, 8, 16, 16, 20, 40}),
               .init_blocks = pick(rng, {0, 1, 1}),
               .local_blocks = pick(rng, {0, 1, 2, 2}),
               .window = pick(rng, {0, 1, 17, 64, 100, 512})};
  shape.kv_heads = pick(rng, {1, 2, 3});
  shape.heads = shape.kv_heads * pick(rng, {1, 2, 3, 4, 4, 4, 8, 16});
  shape.head_dim = pick(rng, {16, 48, 64, 64, 64, 80, 128, 128});
  shape.context_len = static_cast<std::int64_t>(
      rng() % static_cast<std::uint64_t>(pick(rng, {1, 300, 3000, 9000})));
  shape.nodes = 1 + static_cast<std::int64_t>(
                        rng() % static_cast<std::uint64_t>(pick(rng, {5, 70, 256, 256})));
  shape.tree = TreeForm::kChain;
  return shape;
}

void check_prompt(const NsaCaseShape& shape, std::mt19937_64& rng) {
  CAPTURE(shape.text(), test_seed());
  const NsaCase c = rounded<Bf16>(make_nsa_case(shape, rng));
  const NsaResult fused = run_nsa<Bf16>(c, {kernels::NsaForm::kFused});
  PromptProblem problem(c);
  NsaResult prompt = problem.run();
  CHECK(prompt.indices == fused.indices);
  CHECK(prompt.out == fused.out);
  prompt.importance = fused.importance;  // what chose the same blocks
  CHECK(disagreement(c, prompt, tolerance_of<Bf16>()) == "");
  PromptProblem paged(c, &rng);
  const NsaResult in_pages = paged.run();
  CHECK(in_pages.indices == fused.indices);
  CHECK(in_pages.out == fused.out);
}

NsaCaseShape shape_of(std::int64_t context, std::int64_t nodes, std::int64_t head_dim = 64) {
  NsaCaseShape shape;
  shape.nsa = {32, 16, 64, 16, 1, 2, 512};
  shape.heads = 8;
  shape.kv_heads = 2;
  shape.head_dim = head_dim;
  shape.context_len = context;
  shape.nodes = nodes;
  shape.tree = TreeForm::kChain;
  return shape;
}

}  // namespace

TEST_CASE("a prompt's rows in one launch have the bits of the fused launches", "[prompt]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 60; ++i) {
    check_prompt(random_prompt_shape(rng), rng);
  }
  for (NsaCaseShape shape : adversarial_nsa_shapes()) {
    shape.tree = TreeForm::kChain;
    check_prompt(shape, rng);
  }
}

TEST_CASE("a prompt's rows behind long contexts", "[prompt]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  check_prompt(shape_of(20000, 130), rng);
  check_prompt(shape_of(65521, 70), rng);
  check_prompt(shape_of(33000, 70, 128), rng);
}

TEST_CASE("few rows of a prompt", "[prompt][race]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  check_prompt(shape_of(700, 150), rng);
  check_prompt(shape_of(300, 40, 128), rng);
  check_prompt(shape_of(0, 33), rng);
}

TEST_CASE("what a prompt's rows take", "[.timing]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const std::int64_t context : {0, 2048, 14336}) {
    for (const std::int64_t rows : {64, 128, 256, 512, 1024, 2048}) {
      NsaCaseShape shape = shape_of(context, rows);
      shape.heads = 32;
      shape.kv_heads = 8;
      const PromptProblem problem(make_nsa_case(shape, rng));
      GraphTimer timer;
      std::printf("nsa_prompt, %lld rows behind %lld: %.1f us\n", static_cast<long long>(rows),
                  static_cast<long long>(context),
                  timer.us(4, [&](cudaStream_t stream) { problem.launch(stream); }));
    }
  }
}
