// VERSIEVE_ASSERT: for what cannot happen unless the program itself is wrong. On in every build:
// a wrong number costs more than a branch. Bad input is an Error (model/words/error.h), never an
// assertion.
#pragma once

namespace versieve {

[[noreturn]] void assertion_failed(const char* condition, const char* sentence, const char* file,
                                   int line);

}  // namespace versieve

#define VERSIEVE_ASSERT(condition, sentence)                                  \
  do {                                                                        \
    if (!(condition)) {                                                       \
      ::versieve::assertion_failed(#condition, sentence, __FILE__, __LINE__); \
    }                                                                         \
  } while (false)
