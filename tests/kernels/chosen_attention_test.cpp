// Attention over chosen tokens against attention over a cache that holds nothing else, and the
// head-averaged weights against plain loops.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "kernels/cpu.h"
#include "tests/support/nsa_case.h"
#include "tests/support/rounding.h"
#include "tests/support/tree_attention_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

TreeAttentionCase windowless_case(std::mt19937_64& rng) {
  TreeAttentionCase c = random_tree_attention_case(rng, false);
  c.window = 0;
  c.first_position = 0;
  return c;
}

std::vector<std::int32_t> random_subset(std::int64_t length, std::mt19937_64& rng) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < length; ++i) {
    if (rng() % 3 == 0) {
      tokens.push_back(i);
    }
  }
  return tokens;
}

// The same problem with a cache of only those rows.
TreeAttentionCase kept(const TreeAttentionCase& c, const std::vector<std::int32_t>& tokens) {
  const std::int64_t width = c.kv_heads * c.head_dim;
  TreeAttentionCase r = c;
  r.k.clear();
  r.v.clear();
  for (const std::int32_t token : tokens) {
    r.k.insert(r.k.end(), c.k.begin() + token * width, c.k.begin() + (token + 1) * width);
    r.v.insert(r.v.end(), c.v.begin() + token * width, c.v.begin() + (token + 1) * width);
  }
  r.context_len = static_cast<std::int64_t>(tokens.size());
  return r;
}

template <class T>
std::vector<double> run(const TreeAttentionCase& c, const kernels::SelectedTokens& selected) {
  TreeAttentionBuffers<T> buffers(c);
  kernels::TreeAttentionParams<T> p = buffers.params();
  p.selected = selected;
  kernels::tree_attention_cpu<T>(p, 2);
  return buffers.result();
}

const std::int32_t kNone = 0;  // a list of nothing still has an address

kernels::SelectedTokens list_of(const std::vector<std::int32_t>& tokens) {
  return {.token = tokens.empty() ? &kNone : tokens.data(),
          .count = static_cast<std::int64_t>(tokens.size())};
}

}  // namespace

TEMPLATE_TEST_CASE("attention over chosen tokens sees them and the path, nothing else", "", double,
                   float, Bf16) {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 40; ++i) {
    const TreeAttentionCase c = windowless_case(rng);
    const std::vector<std::int32_t> tokens = random_subset(c.context_len, rng);
    CAPTURE(c.text(), test_seed());
    CHECK(relative_norm(plain_tree_attention<TestType>(kept(c, tokens)),
                        run<TestType>(c, list_of(tokens))) <= tolerance_of<TestType>().norm);
  }
}

TEST_CASE("choosing all tokens gives the bits of choosing none apart") {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 20; ++i) {
    const TreeAttentionCase c = windowless_case(rng);
    std::vector<std::int32_t> all(static_cast<std::size_t>(c.context_len));
    std::iota(all.begin(), all.end(), 0);
    CHECK(run<float>(c, list_of(all)) == run<float>(c, {}));
  }
}

TEST_CASE("each KV head may have its own list of chosen tokens") {
  std::mt19937_64 rng(test_seed());
  TreeAttentionCase c = windowless_case(rng);
  while (c.kv_heads != 2 || c.context_len < 4) {
    c = windowless_case(rng);
  }
  const std::vector<std::int32_t> lists = {0, 2, 1, 3};
  const std::vector<double> got =
      run<double>(c, {.token = lists.data(), .count = 2, .per_kv_head = true});
  const std::int64_t half = c.heads * c.head_dim / 2;
  for (const std::int64_t g : {0, 1}) {
    const std::vector<std::int32_t> own(lists.begin() + 2 * g, lists.begin() + 2 * g + 2);
    const std::vector<double> want = run<double>(c, list_of(own));
    for (std::size_t i = 0; i < c.query_node.size(); ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * 2 * half + g * half;
      CHECK(std::equal(got.begin() + first, got.begin() + first + half, want.begin() + first));
    }
  }
}

TEMPLATE_TEST_CASE("attention weights are the mean softmax over heads, by position", "", double,
                   float, Bf16) {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 30; ++i) {
    const TreeAttentionCase c = windowless_case(rng);
    CAPTURE(c.text(), test_seed());
    const TreeAttentionCase last = decoded_last(c, 0);  // the plain answer: one node over a cache
    const std::int64_t length = last.context_len + 1;
    const std::vector<double> q = rounded_rows<TestType>(last.q);
    std::vector<double> keys = rounded_rows<TestType>(last.k);
    const std::vector<double> own = rounded_rows<TestType>(last.k_tree);
    keys.insert(keys.end(), own.begin(), own.end());
    std::vector<double> want(static_cast<std::size_t>(length), 0.0);
    for (std::int64_t h = 0; h < c.heads; ++h) {
      std::vector<double> row;
      double sum = 0.0;
      for (std::int64_t t = 0; t < length; ++t) {
        double score = 0.0;
        for (std::int64_t e = 0; e < c.head_dim; ++e) {
          score += q[static_cast<std::size_t>(h * c.head_dim + e)] *
                   keys[static_cast<std::size_t>(
                       (t * c.kv_heads + h * c.kv_heads / c.heads) * c.head_dim + e)];
        }
        row.push_back(std::exp(score / std::sqrt(static_cast<double>(c.head_dim))));
        sum += row.back();
      }
      for (std::size_t t = 0; t < row.size(); ++t) {
        want[t] += row[t] / sum / static_cast<double>(c.heads);
      }
    }
    // Of the tree itself, not of the cache the plain answer was given.
    TreeAttentionBuffers<TestType> buffers(c);
    using S = kernels::SumOf<TestType>;
    std::vector<S> got(static_cast<std::size_t>(length + 1), S{-7});
    kernels::attention_weights_cpu<TestType>(
        {.num_heads = c.heads,
         .num_kv_heads = c.kv_heads,
         .head_dim = c.head_dim,
         .context_len = c.context_len,
         .num_nodes = static_cast<std::int64_t>(c.parent.size()),
         .query_node = c.query_node[0],
         .parent = c.parent.data(),
         .q = buffers.q.data(),
         .k = buffers.k.data(),
         .k_tree = buffers.k_tree.data(),
         .weights = got.data()},
        2);
    CHECK(got.back() == S{-7});  // nothing is written beyond the node's own position
    got.pop_back();
    CHECK(relative_norm(want, {got.begin(), got.end()}) <= tolerance_of<TestType>().norm);
  }
}
