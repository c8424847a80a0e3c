#include "engine/analyse/sim/row_trace.h"

#include <algorithm>

namespace versieve::engine {
namespace {

constexpr std::int64_t kStepBytes = 8192;  // of a row that a CTA reads at once

class RowTrace final : public LaunchTrace {
 public:
  explicit RowTrace(const RowLaunch& launch)
      : LaunchTrace({.path = launch.path,
                     .ctas = launch.rows * launch.parts,
                     .threads = launch.threads,
                     .registers = 32}),
        launch_(launch) {
    for (const RowTensor& tensor : launch_.reads) {
      steps_ = std::max(steps_, (part_bytes(tensor) + kStepBytes - 1) / kStepBytes);
    }
  }

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    const std::int64_t row = cta / launch_.parts;
    const std::int64_t part = cta % launch_.parts;
    if (step > steps_) {
      return false;
    }
    if (step < steps_) {
      for (const RowTensor& tensor : launch_.reads) {
        const std::int64_t begin = part * part_bytes(tensor);
        const std::int64_t end = std::min(tensor.bytes, begin + part_bytes(tensor));
        const std::int64_t from = begin + step * kStepBytes;
        append(tensor, row, from, std::min(end, from + kStepBytes), AccessKind::kRead, out);
      }
      return true;
    }
    for (const RowTensor& tensor : launch_.writes) {
      append(tensor, row, 0, part == 0 ? tensor.bytes : 0, AccessKind::kWrite, out);
    }
    return true;
  }

 private:
  std::int64_t part_bytes(const RowTensor& tensor) const {
    return (tensor.bytes + launch_.parts - 1) / launch_.parts;
  }
  static void append(const RowTensor& tensor, std::int64_t row, std::int64_t from, std::int64_t to,
                     AccessKind kind, std::vector<Access>& out) {
    if (from < to) {
      out.push_back(
          {.address = tensor.address + static_cast<std::uint64_t>(row * tensor.stride + from),
           .bytes = static_cast<std::uint32_t>(to - from),
           .kind = kind});
    }
  }

  RowLaunch launch_;
  std::int64_t steps_ = 1;
};

}  // namespace

std::unique_ptr<LaunchTrace> trace_rows(const RowLaunch& launch) {
  return std::make_unique<RowTrace>(launch);
}

// As many as hold it by pieces of 1,024, a warp each, 8 of a CTA where rows are few, else 16.
std::int64_t logit_parts(std::int64_t rows, std::int64_t vocab) {
  constexpr std::int64_t kPiece = 1024, kFewRows = 8, kMostParts = 16;
  if (vocab <= kPiece) {
    return 1;
  }
  const std::int64_t pieces = (vocab + kPiece - 1) / kPiece;
  const std::int64_t warps = rows <= kFewRows ? 8 : 16;
  std::int64_t parts = 2;
  while (parts < kMostParts && parts * warps < pieces) {
    parts *= 2;
  }
  return parts;
}

}  // namespace versieve::engine
