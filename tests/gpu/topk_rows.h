// Rows and hints for the GPU tests of topk: spreads, ties and bit patterns that selections get
// wrong, hints from perfect to absurd.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace versieve::test {

enum class RowForm {
  kNormal,       // ordinary scores
  kPeaked,       // exp of a wide normal, as attention's weights
  kFewValues,    // seven values: plateaus everywhere
  kAllEqual,     // one plateau
  kWidePlateau,  // one large plateau at the cut, a few scores above
  kSpecials,     // NaN of both signs, infinities, zeros of both signs, denormals
  kAnyBits,      // random bit patterns
  kAscending,
  kDescending,
  kMasked,  // -inf but for a few
};
inline constexpr RowForm kRowForms[] = {
    RowForm::kNormal,      RowForm::kPeaked,   RowForm::kFewValues, RowForm::kAllEqual,
    RowForm::kWidePlateau, RowForm::kSpecials, RowForm::kAnyBits,   RowForm::kAscending,
    RowForm::kDescending,  RowForm::kMasked};

enum class HintForm { kNone, kExact, kMostly, kRandom, kWorst, kOneIndex, kAbsent, kOutside };
inline constexpr HintForm kHintForms[] = {HintForm::kNone,   HintForm::kExact,  HintForm::kMostly,
                                          HintForm::kRandom, HintForm::kWorst,  HintForm::kOneIndex,
                                          HintForm::kAbsent, HintForm::kOutside};

// Scores [length] of that form.
std::vector<float> make_row(RowForm form, std::int64_t length, std::uint64_t seed);
// A hint [k]; `chosen` [k]: the true indices, -1 padded. REQUIRES: form is not kNone.
std::vector<std::int32_t> make_hint(HintForm form, const std::vector<std::int32_t>& chosen,
                                    std::int64_t length, std::uint64_t seed);

// A cheap stream of random 32-bit numbers.
class FastRandom {
 public:
  using result_type = std::uint32_t;
  explicit FastRandom(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return 0xFFFFFFFFU; }
  result_type operator()() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto mixed = static_cast<std::uint32_t>((state_ >> 22 ^ state_) >> (22 + (state_ >> 61)));
    return mixed;
  }
  // In [0, 1).
  float uniform() { return static_cast<float>((*this)() >> 8) * 0x1p-24F; }
  // Near normal: a sum of four uniforms, scaled to unit variance.
  float normal() { return (uniform() + uniform() + uniform() + uniform() - 2.0F) * 1.7320508F; }

 private:
  std::uint64_t state_;
};

}  // namespace versieve::test
