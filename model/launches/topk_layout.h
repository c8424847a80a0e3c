// How rows of scores are laid over the chip by top-k's launch (kernels/topk/select_plan.cu): blocks
// of a row's cluster, and what of the row they keep in registers. Measured on an H200
// (kernels/topk/TRIED.md): radix wants a row's keys in registers, gvr reads once and may stream;
// clusters that fill more than half the chip get in each other's way.
#pragma once

#include <cstdint>

namespace versieve {

inline constexpr int kTopkThreads = 512;  // of a block
inline constexpr int kMostTopkBlocks = 16;

struct TopkRows {
  std::int64_t length = 0;  // scores
  std::int64_t rows = 0;
  std::int64_t element_bytes = 4;
  bool guesses = false;  // gvr
};

struct TopkLayout {
  int cluster = 1;         // blocks of a row
  int least_items = 4;     // scores a thread
  int most_items = 32;     //
  bool registers = false;  // radix: the row is read once and kept
};
TopkLayout topk_layout(const TopkRows& rows);

// Rows so short that a guess costs more than the pass it saves: gvr leaves them to radix.
bool topk_is_short(std::int64_t length, std::int64_t rows);

}  // namespace versieve
