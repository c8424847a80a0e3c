#include "engine/analyse/serve/serving_evidence.h"

#include <algorithm>
#include <optional>

#include "model/words/request_range.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kLeastContext = 1024;  // the end of the first bucket

// The end of a number's doubling range.
std::int64_t doubling_end(std::int64_t value, std::int64_t first) {
  std::int64_t end = first;
  while (end < value) {
    end *= 2;
  }
  return end;
}

bool is_strict(const Strategy& s) {
  return s.precision() == PrecisionClass::kStrict;
}

void add_tokens(const AcceptanceMeasurement& a, bool at_least, std::int64_t texts,
                DraftTokens& to) {
  const double steps = static_cast<double>(a.steps);
  to.steps += steps;
  to.sum += steps * a.accepted_per_step;
  to.at_least = to.at_least || at_least;
  to.texts = std::max(to.texts, texts);
  to.emitted.resize(std::max(to.emitted.size(), a.accepted_histogram.size()));
  for (std::size_t i = 0; i < a.accepted_histogram.size(); ++i) {
    to.emitted[i] += static_cast<double>(a.accepted_histogram[i]);
    to.counted += static_cast<double>(a.accepted_histogram[i]);
  }
}

}  // namespace

ServingEvidence serving_evidence(const ServingInput& input) {
  ServingEvidence out;
  for (const PointMeasurement& m : input.acceptance) {
    const Strategy s = Strategy::parse(m.key.strategy);
    if (!m.acceptance || m.acceptance->steps < 1 || !s.draft.speculates()) {
      continue;
    }
    if (!is_strict(s)) {
      out.lossy += 1;
      continue;
    }
    const std::optional<RequestRange> requests = requests_of(m.key.regime);
    out.unknown_requests = out.unknown_requests || !requests;
    const RequestRange range = requests.value_or(RequestRange{});
    const CellEnds place{doubling_end(m.key.context_len, kLeastContext),
                         doubling_end(range.high, 1)};
    out.contexts.insert(place.first);
    const std::int64_t texts =
        std::max<std::int64_t>(range.low, static_cast<std::int64_t>(m.acceptance->texts.size()));
    add_tokens(*m.acceptance, m.reliability == Reliability::kAtLeast, texts,
               out.tokens[place][s.draft]);
  }
  for (const PointMeasurement& m : input.steps) {
    const Strategy s = Strategy::parse(m.key.strategy);
    if (m.time_ns.empty() || !is_strict(s)) {
      continue;
    }
    if (s.form == NsaForm::kVanilla) {
      out.slow_form += 1;
      continue;
    }
    const RequestRange range = requests_of(m.key.regime).value_or(RequestRange{});
    const StepSetting setting{s.attention, m.key.dtype, m.key.launch, m.key.temperature};
    std::vector<double>& us = out.times[{doubling_end(m.key.context_len, kLeastContext),
                                         doubling_end(range.high, 1)}][s.draft]
                                  .us[setting][m.key.strategy];
    for (const double ns : m.time_ns) {
      us.push_back(1e-3 * ns);
    }
  }
  return out;
}

}  // namespace versieve::engine
