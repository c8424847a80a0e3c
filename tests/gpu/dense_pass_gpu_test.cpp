// The dense pass of a chain by wgmma (kernels/dense_pass): against plain loops in double, under
// every cut, and its launches against those that the model prices.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "kernels/common/launch_observer.h"
#include "kernels/launch.h"
#include "model/launches/dense_attention.h"
#include "model/launches/dense_pass.h"
#include "model/launches/step_shape.h"
#include "tests/gpu/device.h"
#include "tests/support/nsa_case.h"
#include "tests/support/rounding.h"
#include "tests/support/tree_attention_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

struct Shape {
  std::int64_t context, queries, head_dim = 64, group = 4, kv_heads = 2;
};

TreeAttentionCase make_case(const Shape& s, std::mt19937_64& rng) {
  TreeAttentionCase c{
      .heads = s.kv_heads * s.group, .kv_heads = s.kv_heads, .head_dim = s.head_dim};
  c.context_len = s.context;
  for (std::int32_t i = 0; i < s.queries; ++i) {
    c.parent.push_back(i - 1);
    c.position.push_back(static_cast<std::int32_t>(s.context) + i);
    c.query_node.push_back(i);
  }
  const std::int64_t width = s.kv_heads * s.head_dim;
  c.q = random_rows(rng, s.queries * c.heads * s.head_dim);
  c.k = random_rows(rng, s.context * width);
  c.v = random_rows(rng, s.context * width);
  c.k_tree = random_rows(rng, s.queries * width);
  c.v_tree = random_rows(rng, s.queries * width);
  return c;
}

struct Launches : kernels::LaunchObserver {
  std::vector<std::pair<std::string, Traffic>> seen;
  void launch_begins(const char* name, const Traffic& traffic) override {
    seen.emplace_back(name, traffic);
  }
  void launch_ends(const char*) override {}
};

// With slack the length comes from device memory, so much below the bound, and rows of NaN follow.
std::vector<double> run(const TreeAttentionCase& c, std::int64_t slack = 0,
                        kernels::LaunchObserver* observer = nullptr) {
  TreeAttentionBuffers<Bf16> host(c);
  const auto poisoned = [&](std::vector<Bf16> rows) {
    rows.resize(rows.size() + static_cast<std::size_t>(slack * c.kv_heads * c.head_dim),
                narrowed<Bf16>(NAN));
    return rows;
  };
  const DeviceArray<Bf16> q(host.q), k(poisoned(host.k)), v(poisoned(host.v)), k_tree(host.k_tree),
      v_tree(host.v_tree), out(host.out);
  const DeviceArray<kernels::StepCounts> counts(
      {kernels::StepCounts{.context_len = static_cast<std::int32_t>(c.context_len)}});
  kernels::TreeAttentionParams<Bf16> p = host.params();
  p.counts = slack > 0 ? counts.data() : nullptr;
  p.context_len += slack;
  p.query_node = p.parent = p.position = nullptr;
  p.splits_chain = true;
  p.dense_pass = true;
  p.q = q.data();
  p.k = k.data();
  p.v = v.data();
  p.k_tree = k_tree.data();
  p.v_tree = v_tree.data();
  p.out = out.data();
  REQUIRE(kernels::dense_pass_takes(p));
  const std::size_t bytes = kernels::dense_pass_scratch_bytes(p);
  const DeviceArray<std::uint8_t> scratch(bytes);
  kernels::check(cudaMemset(scratch.data(), 0xFF, bytes));
  kernels::LaunchContext context;
  context.scratch = scratch.data();
  context.scratch_bytes = bytes;
  context.observer = observer;
  kernels::launch_dense_pass(p, context);
  kernels::check(cudaDeviceSynchronize());
  out.read(host.out);
  return host.result();
}

double error_of(const TreeAttentionCase& c, const std::vector<double>& got) {
  return relative_norm(plain_tree_attention<Bf16>(c), got) / tolerance_of<Bf16>().norm;
}

}  // namespace

TEST_CASE("the dense pass of a chain agrees with plain loops", "[pass]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const std::int64_t head_dim : {64, 128}) {
    for (const Shape& s :
         {Shape{0, 17}, Shape{0, 130}, Shape{1, 32}, Shape{127, 33}, Shape{128, 32}, Shape{129, 32},
          Shape{1000, 64}, Shape{1111, 100}, Shape{4099, 32}, Shape{4099, 127}, Shape{4096, 128},
          Shape{777, 300}, Shape{500, 65, 64, 1}, Shape{500, 29, 64, 7, 3},
          Shape{500, 5, 64, 16, 1}, Shape{9001, 40, 64, 4, 8}}) {
      Shape shape = s;
      shape.head_dim = head_dim;
      CAPTURE(head_dim, s.context, s.queries, s.group, s.kv_heads, test_seed());
      const TreeAttentionCase c = make_case(shape, rng);
      const std::vector<double> got = run(c);
      CHECK(error_of(c, got) <= 1.0);
      CHECK(run(c) == got);
    }
  }
}

TEST_CASE("the dense pass reads its length on the device", "[pass]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const std::int64_t head_dim : {64, 128}) {
    for (const std::int64_t context : {0, 1, 128, 1000, 1025}) {
      for (const std::int64_t slack : {1, 130, 9000}) {
        CAPTURE(head_dim, context, slack, test_seed());
        const TreeAttentionCase c = make_case({context, 40, head_dim}, rng);
        CHECK(error_of(c, run(c, slack)) <= 1.0);
      }
    }
  }
}

// For checkers that slow kernels a thousandfold.
TEST_CASE("a small dense pass agrees with plain loops", "[pass][race]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const std::int64_t head_dim : {64, 128}) {
    const TreeAttentionCase c = make_case({1700, 33, head_dim, 4, 1}, rng);
    CHECK(error_of(c, run(c)) <= 1.0);
    CHECK(error_of(c, run(c, 50)) <= 1.0);
  }
}

TEST_CASE("scores far apart leave the dense pass exact", "[pass]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  TreeAttentionCase c = make_case({1500, 40}, rng);
  for (double& x : c.q) {
    x *= 60.0;  // weights down to 2^-1000 and below
  }
  CHECK(error_of(c, run(c)) <= 1.0);
}

TEST_CASE("chains that must keep their bits are not the dense pass's") {
  kernels::TreeAttentionParams<Bf16> p{.num_heads = 32,
                                       .num_kv_heads = 8,
                                       .head_dim = 64,
                                       .context_len = 1000,
                                       .num_queries = 32,
                                       .num_nodes = 32,
                                       .splits_chain = true,
                                       .dense_pass = true};
  CHECK(kernels::dense_pass_takes(p));
  p.dense_pass = false;
  CHECK_FALSE(kernels::dense_pass_takes(p));
  p.dense_pass = true;
  p.num_queries = p.num_nodes = 16;  // rows that flash_decode takes faster
  CHECK_FALSE(kernels::dense_pass_takes(p));
  p.num_queries = p.num_nodes = 17;
  CHECK(kernels::dense_pass_takes(p));
  p.head_dim = 80;
  CHECK_FALSE(kernels::dense_pass_takes(p));
}

TEST_CASE("what a price says of a rectification is what the dense pass launches", "[pass]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const std::int64_t queries : {32, 128}) {
    const TreeAttentionCase c = make_case({3000, queries, 64, 4, 8}, rng);
    Launches launches;
    run(c, 0, &launches);
    StepShape shape;
    shape.target = named_llm_shape("nsa-1b");
    shape.target.attention = AttentionKind::kDense;
    shape.context_len = 3000;
    shape.num_queries = queries;
    shape.dense.rewrites = true;
    REQUIRE(shape.target.num_heads == 32);
    REQUIRE(shape.target.num_kv_heads == 8);
    REQUIRE(shape.target.head_dim == 64);
    StepWork work;
    add_dense_attention(shape, 1.0, work);
    REQUIRE(work.count == launches.seen.size());
    for (std::size_t i = 0; i < work.count; ++i) {
      CAPTURE(queries, launches.seen[i].first);
      CHECK(path_of(work.work[i].kind) == launches.seen[i].first);
      CHECK(work.work[i].unique.total() == Approx(launches.seen[i].second.total()));
    }
  }
}
