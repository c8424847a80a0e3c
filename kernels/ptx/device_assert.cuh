// VERSIEVE_DEVICE_ASSERT: what a wrapper of PTX requires of its arguments and the hardware does not
// say in a sentence. On where NDEBUG is not defined (CMAKE_BUILD_TYPE Debug) or
// VERSIEVE_DEVICE_ASSERTS is; otherwise its condition is compiled, and no instruction is left of
// it. A failed one prints the sentence with file, line, block and thread, and ends the grid.
#pragma once

#if !defined(NDEBUG) || defined(VERSIEVE_DEVICE_ASSERTS)
#define VERSIEVE_DEVICE_ASSERT(condition, sentence)                              \
  do {                                                                           \
    if (!(condition)) {                                                          \
      __assert_fail(#condition ": " sentence, __FILE__, __LINE__, __FUNCTION__); \
    }                                                                            \
  } while (false)
#else
#define VERSIEVE_DEVICE_ASSERT(condition, sentence) static_cast<void>(sizeof(!(condition)))
#endif
