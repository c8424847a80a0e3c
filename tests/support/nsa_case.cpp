#include "tests/support/nsa_case.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tests/support/rounding.h"

namespace versieve::testing {
namespace {

using Rows = std::vector<double>;

bool completes_block(const NsaGeometry& nsa, std::int64_t position) {
  return position + 1 >= nsa.cmp_block && (position + 1 - nsa.cmp_block) % nsa.cmp_stride == 0;
}

void append_row(Rows& to, const Rows& from, std::int64_t row, std::int64_t width) {
  to.insert(to.end(), from.begin() + row * width, from.begin() + (row + 1) * width);
}

// The rows of `c` in `order`, a set closed under parents.
NsaCase taken(const NsaCase& c, const std::vector<std::int32_t>& order) {
  const std::int64_t kv_width = c.shape.kv_heads * c.shape.head_dim;
  NsaCase r = c;
  r.shape.nodes = static_cast<std::int64_t>(order.size());
  r.q.clear();
  r.k_tree.clear();
  r.v_tree.clear();
  r.gates.clear();
  r.parent.clear();
  r.position.clear();
  r.owner.clear();
  r.k_cmp_tree.clear();
  r.v_cmp_tree.clear();
  r.indices_in.clear();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int32_t old = order[i];
    append_row(r.q, c.q, old, c.shape.heads * c.shape.head_dim);
    append_row(r.k_tree, c.k_tree, old, kv_width);
    append_row(r.v_tree, c.v_tree, old, kv_width);
    append_row(r.gates, c.gates, old, c.shape.heads * 3);
    const auto parent = std::find(order.begin(), order.end(), c.parent[at(old)]);
    r.parent.push_back(old == 0 ? -1 : static_cast<std::int32_t>(parent - order.begin()));
    r.position.push_back(c.position[at(old)]);
    const auto owned = std::find(c.owner.begin(), c.owner.end(), old);
    if (owned != c.owner.end()) {
      r.owner.push_back(static_cast<std::int32_t>(i));
      append_row(r.k_cmp_tree, c.k_cmp_tree, owned - c.owner.begin(), kv_width);
      append_row(r.v_cmp_tree, c.v_cmp_tree, owned - c.owner.begin(), kv_width);
    }
  }
  return r;
}

}  // namespace

std::vector<std::int32_t> path_of(const NsaCase& c, std::int32_t node) {
  std::vector<std::int32_t> path;
  for (std::int32_t i = node; i >= 0; i = c.parent[at(i)]) {
    path.insert(path.begin(), i);
  }
  return path;
}

std::string NsaCaseShape::text() const {
  std::ostringstream text;
  text << "l=" << nsa.cmp_block << " s=" << nsa.cmp_stride << " B=" << nsa.sel_block
       << " n=" << nsa.sel_count << " init=" << nsa.init_blocks << " local=" << nsa.local_blocks
       << " W=" << nsa.window << " H=" << heads << " G=" << kv_heads << " d=" << head_dim
       << " L=" << context_len << " N=" << nodes << " tree=" << static_cast<int>(tree)
       << " logit_scale=" << logit_scale << " equal_keys=" << equal_keys
       << " zero_keys=" << zero_keys << " C=" << group_size
       << (group_mode == GroupMode::kExact ? " exact" : " approx");
  return text.str();
}

std::int64_t NsaCase::num_blocks() const {
  return *std::max_element(position.begin(), position.end()) / shape.nsa.sel_block + 1;
}

std::int32_t routing_row(const NsaCase& c, std::int32_t node) {
  std::int32_t row = node;
  for (std::int32_t other = 0; other < c.shape.nodes; ++other) {
    const bool same_group = other / c.shape.group_size == node / c.shape.group_size;
    const std::int32_t lead = c.position[at(other)] - c.position[at(row)];
    if (c.shape.group_mode == GroupMode::kApprox && same_group &&
        (lead > 0 || (lead == 0 && other < row))) {
      row = other;
    }
  }
  return row;
}

NsaCase make_nsa_case(const NsaCaseShape& s, std::mt19937_64& rng) {
  NsaCase c;
  c.shape = s;
  for (std::int64_t i = 0; i < s.nodes; ++i) {
    const std::int64_t parent =
        s.tree == TreeForm::kChain ? i - 1
        : s.tree == TreeForm::kStar
            ? 0
            : pick(rng, std::max<std::int64_t>(0, i - 6), std::max<std::int64_t>(0, i - 1));
    c.parent.push_back(i == 0 ? -1 : static_cast<std::int32_t>(parent));
    c.position.push_back(
        static_cast<std::int32_t>(i == 0 ? s.context_len : c.position[at(parent)] + 1));
    if (completes_block(s.nsa, c.position.back())) {
      c.owner.push_back(static_cast<std::int32_t>(i));
    }
  }
  const std::int64_t width = s.kv_heads * s.head_dim;
  const std::int64_t compressed = compressed_count(s.nsa, s.context_len);
  const std::int64_t owned = static_cast<std::int64_t>(c.owner.size());
  c.q = random_rows(rng, s.nodes * s.heads * s.head_dim);
  c.gates = random_rows(rng, s.nodes * s.heads * 3);
  c.k = random_rows(rng, s.context_len * width);
  c.v = random_rows(rng, s.context_len * width);
  c.k_cmp = random_rows(rng, compressed * width);
  c.v_cmp = random_rows(rng, compressed * width);
  c.k_tree = random_rows(rng, s.nodes * width);
  c.v_tree = random_rows(rng, s.nodes * width);
  c.k_cmp_tree = random_rows(rng, owned * width);
  c.v_cmp_tree = random_rows(rng, owned * width);
  for (double& x : c.q) {
    x *= s.logit_scale;
  }
  for (double& x : c.gates) {
    x = 1.0 / (1.0 + std::exp(-x));
  }
  for (Rows* keys : {&c.k, &c.k_cmp, &c.k_tree, &c.k_cmp_tree}) {
    for (std::size_t i = 0; i < keys->size() && (s.equal_keys || s.zero_keys); ++i) {
      (*keys)[i] = s.zero_keys ? 0.0 : 0.25 * static_cast<double>(i % at(s.head_dim) % 7);
    }
  }
  return c;
}

template <class T>
NsaCase rounded(const NsaCase& c) {
  NsaCase r = c;
  for (Rows* rows : {&r.q, &r.k, &r.v, &r.k_cmp, &r.v_cmp, &r.k_tree, &r.v_tree, &r.k_cmp_tree,
                     &r.v_cmp_tree, &r.gates}) {
    *rows = rounded_rows<T>(*rows);
  }
  return r;
}
template NsaCase rounded<double>(const NsaCase&);
template NsaCase rounded<float>(const NsaCase&);
template NsaCase rounded<Bf16>(const NsaCase&);

NsaCase path_alone(const NsaCase& c, std::int32_t node) {
  return taken(c, path_of(c, node));
}

NsaCase reordered(const NsaCase& c, const std::vector<std::int32_t>& order) {
  return taken(c, order);
}

NsaCase committed(const NsaCase& c, std::int64_t count) {
  const std::int64_t width = c.shape.kv_heads * c.shape.head_dim;
  NsaCase r = c;
  r.shape.context_len += count;
  r.shape.nodes -= count;
  const auto drop = [&](Rows& rows, std::int64_t row_width) {
    rows.erase(rows.begin(), rows.begin() + count * row_width);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    append_row(r.k, c.k_tree, i, width);
    append_row(r.v, c.v_tree, i, width);
  }
  drop(r.q, c.shape.heads * c.shape.head_dim);
  drop(r.gates, c.shape.heads * 3);
  drop(r.k_tree, width);
  drop(r.v_tree, width);
  r.position.erase(r.position.begin(), r.position.begin() + count);
  r.parent.resize(at(r.shape.nodes));
  r.owner.clear();
  r.k_cmp_tree.clear();
  r.v_cmp_tree.clear();
  for (std::size_t e = 0; e < c.owner.size(); ++e) {
    const bool moves = c.owner[e] < count;
    append_row(moves ? r.k_cmp : r.k_cmp_tree, c.k_cmp_tree, static_cast<std::int64_t>(e), width);
    append_row(moves ? r.v_cmp : r.v_cmp_tree, c.v_cmp_tree, static_cast<std::int64_t>(e), width);
    if (!moves) {
      r.owner.push_back(c.owner[e] - static_cast<std::int32_t>(count));
    }
  }
  return r;
}

template <class T>
NsaBuffers<T>::NsaBuffers(const NsaCase& c)
    : source(c),
      q(narrowed_rows<T>(c.q)),
      k(narrowed_rows<T>(c.k)),
      v(narrowed_rows<T>(c.v)),
      k_cmp(narrowed_rows<T>(c.k_cmp)),
      v_cmp(narrowed_rows<T>(c.v_cmp)),
      k_tree(narrowed_rows<T>(c.k_tree)),
      v_tree(narrowed_rows<T>(c.v_tree)),
      k_cmp_tree(narrowed_rows<T>(c.k_cmp_tree)),
      v_cmp_tree(narrowed_rows<T>(c.v_cmp_tree)),
      gates(narrowed_rows<T>(c.gates)),
      out(c.q.size(), narrowed<T>(std::numeric_limits<double>::quiet_NaN())),
      indices(at(c.shape.nodes * c.shape.kv_heads * c.shape.nsa.sel_count), -77),
      importance(at(c.shape.nodes * c.shape.kv_heads * c.num_blocks()),
                 std::numeric_limits<kernels::SumOf<T>>::quiet_NaN()) {}

template <class T>
kernels::NsaVerifyParams<T> NsaBuffers<T>::params() {
  const NsaCaseShape& s = source.shape;
  kernels::NsaVerifyParams<T> p;
  p.nsa = s.nsa;
  p.group_mode = s.group_mode;
  p.group_size = s.group_size;
  p.num_heads = s.heads;
  p.num_kv_heads = s.kv_heads;
  p.head_dim = s.head_dim;
  p.context_len = s.context_len;
  p.num_queries = s.nodes;
  p.num_compressed = compressed_count(s.nsa, s.context_len);
  p.num_tree_compressed = static_cast<std::int64_t>(source.owner.size());
  p.num_blocks = source.num_blocks();
  p.q = q.data();
  p.k = k.data();
  p.v = v.data();
  p.k_cmp = k_cmp.data();
  p.v_cmp = v_cmp.data();
  p.k_tree = k_tree.data();
  p.v_tree = v_tree.data();
  p.k_cmp_tree = k_cmp_tree.data();
  p.v_cmp_tree = v_cmp_tree.data();
  p.gates = gates.data();
  p.parent = source.parent.data();
  p.position = source.position.data();
  p.cmp_tree_owner = source.owner.data();
  p.indices_in = source.indices_in.empty() ? nullptr : source.indices_in.data();
  p.out = out.data();
  p.indices = indices.data();
  p.importance = importance.data();
  return p;
}

template <class T>
NsaResult NsaBuffers<T>::result() const {
  NsaResult r;
  r.out = widened_rows(out);
  r.indices = indices;
  if (source.indices_in.empty()) {
    r.importance.assign(importance.begin(), importance.end());
  }
  return r;
}
template struct NsaBuffers<double>;
template struct NsaBuffers<float>;
template struct NsaBuffers<Bf16>;

}  // namespace versieve::testing
