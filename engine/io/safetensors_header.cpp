#include "engine/io/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/io/strict_json.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 3;  // header, tensor, shape

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw Error(ExitCode::kBadInput, source + ": " + what);
}

// Names the tensor in every sentence about it.
struct TensorContext {
  const std::string& source;
  const std::string& name;

  [[noreturn]] void refuse(const std::string& what) const {
    versieve::engine::refuse(source, "tensor '" + name + "' " + what);
  }
};

std::int64_t unsigned_of(const json& value, const TensorContext& context, const char* where) {
  constexpr std::uint64_t kMost = static_cast<std::uint64_t>(INT64_MAX);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMost) {
    context.refuse(std::string("has a ") + where + " that is no unsigned integer in range");
  }
  return value.get<std::int64_t>();
}

Shape shape_of(const json& value, const TensorContext& context) {
  if (!value.is_array()) {
    context.refuse("has a shape that is no list");
  }
  Shape shape;
  for (const json& extent : value) {
    shape.push_back(unsigned_of(extent, context, "shape"));
  }
  return shape;
}

// Bytes of the shape; refuses a product that overflows and sub-byte types that end inside a byte.
std::int64_t byte_count(const HeaderEntry& entry, const TensorContext& context) {
  std::int64_t bits = bits_of(entry.type);
  std::int64_t count = 1;
  for (const std::int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(count, extent, &count)) {
      context.refuse("has a shape whose product overflows");
    }
  }
  if (__builtin_mul_overflow(bits, count, &bits)) {
    context.refuse("has a shape whose product overflows");
  }
  if (bits % 8 != 0) {
    context.refuse("does not fill whole bytes");
  }
  return bits / 8;
}

HeaderEntry entry_of(const json& value, const TensorContext& context) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    context.refuse("must have dtype, shape and data_offsets and nothing else");
  }
  HeaderEntry entry;
  const json& type = value["dtype"];
  const std::optional<StorageType> known =
      type.is_string() ? storage_type(type.get<std::string>()) : std::nullopt;
  if (!known) {
    context.refuse("has the unknown dtype " + type.dump());
  }
  entry.type = *known;
  entry.shape = shape_of(value["shape"], context);
  const json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) {
    context.refuse("must have two data_offsets");
  }
  entry.begin = unsigned_of(offsets[0], context, "data offset");
  entry.end = unsigned_of(offsets[1], context, "data offset");
  if (entry.end < entry.begin || entry.end - entry.begin != byte_count(entry, context)) {
    context.refuse("has data_offsets that do not match its dtype and shape");
  }
  return entry;
}

std::map<std::string, std::string> metadata_of(const json& value, const std::string& source) {
  if (value.is_null()) {  // as the format's own reader takes it: none
    return {};
  }
  if (!value.is_object()) {
    refuse(source, "__metadata__ is no object");
  }
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      refuse(source, "__metadata__ holds '" + key + "', which is no string but " + text.dump());
    }
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Rule 3: sorted by offset, the tensors cover the buffer without hole or overlap.
void check_tiling(const SafetensorsHeader& header, std::int64_t data_bytes,
                  const std::string& source) {
  std::vector<std::pair<const std::string*, const HeaderEntry*>> order;
  for (const auto& [name, entry] : header.entries) {
    order.emplace_back(&name, &entry);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  std::int64_t end = 0;
  for (const auto& [name, entry] : order) {
    if (entry->begin != end) {
      const char* what = entry->begin < end ? "overlaps another tensor" : "leaves a hole before it";
      refuse(source, "tensor '" + *name + "' " + what);
    }
    end = entry->end;
  }
  if (end != data_bytes) {
    refuse(source, "the tensors cover " + std::to_string(end) + " bytes, but the file holds " +
                       std::to_string(data_bytes) + " bytes of data");
  }
}

// What the file is instead, by its first 8 bytes; empty: it may be safetensors.
const char* other_format(std::span<const std::byte> first8) {
  struct Magic {
    std::string_view bytes;
    const char* what;
  };
  constexpr Magic kMagic[] = {
      {"version ",
       "is a text, as Git LFS leaves in a file's place until `git lfs pull` fetches it"},
      {"\x93NUMPY",
       "is a NumPy array (.npy), not safetensors: safetensors.numpy.save_file({name: array}, FILE, "
       "metadata={...}) writes it as one"},
      {"PK\x03\x04",
       "is a zip archive, as torch.save and numpy.savez write, not safetensors: "
       "safetensors.torch.save_file or safetensors.numpy.save_file writes its tensors as one"},
      {"\x80\x02", "is a pickle of Python, not safetensors: save its tensors with safetensors"},
      {"\x80\x04", "is a pickle of Python, not safetensors: save its tensors with safetensors"},
      {"\x89HDF", "is an HDF5 file, not safetensors: save its tensors with safetensors"}};
  for (const Magic& magic : kMagic) {
    // A length of 0x80 and a few bytes may be a header's: a pickle's next byte is an opcode.
    const bool is_pickle = magic.bytes.front() == '\x80';
    const bool is_long = is_pickle && first8[6] == std::byte{0} && first8[7] == std::byte{0};
    if (!is_long && std::memcmp(first8.data(), magic.bytes.data(), magic.bytes.size()) == 0) {
      return magic.what;
    }
  }
  return "";
}

}  // namespace

std::int64_t header_length(std::span<const std::byte> first8, std::int64_t file_bytes,
                           const std::string& source) {
  if (file_bytes < kLengthBytes) {
    refuse(source, "is too short to be a safetensors file");
  }
  VERSIEVE_ASSERT(first8.size() >= static_cast<std::size_t>(kLengthBytes), "8 bytes were read");
  if (const char* other = other_format(first8); *other != '\0') {
    refuse(source, other);
  }
  std::uint64_t length = 0;
  std::memcpy(&length, first8.data(), sizeof(length));
  if (length > static_cast<std::uint64_t>(kMaxHeaderBytes)) {
    refuse(source, "declares a header of " + std::to_string(length) +
                       " bytes, more than the 100,000,000 that the format allows");
  }
  if (static_cast<std::int64_t>(length) > file_bytes - kLengthBytes) {
    refuse(source,
           "declares a header of " + std::to_string(length) + " bytes, but the file ends before");
  }
  return static_cast<std::int64_t>(length);
}

SafetensorsHeader parse_header(std::string_view text, std::int64_t data_bytes,
                               const std::string& source) {
  // The format asks for '{' at once; its own reader passes over white space, as any JSON reader.
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (text.starts_with("\xef\xbb\xbf")) {
    refuse(source, "has a header that is no JSON object: it begins with a byte order mark");
  }
  if (first == std::string_view::npos || text[first] != '{') {
    refuse(source, "has a header that is no JSON object");
  }
  const json document = parse_strict_json(text, kMaxDepth, source + ": header");
  SafetensorsHeader header;
  for (const auto& [name, value] : document.items()) {
    if (name == "__metadata__") {
      header.metadata = metadata_of(value, source);
    } else {
      header.entries[name] = entry_of(value, TensorContext{source, name});
    }
  }
  check_tiling(header, data_bytes, source);
  return header;
}

}  // namespace versieve::engine
