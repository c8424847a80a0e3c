#include "model/launches/sampling.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/spec_sample.h"
#include "model/launches/tree_sample.h"

namespace versieve {
namespace {

// Passes over a row that a search is worth, and what each takes beside its reading, in steps of 4
// KiB of a block (kernels/spec_sample/MEASURED.md).
constexpr double kSearchPasses = 6.0, kPassStep = 12.0;
constexpr double kSearchBlocks = 264.0;  // of the chip, which rows share out

}  // namespace

void Sampler::add_cuts(const SamplingCase& c, std::int64_t rows) const {
  if (!c.cuts()) {
    return;
  }
  const double searches = (c.top_k > 0 ? 1.0 : 0.0) + (c.top_p < 1.0 ? 1.0 : 0.0);
  const double of_row = std::clamp(std::exp2(std::floor(std::log2(kSearchBlocks / number(rows)))),
                                   1.0, kSamplerCluster);
  const double waves = std::ceil(number(rows) * of_row / kSearchBlocks);
  const double pass = number(vocab * element_bytes) / 4.0 / of_row / kSamplerLogits;
  add_steps(LaunchKind::kSpecChain, traffic::tree_tests(rows, vocab, element_bytes), 1.0,
            waves * (pass + searches * kSearchPasses * (pass + kPassStep)), true);
}

void Sampler::add(LaunchKind kind, const Traffic& t, double blocks, double share,
                  bool reads_logits) const {
  add_steps(kind, t, blocks, share * number(vocab) / kSamplerLogits, reads_logits);
}

void Sampler::add_steps(LaunchKind kind, const Traffic& t, double blocks, double steps,
                        bool reads_logits) const {
  LaunchWork work = streaming(kind, Phase::kAcceptance, 1.0, t, blocks, steps);
  work.handover_distance = t.total();
  read_cold(reads_logits && cold, work);
  out.add(work);
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
