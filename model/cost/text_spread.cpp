#include "model/cost/text_spread.h"

#include <algorithm>
#include <cmath>

#include "model/words/assert.h"
#include "model/words/normal_law.h"

namespace versieve {

TextRatio ratio_of_texts(std::span<const TextCount> texts) {
  double steps = 0.0;
  double tokens = 0.0;
  for (const TextCount& t : texts) {
    steps += t.weight * t.steps;
    tokens += t.weight * t.tokens;
  }
  VERSIEVE_ASSERT(steps > 0.0 && tokens > 0.0, "texts have steps, and a step yields a token");
  TextRatio out{.ratio = tokens / steps, .texts = static_cast<std::int64_t>(texts.size())};
  if (texts.size() < 2) {
    return out;
  }
  double squares = 0.0;
  for (const TextCount& t : texts) {
    const double apart = t.weight * (t.tokens - out.ratio * t.steps);
    squares += apart * apart;
  }
  const double count = static_cast<double>(texts.size());
  out.log_error = std::sqrt(count / (count - 1.0) * squares * count) / tokens;
  return out;
}

// The first two terms of the expansion of Student's t in powers of 1 / degrees of freedom
// (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5), within 1 % from four on.
double few_texts_factor(std::int64_t texts) {
  if (texts < 1) {
    return 1.0;
  }
  constexpr double z = kNinety;
  const double freedom = static_cast<double>(std::max<std::int64_t>(1, texts - 1));
  const double first = (z * z * z + z) / 4.0;
  const double second = (5.0 * std::pow(z, 5) + 16.0 * z * z * z + 3.0 * z) / 96.0;
  return 1.0 + (first / freedom + second / (freedom * freedom)) / z;
}

const char* name_of(TextEvidence evidence) {
  switch (evidence) {
    case TextEvidence::kDecoded:
      return "decoded";
    case TextEvidence::kWalked:
      return "walked";
    case TextEvidence::kLaw:
      return "law";
  }
  return "";
}

std::string text_of(const TextSpread& spread) {
  if (spread.rate == 0.0) {
    return "";
  }
  const std::string count = std::to_string(spread.texts);
  switch (spread.evidence) {
    case TextEvidence::kDecoded:
      return "as the " + count + " that the pair decoded";
    case TextEvidence::kWalked:
      return "as the " + count + " that the pair was walked along";
    case TextEvidence::kLaw:
      return "nobody counted this pair's tokens text by text, so as those of the pair that was "
             "counted so";
  }
  return "";
}

}  // namespace versieve
