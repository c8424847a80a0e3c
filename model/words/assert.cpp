// Prints the broken promise and stops the process.
#include "model/words/assert.h"

#include <cstdio>
#include <cstdlib>

namespace versieve {

void assertion_failed(const char* condition, const char* sentence, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s (%s)\n", file, line, sentence, condition);
  std::abort();
}

}  // namespace versieve
