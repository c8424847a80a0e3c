// One tensor of a safetensors file: its storage type, its shape and where its bytes lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/bf16.h"

namespace versieve::engine {

// Every dtype of the format (research notes on engines, part 10, rule 6).
enum class StorageType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};
const char* name_of(StorageType type);  // as in the file: "BF16"
std::int64_t bits_of(StorageType type);
std::optional<StorageType> storage_type(std::string_view name);

using Shape = std::vector<std::int64_t>;
std::string text_of(const Shape& shape);  // "[2, 32, 64]"

struct TensorView {
  StorageType type = StorageType::kF32;
  Shape shape;                       // empty: a scalar
  std::span<const std::byte> bytes;  // little-endian, C order, not aligned

  std::int64_t count() const;  // elements; the file's rules bound it
};

// The place of the first NaN or infinity among F64, F32, F16 or BF16; -1: there is none, or the
// elements are of another type.
std::int64_t first_not_finite(const TensorView& tensor);

// The elements as T = double, float, Bf16: F64, F32, F16, BF16 are converted, each with one
// rounding to nearest even. T = std::int32_t, std::int64_t: integers and BOOL. Throws
// Error(kBadInput, "<what>: ...") for any other storage type or an integer that does not fit.
template <class T>
std::vector<T> values_as(const TensorView& tensor, const std::string& what);

}  // namespace versieve::engine
