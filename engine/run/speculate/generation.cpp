#include "engine/run/speculate/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {

void check_temperature(double temperature) {
  if (!std::isfinite(temperature) || temperature < 0.0) {
    throw Error(ExitCode::kUsage, "the temperature must be a number from 0 up");
  }
  constexpr double kLeastTemperature = 1e-6;  // logits divided by it stay far below f32's largest
  if (temperature > 0.0 && temperature < kLeastTemperature) {
    throw Error(ExitCode::kUsage, "the temperature must be 0, which is greedy, or at least 1e-6");
  }
}

void check_truncation(const kernels::Truncation& truncation) {
  if (truncation.top_k < 0) {
    throw Error(ExitCode::kUsage, "top-k must be an integer from 0 up; 0 keeps all tokens");
  }
  if (!(truncation.top_p > 0.0 && truncation.top_p <= 1.0)) {
    throw Error(ExitCode::kUsage, "top-p must be above 0 and at most 1, which keeps all tokens");
  }
  if (!(truncation.min_p >= 0.0 && truncation.min_p <= 1.0)) {
    throw Error(ExitCode::kUsage, "min-p must be from 0, which keeps all tokens, to 1");
  }
}

void check_sigmoid(const kernels::SigmoidEnds& ends) {
  if (!(std::isfinite(ends.alpha) && std::isfinite(ends.beta) && ends.alpha < ends.beta)) {
    throw Error(ExitCode::kUsage, "sigmoid-alpha must be below sigmoid-beta, both finite");
  }
}

const char* name_of(StopReason reason) {
  switch (reason) {
    case StopReason::kEos:
      return "eos";
    case StopReason::kMaxNewTokens:
      return "max_new_tokens";
    case StopReason::kMaxPosition:
      return "max_position";
    case StopReason::kTextEnd:
      return "text_end";
  }
  VERSIEVE_ASSERT(false, "a reason has a name");
}

double Generation::accepted_per_step() const {
  double yielded = 0.0;
  for (std::size_t a = 0; a < accepted_histogram.size(); ++a) {
    yielded += static_cast<double>(a) * static_cast<double>(accepted_histogram[a]);
  }
  return steps == 0 ? 0.0 : yielded / static_cast<double>(steps);
}

double Generation::decode_seconds() const {
  return std::accumulate(seconds.begin(), seconds.end(), recorded_seconds + rectify_seconds);
}

bool Generation::append(std::span<const std::int32_t> yielded, std::int64_t limit,
                        std::span<const std::int32_t> eos) {
  for (const std::int32_t token : yielded) {
    if (static_cast<std::int64_t>(tokens.size()) == limit) {
      return true;
    }
    tokens.push_back(token);
    if (std::find(eos.begin(), eos.end(), token) != eos.end()) {
      stopped = StopReason::kEos;
      return true;
    }
  }
  return static_cast<std::int64_t>(tokens.size()) == limit;
}

void Generation::count_yield(std::int64_t yield) {
  const std::size_t at = static_cast<std::size_t>(yield);
  if (accepted_histogram.size() <= at) {
    accepted_histogram.resize(at + 1, 0);
  }
  ++accepted_histogram[at];
  ++steps;
}

void Generation::count_move(std::size_t index) {
  moves.push_back({.token = static_cast<std::int64_t>(tokens.size()),
                   .index = static_cast<std::int64_t>(index)});
}

double Generation::tokens_per_second() const {
  const double taken = decode_seconds();
  return taken > 0.0 ? static_cast<double>(tokens.size() - 1) / taken : 0.0;
}

std::optional<Divergence> first_divergence(const Generation& run, const Generation& reference) {
  const std::size_t shared = std::min(run.tokens.size(), reference.tokens.size());
  std::size_t at = 0;
  while (at < shared && run.tokens[at] == reference.tokens[at]) {
    ++at;
  }
  if (at == run.tokens.size() && at == reference.tokens.size()) {
    return std::nullopt;
  }
  const float gap = at < reference.gaps.size() ? reference.gaps[at] : 0.0F;
  return Divergence{static_cast<std::int64_t>(at), gap};
}

}  // namespace versieve::engine
