// Top-k (kernels/topk; Guess-Verify-Refine top-k): what it moves, how its launch lays rows of
// scores over the chip, blocks of a row's cluster and what of the row they keep in registers, and
// the launch. Measured on an H200 (kernels/topk/TRIED.md): radix wants a row's keys in registers,
// gvr reads once and may stream; clusters that fill more than half the chip get in each other's
// way.
#pragma once

#include <cstdint>

#include "model/words/kernel_case.h"
#include "model/words/traffic.h"

namespace versieve {

struct StepWork;  // model/launches/launch_work.h

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

// Rows that one block takes, in its registers, whatever the hint (kernels/topk/short_rows.cu): up
// to 8,192 scores; up to 16,384 where k is an eighth of the row or more, of many rows a sixteenth.
bool topk_takes_one_block(std::int64_t length, std::int64_t rows, std::int64_t k);

namespace traffic {

// Scores in once, k indices and values out; `hints` indices a row in. A sort's own passes are not
// unique bytes, and the hinted scores are the row's.
Traffic topk(std::int64_t rows, std::int64_t length, std::int64_t k, std::int64_t element_bytes,
             std::int64_t hints);

}  // namespace traffic

// `rows` rows of `length` scores, an indexer's own scores first where the case names one. `cold`:
// nobody wrote the scores shortly before.
void add_topk(const TopkCase& c, std::int64_t length, std::int64_t rows, std::int64_t element_bytes,
              bool cold, StepWork& out);

}  // namespace versieve
