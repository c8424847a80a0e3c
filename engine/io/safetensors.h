// Reads and writes safetensors files: every rule of the format is enforced, whatever the bytes.
// Rules: research notes on engines, part 10.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/io/tensor_view.h"

namespace versieve::engine {

// A file in memory. Copies share the bytes; a view is valid as long as one copy lives.
class SafetensorsFile {
 public:
  // Throws Error(kBadInput) naming the file and the reason.
  static SafetensorsFile read(const std::filesystem::path& path);
  // The same from memory; `source` names it in sentences.
  static SafetensorsFile parse(std::span<const std::byte> bytes, const std::string& source);

  const std::string& source() const { return source_; }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const TensorView* find(const std::string& name) const;  // null: no such tensor

 private:
  std::string source_;
  std::shared_ptr<const std::vector<std::byte>> data_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

// A tensor to be written; owns its bytes.
struct Tensor {
  StorageType type = StorageType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;
};
// A tensor from values; T = double, float, Bf16, std::int32_t, std::int64_t.
template <class T>
Tensor tensor_of(const std::vector<T>& values, Shape shape);

struct TensorSet {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};
// All or nothing (atomic_file.h); data start at a multiple of 8. Throws Error(kEnvironment).
void write_safetensors(const std::filesystem::path& path, const TensorSet& set);

}  // namespace versieve::engine
