#include "engine/analyse/fit/text_spread_fit.h"

#include <algorithm>
#include <cmath>

namespace versieve::engine {
namespace {

constexpr std::int64_t kFewestTexts = 4;

const AcceptanceModel::Positional* of_context(
    const std::vector<AcceptanceModel::Positional>& positional, std::int64_t context_len) {
  const auto found = std::find_if(positional.begin(), positional.end(),
                                  [context_len](const AcceptanceModel::Positional& p) {
                                    return in_range(context_len, p.context_low, p.context_high);
                                  });
  return found == positional.end() ? nullptr : &*found;
}

}  // namespace

// One rate's spread for all tuples, by least squares over their spreads: those that follow the rate
// most tell most of it. All tuples ran on the same texts, so that many of them are no more texts.
TextSpread fit_text_spread(const AcceptanceEvidence& evidence,
                           const std::vector<AcceptanceModel::Positional>& positional) {
  for (const TextEvidence kind : {TextEvidence::kDecoded, TextEvidence::kWalked}) {
    double product = 0.0, squares = 0.0, texts = 0.0, count = 0.0;
    for (std::size_t i = 0; i < evidence.tuples.size(); ++i) {
      const AcceptanceModel::Measured& m = evidence.tuples[i];
      const AcceptanceModel::Positional* range = of_context(positional, m.context_len);
      if (evidence.counted[i].kind == kind && evidence.counted[i].texts >= kFewestTexts &&
          range != nullptr) {
        const double slope = log_tokens_per_rate(*range, m.draft);
        product += slope * evidence.counted[i].log_error;
        squares += slope * slope;
        texts += static_cast<double>(evidence.counted[i].sources);
        count += 1.0;
      }
    }
    if (count > 0.0 && squares > 0.0) {
      return {.rate = product / squares,
              .texts = static_cast<std::int64_t>(std::lround(texts / count)),
              .evidence = kind};
    }
  }
  return kTextLaw;
}

TextSpread assumed_text_spread(double rate) {
  return {.rate = std::min({kTextLaw.rate, 0.5 * rate, 0.5 * (1.0 - rate)}),
          .texts = 0,
          .evidence = TextEvidence::kLaw};
}

}  // namespace versieve::engine
