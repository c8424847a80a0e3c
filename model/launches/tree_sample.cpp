#include "model/launches/tree_sample.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/sampling.h"
#include "model/launches/spec_sample.h"

namespace versieve {
namespace {

constexpr double kClustersAtOnce = 8.0;  // on an H200, of a block an SM
constexpr double kWarpLogits = 512.0;    // a chunk of the row
constexpr double kSmWarps = 32.0;        // as many blocks as that many warps
constexpr double kLaterWave = 0.4;       // of a wave of clusters behind another one of a tree
constexpr double kTreeLevel = 3.5;       // walking down one level

// Waves of clusters that each have a row: a block has a warp for each chunk of its tile.
double waves_of(double clusters, std::int64_t vocab) {
  const double warps = std::ceil(number(vocab) / kSamplerCluster / kWarpLogits);
  const double of_sm = std::max(1.0, std::floor(kSmWarps / warps));
  return std::ceil(clusters / (kClustersAtOnce * of_sm));
}

// Levels below the root of a tree of `nodes` whose nodes have `width` children each, the last level
// as far as they go.
double depth_of(std::int64_t nodes, std::int64_t width) {
  double depth = 0.0;
  std::int64_t level = 1;
  for (std::int64_t left = nodes - 1; left > 0; left -= level) {
    level *= width;
    depth += 1.0;
  }
  return depth;
}

}  // namespace

bool tree_in_one_launch(std::int64_t nodes, std::int64_t vocab) {
  return nodes <= kMostFusedNodes && vocab <= kMostFusedVocab;
}

namespace traffic {

Traffic tree_tests(std::int64_t parents, std::int64_t vocab, std::int64_t element_bytes) {
  const std::int64_t logits = parents * vocab;
  return moved(TrafficTerm::kLogits, logits * element_bytes, 0, 4.0 * static_cast<double>(logits));
}

}  // namespace traffic

void add_tree_sampler(const Sampler& s, const SamplingCase& c, std::int64_t nodes) {
  const bool baseline =
      c.algorithm == SamplingAlgorithm::kBaseline || !tree_in_one_launch(nodes, s.vocab);
  const std::int64_t inner = std::max<std::int64_t>(1, (nodes - 2) / c.width + 1);
  const Traffic tests = traffic::tree_tests(inner, s.vocab, s.element_bytes);
  if (baseline) {
    s.add(LaunchKind::kTreeTau, tests, number(nodes * c.samples), number(c.width), true);
    s.add(LaunchKind::kTreeWalkBaseline, traffic::tree_tests(1, s.vocab, s.element_bytes),
          number(c.samples), number(c.width), false);
    return;
  }
  // Where a path ends at a leaf its row is read too, by the same launch; mostly it ends before.
  const double waves = 1.0 + kLaterWave * (waves_of(number(inner + 1), s.vocab) - 1.0);
  s.add_steps(LaunchKind::kTreeTests, tests, 1.0,
              waves * number(s.vocab) / kSamplerCluster / kSamplerLogits +
                  kTreeLevel * depth_of(nodes, c.width),
              true);
}

}  // namespace versieve
