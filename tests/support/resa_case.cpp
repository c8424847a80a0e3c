#include "tests/support/resa_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <sstream>

#include "tests/support/rounding.h"

namespace versieve::testing {
namespace {

std::int64_t blocks_of(const ResaCase& c) {
  return kernels::key_block_count(c.length, c.selection.key_block);
}
std::int64_t count_of(const ResaCase& c) {
  return kernels::resa_block_count(blocks_of(c), c.selection);
}

}  // namespace

std::string ResaCase::text() const {
  std::ostringstream text;
  text << "H " << heads << " G " << kv_heads << " d " << head_dim << " L " << length << " b "
       << selection.key_block << " p " << selection.active_ratio << " n_min " << selection.n_min
       << " n_local " << selection.n_local;
  return text.str();
}

ResaCase make_resa_case(ResaCase shape, std::mt19937_64& rng) {
  shape.q = random_rows(rng, shape.heads * shape.head_dim);
  shape.k = random_rows(rng, shape.length * shape.kv_heads * shape.head_dim);
  shape.v = random_rows(rng, shape.length * shape.kv_heads * shape.head_dim);
  return shape;
}

ResaCase random_resa_case(std::mt19937_64& rng, bool cuda) {
  ResaCase c;
  c.kv_heads = pick(rng, 1, 4);
  c.heads = c.kv_heads * pick(rng, 1, 8);
  c.head_dim = cuda ? 16 * pick(rng, 1, 8) : pick(rng, 1, 70);
  c.length = pick(rng, 0, 3) == 0 ? pick(rng, 1, 40) : pick(rng, 1, 1500);
  c.selection.key_block = pick(rng, 0, 1) == 0 ? 16 : pick(rng, 1, 70);
  c.selection.active_ratio = static_cast<double>(pick(rng, 1, 100)) / 100.0;
  c.selection.n_min = pick(rng, 0, 6);
  c.selection.n_local = pick(rng, 0, 3);
  return make_resa_case(c, rng);
}

template <class T>
ResaCase rounded_case(const ResaCase& c) {
  ResaCase r = c;
  for (std::vector<double>* values : {&r.q, &r.k, &r.v}) {
    *values = rounded_rows<T>(*values);
  }
  return r;
}

std::vector<double> plain_block_scores(const ResaCase& c, std::int64_t g) {
  const std::int64_t rows = c.heads / c.kv_heads;
  std::vector<double> scores;
  for (std::int64_t block = 0; block < blocks_of(c); ++block) {
    const std::int64_t first = block * c.selection.key_block;
    const std::int64_t end = std::min(c.length, first + c.selection.key_block);
    double score = 0.0;
    for (std::int64_t e = 0; e < c.head_dim; ++e) {
      double mean = 0.0;
      for (std::int64_t h = 0; h < rows; ++h) {
        mean += c.q[at((g * rows + h) * c.head_dim + e)] / static_cast<double>(rows);
      }
      double least = INFINITY;
      double most = -INFINITY;
      for (std::int64_t token = first; token < end; ++token) {
        const double key = c.k[at((token * c.kv_heads + g) * c.head_dim + e)];
        least = std::min(least, key);
        most = std::max(most, key);
      }
      score += std::max(mean * most, mean * least);
    }
    scores.push_back(score);
  }
  return scores;
}

std::vector<double> plain_block_attention(const ResaCase& c,
                                          const std::vector<std::int32_t>& indices) {
  const std::int64_t rows = c.heads / c.kv_heads;
  const std::int64_t count = static_cast<std::int64_t>(indices.size()) / c.kv_heads;
  std::vector<double> out(at(c.heads * c.head_dim), 0.0);
  for (std::int64_t h = 0; h < c.heads; ++h) {
    const std::int64_t g = h / rows;
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t first = indices[at(g * count + i)] * c.selection.key_block;
      for (std::int64_t t = first; t < std::min(c.length, first + c.selection.key_block); ++t) {
        tokens.push_back(t);
      }
    }
    std::vector<double> weight;
    for (const std::int64_t t : tokens) {
      double score = 0.0;
      for (std::int64_t e = 0; e < c.head_dim; ++e) {
        score += c.q[at(h * c.head_dim + e)] * c.k[at((t * c.kv_heads + g) * c.head_dim + e)];
      }
      weight.push_back(score / std::sqrt(static_cast<double>(c.head_dim)));
    }
    if (tokens.empty()) {
      continue;
    }
    const double most = *std::max_element(weight.begin(), weight.end());
    double sum = 0.0;
    for (double& w : weight) {
      w = std::exp(w - most);
      sum += w;
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      for (std::int64_t e = 0; e < c.head_dim; ++e) {
        out[at(h * c.head_dim + e)] +=
            weight[i] / sum * c.v[at((tokens[i] * c.kv_heads + g) * c.head_dim + e)];
      }
    }
  }
  return out;
}

ResaAnswer plain_resa_decode(const ResaCase& c) {
  ResaAnswer answer;
  const std::int64_t blocks = blocks_of(c);
  for (std::int64_t g = 0; g < c.kv_heads; ++g) {
    std::vector<double> scores = plain_block_scores(c, g);
    for (std::int64_t i = std::max<std::int64_t>(0, blocks - c.selection.n_local); i < blocks;
         ++i) {
      scores[at(i)] = INFINITY;
    }
    std::vector<std::int32_t> order(at(blocks));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return scores[at(a)] > scores[at(b)]; });
    order.resize(at(count_of(c)));
    std::sort(order.begin(), order.end());
    answer.indices.insert(answer.indices.end(), order.begin(), order.end());
  }
  answer.out = plain_block_attention(c, answer.indices);
  return answer;
}

std::string resa_disagreement(const ResaCase& c, const ResaAnswer& answer, double norm,
                              double margin) {
  const ResaAnswer plain = plain_resa_decode(c);
  if (answer.indices.size() != plain.indices.size()) {
    return "another number of blocks";
  }
  const std::int64_t count = count_of(c);
  for (std::int64_t g = 0; g < c.kv_heads; ++g) {
    const std::vector<double> scores = plain_block_scores(c, g);
    double largest = 1e-30;
    for (const double score : scores) {
      largest = std::max(largest, std::abs(score));
    }
    const std::int32_t* ours = answer.indices.data() + g * count;
    const std::int32_t* wanted = plain.indices.data() + g * count;
    if (!std::is_sorted(ours, ours + count) ||
        std::set<std::int32_t>(ours, ours + count).size() != at(count)) {
      return "blocks are not ascending and distinct";
    }
    std::vector<std::int32_t> missing;
    std::vector<std::int32_t> extra;
    std::set_difference(wanted, wanted + count, ours, ours + count, std::back_inserter(missing));
    std::set_difference(ours, ours + count, wanted, wanted + count, std::back_inserter(extra));
    for (const std::int32_t m : missing) {
      for (const std::int32_t x : extra) {
        if (x < 0 || x >= static_cast<std::int32_t>(scores.size()) ||
            std::abs(scores[at(m)] - scores[at(x)]) > margin * largest) {
          return "KV head " + std::to_string(g) + " took block " + std::to_string(x) +
                 " instead of " + std::to_string(m);
        }
      }
    }
  }
  const std::vector<double> want = plain_block_attention(c, answer.indices);
  double difference = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (answer.out[i] - want[i]) * (answer.out[i] - want[i]);
    size += want[i] * want[i];
  }
  const double error = std::sqrt(difference) / std::max(std::sqrt(size), 1e-30);
  return error <= norm ? "" : "relative norm " + std::to_string(error);
}

template <class T>
ResaBuffers<T>::ResaBuffers(const ResaCase& c) : source(c) {
  q = narrowed_rows<T>(c.q);
  k = narrowed_rows<T>(c.k);
  v = narrowed_rows<T>(c.v);
  kmin.resize(at(blocks_of(c) * c.kv_heads * c.head_dim));
  kmax.resize(kmin.size());
  out.resize(q.size());
  indices.assign(at(c.kv_heads * count_of(c)), -7);
}

template <class T>
kernels::BlockKeysParams<T> ResaBuffers<T>::key_params() {
  return {.num_kv_heads = source.kv_heads,
          .head_dim = source.head_dim,
          .key_block = source.selection.key_block,
          .length = source.length,
          .k = k.data(),
          .kmin = kmin.data(),
          .kmax = kmax.data()};
}

template <class T>
kernels::ResaDecodeParams<T> ResaBuffers<T>::params(bool newest_apart) {
  const std::int64_t width = source.kv_heads * source.head_dim;
  const std::int64_t rows = source.length - (newest_apart ? 1 : 0);
  return {.selection = source.selection,
          .num_heads = source.heads,
          .num_kv_heads = source.kv_heads,
          .head_dim = source.head_dim,
          .context_len = rows,
          .q = q.data(),
          .k = k.data(),
          .v = v.data(),
          .k_new = newest_apart ? k.data() + rows * width : nullptr,
          .v_new = newest_apart ? v.data() + rows * width : nullptr,
          .kmin = kmin.data(),
          .kmax = kmax.data(),
          .out = out.data(),
          .indices = indices.data()};
}

template <class T>
ResaAnswer ResaBuffers<T>::answer() const {
  return {.out = widened_rows(out), .indices = indices};
}

template ResaCase rounded_case<double>(const ResaCase&);
template ResaCase rounded_case<float>(const ResaCase&);
template ResaCase rounded_case<Bf16>(const ResaCase&);
template struct ResaBuffers<double>;
template struct ResaBuffers<float>;
template struct ResaBuffers<Bf16>;

}  // namespace versieve::testing
