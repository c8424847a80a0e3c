// The Error that a call throws, for tests of bad input: its code and its sentence.
#pragma once

#include <stdexcept>
#include <string>

#include "model/words/error.h"

namespace versieve::test {

// Throws std::runtime_error if the call does not throw an Error.
template <class Call>
Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  throw std::runtime_error("the call was expected to throw an Error and did not");
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace versieve::test
