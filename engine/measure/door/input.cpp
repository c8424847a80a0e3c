#include "engine/measure/door/input.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "engine/measure/door/decimal.h"
#include "kernels/common/attention_chunk.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

std::vector<std::string> letters_of(const std::string& shape) {
  std::vector<std::string> letters;
  std::istringstream stream(shape);
  std::string letter;
  while (std::getline(stream, letter, ',')) {
    letters.push_back(letter);
  }
  return letters;
}

double as_double(double value) {
  return value;
}
double as_double(Bf16 value) {
  return to_float(value);
}

}  // namespace

void DoorInput::refuse(const std::string& what) const {
  throw Error(ExitCode::kBadInput, file_.source() + ": " + what);
}

std::int64_t DoorInput::rank(const std::string& name) const {
  const TensorView* view = file_.find(name);
  if (view == nullptr) {
    refuse("tensor '" + name + "' is missing");
  }
  return static_cast<std::int64_t>(view->shape.size());
}

void DoorInput::bind(const std::string& name, const TensorView& view, const std::string& shape) {
  const std::vector<std::string> letters = letters_of(shape);
  bool fits = letters.size() == view.shape.size();
  std::string known;
  for (std::size_t i = 0; fits && i < letters.size(); ++i) {
    const std::optional<std::int64_t> number = decimal_integer(letters[i]);
    const auto bound = dims_.emplace(letters[i], number.value_or(view.shape[i])).first;
    fits = bound->second == view.shape[i];
    if (!fits && !number) {
      known = ", where " + letters[i] + " is " + std::to_string(bound->second);
    }
  }
  if (!fits) {
    refuse("tensor '" + name + "' has the shape " + text_of(view.shape) + ", but [" + shape +
           "] is needed" + known);
  }
}

const TensorView& DoorInput::tensor(const std::string& name, const std::string& shape) {
  const TensorView* view = file_.find(name);
  if (view == nullptr) {
    refuse("tensor '" + name + "' is missing");
  }
  bind(name, *view, shape);
  return *view;
}

const TensorView& DoorInput::float_tensor(const std::string& name, const std::string& shape) {
  const TensorView& view = tensor(name, shape);
  if (view.type != StorageType::kF32 && view.type != StorageType::kF64 &&
      view.type != StorageType::kBf16 && view.type != StorageType::kF16) {
    refuse("tensor '" + name + "' is stored as " + name_of(view.type) +
           ", but F32 (or F64, BF16, F16) is needed");
  }
  return view;
}

std::vector<std::int32_t> DoorInput::integers(const std::string& name, const std::string& shape) {
  const TensorView& view = tensor(name, shape);
  if (view.type != StorageType::kI32) {
    refuse("tensor '" + name + "' is stored as " + name_of(view.type) + ", but I32 is needed");
  }
  return values_as<std::int32_t>(view, name);
}

std::vector<std::int32_t> DoorInput::any_integers(const std::string& name,
                                                  const std::string& shape) {
  return values_as<std::int32_t>(tensor(name, shape), file_.source() + ": " + name);
}

template <class T>
void DoorInput::require_finite(const std::vector<T>& values, const std::string& name) const {
  for (const T& value : values) {
    if (!std::isfinite(as_double(value))) {
      refuse("tensor '" + name + "' holds a value that is not finite in the chosen dtype");
    }
  }
}
template void DoorInput::require_finite(const std::vector<double>&, const std::string&) const;
template void DoorInput::require_finite(const std::vector<float>&, const std::string&) const;
template void DoorInput::require_finite(const std::vector<Bf16>&, const std::string&) const;

template <class T>
void DoorInput::require_scores_in_range(const std::vector<T>& q, const std::vector<T>& keys,
                                        const std::string& keys_name) const {
  const auto greatest = [](const std::vector<T>& values) {
    long double most = 0.0L;
    for (const T& value : values) {
      most = std::max(most, std::fabs(static_cast<long double>(as_double(value))));
    }
    return most;
  };
  const long double bound = greatest(q) * greatest(keys) * static_cast<long double>(dim("d"));
  if (bound >= std::numeric_limits<kernels::SumOf<T>>::max()) {
    refuse("tensors 'q' and '" + keys_name +
           "' are so large that their products can leave the range of the chosen dtype");
  }
}
template void DoorInput::require_scores_in_range(const std::vector<double>&,
                                                 const std::vector<double>&,
                                                 const std::string&) const;
template void DoorInput::require_scores_in_range(const std::vector<float>&,
                                                 const std::vector<float>&,
                                                 const std::string&) const;
template void DoorInput::require_scores_in_range(const std::vector<Bf16>&, const std::vector<Bf16>&,
                                                 const std::string&) const;

std::int64_t DoorInput::dim(const std::string& letter) const {
  const auto found = dims_.find(letter);
  VERSIEVE_ASSERT(found != dims_.end(), "a letter is bound before it is used");
  return found->second;
}

void DoorInput::require_at_least(const std::string& letter, std::int64_t least) const {
  if (dim(letter) < least) {
    refuse(letter + " must be at least " + std::to_string(least) + ", but is " +
           std::to_string(dim(letter)));
  }
}

const std::string& DoorInput::key_text(const std::string& key) const {
  const auto found = file_.metadata().find(key);
  if (found == file_.metadata().end()) {
    refuse("the metadata key '" + key + "' is missing");
  }
  return found->second;
}

std::int64_t DoorInput::integer_key(const std::string& key, std::int64_t least,
                                    std::int64_t most) const {
  const std::string& text = key_text(key);
  const std::optional<std::int64_t> value = decimal_integer(text);
  if (!value || *value < least || *value > most) {
    refuse("the metadata key '" + key + "' must be an integer from " + std::to_string(least) +
           " to " + std::to_string(most) + ", but is '" + text + "'");
  }
  return *value;
}

double DoorInput::number_key(const std::string& key) const {
  const std::string& text = key_text(key);
  const std::optional<double> value = decimal_number(text);
  if (!value) {
    refuse("the metadata key '" + key + "' must be a decimal number, but is '" + text + "'");
  }
  return *value;
}

}  // namespace versieve::engine
