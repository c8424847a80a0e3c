// The plain answer of nsa_verify: loops over absolute positions, in double.
#include "tests/support/nsa_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tests/support/rounding.h"

namespace versieve::testing {
namespace {

using Rows = std::vector<double>;

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
    score /= std::sqrt(static_cast<double>(d));
    r.probability.emplace_hint(r.probability.end(), index, score);
    most = std::max(most, score);
  }
  double total = 0.0;
  for (auto& [index, value] : r.probability) {
    value = std::exp(value - most);
    total += value;
  }
  double* const out = r.out.data();
  auto key = keys.begin();  // of the same indices
  for (auto& [index, value] : r.probability) {
    value /= total;
    const double* const v = (key++)->second.v;
    for (std::int64_t e = 0; e < d; ++e) {
      out[e] += value * v[e];
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

}  // namespace

NsaResult plain_nsa_verify(const NsaCase& c) {
  NsaResult result;
  for (std::int32_t node = 0; node < c.shape.nodes; ++node) {
    PlainNode(c, node).answer(result);
  }
  return result;
}

}  // namespace versieve::testing
