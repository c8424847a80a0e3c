#include "gui/models/jobs.h"

#include <cstdio>
#include <cstdlib>

namespace versieve::gui {
namespace {

constexpr int kLastMs = 300;  // for work that is about to end

}  // namespace

int leave(int code) {
  if (!QThreadPool::globalInstance()->waitForDone(kLastMs)) {
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

}  // namespace versieve::gui
