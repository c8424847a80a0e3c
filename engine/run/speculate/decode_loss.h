// How much worse a decoder predicts a text the longer it decodes: the natural-log loss of each
// token of a continuation that is decoded token by token, the true token committed each time. Dense
// attention, or ReSA with its rectification, whose error must stay within a period.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/run/model/target.h"

namespace versieve::engine {

struct DecodeLossOptions {
  std::optional<kernels::ResaSelection> resa;  // none: dense
  std::int64_t rectify_every = 0;              // f; 0: never
};

// Losses of text[prefix + 1] and those after it; the prefix is encoded densely, and token i of the
// result is predicted after i + 1 decoding steps. REQUIRES: 1 <= prefix <= text.size() - 2.
template <class T>
std::vector<double> decode_losses(kernels::Ops<T>& ops, Target<T>& target,
                                  std::span<const std::int32_t> text, std::int64_t prefix,
                                  const DecodeLossOptions& options);

}  // namespace versieve::engine
