// Attention of trees and chains split over the keys (kernels/flash_decode), over all tokens and
// over listed ones: against plain loops in double, and bit for bit against a node's own decoding
// step.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <string>

#include "kernels/launch.h"
#include "tests/gpu/device.h"
#include "tests/support/nsa_case.h"
#include "tests/support/rounding.h"
#include "tests/support/tree_attention_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

using Ints = std::vector<std::int32_t>;

// How a problem is posed.
struct Form {
  bool chain = false;  // says so
  std::int64_t slack =
      0;  // above 0: the length comes from device memory, this much below the bound
  const Ints* tokens = nullptr;
  bool per_kv_head = false;
};

// Rows that no result may depend on follow the cache.
DeviceArray<Bf16> cache_of(std::vector<Bf16> rows, std::int64_t slack, std::int64_t width) {
  rows.resize(rows.size() + static_cast<std::size_t>(slack * width), narrowed<Bf16>(NAN));
  return DeviceArray<Bf16>(rows);
}

std::vector<double> run(const TreeAttentionCase& c, const Form& form = {}) {
  TreeAttentionBuffers<Bf16> host(c);
  kernels::TreeAttentionParams<Bf16> p = host.params();
  const std::int64_t width = c.kv_heads * c.head_dim;
  const DeviceArray<Bf16> q(host.q), k(cache_of(host.k, form.slack, width)),
      v(cache_of(host.v, form.slack, width)), k_tree(host.k_tree), v_tree(host.v_tree),
      out(host.out);
  const DeviceArray<std::int32_t> parent(c.parent), position(c.position), query_node(c.query_node),
      tokens(form.tokens == nullptr ? Ints{} : *form.tokens);
  const DeviceArray<kernels::StepCounts> counts(
      {kernels::StepCounts{.context_len = static_cast<std::int32_t>(c.context_len)}});
  p.counts = form.slack > 0 ? counts.data() : nullptr;
  p.context_len += form.slack;
  p.query_node = form.chain ? nullptr : query_node.data();
  p.splits_chain = form.chain;
  p.parent = form.chain ? nullptr : parent.data();
  p.position = form.chain ? nullptr : position.data();
  p.q = q.data();
  p.k = k.data();
  p.v = v.data();
  p.k_tree = k_tree.data();
  p.v_tree = v_tree.data();
  p.out = out.data();
  if (form.tokens != nullptr) {
    const std::int64_t lists = form.per_kv_head ? c.kv_heads : 1;
    p.selected = {.token = tokens.data(),
                  .count = static_cast<std::int64_t>(form.tokens->size()) / lists,
                  .per_kv_head = form.per_kv_head};
  }
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

struct Shape {
  std::int64_t context, nodes, head_dim = 64, group = 4;
  bool chain = false;
};

TreeAttentionCase make_case(const Shape& s, std::mt19937_64& rng) {
  TreeAttentionCase c{.heads = 2 * s.group, .kv_heads = 2, .head_dim = s.head_dim};
  c.context_len = s.context;
  for (std::int32_t i = 0; i < s.nodes; ++i) {
    const std::int32_t back =
        i == 0 || s.chain ? 1 : 1 + static_cast<std::int32_t>(rng() % std::min(3, i));
    const std::int32_t parent = i - back;
    c.parent.push_back(parent);
    c.position.push_back(parent < 0 ? static_cast<std::int32_t>(s.context)
                                    : c.position[static_cast<std::size_t>(parent)] + 1);
    c.query_node.push_back(i);
  }
  const std::int64_t width = c.kv_heads * c.head_dim;
  c.q = random_rows(rng, s.nodes * c.heads * s.head_dim);
  c.k = random_rows(rng, s.context * width);
  c.v = random_rows(rng, s.context * width);
  c.k_tree = random_rows(rng, s.nodes * width);
  c.v_tree = random_rows(rng, s.nodes * width);
  return c;
}

// About a third of the tokens: single ones, or chunks of 16 positions.
Ints some_tokens(std::int64_t context, bool chunks, std::mt19937_64& rng) {
  Ints tokens;
  bool chosen = false;
  for (std::int32_t t = 0; t < context; ++t) {
    chosen = chunks && t % 16 != 0 ? chosen : rng() % 3 == 0;
    if (chosen) {
      tokens.push_back(t);
    }
  }
  return tokens;
}

// The problem whose whole cache is the listed tokens.
TreeAttentionCase kept(const TreeAttentionCase& c, const Ints& tokens) {
  const std::int64_t width = c.kv_heads * c.head_dim;
  TreeAttentionCase r = c;
  r.k.clear();
  r.v.clear();
  for (const std::int32_t token : tokens) {
    r.k.insert(r.k.end(), c.k.begin() + token * width, c.k.begin() + (token + 1) * width);
    r.v.insert(r.v.end(), c.v.begin() + token * width, c.v.begin() + (token + 1) * width);
  }
  r.context_len = static_cast<std::int64_t>(tokens.size());
  for (std::int32_t& position : r.position) {
    position -= static_cast<std::int32_t>(c.context_len - r.context_len);
  }
  return r;
}

double error_of(const TreeAttentionCase& c, const std::vector<double>& got) {
  return relative_norm(plain_tree_attention<Bf16>(c), got) / tolerance_of<Bf16>().norm;
}

// Every third node as a tree of its own over what is committed by then.
void check_alone(const TreeAttentionCase& c, const std::vector<double>& whole) {
  for (std::size_t query = 0; query < c.query_node.size(); query += 3) {
    const std::int64_t row = static_cast<std::int64_t>(query);
    const std::vector<double> alone = run(decoded_last(c, row), {.chain = true});
    CAPTURE(query);
    CHECK(std::equal(alone.begin(), alone.end(), whole.begin() + row * c.heads * c.head_dim));
  }
}

}  // namespace

TEST_CASE("split attention of a tree agrees with plain loops", "[flash][tree]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const std::int64_t head_dim : {64, 128}) {
    for (const auto& [context, nodes] :
         {std::pair(0, 2), std::pair(0, 40), std::pair(63, 2), std::pair(64, 5), std::pair(250, 9),
          std::pair(1000, 3), std::pair(1000, 33), std::pair(777, 150)}) {
      for (const std::int64_t group : {1, 4, 7, 16}) {
        CAPTURE(head_dim, context, nodes, group, test_seed());
        TreeAttentionCase c = make_case({context, nodes, head_dim, group}, rng);
        CHECK(error_of(c, run(c)) <= 1.0);
        // Some nodes ask, in any order.
        std::shuffle(c.query_node.begin(), c.query_node.end(), rng);
        c.query_node.resize(static_cast<std::size_t>(1 + nodes / 2));
        c.q.resize(c.query_node.size() * static_cast<std::size_t>(c.heads * head_dim));
        CHECK(error_of(c, run(c)) <= 1.0);
      }
    }
  }
}

// For checkers that slow kernels a thousandfold.
TEST_CASE("a node of a small split tree has the bits of its own decoding step", "[flash][race]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  const TreeAttentionCase c = make_case({190, 6, 128}, rng);
  const std::vector<double> whole = run(c);
  check_alone(c, whole);
  const Ints tokens = some_tokens(190, true, rng);
  CHECK(error_of(kept(c, tokens), run(c, {.tokens = &tokens})) <= 1.0);
}

TEST_CASE("a split tree's bits hold where chunks grow, and with counts", "[flash][tree]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  // At powers of two from 8,192 on chunks may double; those of 256 end chunks on the path.
  for (const Shape& s : {Shape{0, 30}, Shape{190, 12, 128, 4}, Shape{500, 33}, Shape{230, 64},
                         Shape{256, 20}, Shape{512, 140, 64, 1}, Shape{8192 - 9, 20, 64, 2},
                         Shape{16384 - 9, 40, 64, 2}, Shape{16384 + 300, 20, 128, 2}}) {
    CAPTURE(s.context, s.nodes, test_seed());
    const TreeAttentionCase c = make_case(s, rng);
    const std::vector<double> whole = run(c);
    CHECK(error_of(c, whole) <= 1.0);
    CHECK(run(c, {.slack = 5000}) == whole);
    check_alone(c, whole);
  }
}

TEST_CASE("a chain has the same bits as a tree", "[flash][tree]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const Shape& s : {Shape{0, 1}, Shape{100, 8, 64, 4, true}, Shape{1000, 70, 128, 7, true},
                         Shape{2000, 300, 64, 4, true}}) {
    CAPTURE(s.context, s.nodes, test_seed());
    const TreeAttentionCase c = make_case(s, rng);
    CHECK(run(c, {.chain = true}) == run(c));
  }
}

TEST_CASE("split attention over listed tokens sees them and the path", "[flash][tree]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const bool chain : {false, true}) {
    for (const auto& [context, nodes] :
         {std::pair(0, 3), std::pair(5, 4), std::pair(700, 8), std::pair(3000, 20)}) {
      for (const std::int64_t head_dim : {64, 128}) {
        for (const bool chunks : {false, true}) {
          CAPTURE(chain, context, nodes, head_dim, chunks, test_seed());
          const TreeAttentionCase c = make_case({context, nodes, head_dim, 4, chain}, rng);
          const Ints tokens = some_tokens(context, chunks, rng);
          const std::vector<double> got = run(c, {.chain = chain, .tokens = &tokens});
          CHECK(error_of(kept(c, tokens), got) <= 1.0);
          CHECK(run(kept(c, tokens)) == got);  // places are what counts
        }
      }
    }
  }
}

TEST_CASE("a list of all tokens gives the dense bits, one a KV head its own", "[flash][tree]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  const TreeAttentionCase c = make_case({1234, 11}, rng);
  Ints all(1234);
  std::iota(all.begin(), all.end(), 0);
  CHECK(run(c, {.tokens = &all}) == run(c));
  Ints first = some_tokens(1234, true, rng);
  Ints second = some_tokens(1234, false, rng);
  first.resize(std::min(first.size(), second.size()));
  second.resize(first.size());
  Ints both = first;
  both.insert(both.end(), second.begin(), second.end());
  const std::vector<double> a = run(c, {.tokens = &first}), b = run(c, {.tokens = &second});
  const std::vector<double> got = run(c, {.tokens = &both, .per_kv_head = true});
  const std::ptrdiff_t half = c.heads / 2 * c.head_dim;
  for (std::ptrdiff_t query = 0; query < 11; ++query) {
    const auto row = got.begin() + 2 * half * query;
    CHECK(std::equal(row, row + half, a.begin() + 2 * half * query));
    CHECK(std::equal(row + half, row + 2 * half, b.begin() + 2 * half * query + half));
  }
}
