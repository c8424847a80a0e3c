// Rotary frequencies of every kind that checkpoints name (`rope_type` of their config.json): pair i
// of a head of d elements turns by position * frequency(i), and cosines and sines are multiplied by
// the attention factor. Sources: Su et al. (RoFormer) for theta^(-2i/d); Peng et al. (YaRN) for
// kYarn; the Llama 3.1 release for kLlama3.
#pragma once

#include <cstdint>
#include <vector>

namespace versieve {

enum class RopeKind { kDefault, kLinear, kLlama3, kYarn };
const char* name_of(RopeKind kind);  // "default", "linear", "llama3", "yarn"

struct RopeScaling {
  RopeKind kind = RopeKind::kDefault;
  double factor = 1.0;              // by which slow pairs (kLinear: all) are slowed down
  double original_positions = 0.0;  // kLlama3, kYarn: positions the model was first trained on
  double low_freq_factor = 1.0;     // kLlama3: turns over those from which on pairs are slow,
  double high_freq_factor = 4.0;    // and up to which they stay fast
  double beta_fast = 32.0;          // kYarn: turns over those above which pairs stay fast,
  double beta_slow = 1.0;           // and below which they are slowed down
  bool truncates = true;            // kYarn: the ramp begins and ends at whole pairs
  double attention_factor = 1.0;    // kYarn

  bool operator==(const RopeScaling&) const = default;
};

// [head_dim / 2]. REQUIRES: head_dim is even.
std::vector<double> rotary_frequencies(double theta, std::int64_t head_dim,
                                       const RopeScaling& scaling);
// What YaRN's authors multiply by for so many times the positions: 0.1 ln(factor) + 1.
double yarn_attention_factor(double factor, double scale = 1.0);

}  // namespace versieve
