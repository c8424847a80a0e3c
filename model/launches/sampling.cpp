#include "model/launches/sampling.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/spec_sample.h"
#include "model/launches/tree_sample.h"

namespace versieve {
namespace {

// The search for a row's cuts (kernels/spec_sample/row_cuts.cu), in steps of the sampler that
// follows, by ranges of h100-sampled.db (NVIDIA H100, 2026-11-27): exchanges, more where a cluster
// of 16 blocks spans a GPC and its rows wait for each other, and a block's passes over its slice.
constexpr double kCutBlocks = 264.0;  // of the chip, two an SM, which rows share out
constexpr double kSearchPasses = 6.0, kBothSearches = 13.0;  // passes of a search; of two and ends
constexpr double kCutExchange = 107.0, kWideExchange = 12.0, kWideRow = 4.6;
constexpr double kCutStep = 7.0, kCutOfTwoBytes = 0.82;
// Times that the slices come from beyond the first-level cache: from DRAM, where all that are gone
// over at once exceed L2.
constexpr double kCutReads = 4.9;

}  // namespace

double clusters_at_once(double blocks, double of_sm) {
  constexpr double kGpcs = 8.0;
  return blocks <= 1.0 ? kSms * of_sm : kGpcs * std::floor(kSms / kGpcs * of_sm / blocks);
}

void Sampler::add_cuts(const SamplingCase& c, std::int64_t rows) const {
  if (!c.cuts()) {
    return;
  }
  const double searches = (c.top_k > 0 ? 1.0 : 0.0) + (c.top_p < 1.0 ? 1.0 : 0.0);
  const double passes = (1.0 + kSearchPasses * searches) / kBothSearches;
  const double of_row =
      std::clamp(std::exp2(std::floor(std::log2(kCutBlocks / number(rows)))), 1.0, kSamplerCluster);
  const double at_once = clusters_at_once(of_row, 2.0);
  const double slice = number(vocab) / of_row / kSamplerLogits;
  const double exchange =
      kCutExchange + (of_row == kSamplerCluster ? kWideExchange + kWideRow * number(rows) : 0.0);
  LaunchWork work =
      made(kCutsKind, traffic::tree_tests(rows, vocab, element_bytes), 1.0,
           std::ceil(number(rows) / at_once) * passes *
               (exchange + (element_bytes > 2 ? 1.0 : kCutOfTwoBytes) * kCutStep * slice),
           true);
  work.passes = kCutReads * passes;
  work.working_set = std::min(number(rows), at_once) * number(vocab * element_bytes);
  out.add(work);
}

void Sampler::add(LaunchKind kind, const Traffic& t, double blocks, double share,
                  bool reads_logits) const {
  add_steps(kind, t, blocks, share * number(vocab) / kSamplerLogits, reads_logits);
}

LaunchWork Sampler::made(LaunchKind kind, const Traffic& t, double blocks, double steps,
                         bool reads_logits) const {
  LaunchWork work = streaming(kind, Phase::kAcceptance, 1.0, t, blocks, steps);
  work.handover_distance = t.total();
  read_cold(reads_logits && cold, work);
  return work;
}

void Sampler::add_steps(LaunchKind kind, const Traffic& t, double blocks, double steps,
                        bool reads_logits) const {
  out.add(made(kind, t, blocks, steps, reads_logits));
}

bool is_sampler(LaunchKind kind) {
  return kind >= LaunchKind::kSpecSoftmax && kind <= LaunchKind::kTreeTests;
}

void add_step_sampling(const SamplingCase& c, std::int64_t vocab, std::int64_t nodes,
                       std::int64_t element_bytes, StepWork& out) {
  StepWork alone;
  add_sampling(c, vocab, nodes, element_bytes, false, alone);
  const bool picks = c.width == 0 && chain_in_one_launch(vocab) &&
                     !chain_grid(nodes - 1, c.samples, vocab, c.batch).votes();
  for (const LaunchWork& launch : alone) {
    if (launch.kind != LaunchKind::kSpecPick || picks) {
      out.add(launch);
    }
  }
}

void add_sampling(const SamplingCase& c, std::int64_t vocab, std::int64_t nodes,
                  std::int64_t element_bytes, bool cold, StepWork& out) {
  Sampler sampler{.vocab = vocab, .element_bytes = element_bytes, .cold = cold, .out = out};
  sampler.add_cuts(c, c.width > 0 ? nodes : c.batch * (2 * nodes - 1));
  sampler.cold = cold && !c.cuts();  // the cuts have read the rows
  if (c.width > 0) {
    add_tree_sampler(sampler, c, nodes);
  } else {
    add_chain_sampler(sampler, c, nodes - 1);
  }
}

}  // namespace versieve
