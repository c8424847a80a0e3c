#include "engine/io/tensor_view.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/common/f16.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor bytes are read as they lie");

struct TypeRow {
  StorageType type;
  const char* name;
  std::int64_t bits;
};
constexpr std::array<TypeRow, 22> kTypes = {{
    {StorageType::kBool, "BOOL", 8},
    {StorageType::kF4, "F4", 4},
    {StorageType::kF6E2M3, "F6_E2M3", 6},
    {StorageType::kF6E3M2, "F6_E3M2", 6},
    {StorageType::kU8, "U8", 8},
    {StorageType::kI8, "I8", 8},
    {StorageType::kF8E5M2, "F8_E5M2", 8},
    {StorageType::kF8E4M3, "F8_E4M3", 8},
    {StorageType::kF8E8M0, "F8_E8M0", 8},
    {StorageType::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8},
    {StorageType::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8},
    {StorageType::kI16, "I16", 16},
    {StorageType::kU16, "U16", 16},
    {StorageType::kF16, "F16", 16},
    {StorageType::kBf16, "BF16", 16},
    {StorageType::kI32, "I32", 32},
    {StorageType::kU32, "U32", 32},
    {StorageType::kF32, "F32", 32},
    {StorageType::kC64, "C64", 64},
    {StorageType::kF64, "F64", 64},
    {StorageType::kI64, "I64", 64},
    {StorageType::kU64, "U64", 64},
}};

const TypeRow& row_of(StorageType type) {
  const TypeRow& row = kTypes[static_cast<std::size_t>(type)];
  VERSIEVE_ASSERT(row.type == type, "the table stands in the order of the enumeration");
  return row;
}

template <class E>
E element(const TensorView& tensor, std::int64_t index) {
  E value;
  std::memcpy(&value, tensor.bytes.data() + index * static_cast<std::int64_t>(sizeof(E)),
              sizeof(E));
  return value;
}

// IEEE half precision: exact in float.
float half_to_float(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1f) {
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  return exponent == 0 ? sign * std::ldexp(static_cast<float>(fraction), -24)
                       : sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

// One rounding to T, to nearest even.
template <class T, class V>
T rounded(V value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return to_bf16(value);
  } else if constexpr (std::is_same_v<T, F16>) {
    return to_f16(value);
  } else {
    return static_cast<T>(value);
  }
}

[[noreturn]] void refuse(const TensorView& tensor, const std::string& what, const char* wanted) {
  throw Error(ExitCode::kBadInput,
              what + ": is stored as " + name_of(tensor.type) + ", where " + wanted + " is needed");
}

template <class T>
std::vector<T> floats_as(const TensorView& tensor, const std::string& what) {
  const std::int64_t count = tensor.count();
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    T& value = values[static_cast<std::size_t>(i)];
    if (tensor.type == StorageType::kF32) {
      value = rounded<T>(element<float>(tensor, i));
    } else if (tensor.type == StorageType::kBf16) {
      const Bf16 stored = element<Bf16>(tensor, i);
      if constexpr (std::is_same_v<T, Bf16>) {
        value = stored;
      } else {
        value = rounded<T>(to_float(stored));
      }
    } else if (tensor.type == StorageType::kF64) {
      value = rounded<T>(element<double>(tensor, i));
    } else if (tensor.type == StorageType::kF16) {
      value = rounded<T>(half_to_float(element<std::uint16_t>(tensor, i)));
    } else {
      refuse(tensor, what, "F64, F32, F16 or BF16");
    }
  }
  return values;
}

template <class T, class E>
std::vector<T> integers_from(const TensorView& tensor, const std::string& what) {
  const std::int64_t count = tensor.count();
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const E stored = element<E>(tensor, i);
    if (!std::in_range<T>(stored)) {
      throw Error(ExitCode::kBadInput,
                  what + ": the integer " + std::to_string(stored) + " is out of range");
    }
    values[static_cast<std::size_t>(i)] = static_cast<T>(stored);
  }
  return values;
}

template <class T>
std::vector<T> integers_as(const TensorView& tensor, const std::string& what) {
  if (tensor.type == StorageType::kBool || tensor.type == StorageType::kU8) {
    return integers_from<T, std::uint8_t>(tensor, what);
  }
  if (tensor.type == StorageType::kI8) {
    return integers_from<T, std::int8_t>(tensor, what);
  }
  if (tensor.type == StorageType::kI16) {
    return integers_from<T, std::int16_t>(tensor, what);
  }
  if (tensor.type == StorageType::kU16) {
    return integers_from<T, std::uint16_t>(tensor, what);
  }
  if (tensor.type == StorageType::kI32) {
    return integers_from<T, std::int32_t>(tensor, what);
  }
  if (tensor.type == StorageType::kU32) {
    return integers_from<T, std::uint32_t>(tensor, what);
  }
  if (tensor.type == StorageType::kI64) {
    return integers_from<T, std::int64_t>(tensor, what);
  }
  if (tensor.type == StorageType::kU64) {
    return integers_from<T, std::uint64_t>(tensor, what);
  }
  refuse(tensor, what, "an integer type");
}

// The first element with all bits of the exponent set. Blocks without a way out, which a compiler
// makes wide: weights are gigabytes.
template <class Bits>
std::int64_t first_with_all(const TensorView& tensor, Bits exponent) {
  constexpr std::int64_t kBlock = 4096;
  const std::int64_t count = tensor.count();
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    Bits found = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      found |= (element<Bits>(tensor, i) & exponent) == exponent ? 1 : 0;
    }
    for (std::int64_t i = begin; found != 0 && i < end; ++i) {
      if ((element<Bits>(tensor, i) & exponent) == exponent) {
        return i;
      }
    }
  }
  return -1;
}

}  // namespace

const char* name_of(StorageType type) {
  return row_of(type).name;
}

std::int64_t bits_of(StorageType type) {
  return row_of(type).bits;
}

std::optional<StorageType> storage_type(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (name == row.name) {
      return row.type;
    }
  }
  return std::nullopt;
}

std::string text_of(const Shape& shape) {
  constexpr std::size_t kMost = 8;  // a file may say any number of extents
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(shape.size(), kMost); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + (shape.size() > kMost ? ", ...]" : "]");
}

std::int64_t TensorView::count() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    product *= extent;
  }
  return product;
}

std::int64_t first_not_finite(const TensorView& tensor) {
  if (tensor.type == StorageType::kF64) {
    return first_with_all<std::uint64_t>(tensor, 0x7ff0000000000000);
  }
  if (tensor.type == StorageType::kF32) {
    return first_with_all<std::uint32_t>(tensor, 0x7f800000);
  }
  if (tensor.type == StorageType::kBf16) {
    return first_with_all<std::uint16_t>(tensor, 0x7f80);
  }
  return tensor.type == StorageType::kF16 ? first_with_all<std::uint16_t>(tensor, 0x7c00) : -1;
}

template <class T>
std::vector<T> values_as(const TensorView& tensor, const std::string& what) {
  if constexpr (std::is_integral_v<T>) {
    return integers_as<T>(tensor, what);
  } else {
    return floats_as<T>(tensor, what);
  }
}

template std::vector<double> values_as<double>(const TensorView&, const std::string&);
template std::vector<float> values_as<float>(const TensorView&, const std::string&);
template std::vector<Bf16> values_as<Bf16>(const TensorView&, const std::string&);
template std::vector<F16> values_as<F16>(const TensorView&, const std::string&);
template std::vector<std::int32_t> values_as<std::int32_t>(const TensorView&, const std::string&);
template std::vector<std::int64_t> values_as<std::int64_t>(const TensorView&, const std::string&);

}  // namespace versieve::engine
