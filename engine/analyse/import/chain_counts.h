// What counts of drafts say of a chain. A position that a draft did not have is censored, not
// rejected: its acceptance is that of the drafts which had it, and where nothing counts how many
// those were, the counts are a lower bound and the point says so (Reliability::kAtLeast).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/import/import_points.h"

namespace versieve::engine {

struct ChainCounts {
  std::int64_t drafts = 0;             // each of one token or more
  std::vector<std::int64_t> accepted;  // [p]: drafts of which positions 0 to p were accepted
  std::vector<std::int64_t> reached;   // [p]: drafts that had position p; empty: not counted
  std::optional<std::int64_t> draft_tokens;
  std::optional<std::int64_t> accepted_tokens;

  // Of several servers, or of several intervals of one.
  void add(const ChainCounts& other);
};

inline constexpr double kTornRead = 0.01;  // a busy server counts on while it prints

// Every draft had every position.
bool is_whole(const ChainCounts& counts);
// Nearly every draft had, so that the time of its steps is that of the chain.
bool is_timed_whole(const ChainCounts& counts);
inline constexpr const char* kCutTimes = "times of drafts of which some were cut short";

// One acceptance point; two where short drafts were distinguished from long ones. `source` is what
// refusals call the counts. Throws Error(kBadInput) where they contradict themselves.
ImportedPoints chain_points(const ChainCounts& counts, const ImportText& input,
                            std::int64_t context_len, const std::string& source);

}  // namespace versieve::engine
