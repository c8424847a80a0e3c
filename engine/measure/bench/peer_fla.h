// The stronger peer of verification: `parallel_nsa` of flash-linear-attention (PyPI, MIT licence),
// run from a folder that holds its package, at the nearest shape that it takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/measure/bench/public_path.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

struct HeadCounts {
  std::int64_t query = 0;
  std::int64_t kv = 0;

  bool operator==(const HeadCounts&) const = default;
};

// One peer in one cell; us. 0: it has no such part.
struct PeerTime {
  std::string name;  // "parallel_nsa"
  HeadCounts heads;
  std::int64_t queries = 0;
  std::int64_t context_len = 0;
  double overlap = 0.0;     // of neighbours' given blocks
  double whole_us = 0.0;    // compressed keys are formed too
  double kept_us = 0.0;     // a refresh: compressed keys are kept, as ours are
  double given_us = 0.0;    // selection, window and gates, blocks given; nothing compressed
  double pooling_us = 0.0;  // the parts
  double routing_us = 0.0;
  double selection_us = 0.0;
  double window_us = 0.0;
};

struct FlaRun {
  std::string missing_because;  // one sentence; empty: it ran
  std::string package;          // "flash-linear-attention 0.6.0 (MIT)"
  std::string versions;         // "torch 2.11, triton 3.6"
  std::string window_by;        // whose operator attended the window
  std::vector<PeerTime> cells;
};
struct FlaRequest {
  std::vector<HeadCounts> heads;
  std::int64_t head_dim = 64;
  std::vector<PeerCell> cells;
  std::vector<double> overlaps;
  bool warm = false;
};

// Heads that it takes for a layer: the layer's own if a KV head has 16 or more, a power of two;
// else 16 for each of its KV heads, and for half of them.
std::vector<HeadCounts> fla_heads(const LlmShape& layer);
// Runs `script` (peer_nsa_fla.py) with python3 on the package in `path`. What is absent is a
// sentence, never an exception.
FlaRun run_fla(const std::string& path, const std::string& script, const FlaRequest& request);
// What the script printed and how it ended, as a run: for run_fla and its test.
FlaRun parse_fla(const std::string& printed, int exit_code);

}  // namespace versieve::engine
