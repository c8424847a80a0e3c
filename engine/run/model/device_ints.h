// A device buffer for the small index lists of a step (tokens, parents, positions, rows), uploaded
// together in one transfer, which the host does not wait for. It only grows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "kernels/staged_upload.h"

namespace versieve::engine {

template <class T>
class DeviceInts {
 public:
  // Room for that many on the device, whose address stays until more is asked for; in powers of
  // two, since recordings go with what is released and prompts of about one length are to keep
  // them. The lists of a short prompt, which is read as a tree, fit up to 30 layers.
  const std::int32_t* reserve(kernels::Ops<T>& ops, std::int64_t count) {
    if (buffer_.count() < count) {
      const std::uint64_t room =
          std::bit_ceil(static_cast<std::uint64_t>(std::max(count, kFewest)));
      buffer_ = kernels::OpsBuffer<T, std::int32_t>(ops, static_cast<std::int64_t>(room));
    }
    return buffer_.data();
  }
  // The values on the device, valid until the next call.
  const std::int32_t* upload(kernels::Ops<T>& ops, const std::vector<std::int32_t>& values) {
    reserve(ops, static_cast<std::int64_t>(values.size()));
    if (const std::size_t bytes = values.size() * sizeof(std::int32_t); bytes > 0) {
      std::memcpy(staged_.block(ops, bytes), values.data(), bytes);
      staged_.send(buffer_.data(), bytes);
    }
    return buffer_.data();
  }
  // Others in the place of those from `first` on. REQUIRES: an upload of them all before.
  void replace(kernels::Ops<T>& ops, std::int64_t first, std::span<const std::int32_t> values) {
    if (!values.empty()) {
      std::memcpy(replaced_.block(ops, values.size_bytes()), values.data(), values.size_bytes());
      replaced_.send(buffer_.data() + first, values.size_bytes());
    }
  }

 private:
  static constexpr std::int64_t kFewest = 16384;  // of 24 layers and 256 tokens, rows to commit

  kernels::OpsBuffer<T, std::int32_t> buffer_;
  kernels::StagedUpload<T> staged_, replaced_;
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
