// A device buffer for the small index lists of a step (tokens, parents, positions, rows), uploaded
// together in one transfer. It only grows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/ops.h"

namespace versieve::engine {

template <class T>
class DeviceInts {
 public:
  // The values on the device, valid until the next call.
  const std::int32_t* upload(kernels::Ops<T>& ops, const std::vector<std::int32_t>& values) {
    const std::int64_t count = static_cast<std::int64_t>(values.size());
    if (buffer_.count() < count) {
      buffer_ = kernels::OpsBuffer<T, std::int32_t>(ops, std::max(count, 2 * buffer_.count()));
    }
    if (count > 0) {
      buffer_.write(values);
    }
    return buffer_.data();
  }

 private:
  kernels::OpsBuffer<T, std::int32_t> buffer_;
};

// Grows a buffer to at least `count` elements; what it held is lost if it grows.
template <class T, class E>
void ensure_count(kernels::Ops<T>& ops, kernels::OpsBuffer<T, E>& buffer, std::int64_t count) {
  if (buffer.count() < count) {
    buffer = kernels::OpsBuffer<T, E>();  // frees first: the two need not fit together
    buffer = kernels::OpsBuffer<T, E>(ops, count);
  }
}

}  // namespace versieve::engine
