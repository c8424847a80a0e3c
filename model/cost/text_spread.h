// How texts differ in the tokens a step that they yield. A text (one request's answer) is the unit:
// its steps resemble each other, so that a mean is as sure as its texts are many, not its steps.
// The ratio of all tokens to all steps and its variance over texts: Cochran, Sampling Techniques,
// the ratio estimator with whole clusters as units (linearised variance).
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace versieve {

// Of one text. `weight`: of both, where kinds of texts count alike however long their answers are.
struct TextCount {
  double steps = 0.0, tokens = 0.0;
  double weight = 1.0;
};

struct TextRatio {
  double ratio = 0.0;      // all tokens over all steps
  double log_error = 0.0;  // standard deviation of the logarithm of one text's; 0 of a single text
  std::int64_t texts = 0;
};
// REQUIRES: at least one text, every one with steps.
TextRatio ratio_of_texts(std::span<const TextCount> texts);

// How much wider a 90 % interval is whose spread was estimated from so many texts than one of a
// known spread (Student's t over the normal law's). 1 for a spread that is not estimated: 0 texts.
double few_texts_factor(std::int64_t texts);

// What is known of it, from best to least.
enum class TextEvidence {
  kDecoded,  // texts that the pair itself decoded
  kWalked,   // texts of authors, along which it was walked
  kLaw       // nobody counted this pair's texts: as the pairs' that were
};
inline constexpr int kTextEvidenceCount = 3;
const char* name_of(TextEvidence evidence);  // "decoded", "walked", "law"

// From text to text the best child's rate (AcceptanceModel::Positional::first) varies: one number
// for all tuples, whose tokens a step follow it as much as their tree lets them.
struct TextSpread {
  double rate = 0.0;       // its standard deviation; 0: texts are not told apart
  std::int64_t texts = 0;  // that the pair's means were counted on; 0: known otherwise
  TextEvidence evidence = TextEvidence::kLaw;
};
// "as the 32 that the pair decoded"; empty where they are not told apart.
std::string text_of(const TextSpread& spread);

}  // namespace versieve
