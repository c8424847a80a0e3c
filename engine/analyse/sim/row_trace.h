// Launches that take rows one by one: each CTA reads its rows of some tensors and writes its rows
// of others. rms_norm, rope_append, swiglu, top_logits, compress and copy_rows are of this kind.
#pragma once

#include <memory>
#include <vector>

#include "engine/analyse/sim/memory_trace.h"

namespace versieve::engine {

// Row i lies at address + i * stride.
struct RowTensor {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;   // of a row that are touched
  std::int64_t stride = 0;  // 0: every CTA touches the same row
};

struct RowLaunch {
  std::string path;
  std::int64_t rows = 1;   // a CTA each, or `parts` CTAs that share a row
  std::int64_t parts = 1;  // of a row; what is written is written by the first
  std::int64_t threads = 256;
  std::vector<RowTensor> reads;
  std::vector<RowTensor> writes;
};

std::unique_ptr<LaunchTrace> trace_rows(const RowLaunch& launch);

// CTAs that share a row of logits whose largest are listed (kernels/top_logits/launch.cu).
std::int64_t logit_parts(std::int64_t rows, std::int64_t vocab);

}  // namespace versieve::engine
