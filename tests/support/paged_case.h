// Problems whose committed rows lie scattered over pages of 64, as a pool holds them, through any
// Ops: do they have the bits that rows side by side give?
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/ops_together.h"
#include "tests/support/nsa_case.h"
#include "tests/support/resa_case.h"
#include "tests/support/rounding.h"
#include "tests/support/tree_attention_case.h"

namespace versieve::testing {

// Pages for so many rows and one more, in an order of their own among others'.
struct ScatteredPages {
  std::vector<std::int32_t> page;
  std::int64_t count = 0;

  ScatteredPages() = default;
  ScatteredPages(std::int64_t rows, std::mt19937_64& rng) : count(rows / kernels::kPageRows + 4) {
    page.resize(static_cast<std::size_t>(count));
    std::iota(page.begin(), page.end(), 0);
    std::shuffle(page.begin(), page.end(), rng);
    page.resize(static_cast<std::size_t>(rows / kernels::kPageRows + 1));
  }
  bool none() const { return page.empty(); }
};

// A cache of rows as the Ops sees it, and its table.
template <class T>
struct PlacedRows {
  kernels::OpsBuffer<T> rows;
  kernels::OpsBuffer<T, std::int32_t> page;
  std::int64_t count = 0;

  // `other`: what rows hold that nobody has written.
  PlacedRows(kernels::Ops<T>& ops, const std::vector<T>& own, std::int64_t width,
             const ScatteredPages& pages, T other) {
    std::vector<T> all = own;
    if (!pages.none()) {
      constexpr std::int64_t kRows = kernels::kPageRows;
      all.assign(static_cast<std::size_t>(pages.count * kRows * width), other);
      for (std::int64_t row = 0; row * width < std::ssize(own); ++row) {
        const std::int64_t to = kernels::row_in_page(pages.page.data(), row);
        std::copy_n(own.begin() + row * width, width, all.begin() + to * width);
      }
      page = {ops, pages.page};
      count = pages.count;
    }
    all.resize(std::max<std::size_t>(all.size(), static_cast<std::size_t>(width)), other);
    rows = {ops, all};
  }
  kernels::PageTable table() const { return {.page = page.data(), .count = count}; }
};

struct NsaPages {
  ScatteredPages tokens, compressed;

  NsaPages() = default;
  NsaPages(const NsaCase& c, std::mt19937_64& rng)
      : tokens(c.shape.context_len, rng),
        compressed(compressed_count(c.shape.nsa, c.shape.context_len), rng) {}
};

// One call, or `together` a step of so many layers with that call twice, of which the last one's
// second answer counts.
template <class T>
NsaResult run_paged(kernels::Ops<T>& ops, const NsaCase& c, kernels::NsaForm form,
                    const NsaPages& pages, bool together = false) {
  NsaBuffers<T> host(c);
  kernels::NsaVerifyParams<T> p = host.params();
  p.form = form;
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  const T other = narrowed<T>(3000.0);  // finite
  const PlacedRows<T> k(ops, host.k, width, pages.tokens, other),
      v(ops, host.v, width, pages.tokens, other),
      k_cmp(ops, host.k_cmp, width, pages.compressed, other),
      v_cmp(ops, host.v_cmp, width, pages.compressed, other);
  // A step's buffers have a row a node, of compressed tokens too.
  const auto upload = [&](std::vector<T> values) {
    const std::size_t least = static_cast<std::size_t>(p.num_queries * width);
    values.resize(std::max(values.size(), least), other);
    return kernels::OpsBuffer<T>(ops, values);
  };
  const kernels::OpsBuffer<T> q(upload(host.q)), k_tree(upload(host.k_tree)),
      v_tree(upload(host.v_tree)), k_cmp_tree(upload(host.k_cmp_tree)),
      v_cmp_tree(upload(host.v_cmp_tree)), gates(upload(host.gates)), out(ops, host.out);
  using Ints = kernels::OpsBuffer<T, std::int32_t>;
  std::vector<std::int32_t> owners = c.owner;
  owners.resize(static_cast<std::size_t>(p.num_queries), static_cast<std::int32_t>(p.num_queries));
  const Ints parent(ops, c.parent), position(ops, c.position), owner(ops, owners),
      indices(ops, host.indices);
  const kernels::OpsBuffer<T, kernels::SumOf<T>> importance(ops, host.importance);
  p.q = q.data();
  p.pages = k.table();
  p.compressed_pages = k_cmp.table();
  p.k = k.rows.data();
  p.v = v.rows.data();
  p.k_cmp = k_cmp.rows.data();
  p.v_cmp = v_cmp.rows.data();
  p.k_tree = k_tree.data();
  p.v_tree = v_tree.data();
  p.k_cmp_tree = k_cmp_tree.data();
  p.v_cmp_tree = v_cmp_tree.data();
  p.gates = gates.data();
  p.parent = parent.data();
  p.position = position.data();
  p.cmp_tree_owner = owner.data();
  p.out = out.data();
  p.indices = indices.data();
  p.importance = together ? nullptr : importance.data();
  Ints given;
  if (!c.indices_in.empty()) {
    given = Ints(ops, c.indices_in);
    p.indices_in = given.data();
  }
  if (together) {
    const kernels::OpsBuffer<T> first_out(ops, host.out);
    const Ints first_indices(ops, host.indices);
    kernels::NsaStepParams<T> step{.layers = 1,
                                   .cache_rows = k.rows.count() / width,
                                   .compressed_rows = k_cmp.rows.count() / width,
                                   .tree_rows = k_tree.count() / width,
                                   .k = p.k,
                                   .v = p.v,
                                   .k_cmp = p.k_cmp,
                                   .v_cmp = p.v_cmp,
                                   .k_tree = p.k_tree,
                                   .v_tree = p.v_tree,
                                   .k_cmp_tree = p.k_cmp_tree,
                                   .v_cmp_tree = p.v_cmp_tree,
                                   .indices_stride = indices.count()};
    kernels::NsaVerifyParams<T> first = p;
    first.out = first_out.data();
    first.indices = first_indices.data();
    step.calls = {{first, {}}, {p, {}}};
    kernels::prepare_nsa_step<T>(ops, step);
    kernels::nsa_verify_layer<T>(ops, step, 0);
    ops.synchronize();
  } else {
    ops.nsa_verify(p);
  }
  host.out = out.read();
  host.indices = indices.read();
  host.importance = importance.read();
  return host.result();
}

// How tree_attention is asked.
struct TreePages {
  ScatteredPages pages;
  bool chain = false;                                 // each node follows the one before it
  const std::vector<std::int32_t>* tokens = nullptr;  // listed ones
  bool weights = false;                               // also of the last query
  int calls = 1;                                      // of the same problem in one launch
  bool step = false;                                  // calls of a step of one layer
};

// Outputs, and the weights behind them.
template <class T>
std::vector<double> run_paged(kernels::Ops<T>& ops, const TreeAttentionCase& c,
                              const TreePages& form) {
  TreeAttentionBuffers<T> host(c);
  kernels::TreeAttentionParams<T> p = host.params();
  const std::int64_t width = c.kv_heads * c.head_dim;
  const T other = narrowed<T>(3000.0);
  const PlacedRows<T> k(ops, host.k, width, form.pages, other),
      v(ops, host.v, width, form.pages, other);
  using Ints = kernels::OpsBuffer<T, std::int32_t>;
  const Ints parent(ops, c.parent), position(ops, c.position), query_node(ops, c.query_node);
  const kernels::OpsBuffer<T> q(ops, host.q), k_tree(ops, host.k_tree), v_tree(ops, host.v_tree);
  Ints listed;
  if (form.tokens != nullptr) {
    listed = Ints(ops, *form.tokens);
    p.selected = {.token = listed.data(), .count = std::ssize(*form.tokens)};
  }
  p.query_node = form.chain ? nullptr : query_node.data();
  p.splits_chain = form.chain;
  p.parent = parent.data();
  p.position = position.data();
  p.q = q.data();
  p.pages = k.table();
  p.k = k.rows.data();
  p.v = v.rows.data();
  p.k_tree = k_tree.data();
  p.v_tree = v_tree.data();
  const std::int64_t positions = c.context_len + std::ssize(c.parent);  // of a chain
  const kernels::OpsBuffer<T, kernels::SumOf<T>> weights(ops, positions);
  p.weights = form.weights ? weights.data() : nullptr;
  std::vector<kernels::OpsBuffer<T>> outs;
  std::vector<kernels::TreeAttentionParams<T>> calls;
  for (int i = 0; i < form.calls; ++i) {
    outs.emplace_back(ops, host.out);
    calls.push_back(p);
    calls.back().out = outs.back().data();
  }
  if (form.step) {
    const kernels::DenseStepParams<T> step{.layers = 1,
                                           .cache_rows = k.rows.count() / width,
                                           .tree_rows = std::ssize(c.parent),
                                           .k = p.k,
                                           .v = p.v,
                                           .windows = {},
                                           .calls = calls};
    kernels::prepare_dense_step<T>(ops, step);
    kernels::dense_attention_layer<T>(ops, step, 0);
    ops.synchronize();
  } else if (form.calls > 1) {
    kernels::tree_attention_together<T>(ops, calls);
  } else {
    ops.tree_attention(calls[0]);
  }
  host.out = outs.back().read();
  std::vector<double> result = host.result();
  if (form.weights) {
    for (const kernels::SumOf<T> weight : weights.read()) {
      result.push_back(static_cast<double>(weight));
    }
  }
  return result;
}

// The least and greatest keys of all blocks, then what is attended by them.
template <class T>
std::vector<double> run_paged(kernels::Ops<T>& ops, const ResaCase& c, bool vanilla,
                              const ScatteredPages& pages) {
  ResaBuffers<T> host(c);
  const std::int64_t width = c.kv_heads * c.head_dim;
  const T other = narrowed<T>(3000.0);
  const PlacedRows<T> k(ops, host.k, width, pages, other), v(ops, host.v, width, pages, other);
  const kernels::OpsBuffer<T> q(ops, host.q), kmin(ops, host.kmin), kmax(ops, host.kmax),
      out(ops, host.out);
  const kernels::OpsBuffer<T, std::int32_t> indices(ops, host.indices);
  kernels::BlockKeysParams<T> keys = host.key_params();
  keys.pages = k.table();
  keys.k = k.rows.data();
  keys.kmin = kmin.data();
  keys.kmax = kmax.data();
  ops.block_keys(keys);
  kernels::ResaDecodeParams<T> p = host.params();
  p.vanilla = vanilla;
  p.q = q.data();
  p.pages = k.table();
  p.k = k.rows.data();
  p.v = v.rows.data();
  p.kmin = kmin.data();
  p.kmax = kmax.data();
  p.out = out.data();
  p.indices = indices.data();
  ops.resa_decode(p);
  std::vector<double> result;
  for (const kernels::OpsBuffer<T>* buffer : {&kmin, &kmax, &out}) {
    for (const T value : buffer->read()) {
      result.push_back(widened(value));
    }
  }
  for (const std::int32_t block : indices.read()) {
    result.push_back(block);
  }
  return result;
}

// Whether the problem has the same bits with rows side by side and scattered.
template <class T>
bool same_bits(kernels::Ops<T>& ops, const ResaCase& c, bool vanilla, std::mt19937_64& rng) {
  return run_paged<T>(ops, c, vanilla, {}) == run_paged<T>(ops, c, vanilla, {c.length, rng});
}
template <class T>
bool same_bits(kernels::Ops<T>& ops, const NsaCase& c, kernels::NsaForm form, std::mt19937_64& rng,
               bool together = false) {
  const NsaResult one = run_paged<T>(ops, c, form, {}, together);
  const NsaResult other = run_paged<T>(ops, c, form, {c, rng}, together);
  return one.out == other.out && one.indices == other.indices &&
         (together || one.importance == other.importance);
}
template <class T>
bool same_bits(kernels::Ops<T>& ops, const TreeAttentionCase& c, TreePages form,
               std::mt19937_64& rng) {
  const std::vector<double> one = run_paged<T>(ops, c, form);
  form.pages = {c.context_len, rng};
  return one == run_paged<T>(ops, c, form);
}

// A tree over a dense cache, or a chain.
inline TreeAttentionCase dense_case(std::int64_t context, std::int64_t nodes, std::int64_t head_dim,
                                    bool chain, std::mt19937_64& rng) {
  TreeAttentionCase c{.heads = 8, .kv_heads = 2, .head_dim = head_dim, .context_len = context};
  for (std::int32_t i = 0; i < nodes; ++i) {
    const std::int32_t back =
        i == 0 || chain ? 1 : 1 + static_cast<std::int32_t>(pick(rng, 0, std::min(2, i - 1)));
    c.parent.push_back(i - back);
    c.position.push_back(c.parent.back() < 0
                             ? static_cast<std::int32_t>(context)
                             : c.position[static_cast<std::size_t>(c.parent.back())] + 1);
    c.query_node.push_back(i);
  }
  const std::int64_t width = c.kv_heads * head_dim;
  c.q = random_rows(rng, nodes * c.heads * head_dim);
  c.k = random_rows(rng, context * width);
  c.v = random_rows(rng, context * width);
  c.k_tree = random_rows(rng, nodes * width);
  c.v_tree = random_rows(rng, nodes * width);
  return c;
}

// Runs of tokens and single ones.
inline std::vector<std::int32_t> listed_tokens(std::int64_t context, std::mt19937_64& rng) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t at = 0; at < context;) {
    const std::int64_t end = std::min(context, at + pick(rng, 1, 150));
    for (; at < end; ++at) {
      tokens.push_back(static_cast<std::int32_t>(at));
    }
    at += pick(rng, 0, 40);
  }
  return tokens;
}

}  // namespace versieve::testing
