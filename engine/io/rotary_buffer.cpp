#include "engine/io/rotary_buffer.h"

#include <cmath>
#include <vector>

#include "engine/io/formatted.h"

namespace versieve::engine {
namespace {

// Of a number that was rounded to the type after it was computed in single precision.
double allowed(StorageType type, double value) {
  if (type == StorageType::kBf16) {
    return 0x1p-8 * value;
  }
  return type == StorageType::kF16 ? 0x1p-11 * value + 0x1p-24 : 1e-4 * value;
}

// Where the stored frequencies differ from those first, or -1.
std::int64_t first_difference(const std::vector<double>& stored, StorageType type,
                              const std::vector<double>& right) {
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (!(std::abs(stored[i] - right[i]) <= allowed(type, right[i]))) {
      return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

}  // namespace

std::string frequencies_error(const std::string& name, const TensorView& view,
                              const RotaryBase& rotary) {
  const std::int64_t half = rotary.head_dim / 2;
  if (view.shape != Shape{half}) {
    return "tensor '" + name + "' has the shape " + text_of(view.shape) +
           ", but head_dim asks for " + text_of(Shape{half});
  }
  const std::vector<double> stored = values_as<double>(view, "tensor '" + name + "'");
  const std::vector<double> right =
      rotary_frequencies(rotary.theta, rotary.head_dim, rotary.scaling);
  const std::int64_t at = first_difference(stored, view.type, right);
  if (at < 0 || first_difference(stored, view.type,
                                 rotary_frequencies(rotary.theta, rotary.head_dim, {})) < 0) {
    return {};
  }
  const std::size_t i = static_cast<std::size_t>(at);
  std::string sentence =
      formatted("tensor '%s' holds %.6g at %lld, but rope_theta %.10g makes it %.6g", name.c_str(),
                stored[i], static_cast<long long>(at), rotary.theta, right[i]);
  const double share = 2.0 * static_cast<double>(at) / static_cast<double>(rotary.head_dim);
  if (at > 0 && stored[i] > 0.0 && stored[i] < 1.0) {
    sentence += formatted(": its frequencies are of a base of about %.6g or are scaled",
                          std::pow(stored[i], -1.0 / share));
  }
  return sentence;
}

}  // namespace versieve::engine
