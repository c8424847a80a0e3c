// Another engine's speculative sampling of a chain: R draws, each of accepted tokens and a last
// one, against P(accept c, then y) = tau_1 .. tau_c (1 - tau_{c+1}) residual_{c+1}(y), which the
// drafted tokens fix.
#include <algorithm>
#include <optional>

#include "engine/io/formatted.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/judge_draws.h"
#include "engine/measure/door/judges.h"
#include "engine/measure/door/sampling.h"
#include "engine/measure/door/workspace.h"

namespace versieve::engine {
namespace {

using Weights = std::vector<double>;

// One position: p and q as the variant tests them, and the law of a last token after a rejection.
struct Position {
  Weights target, draft, last;
};

struct Chain {
  std::int64_t gamma = 0, vocab = 0;
  std::vector<Position> positions;  // gamma
  Weights bonus;
  std::vector<std::int32_t> drafted;  // [R, gamma], or [gamma] of all draws
  bool many = false;

  const std::int32_t* drafts(std::int64_t draw) const {
    return drafted.data() + (many ? draw * gamma : 0);
  }
  double tau(std::int64_t c, std::int32_t x) const {
    const Position& at = positions[static_cast<std::size_t>(c)];
    const double p = at.target[static_cast<std::size_t>(x)];
    const double q = at.draft[static_cast<std::size_t>(x)];
    return q > 0.0 ? std::min(1.0, p / q) : (p > 0.0 ? 1.0 : 0.0);
  }
  // Accepted always, whatever rounding does.
  bool is_sure(std::int64_t c, std::int32_t x) const {
    const Position& at = positions[static_cast<std::size_t>(c)];
    const double p = at.target[static_cast<std::size_t>(x)];
    return p > 0.0 && p >= at.draft[static_cast<std::size_t>(x)] * (1.0 + kRounding);
  }
  const Weights& last(std::int64_t accepted) const {
    return accepted == gamma ? bonus : positions[static_cast<std::size_t>(accepted)].last;
  }
};

Weights normalised(Weights weights) {
  const double sum = kernels::sum_of(weights);
  for (double& weight : weights) {
    weight /= sum;
  }
  return weights;
}

template <class T>
Position position_of(const T* target, const T* draft, std::int64_t vocab, double temperature,
                     const std::optional<kernels::SigmoidScale>& scale,
                     const kernels::Truncation& cuts) {
  Position out;
  out.target = scale ? kernels::sigmoid_row(target, vocab, *scale, cuts)
                     : kernels::softmax_row(target, vocab, temperature, cuts);
  out.draft = scale ? kernels::sigmoid_row(draft, vocab, *scale, cuts)
                    : kernels::softmax_row(draft, vocab, temperature, cuts);
  Weights residual(out.target.size());
  for (std::size_t x = 0; x < residual.size(); ++x) {
    residual[x] = std::max(0.0, out.target[x] - out.draft[x]);
  }
  out.last = kernels::sum_of(residual) > 0.0
                 ? normalised(std::move(residual))
                 : kernels::softmax_row(target, vocab, temperature, cuts);
  return out;
}

template <class T>
Chain read_chain(DoorInput& input, const DoorRequest& request) {
  Chain out;
  if (input.rank("target_logits") == 3) {
    input.refuse("holds several sequences: they are judged one by one");
  }
  const std::vector<T> draft = logits<T>(input, "draft_logits", "gamma,V");
  input.require_at_least("V", 1);
  input.set_dim("gamma+1", input.dim("gamma") + 1);
  const std::vector<T> target = logits<T>(input, "target_logits", "gamma+1,V");
  out.gamma = input.dim("gamma");
  out.vocab = input.dim("V");
  out.many = input.rank("draft_tokens") == 2;
  out.drafted = vocabulary_tokens(input, "draft_tokens", out.many ? "R,gamma" : "gamma");
  const double heat = temperature(input);
  const kernels::Truncation cuts = truncation(input);
  std::optional<kernels::SigmoidScale> scale;
  if (request.variant == "sigmoid") {
    scale = {heat, input.number_key("alpha"), input.number_key("beta")};
    if (heat == 0.0 || scale->alpha >= scale->beta) {
      input.refuse("sigmoid needs a temperature above 0 and alpha below beta");
    }
  }
  for (std::int64_t c = 0; c < out.gamma; ++c) {
    out.positions.push_back(position_of(target.data() + c * out.vocab, draft.data() + c * out.vocab,
                                        out.vocab, heat, scale, cuts));
  }
  out.bonus = kernels::softmax_row(target.data() + out.gamma * out.vocab, out.vocab, heat, cuts);
  return out;
}

// Adds the chance of each place to be the last of a draw of these drafted tokens.
void add_stops(const Chain& chain, const std::int32_t* drafts, Weights& stops) {
  double reached = 1.0;
  for (std::int64_t c = 0; c < chain.gamma; ++c) {
    const double tau = chain.tau(c, drafts[c]);
    stops[static_cast<std::size_t>(c)] += reached * (1.0 - tau);
    reached *= tau;
  }
  stops[static_cast<std::size_t>(chain.gamma)] += reached;
}

// Why a token cannot stand after the accepted ones; rounding is given the benefit of the doubt.
std::string no_last_token(const Chain& chain, std::int64_t accepted, std::int32_t token) {
  if (token < 0 || token >= chain.vocab) {
    return formatted("emits token %d, which is not in the vocabulary", token);
  }
  const std::size_t y = static_cast<std::size_t>(token);
  if (chain.last(accepted)[y] > 0.0) {
    return "";
  }
  if (accepted < chain.gamma) {
    const Position& at = chain.positions[static_cast<std::size_t>(accepted)];
    if (at.target[y] > 0.0 && at.target[y] >= at.draft[y] * (1.0 - kRounding)) {
      return "";
    }
  }
  return formatted("emits token %d after %lld accepted ones, where its probability is 0", token,
                   static_cast<long long>(accepted));
}

std::string no_draw(const Chain& chain, const std::int32_t* drafts,
                    const std::vector<std::int32_t>& emitted) {
  if (emitted.empty()) {
    return "emits no token";
  }
  const std::int64_t accepted = static_cast<std::int64_t>(emitted.size()) - 1;
  for (std::int64_t c = 0; c < accepted; ++c) {
    if (emitted[static_cast<std::size_t>(c)] != drafts[c]) {
      return formatted("emits token %d at position %lld, where %d was drafted, and goes on",
                       emitted[static_cast<std::size_t>(c)], static_cast<long long>(c), drafts[c]);
    }
    if (chain.tau(c, drafts[c]) <= 0.0) {
      return formatted("accepts token %d at position %lld, whose probability is 0", drafts[c],
                       static_cast<long long>(c));
    }
  }
  if (accepted < chain.gamma && chain.is_sure(accepted, drafts[accepted])) {
    return formatted("rejects token %d at position %lld, which is always accepted",
                     drafts[accepted], static_cast<long long>(accepted));
  }
  return no_last_token(chain, accepted, emitted.back());
}

Chain chain_of(DoorInput& input, const DoorRequest& request) {
  switch (request.dtype) {
    case kernels::Dtype::kF64:
      return read_chain<double>(input, request);
    case kernels::Dtype::kF32:
      return read_chain<float>(input, request);
    case kernels::Dtype::kF16:
      return read_chain<F16>(input, request);
    case kernels::Dtype::kBf16:
      break;
  }
  return read_chain<Bf16>(input, request);
}

}  // namespace

Judgement judge_spec_sample(DoorInput& input, DoorInput& answers, const DoorRequest& request) {
  const Chain chain = chain_of(input, request);
  const Draws draws = read_draws(answers, chain.gamma + 1);
  if (chain.many && draws.count() != input.dim("R")) {
    answers.refuse(formatted("holds %lld draws, and the inputs %lld",
                             static_cast<long long>(draws.count()),
                             static_cast<long long>(input.dim("R"))));
  }
  DrawTally tally("spec_sample", chain.gamma + 1, chain.vocab);
  Weights stops(static_cast<std::size_t>(chain.gamma) + 1);
  for (std::int64_t r = 0; r < draws.count(); ++r) {
    const std::vector<std::int32_t>& emitted = draws.emitted[static_cast<std::size_t>(r)];
    const std::string fault = no_draw(chain, chain.drafts(r), emitted);
    if (!fault.empty()) {
      tally.refuse_draw(r, fault);
      continue;
    }
    add_stops(chain, chain.drafts(r), stops);
    tally.count({static_cast<std::int64_t>(emitted.size()) - 1, emitted.back()});
  }
  for (std::int64_t c = 0; c <= chain.gamma; ++c) {
    for (std::int64_t y = 0; y < chain.vocab; ++y) {
      tally.expected[tally.at(c, y)] =
          stops[static_cast<std::size_t>(c)] * chain.last(c)[static_cast<std::size_t>(y)];
    }
  }
  return judged_draws(tally, are_same_draws(input, request, draws));
}

}  // namespace versieve::engine
