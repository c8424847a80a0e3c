#include "engine/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "engine/io/atomic_file.h"
#include "engine/io/input_file.h"
#include "engine/io/safetensors_bytes.h"
#include "engine/io/safetensors_header.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

std::string_view text_at(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::map<std::string, TensorView> views_of(const SafetensorsHeader& header,
                                           std::span<const std::byte> data) {
  std::map<std::string, TensorView> views;
  for (const auto& [name, entry] : header.entries) {
    views[name] = {.type = entry.type,
                   .shape = entry.shape,
                   .bytes = data.subspan(static_cast<std::size_t>(entry.begin),
                                         static_cast<std::size_t>(entry.end - entry.begin))};
  }
  return views;
}

template <class T>
constexpr StorageType storage_type_of() {
  if constexpr (std::is_same_v<T, double>) {
    return StorageType::kF64;
  } else if constexpr (std::is_same_v<T, float>) {
    return StorageType::kF32;
  } else if constexpr (std::is_same_v<T, Bf16>) {
    return StorageType::kBf16;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return StorageType::kI32;
  } else {
    static_assert(std::is_same_v<T, std::int64_t>);
    return StorageType::kI64;
  }
}

using NamedTensor = std::pair<const std::string, Tensor>;

// Wider elements first, so that every tensor starts at a multiple of its element size.
std::vector<const NamedTensor*> file_order(const TensorSet& set) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& named : set.tensors) {
    order.push_back(&named);
  }
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return bits_of(a->second.type) > bits_of(b->second.type);
  });
  return order;
}

std::string header_text(const TensorSet& set, const std::vector<const NamedTensor*>& order) {
  nlohmann::json header = nlohmann::json::object();
  if (!set.metadata.empty()) {
    header["__metadata__"] = set.metadata;
  }
  std::size_t begin = 0;
  for (const NamedTensor* named : order) {
    const Tensor& tensor = named->second;
    const std::size_t end = begin + tensor.bytes.size();
    header[named->first] = {
        {"dtype", name_of(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

// The file's parts in their order.
template <class Write>
void write_parts(const TensorSet& set, const Write& write) {
  const std::vector<const NamedTensor*> order = file_order(set);
  const std::string text = header_text(set, order);
  const std::uint64_t length = text.size();
  write(std::as_bytes(std::span<const std::uint64_t>(&length, 1)));
  write(std::as_bytes(std::span<const char>(text)));
  for (const NamedTensor* named : order) {
    write(std::span<const std::byte>(named->second.bytes));
  }
}

}  // namespace

SafetensorsFile SafetensorsFile::read(const std::filesystem::path& path) {
  InputFile input(path);
  SafetensorsFile file;
  file.source_ = path.string();
  std::vector<std::byte> first8(std::min<std::size_t>(8, static_cast<std::size_t>(input.size())));
  input.read(first8.data(), static_cast<std::int64_t>(first8.size()));
  const std::int64_t length = header_length(first8, input.size(), file.source_);
  std::string text(static_cast<std::size_t>(length), '\0');
  input.read(text.data(), length);
  const std::int64_t data_bytes = input.size() - kLengthBytes - length;
  SafetensorsHeader header = parse_header(text, data_bytes, file.source_);
  // Only now: the checked header proves that the file means this many bytes.
  std::vector<std::byte> data(static_cast<std::size_t>(data_bytes));
  input.read(data.data(), data_bytes);
  file.data_ = std::make_shared<const std::vector<std::byte>>(std::move(data));
  file.tensors_ = views_of(header, *file.data_);
  file.metadata_ = std::move(header.metadata);
  return file;
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes,
                                       const std::string& source) {
  SafetensorsFile file;
  file.source_ = source;
  const std::int64_t size = static_cast<std::int64_t>(bytes.size());
  const std::int64_t length = header_length(bytes, size, source);
  const std::span<const std::byte> rest = bytes.subspan(kLengthBytes);
  const std::span<const std::byte> data = rest.subspan(static_cast<std::size_t>(length));
  SafetensorsHeader header = parse_header(text_at(rest.first(static_cast<std::size_t>(length))),
                                          static_cast<std::int64_t>(data.size()), source);
  file.data_ = std::make_shared<const std::vector<std::byte>>(data.begin(), data.end());
  file.tensors_ = views_of(header, *file.data_);
  file.metadata_ = std::move(header.metadata);
  return file;
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

template <class T>
Tensor tensor_of(const std::vector<T>& values, Shape shape) {
  Tensor tensor{.type = storage_type_of<T>(), .shape = std::move(shape), .bytes = {}};
  const TensorView view{.type = tensor.type, .shape = tensor.shape, .bytes = {}};
  VERSIEVE_ASSERT(view.count() == static_cast<std::int64_t>(values.size()),
                  "a tensor has as many values as its shape says");
  tensor.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) {
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  }
  return tensor;
}

template Tensor tensor_of<double>(const std::vector<double>&, Shape);
template Tensor tensor_of<float>(const std::vector<float>&, Shape);
template Tensor tensor_of<Bf16>(const std::vector<Bf16>&, Shape);
template Tensor tensor_of<std::int32_t>(const std::vector<std::int32_t>&, Shape);
template Tensor tensor_of<std::int64_t>(const std::vector<std::int64_t>&, Shape);

void write_safetensors(const std::filesystem::path& path, const TensorSet& set) {
  AtomicFile file(path);
  write_parts(set, [&file](std::span<const std::byte> part) { file.write(part); });
  file.commit();
}

std::vector<std::byte> safetensors_bytes(const TensorSet& set) {
  std::vector<std::byte> out;
  write_parts(set, [&out](std::span<const std::byte> part) {
    out.insert(out.end(), part.begin(), part.end());
  });
  return out;
}

}  // namespace versieve::engine
