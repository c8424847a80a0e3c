// Samplers, launch by launch: the baseline's separate passes, the exact and the sigmoid form's one
// pass and its walk (kernels/spec_sample, kernels/tree_sample).
#include <algorithm>
#include <cmath>

#include "model/launch_parts.h"
#include "model/op_traffic.h"
#include "model/system_work.h"

namespace versieve {
namespace {

constexpr double kLogitsPerStep = 1024.0;  // of a block
constexpr double kCluster = 16.0;          // blocks that share a row
constexpr double kClustersAtOnce = 8.0;    // on an H200, of a block an SM
constexpr double kWarpLogits = 512.0;      // a chunk of the row
constexpr double kSmWarps = 32.0;          // as many blocks as that many warps
constexpr double kSigmoid = 1.2;           // of an element, against the exact test
constexpr double kBatch = 32.0;            // samples that one warp tests at once

// Waves of clusters that each have a row: a block has a warp for each chunk of its tile.
double waves_of(double clusters, std::int64_t vocab) {
  const double warps = std::ceil(number(vocab) / kCluster / kWarpLogits);
  const double of_sm = std::max(1.0, std::floor(kSmWarps / warps));
  return std::ceil(clusters / (kClustersAtOnce * of_sm));
}

struct Sampler {
  std::int64_t vocab = 0, element_bytes = 2;
  bool cold = false;
  StepWork& out;

  // `blocks` blocks, each going over `share` of a row.
  void add(LaunchKind kind, const Traffic& t, double blocks, double share,
           bool reads_logits) const {
    LaunchWork work =
        streaming(kind, Phase::kAcceptance, 1.0, t, blocks, share * number(vocab) / kLogitsPerStep);
    work.handover_distance = reads_logits && cold ? 1e18 : t.total();
    out.add(work);
  }
};

void add_baseline_chain(const Sampler& s, std::int64_t gamma, std::int64_t samples) {
  for (const std::int64_t rows : {gamma + 1, gamma}) {
    s.add(LaunchKind::kSpecSoftmax, traffic::softmax_rows(rows, s.vocab, s.element_bytes),
          number(rows), 1.0, true);
  }
  s.add(LaunchKind::kSpecRatio, traffic::elementwise(gamma, 2, 4, 4.0), 1.0, 0.0, false);
  s.add(LaunchKind::kSpecDifference, traffic::sample_difference(gamma, s.vocab),
        number(gamma * s.vocab) / kElementsPerBlock, 0.0, false);
  s.add(LaunchKind::kSpecSum, traffic::sample_rows_read(gamma, s.vocab), number(gamma), 1.0, false);
  s.add(LaunchKind::kSpecDraw, traffic::sample_rows_read(samples, s.vocab), number(samples), 1.0,
        false);
}

void add_fused_chain(const Sampler& s, bool sigmoid, std::int64_t gamma, std::int64_t samples) {
  const double share = (sigmoid ? kSigmoid : 1.0) / kCluster;
  s.add(LaunchKind::kSpecChain, traffic::spec_chain(gamma, s.vocab, s.element_bytes), 1.0,
        share * (waves_of(number(gamma + 1), s.vocab) + std::ceil(number(samples) / kBatch) - 1.0),
        true);
  s.add(LaunchKind::kSpecPick, traffic::spec_pick(samples, gamma), number(samples), 0.0, false);
}

void add_tree(const Sampler& s, const SamplingCase& c, std::int64_t nodes) {
  const bool baseline = c.algorithm == SamplingAlgorithm::kBaseline;
  const std::int64_t inner = std::max<std::int64_t>(1, (nodes - 2) / c.width + 1);
  Traffic tests = traffic::tree_tests(inner, s.vocab, s.element_bytes);
  if (baseline) {
    s.add(LaunchKind::kTreeTau, tests, number(nodes * c.samples), number(c.width), true);
    s.add(LaunchKind::kTreeWalkBaseline, traffic::tree_tests(1, s.vocab, s.element_bytes),
          number(c.samples), number(c.width), false);
    return;
  }
  // The row at the path's end belongs to the same launch.
  tests += traffic::tree_tests(1, s.vocab, s.element_bytes);
  s.add(LaunchKind::kTreeTests, tests, 1.0,
        waves_of(number(inner + 1), s.vocab) * number(c.width) / kCluster, true);
}

}  // namespace

void add_sampling(const SamplingCase& c, std::int64_t vocab, std::int64_t nodes,
                  std::int64_t element_bytes, bool cold, StepWork& out) {
  const Sampler sampler{.vocab = vocab, .element_bytes = element_bytes, .cold = cold, .out = out};
  if (c.width > 0) {
    add_tree(sampler, c, nodes);
  } else if (c.algorithm == SamplingAlgorithm::kBaseline) {
    add_baseline_chain(sampler, nodes - 1, c.samples);
  } else {
    add_fused_chain(sampler, c.algorithm == SamplingAlgorithm::kSigmoid, nodes - 1, c.samples);
  }
}

}  // namespace versieve
