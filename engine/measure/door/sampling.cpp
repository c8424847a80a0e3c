#include "engine/measure/door/sampling.h"

namespace versieve::engine {

std::vector<std::int32_t> vocabulary_tokens(DoorInput& input, const std::string& name,
                                            const std::string& shape) {
  std::vector<std::int32_t> tokens = input.integers(name, shape);
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= input.dim("V")) {
      input.refuse("tensor '" + name + "' holds the token " + std::to_string(token) +
                   ", which is not in the vocabulary of " + std::to_string(input.dim("V")));
    }
  }
  return tokens;
}

double temperature(const DoorInput& input) {
  const double value = input.number_key("temperature");
  if (value < 0.0) {
    input.refuse("the temperature must not be negative");
  }
  return value;
}

kernels::Truncation truncation(const DoorInput& input) {
  kernels::Truncation cuts;
  if (input.has_key("top_k")) {
    cuts.top_k = input.integer_key("top_k", 0, std::int64_t{1} << 40);
  }
  if (input.has_key("top_p")) {
    cuts.top_p = input.number_key("top_p");
    if (!(cuts.top_p > 0.0 && cuts.top_p <= 1.0)) {
      input.refuse("top_p must be above 0 and at most 1");
    }
  }
  if (input.has_key("min_p")) {
    cuts.min_p = input.number_key("min_p");
    if (!(cuts.min_p >= 0.0 && cuts.min_p <= 1.0)) {
      input.refuse("min_p must be from 0 to 1");
    }
  }
  return cuts;
}

std::vector<double> unit_numbers(DoorInput& input, const std::string& name,
                                 const std::string& shape) {
  std::vector<double> numbers = input.floats<double>(name, shape);
  for (const double number : numbers) {
    if (!(number >= 0.0 && number < 1.0)) {
      input.refuse("tensor '" + name + "' holds a number outside [0, 1)");
    }
  }
  return numbers;
}

}  // namespace versieve::engine
