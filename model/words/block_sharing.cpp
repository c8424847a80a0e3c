#include "model/words/block_sharing.h"

#include "model/words/error.h"

namespace versieve {

const char* name_of(SharingAlong along) {
  switch (along) {
    case SharingAlong::kBfs:
      return "bfs";
    case SharingAlong::kDfs:
      return "dfs";
    case SharingAlong::kPosition:
      return "position";
  }
  return "";
}

SharingAlong sharing_along(const std::string& name) {
  for (std::size_t i = 0; i < kSharingAlongCount; ++i) {
    const SharingAlong along = static_cast<SharingAlong>(i);
    if (name == name_of(along)) {
      return along;
    }
  }
  throw Error(ExitCode::kBadInput, "unknown distance along '" + name + "'");
}

}  // namespace versieve
