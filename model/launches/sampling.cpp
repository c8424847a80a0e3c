#include "model/launches/sampling.h"

#include "model/launches/launch_parts.h"
#include "model/launches/spec_sample.h"
#include "model/launches/tree_sample.h"

namespace versieve {

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

void add_sampling(const SamplingCase& c, std::int64_t vocab, std::int64_t nodes,
                  std::int64_t element_bytes, bool cold, StepWork& out) {
  const Sampler sampler{.vocab = vocab, .element_bytes = element_bytes, .cold = cold, .out = out};
  if (c.width > 0) {
    add_tree_sampler(sampler, c, nodes);
  } else if (c.algorithm == SamplingAlgorithm::kBaseline) {
    add_baseline_chain_sampler(sampler, nodes - 1, c.samples);
  } else {
    add_chain_sampler(sampler, c.algorithm == SamplingAlgorithm::kSigmoid, nodes - 1, c.samples);
  }
}

}  // namespace versieve
