#include "tests/support/nsa_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
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

// Root first.
std::vector<std::int32_t> path_of(const NsaCase& c, std::int32_t node) {
  std::vector<std::int32_t> path;
  for (std::int32_t i = node; i >= 0; i = c.parent[at(i)]) {
    path.insert(path.begin(), i);
  }
  return path;
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

// One (node, head): keys by absolute position or index, softmax, weighted values.
struct Attended {
  std::map<std::int64_t, double> probability;
  Rows out;
};

struct KeyValue {
  const double* k;
  const double* v;
};

Attended attend(const double* q, std::int64_t d, const std::map<std::int64_t, KeyValue>& keys) {
  Attended r;
  r.out.assign(at(d), 0.0);
  double most = -std::numeric_limits<double>::infinity();
  for (const auto& [index, key] : keys) {
    double score = 0.0;
    for (std::int64_t e = 0; e < d; ++e) {
      score += q[e] * key.k[e];
    }
    r.probability[index] = score / std::sqrt(static_cast<double>(d));
    most = std::max(most, r.probability[index]);
  }
  double total = 0.0;
  for (auto& [index, value] : r.probability) {
    value = std::exp(value - most);
    total += value;
  }
  for (auto& [index, value] : r.probability) {
    value /= total;
    for (std::int64_t e = 0; e < d; ++e) {
      r.out[at(e)] += value * keys.at(index).v[e];
    }
  }
  return r;
}

// The plain answer for one node.
class PlainNode {
 public:
  PlainNode(const NsaCase& c, std::int32_t node)
      : c_(c), s_(c.shape), node_(node), t_(c.position[at(node)]), path_(path_of(c, node)) {}

  void answer(NsaResult& result) {
    for (std::int64_t g = 0; g < s_.kv_heads; ++g) {
      answer_kv_head(g, result);
    }
  }

 private:
  std::int64_t group() const { return s_.heads / s_.kv_heads; }
  const double* query(std::int64_t head) const {
    return c_.q.data() + (node_ * s_.heads + head) * s_.head_dim;
  }
  KeyValue row(const Rows& k, const Rows& v, std::int64_t index, std::int64_t g) const {
    const std::int64_t offset = (index * s_.kv_heads + g) * s_.head_dim;
    return {k.data() + offset, v.data() + offset};
  }
  KeyValue token(std::int64_t position, std::int64_t g) const {
    return position < s_.context_len
               ? row(c_.k, c_.v, position, g)
               : row(c_.k_tree, c_.v_tree, path_[at(position - s_.context_len)], g);
  }

  std::map<std::int64_t, KeyValue> compressed_keys(std::int64_t g) const {
    std::map<std::int64_t, KeyValue> keys;
    for (std::int64_t i = 0; i < compressed_count(s_.nsa, s_.context_len); ++i) {
      keys[i] = row(c_.k_cmp, c_.v_cmp, i, g);
    }
    for (std::size_t e = 0; e < c_.owner.size(); ++e) {
      if (std::count(path_.begin(), path_.end(), c_.owner[e]) != 0) {
        const std::int64_t end = c_.position[at(c_.owner[e])] + 1;
        keys[(end - s_.nsa.cmp_block) / s_.nsa.cmp_stride] =
            row(c_.k_cmp_tree, c_.v_cmp_tree, static_cast<std::int64_t>(e), g);
      }
    }
    return keys;
  }

  std::vector<Attended> compressed_heads(std::int64_t g) const {
    std::vector<Attended> heads;
    for (std::int64_t h = 0; h < group(); ++h) {
      heads.push_back(attend(query(g * group() + h), s_.head_dim, compressed_keys(g)));
    }
    return heads;
  }

  Rows importance_of(std::int64_t g) const {
    const std::int64_t ratio = s_.nsa.sel_block / s_.nsa.cmp_stride;
    Rows importance(at(c_.num_blocks()), 0.0);
    for (const Attended& head : compressed_heads(g)) {
      for (std::int64_t j = 0; j <= t_ / s_.nsa.sel_block; ++j) {
        for (std::int64_t m = 0; m < ratio; ++m) {
          for (std::int64_t u = 0; u < s_.nsa.cmp_block / s_.nsa.cmp_stride; ++u) {
            const auto found = head.probability.find(ratio * j + m - u);
            importance[at(j)] += found == head.probability.end() ? 0.0 : found->second;
          }
        }
      }
    }
    return importance;
  }

  std::vector<std::int32_t> chosen_blocks(const Rows& importance) const {
    const std::int64_t own = t_ / s_.nsa.sel_block;
    std::set<std::int32_t> chosen;
    for (std::int64_t j = 0; j <= own; ++j) {
      if (j <= s_.nsa.init_blocks - 1 || j >= own - s_.nsa.local_blocks + 1) {
        chosen.insert(static_cast<std::int32_t>(j));
      }
    }
    while (static_cast<std::int64_t>(chosen.size()) < std::min(s_.nsa.sel_count, own + 1)) {
      std::int32_t best = -1;
      for (std::int32_t j = 0; j <= own; ++j) {
        if (chosen.count(j) == 0 && (best < 0 || importance[at(j)] > importance[at(best)])) {
          best = j;
        }
      }
      chosen.insert(best);
    }
    std::vector<std::int32_t> row(chosen.begin(), chosen.end());
    row.resize(at(s_.nsa.sel_count), -1);
    return row;
  }

  void answer_kv_head(std::int64_t g, NsaResult& result) {
    const std::vector<Attended> heads = compressed_heads(g);
    std::vector<std::int32_t> chosen;
    if (c_.indices_in.empty()) {
      const PlainNode router(c_, routing_row(c_, node_));
      const Rows importance = router.importance_of(g);
      result.importance.insert(result.importance.end(), importance.begin(), importance.end());
      chosen = router.chosen_blocks(importance);
    } else {
      const auto first = c_.indices_in.begin() + (node_ * s_.kv_heads + g) * s_.nsa.sel_count;
      chosen.assign(first, first + s_.nsa.sel_count);
    }
    result.indices.insert(result.indices.end(), chosen.begin(), chosen.end());
    std::map<std::int64_t, KeyValue> selected;
    std::map<std::int64_t, KeyValue> window;
    for (std::int64_t position = 0; position <= t_; ++position) {
      const std::int32_t block = static_cast<std::int32_t>(position / s_.nsa.sel_block);
      if (std::count(chosen.begin(), chosen.end(), block) != 0) {
        selected[position] = token(position, g);
      }
      if (position > t_ - s_.nsa.window) {
        window[position] = token(position, g);
      }
    }
    for (std::int64_t h = 0; h < group(); ++h) {
      const std::int64_t head = g * group() + h;
      const double* gate = c_.gates.data() + (node_ * s_.heads + head) * 3;
      const Attended by_block = attend(query(head), s_.head_dim, selected);
      const Attended by_window = attend(query(head), s_.head_dim, window);
      for (std::int64_t e = 0; e < s_.head_dim; ++e) {
        result.out.push_back(gate[0] * heads[at(h)].out[at(e)] + gate[1] * by_block.out[at(e)] +
                             gate[2] * by_window.out[at(e)]);
      }
    }
  }

  const NsaCase& c_;
  const NsaCaseShape& s_;
  std::int32_t node_;
  std::int64_t t_;
  std::vector<std::int32_t> path_;
};

// Relative norms of the whole and of the worst row.
std::string norm_error(const Rows& expected, const Rows& got, std::int64_t width,
                       const Tolerance& tolerance, const char* what) {
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t first = 0; first < expected.size(); first += at(width)) {
    double row_error = 0.0;
    double row_norm = 0.0;
    for (std::size_t i = first; i < first + at(width); ++i) {
      row_error += (got[i] - expected[i]) * (got[i] - expected[i]);
      row_norm += expected[i] * expected[i];
    }
    if (!(std::sqrt(row_error) <= tolerance.row * std::sqrt(row_norm))) {
      std::ostringstream text;
      text << what << " row " << first / at(width) << ": error " << std::sqrt(row_error)
           << " of norm " << std::sqrt(row_norm);
      return text.str();
    }
    error += row_error;
    norm += row_norm;
  }
  if (!(std::sqrt(error) <= tolerance.norm * std::sqrt(norm))) {
    std::ostringstream text;
    text << what << ": error " << std::sqrt(error) << " of norm " << std::sqrt(norm);
    return text.str();
  }
  return {};
}

// Probabilities below this are zero in f32 (e^-87), so candidates there are equal.
constexpr double kUnderflow = 1e-36;

// Rows of indices against the double importance: equal, or swapped between near equals.
std::string indices_error(const NsaCase& c, const NsaResult& expected, const NsaResult& got,
                          double tolerance) {
  const std::int64_t n = c.shape.nsa.sel_count;
  for (std::int64_t row = 0; row < c.shape.nodes * c.shape.kv_heads; ++row) {
    const std::set<std::int32_t> want(expected.indices.begin() + row * n,
                                      expected.indices.begin() + (row + 1) * n);
    const std::set<std::int32_t> have(got.indices.begin() + row * n,
                                      got.indices.begin() + (row + 1) * n);
    const double* importance = expected.importance.data() + row * c.num_blocks();
    const auto say = [&](const char* what) {
      return std::string("indices row ") + std::to_string(row) + ": " + what;
    };
    if (want.size() != have.size() || want.count(-1) != have.count(-1)) {
      return say("another count");
    }
    double left_out = -1.0;
    double taken_in = std::numeric_limits<double>::infinity();
    for (const std::int32_t block : want) {
      left_out = have.count(block) == 0 ? std::max(left_out, importance[block]) : left_out;
    }
    for (const std::int32_t block : have) {
      if (block < -1 || block >= c.num_blocks()) {
        return say("no such block");
      }
      taken_in = want.count(block) == 0 ? std::min(taken_in, importance[block]) : taken_in;
    }
    if (left_out - taken_in > tolerance * left_out && left_out > kUnderflow) {
      return say("a clearly better block was left out");
    }
    std::vector<std::int32_t> ascending(have.begin(), have.end());
    ascending.erase(std::remove(ascending.begin(), ascending.end(), -1), ascending.end());
    ascending.resize(at(n), -1);
    if (!std::equal(ascending.begin(), ascending.end(), got.indices.begin() + row * n)) {
      return say("not ascending, then -1");
    }
  }
  return {};
}

// Every row of a group repeats the row that routes.
std::string shared_rows_error(const NsaCase& c, const NsaResult& got) {
  const std::int64_t width = c.shape.kv_heads * c.shape.nsa.sel_count;
  for (std::int32_t node = 0; node < c.shape.nodes; ++node) {
    const auto row = got.indices.begin() + node * width;
    if (!std::equal(row, row + width, got.indices.begin() + routing_row(c, node) * width)) {
      return "indices of node " + std::to_string(node) + " are not its representative's";
    }
  }
  return {};
}

// `got` with the importance of `expected` in the rows where it is not defined.
Rows defined_importance(const NsaCase& c, const NsaResult& got, const NsaResult& expected) {
  const std::int64_t width = c.shape.kv_heads * c.num_blocks();
  Rows importance = got.importance;
  for (std::int32_t node = 0; node < c.shape.nodes; ++node) {
    if (routing_row(c, node) != node) {
      std::copy_n(expected.importance.begin() + node * width, width,
                  importance.begin() + node * width);
    }
  }
  return importance;
}

// A random order that keeps parents before children.
std::vector<std::int32_t> shuffled_order(const NsaCase& c, std::mt19937_64& rng) {
  std::vector<std::int32_t> order;
  std::vector<std::int32_t> ready = {0};
  while (!ready.empty()) {
    const std::int64_t i = pick(rng, 0, static_cast<std::int64_t>(ready.size()) - 1);
    const std::int32_t node = ready[at(i)];
    ready.erase(ready.begin() + i);
    order.push_back(node);
    for (std::int32_t child = 0; child < c.shape.nodes; ++child) {
      if (c.parent[at(child)] == node) {
        ready.push_back(child);
      }
    }
  }
  return order;
}

// Blocks past the shorter call's last one must be zero.
bool importance_differs(const NsaCase& c, const NsaResult& a, std::int64_t row, const NsaResult& b,
                        std::int64_t other) {
  const auto blocks_of = [&](const NsaResult& r) {
    return static_cast<std::int64_t>(r.importance.size()) * c.shape.nsa.sel_count /
           static_cast<std::int64_t>(r.indices.size());
  };
  const std::int64_t blocks_a = blocks_of(a);
  const std::int64_t blocks_b = blocks_of(b);
  for (std::int64_t g = 0; g < c.shape.kv_heads; ++g) {
    for (std::int64_t j = 0; j < std::max(blocks_a, blocks_b); ++j) {
      const std::int64_t at_a = (row * c.shape.kv_heads + g) * blocks_a + j;
      const std::int64_t at_b = (other * c.shape.kv_heads + g) * blocks_b + j;
      const double x = j < blocks_a ? a.importance[at(at_a)] : 0.0;
      const double y = j < blocks_b ? b.importance[at(at_b)] : 0.0;
      if (!(x == y)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

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

NsaResult plain_nsa_verify(const NsaCase& c) {
  NsaResult result;
  for (std::int32_t node = 0; node < c.shape.nodes; ++node) {
    PlainNode(c, node).answer(result);
  }
  return result;
}

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

template <>
Tolerance tolerance_of<double>() {
  return {1e-10, 1e-9, 1e-10};
}
template <>
Tolerance tolerance_of<float>() {
  return {1e-5, 1e-4, 1e-5};
}
template <>
Tolerance tolerance_of<Bf16>() {
  return {1e-2, 3e-2, 2e-2};
}

std::string disagreement(const NsaCase& c, const NsaResult& got, const Tolerance& tolerance) {
  const NsaResult expected = plain_nsa_verify(c);
  if (c.indices_in.empty()) {
    const std::string indices = indices_error(c, expected, got, tolerance.importance);
    const std::string shared = indices.empty() ? shared_rows_error(c, got) : indices;
    if (!shared.empty()) {
      return shared;
    }
    const std::string importance =
        norm_error(expected.importance, defined_importance(c, got, expected), c.num_blocks(),
                   tolerance, "importance");
    if (!importance.empty()) {
      return importance;
    }
  } else if (got.indices != c.indices_in) {
    return "indices are not indices_in";
  }
  NsaCase chosen = c;
  chosen.indices_in = got.indices;
  return norm_error(plain_nsa_verify(chosen).out, got.out, c.shape.head_dim, tolerance, "out");
}

std::string row_difference(const NsaCase& c, const NsaResult& a, std::int64_t row,
                           const NsaResult& b, std::int64_t other) {
  const auto same = [&](const auto& x, const auto& y, std::int64_t width) {
    return std::equal(x.begin() + row * width, x.begin() + (row + 1) * width,
                      y.begin() + other * width);
  };
  if (!same(a.indices, b.indices, c.shape.kv_heads * c.shape.nsa.sel_count)) {
    return "indices differ";
  }
  if (importance_differs(c, a, row, b, other)) {
    return "importance differs";
  }
  if (!same(a.out, b.out, c.shape.heads * c.shape.head_dim)) {
    return "out differs";
  }
  return {};
}

std::string invariance_failure(const NsaCase& c, const NsaRunner& run, std::mt19937_64& rng) {
  const NsaResult whole = run(c);
  const auto complain = [](const char* form, std::int64_t node, const std::string& what) {
    return std::string(form) + ", node " + std::to_string(node) + ": " + what;
  };
  const std::vector<std::int32_t> order = shuffled_order(c, rng);
  const NsaResult permuted = run(reordered(c, order));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::string what =
        row_difference(c, whole, order[i], permuted, static_cast<std::int64_t>(i));
    if (!what.empty()) {
      return complain("another order", order[i], what);
    }
  }
  for (int trial = 0; trial < 4; ++trial) {
    const std::int32_t node = static_cast<std::int32_t>(pick(rng, 0, c.shape.nodes - 1));
    const NsaCase alone = path_alone(c, node);
    std::string what = row_difference(c, whole, node, run(alone), alone.shape.nodes - 1);
    if (!what.empty()) {
      return complain("alone", node, what);
    }
    for (const std::int64_t count : {pick(rng, 0, alone.shape.nodes - 1), alone.shape.nodes - 1}) {
      const NsaCase rest = committed(alone, count);
      what = row_difference(c, whole, node, run(rest), rest.shape.nodes - 1);
      if (!what.empty()) {
        return complain("part of the path committed", node, what);
      }
    }
  }
  return {};
}

NsaCaseShape random_nsa_shape(std::mt19937_64& rng, bool cuda) {
  static const NsaGeometry geometries[] = {
      {32, 16, 64, 16, 1, 2, 512}, {4, 2, 8, 4, 1, 2, 6},     {8, 4, 4, 3, 1, 2, 5},
      {4, 4, 4, 3, 1, 2, 1},       {6, 2, 10, 5, 2, 2, 7},    {1, 1, 1, 4, 0, 1, 3},
      {16, 8, 48, 6, 0, 0, 40},    {32, 16, 64, 4, 1, 2, 64}, {64, 16, 32, 8, 2, 3, 100},
      {5, 5, 15, 2, 0, 2, 33},     {12, 3, 96, 3, 2, 1, 130}};
  static const std::int64_t head_dims[] = {16, 32, 64, 128, 48, 80, 96, 112};
  static const std::int64_t odd_head_dims[] = {1, 7, 20, 33, 64, 72, 100, 128};
  static const std::int64_t groups[] = {1, 2, 3, 4, 5, 8, 16};
  NsaCaseShape s;
  s.nsa = geometries[pick(rng, 0, std::size(geometries) - 1)];
  s.kv_heads = pick(rng, 1, 3);
  s.heads = s.kv_heads * groups[pick(rng, 0, std::size(groups) - 1)];
  s.head_dim = cuda ? head_dims[pick(rng, 0, 7)] : odd_head_dims[pick(rng, 0, 7)];
  s.context_len = pick(rng, 0, 3) == 0 ? pick(rng, 0, 40) : pick(rng, 0, 700);
  s.nodes = pick(rng, 0, 2) == 0 ? pick(rng, 1, 40) : pick(rng, 1, 9);
  s.tree = static_cast<TreeForm>(pick(rng, 0, 2));
  return s;
}

std::vector<NsaCaseShape> adversarial_nsa_shapes() {
  const NsaGeometry usual{32, 16, 64, 6, 1, 2, 96};
  const NsaCaseShape base{usual, 8, 2, 64, 1000, 12, TreeForm::kRandom, 1.0, false, false};
  std::vector<NsaCaseShape> shapes;
  const auto add = [&](auto change) {
    shapes.push_back(base);
    change(shapes.back());
  };
  add([](NsaCaseShape& s) { s.equal_keys = true; });
  add([](NsaCaseShape& s) { s.zero_keys = true; });
  add([](NsaCaseShape& s) { s.logit_scale = 0.0; });
  add([](NsaCaseShape& s) { s.logit_scale = 1e4; });
  add([](NsaCaseShape& s) { s.logit_scale = -1e4; });
  for (const std::int64_t context : {0, 1, 15, 31, 32, 47, 63, 64, 65, 127, 128, 383, 384}) {
    add([&](NsaCaseShape& s) { s.context_len = context; });
    add([&](NsaCaseShape& s) {
      s.context_len = context;
      s.nodes = 40;
      s.tree = TreeForm::kChain;
    });
  }
  add([](NsaCaseShape& s) { s.nodes = 1; });
  add([](NsaCaseShape& s) { s.nsa = {32, 16, 64, 3, 1, 2, 1}; });
  return shapes;
}

std::uint64_t test_seed() {
  const char* text = std::getenv("VERSIEVE_SEED");
  return text == nullptr ? 20261121 : std::strtoull(text, nullptr, 10);
}

}  // namespace versieve::testing
