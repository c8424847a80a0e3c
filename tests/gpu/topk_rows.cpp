#include "tests/gpu/topk_rows.h"

#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

namespace versieve::test {
namespace {

float special(std::uint32_t pick) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float denormal = std::bit_cast<float>(std::uint32_t{0x00010000});  // exact in bf16 too
  const float pool[] = {kNan, -kNan,    kInfinity, -kInfinity,   0.0F, -0.0F,
                        1.0F, denormal, -denormal, 2 * denormal, 1.0F, -1.0F};
  return pool[pick % std::size(pool)];
}

float score_of(RowForm form, std::int64_t i, std::int64_t length, FastRandom& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (form) {
    case RowForm::kNormal:
      return random.normal();
    case RowForm::kPeaked:
      return std::exp(4.0F * random.normal());
    case RowForm::kFewValues:
      return static_cast<float>(random() % 7) - 3.0F;
    case RowForm::kAllEqual:
      return -0.25F;
    case RowForm::kWidePlateau:
      return random() % 64 == 0 ? 1.0F + random.uniform() : 0.5F;
    case RowForm::kSpecials:
      return special(random());
    case RowForm::kAnyBits:
      return std::bit_cast<float>(random());
    case RowForm::kAscending:
      return static_cast<float>(i);
    case RowForm::kDescending:
      return static_cast<float>(length - i);
    case RowForm::kMasked:
      break;
  }
  return random() % 200 == 0 ? random.normal() : -kInfinity;
}

}  // namespace

std::vector<float> make_row(RowForm form, std::int64_t length, std::uint64_t seed) {
  FastRandom random(seed);
  std::vector<float> row(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    row[static_cast<std::size_t>(i)] = score_of(form, i, length, random);
  }
  return row;
}

std::vector<std::int32_t> make_hint(HintForm form, const std::vector<std::int32_t>& chosen,
                                    std::int64_t length, std::uint64_t seed) {
  FastRandom random(seed + 77);
  std::vector<std::int32_t> hint = chosen;
  const auto any = [&] {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(length));
  };
  for (std::size_t i = 0; i < hint.size(); ++i) {
    switch (form) {
      case HintForm::kNone:
      case HintForm::kExact:
        break;
      case HintForm::kMostly:
        hint[i] = random() % 4 == 0 ? any() : hint[i];
        break;
      case HintForm::kRandom:
        hint[i] = any();
        break;
      case HintForm::kWorst:  // the first indices that were not chosen, or 0
        hint[i] = static_cast<std::int32_t>(i) < chosen[0] ? static_cast<std::int32_t>(i) : 0;
        break;
      case HintForm::kOneIndex:
        hint[i] = chosen[chosen.size() / 2] < 0 ? 0 : chosen[chosen.size() / 2];
        break;
      case HintForm::kAbsent:
        hint[i] = -1;
        break;
      case HintForm::kOutside:
        hint[i] = random() % 3 == 0 ? hint[i] : static_cast<std::int32_t>(random());
        break;
    }
  }
  return hint;
}

}  // namespace versieve::test
