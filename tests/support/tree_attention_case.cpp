#include "tests/support/tree_attention_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "tests/support/rounding.h"

namespace versieve::testing {
namespace {

std::vector<double> softmax_average(const std::vector<double>& scores,
                                    const std::vector<const double*>& values, std::int64_t d) {
  std::vector<double> out(at(d), 0.0);
  double most = -std::numeric_limits<double>::infinity();
  for (const double score : scores) {
    most = std::max(most, score);
  }
  double total = 0.0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double weight = std::exp(scores[i] - most);
    total += weight;
    for (std::int64_t e = 0; e < d; ++e) {
      out[at(e)] += weight * values[i][e];
    }
  }
  for (double& x : out) {
    x /= total;
  }
  return out;
}

}  // namespace

std::string TreeAttentionCase::text() const {
  std::ostringstream text;
  text << "H=" << heads << " G=" << kv_heads << " d=" << head_dim << " L=" << context_len
       << " first=" << first_position << " W=" << window << " nodes=" << parent.size()
       << " queries=" << query_node.size();
  return text.str();
}

TreeAttentionCase random_tree_attention_case(std::mt19937_64& rng, bool cuda) {
  static const std::int64_t head_dims[] = {16, 32, 64, 80, 96, 128};
  static const std::int64_t groups[] = {1, 2, 4, 5, 8, 16};
  TreeAttentionCase c;
  c.kv_heads = pick(rng, 1, 3);
  c.heads = c.kv_heads * groups[pick(rng, 0, 5)];
  c.head_dim = cuda ? head_dims[pick(rng, 0, 5)] : pick(rng, 1, 130);
  c.context_len = pick(rng, 0, 2) == 0 ? pick(rng, 0, 3) : pick(rng, 0, 600);
  c.first_position = pick(rng, 0, 1) * pick(rng, 0, c.context_len);
  c.window = pick(rng, 0, 1) * pick(rng, 1, 200);
  const std::int64_t nodes = pick(rng, 1, 30);
  for (std::int64_t i = 0; i < nodes; ++i) {
    const std::int64_t parent = i == 0 ? -1 : pick(rng, std::max<std::int64_t>(0, i - 4), i - 1);
    c.parent.push_back(static_cast<std::int32_t>(parent));
    c.position.push_back(
        static_cast<std::int32_t>(parent < 0 ? c.context_len : c.position[at(parent)] + 1));
  }
  const std::int64_t queries = pick(rng, 1, 12);
  for (std::int64_t i = 0; i < queries; ++i) {
    c.query_node.push_back(static_cast<std::int32_t>(pick(rng, 0, nodes - 1)));
  }
  const std::int64_t width = c.kv_heads * c.head_dim;
  c.q = random_rows(rng, queries * c.heads * c.head_dim);
  c.k = random_rows(rng, c.context_len * width);
  c.v = random_rows(rng, c.context_len * width);
  c.k_tree = random_rows(rng, nodes * width);
  c.v_tree = random_rows(rng, nodes * width);
  return c;
}

template <class T>
std::vector<double> plain_tree_attention(const TreeAttentionCase& c) {
  const std::vector<double> q = rounded_rows<T>(c.q), k = rounded_rows<T>(c.k),
                            v = rounded_rows<T>(c.v), k_tree = rounded_rows<T>(c.k_tree),
                            v_tree = rounded_rows<T>(c.v_tree);
  std::vector<double> out;
  for (std::size_t i = 0; i < c.query_node.size(); ++i) {
    const std::int32_t node = c.query_node[i];
    const std::int64_t t = c.position[at(node)];
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const std::int64_t g = h * c.kv_heads / c.heads;
      std::vector<double> scores;
      std::vector<const double*> values;
      const double* query = q.data() + (static_cast<std::int64_t>(i) * c.heads + h) * c.head_dim;
      const auto see = [&](const std::vector<double>& ks, const std::vector<double>& vs,
                           std::int64_t row) {
        const std::int64_t offset = (row * c.kv_heads + g) * c.head_dim;
        double score = 0.0;
        for (std::int64_t e = 0; e < c.head_dim; ++e) {
          score += query[e] * ks[at(offset + e)];
        }
        scores.push_back(score / std::sqrt(static_cast<double>(c.head_dim)));
        values.push_back(vs.data() + offset);
      };
      for (std::int64_t j = c.first_position; j < c.context_len; ++j) {
        if (c.window == 0 || j > t - c.window) {
          see(k, v, j);
        }
      }
      for (std::int32_t a = node; a >= 0; a = c.parent[at(a)]) {
        if (c.window == 0 || c.position[at(a)] > t - c.window) {
          see(k_tree, v_tree, a);
        }
      }
      const std::vector<double> row = softmax_average(scores, values, c.head_dim);
      out.insert(out.end(), row.begin(), row.end());
    }
  }
  return out;
}
template std::vector<double> plain_tree_attention<double>(const TreeAttentionCase&);
template std::vector<double> plain_tree_attention<float>(const TreeAttentionCase&);
template std::vector<double> plain_tree_attention<Bf16>(const TreeAttentionCase&);

TreeAttentionCase decoded_last(const TreeAttentionCase& c, std::int64_t query) {
  const std::int64_t width = c.kv_heads * c.head_dim;
  const std::int32_t node = c.query_node[at(query)];
  TreeAttentionCase r = c;
  std::vector<std::int32_t> path;
  for (std::int32_t a = c.parent[at(node)]; a >= 0; a = c.parent[at(a)]) {
    path.insert(path.begin(), a);
  }
  for (const std::int32_t a : path) {
    r.k.insert(r.k.end(), c.k_tree.begin() + a * width, c.k_tree.begin() + (a + 1) * width);
    r.v.insert(r.v.end(), c.v_tree.begin() + a * width, c.v_tree.begin() + (a + 1) * width);
  }
  r.context_len += static_cast<std::int64_t>(path.size());
  r.parent = {-1};
  r.position = {c.position[at(node)]};
  r.query_node = {0};
  r.k_tree.assign(c.k_tree.begin() + node * width, c.k_tree.begin() + (node + 1) * width);
  r.v_tree.assign(c.v_tree.begin() + node * width, c.v_tree.begin() + (node + 1) * width);
  const std::int64_t q_width = c.heads * c.head_dim;
  r.q.assign(c.q.begin() + query * q_width, c.q.begin() + (query + 1) * q_width);
  return r;
}

template <class T>
TreeAttentionBuffers<T>::TreeAttentionBuffers(const TreeAttentionCase& c)
    : source(c),
      q(narrowed_rows<T>(c.q)),
      k(narrowed_rows<T>(c.k)),
      v(narrowed_rows<T>(c.v)),
      k_tree(narrowed_rows<T>(c.k_tree)),
      v_tree(narrowed_rows<T>(c.v_tree)),
      out(c.q.size(), narrowed<T>(std::numeric_limits<double>::quiet_NaN())) {}

template <class T>
kernels::TreeAttentionParams<T> TreeAttentionBuffers<T>::params() {
  kernels::TreeAttentionParams<T> p;
  p.num_heads = source.heads;
  p.num_kv_heads = source.kv_heads;
  p.head_dim = source.head_dim;
  p.context_len = source.context_len;
  p.first_position = source.first_position;
  p.window = source.window;
  p.num_queries = static_cast<std::int64_t>(source.query_node.size());
  p.num_nodes = static_cast<std::int64_t>(source.parent.size());
  p.query_node = source.query_node.data();
  p.parent = source.parent.data();
  p.position = source.position.data();
  p.q = q.data();
  p.k = k.data();
  p.v = v.data();
  p.k_tree = k_tree.data();
  p.v_tree = v_tree.data();
  p.out = out.data();
  return p;
}

template <class T>
std::vector<double> TreeAttentionBuffers<T>::result() const {
  return widened_rows(out);
}
template struct TreeAttentionBuffers<double>;
template struct TreeAttentionBuffers<float>;
template struct TreeAttentionBuffers<Bf16>;

double relative_norm(const std::vector<double>& expected, const std::vector<double>& got) {
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (expected[i] - got[i]) * (expected[i] - got[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}

}  // namespace versieve::testing
