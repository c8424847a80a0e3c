#include "kernels/cpu.h"

#include <algorithm>
#include <vector>

#include "kernels/common/parallel_for.h"
#include "kernels/common/small_work.h"
#include "kernels/spec_sample/categorical.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// What the samples of one sequence share.
struct ChainLaws {
  std::vector<std::vector<double>> softmax;   // the target's softmax: gamma + 1 rows
  std::vector<std::vector<double>> target;    // p: gamma rows, softmax or sigmoids
  std::vector<std::vector<double>> draft;     // q: gamma rows, likewise
  std::vector<std::vector<double>> residual;  // max(0, p - q): gamma rows
};

// Weights of one row as the variant tests them.
template <class T>
std::vector<double> tested_row(const SpecSampleParams<T>& p, const T* logits) {
  if (p.variant == SpecSampleVariant::kSigmoid) {
    return sigmoid_row(logits, p.vocab, {p.temperature, p.alpha, p.beta}, p.truncation);
  }
  return softmax_row(logits, p.vocab, p.temperature, p.truncation);
}

std::vector<double> residual_of(const std::vector<double>& target,
                                const std::vector<double>& draft) {
  std::vector<double> residual(target.size());
  for (std::size_t x = 0; x < target.size(); ++x) {
    residual[x] = std::max(0.0, target[x] - draft[x]);
  }
  return residual;
}

template <class T>
ChainLaws chain_laws(const SpecSampleParams<T>& p, std::int64_t sequence) {
  ChainLaws laws;
  const T* const target = p.target_logits + sequence * (p.gamma + 1) * p.vocab;
  const T* const draft = p.draft_logits + sequence * p.gamma * p.vocab;
  for (std::int64_t c = 0; c <= p.gamma; ++c) {
    laws.softmax.push_back(softmax_row(target + c * p.vocab, p.vocab, p.temperature, p.truncation));
  }
  for (std::size_t c = 0; c < static_cast<std::size_t>(p.gamma); ++c) {
    const std::int64_t first = static_cast<std::int64_t>(c) * p.vocab;
    laws.target.push_back(tested_row(p, target + first));
    laws.draft.push_back(tested_row(p, draft + first));
    laws.residual.push_back(residual_of(laws.target[c], laws.draft[c]));
  }
  return laws;
}

// min(1, p/q); where the draft could not have proposed x: 1 if the target could say it, else 0.
double acceptance(double target, double draft) {
  if (draft > 0.0) {
    return std::min(1.0, target / draft);
  }
  return target > 0.0 ? 1.0 : 0.0;
}

template <class T>
void sample_chain(const SpecSampleParams<T>& p, const ChainLaws& laws, std::int64_t sample) {
  const std::int32_t* drafted = p.draft_tokens + sample * p.gamma;
  const SumOf<T>* uniforms = p.uniforms + sample * (p.gamma + 1);
  std::int32_t* tokens = p.tokens + sample * (p.gamma + 1);
  std::fill_n(tokens, p.gamma + 1, -1);
  std::int64_t accepted = 0;
  for (std::int64_t c = 0; c < p.gamma; ++c) {
    const std::size_t x = static_cast<std::size_t>(drafted[c]);
    VERSIEVE_ASSERT(drafted[c] >= 0 && drafted[c] < p.vocab,
                    "a drafted token is in the vocabulary");
    const std::size_t at = static_cast<std::size_t>(c);
    const double tau = acceptance(laws.target[at][x], laws.draft[at][x]);
    p.tau[sample * p.gamma + c] = static_cast<SumOf<T>>(tau);
    if (accepted == c && laws.target[at][x] > 0.0 && static_cast<double>(uniforms[c]) <= tau) {
      tokens[accepted++] = drafted[c];
    }
  }
  const std::size_t at = static_cast<std::size_t>(accepted);
  const double u = static_cast<double>(uniforms[p.gamma]);
  std::int32_t last = accepted < p.gamma ? draw(laws.residual[at], u) : -1;
  if (last < 0) {  // all accepted, or nothing left of p - q
    last = draw(laws.softmax[at], u);
  }
  tokens[accepted] = last;
  p.accepted[sample] = static_cast<std::int32_t>(accepted);
}

}  // namespace

template <class T>
void spec_sample_cpu(const SpecSampleParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.samples >= 1 && p.gamma >= 0 && p.vocab >= 1 && p.batch >= 1,
                  "spec_sample needs a vocabulary");
  VERSIEVE_ASSERT(
      p.variant != SpecSampleVariant::kSigmoid || (p.temperature > 0.0 && p.alpha < p.beta),
      "sigmoids need a temperature and alpha below beta");
  for (std::int64_t sequence = 0; sequence < p.batch; ++sequence) {
    const ChainLaws laws = chain_laws(p, sequence);
    parallel_for(
        p.samples, p.samples * p.vocab < kSmallElements ? 1 : threads,
        [&](std::int64_t sample) { sample_chain(p, laws, sequence * p.samples + sample); });
  }
}

template void spec_sample_cpu<double>(const SpecSampleParams<double>&, int);
template void spec_sample_cpu<float>(const SpecSampleParams<float>&, int);
template void spec_sample_cpu<Bf16>(const SpecSampleParams<Bf16>&, int);
template void spec_sample_cpu<F16>(const SpecSampleParams<F16>&, int);

}  // namespace versieve::kernels
