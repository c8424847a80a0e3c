// Samplers, launch by launch: the baseline's separate passes, the exact and the sigmoid form's one
// pass and its walk (kernels/spec_sample, kernels/tree_sample).
#include <algorithm>
#include <cmath>

#include "model/launches/chain_form.h"
#include "model/launches/launch_parts.h"
#include "model/launches/op_traffic.h"
#include "model/launches/system_work.h"

namespace versieve {
namespace {

constexpr double kLogitsPerStep = 1024.0;  // of a block
constexpr double kCluster = 16.0;          // blocks that share a row
constexpr double kClustersAtOnce = 8.0;    // on an H200, of a block an SM
constexpr double kWarpLogits = 512.0;      // a chunk of the row
constexpr double kSmWarps = 32.0;          // as many blocks as that many warps
constexpr double kBatch = 32.0;            // samples that one warp tests at once
// In steps of 1,024 logits of a block (kernels/spec_sample). The sigmoid test weighs no difference,
// and draws where the exact one sums.
constexpr double kSigmoidShare = 0.9, kSigmoidTest = 8.0;
constexpr double kVotes = 3.5, kVote = 0.23;  // of earlier positions: waiting for any, and for each
constexpr double kSpilled = 8.0, kSigmoidSpilled = 20.0;  // registers, in the held form
// The voting form's first rejection reads its rows again.
constexpr double kReadAgain = 21.0, kSigmoidReadAgain = 15.0, kSampleReadAgain = 1.4;
constexpr double kVotingMb = 2.0;   // of logits, which nothing else hides there
constexpr double kLaterWave = 0.4;  // of a wave of clusters behind another one of a tree
constexpr double kTreeLevel = 3.5;  // walking down one level

// Waves of clusters that each have a row: a block has a warp for each chunk of its tile.
double waves_of(double clusters, std::int64_t vocab) {
  const double warps = std::ceil(number(vocab) / kCluster / kWarpLogits);
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

struct Sampler {
  std::int64_t vocab = 0, element_bytes = 2;
  bool cold = false;
  StepWork& out;

  // `blocks` blocks, each going over `share` of a row.
  void add(LaunchKind kind, const Traffic& t, double blocks, double share,
           bool reads_logits) const {
    add_steps(kind, t, blocks, share * number(vocab) / kLogitsPerStep, reads_logits);
  }
  void add_steps(LaunchKind kind, const Traffic& t, double blocks, double steps,
                 bool reads_logits) const {
    LaunchWork work = streaming(kind, Phase::kAcceptance, 1.0, t, blocks, steps);
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

double chain_steps(ChainForm form, bool sigmoid, const ChainGrid& grid, std::int64_t vocab,
                   const Traffic& t) {
  const double steps = (sigmoid ? kSigmoidShare : 1.0) * number(vocab) / kCluster / kLogitsPerStep *
                           std::ceil(number(grid.samples) / kBatch) +
                       (sigmoid ? kSigmoidTest : 0.0) +
                       (grid.gamma > 1 ? kVotes + kVote * number(grid.gamma - 1) : 0.0);
  switch (form) {
    case ChainForm::kRoomy:
      return steps;
    case ChainForm::kHeld:
      return steps + (sigmoid ? kSigmoidSpilled : kSpilled);
    case ChainForm::kVoting:
      break;
  }
  return steps + (sigmoid ? kSigmoidReadAgain : kReadAgain + kVotingMb * 1e-6 * t.total_read()) +
         kSampleReadAgain * number(grid.samples - 1);
}

void add_fused_chain(const Sampler& s, bool sigmoid, std::int64_t gamma, std::int64_t samples) {
  const ChainGrid grid{gamma, samples, chain_position_threads(s.vocab)};
  const ChainForm form = chain_form(grid, grid.votes());
  const Traffic t = chain_traffic(form, sigmoid, gamma, s.vocab, s.element_bytes);
  s.add_steps(LaunchKind::kSpecChain, t, 1.0, chain_steps(form, sigmoid, grid, s.vocab, t), true);
  s.add(LaunchKind::kSpecPick, traffic::spec_pick(samples, gamma), number(samples), 0.0, false);
}

void add_tree(const Sampler& s, const SamplingCase& c, std::int64_t nodes) {
  const bool baseline = c.algorithm == SamplingAlgorithm::kBaseline;
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
  s.add_steps(
      LaunchKind::kTreeTests, tests, 1.0,
      waves * number(s.vocab) / kCluster / kLogitsPerStep + kTreeLevel * depth_of(nodes, c.width),
      true);
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
