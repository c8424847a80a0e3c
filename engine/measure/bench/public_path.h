// The peer that verification is compared with: XunhaoLai/native-sparse-attention-triton, decode
// operators by batch expansion. Its recorded GPU-busy times, and a run of its own files where they
// are given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace versieve::engine {

// What one call's kernels took, warm caches; 0 where only the sum is known.
struct PublicPathTime {
  std::int64_t queries = 0;
  std::int64_t context_len = 0;
  double busy_us = 0.0;
  double routing_us = 0.0;
  double selection_us = 0.0;
  double window_us = 0.0;
};

// Measured once on an H200 at the nsa-1b attention geometry; the cells that were.
std::optional<PublicPathTime> recorded_public_path(std::int64_t context_len, std::int64_t queries);
const char* recorded_public_path_source();

struct PublicPathRun {
  std::string missing_because;  // one sentence; empty: it ran
  std::string versions;         // "torch 2.11, triton 3.6"
  std::vector<PublicPathTime> cells;
};
struct PeerCell {
  std::int64_t context_len = 0;
  std::int64_t queries = 0;

  bool operator==(const PeerCell&) const = default;
};

// Runs `script` (peer_nsa_triton.py) with python3 on the checkout at `path`. What is absent is a
// sentence, never an exception.
PublicPathRun run_public_path(const std::string& path, const std::string& script,
                              const std::vector<PeerCell>& cells);
// What the script printed and how it ended, as a run: for run_public_path and its test.
PublicPathRun parse_public_path(const std::string& printed, int exit_code);

}  // namespace versieve::engine
