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

}  // namespace

std::string frequencies_error(const std::string& name, const TensorView& view,
                              const RotaryBase& rotary) {
  const std::int64_t half = rotary.head_dim / 2;
  if (view.shape != Shape{half}) {
    return "tensor '" + name + "' has the shape " + text_of(view.shape) +
           ", but head_dim asks for " + text_of(Shape{half});
  }
  const std::vector<double> stored = values_as<double>(view, "tensor '" + name + "'");
  for (std::int64_t i = 0; i < half; ++i) {
    const double share = 2.0 * static_cast<double>(i) / static_cast<double>(rotary.head_dim);
    const double right = std::pow(rotary.theta, -share);
    const double found = stored[static_cast<std::size_t>(i)];
    if (!(std::abs(found - right) <= allowed(view.type, right))) {
      std::string sentence =
          formatted("tensor '%s' holds %.6g at %lld, but rope_theta %.10g makes it %.6g",
                    name.c_str(), found, static_cast<long long>(i), rotary.theta, right);
      if (i > 0 && found > 0.0 && found < 1.0) {
        sentence += formatted(": its frequencies are of a base of about %.6g or are scaled",
                              std::pow(found, -1.0 / share));
      }
      return sentence;
    }
  }
  return {};
}

}  // namespace versieve::engine
