// What is wrong with an answer of nsa_verify, and whether a node has its bits whatever else a call
// holds.
#include "tests/support/nsa_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include "tests/support/rounding.h"

namespace versieve::testing {
namespace {

using Rows = std::vector<double>;

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
  return disagreement(c, got, tolerance, &plain_nsa_verify);
}

std::string disagreement(const NsaCase& c, const NsaResult& got, const Tolerance& tolerance,
                         const NsaRunner& answer) {
  const NsaResult expected = answer(c);
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
  return norm_error(answer(chosen).out, got.out, c.shape.head_dim, tolerance, "out");
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

}  // namespace versieve::testing
