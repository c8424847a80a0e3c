// The door's view of an input file: tensors by name and shape letters, scalars from __metadata__.
// A letter is bound by the first tensor that has it; later tensors must agree.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/io/safetensors.h"

namespace versieve::engine {

class DoorInput {
 public:
  explicit DoorInput(SafetensorsFile file) : file_(std::move(file)) {}

  // Error(kBadInput) that names the file.
  [[noreturn]] void refuse(const std::string& what) const;

  const SafetensorsFile& file() const { return file_; }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  std::int64_t rank(const std::string& name) const;

  // `shape`: letters or numbers between commas, "N,H,3". Refuses a missing tensor, another type
  // than F32 or F64, another shape. Rounds once to T = double, float, Bf16 or F16.
  template <class T>
  std::vector<T> floats(const std::string& name, const std::string& shape) {
    return values_as<T>(float_tensor(name, shape), file_.source() + ": " + name);
  }
  // As floats, and every value finite before and after rounding.
  template <class T>
  std::vector<T> finite_floats(const std::string& name, const std::string& shape) {
    std::vector<T> values = floats<T>(name, shape);
    require_finite(values, name);
    return values;
  }
  // Refuses queries and keys (of width "d") so large that a score q·k could leave the range it is
  // summed in: its softmax has no answer.
  template <class T>
  void require_scores_in_range(const std::vector<T>& q, const std::vector<T>& keys,
                               const std::string& keys_name) const;
  // I32 only.
  std::vector<std::int32_t> integers(const std::string& name, const std::string& shape);
  // As another program stores them: of any width.
  std::vector<std::int32_t> any_integers(const std::string& name, const std::string& shape);

  // What a letter stands for. REQUIRES: bound.
  std::int64_t dim(const std::string& letter) const;
  void set_dim(const std::string& letter, std::int64_t value) { dims_[letter] = value; }
  // Refuses a bound letter below `least`.
  void require_at_least(const std::string& letter, std::int64_t least) const;

  bool has_key(const std::string& key) const { return file_.metadata().count(key) > 0; }
  // Scalars: decimal text in [least, most]; missing ones are refused.
  std::int64_t integer_key(const std::string& key, std::int64_t least, std::int64_t most) const;
  double number_key(const std::string& key) const;

 private:
  const TensorView& float_tensor(const std::string& name, const std::string& shape);
  const TensorView& tensor(const std::string& name, const std::string& shape);
  void bind(const std::string& name, const TensorView& view, const std::string& shape);
  const std::string& key_text(const std::string& key) const;
  template <class T>
  void require_finite(const std::vector<T>& values, const std::string& name) const;

  SafetensorsFile file_;
  std::map<std::string, std::int64_t> dims_;
};

}  // namespace versieve::engine
