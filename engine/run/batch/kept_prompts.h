// What pages hold of prompts that were read: where a later prompt that begins alike finds the rows
// of its first pages. Pages that ended requests gave back keep theirs until somebody takes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/kv_pool.h"

namespace versieve::engine {

// Positions whose entries of the draft head are there: from `from`, before `end`.
struct EntryRange {
  std::int64_t from = 1, end = 0;
};

struct KeptPrompt {
  PageRun pages;  // the prompt's own, whole; those that still hold it
  std::vector<std::int32_t> prompt;
  EntryRange entries;
};

// Pages that lie wholly in what both begin with.
std::int64_t common_pages(std::span<const std::int32_t> one, std::span<const std::int32_t> other);

class KeptPrompts {
 public:
  // Its pages were given back. One that holds no page is not kept.
  void keep(KeptPrompt prompt);
  // The pages were taken, and will be written: what lies in them is forgotten, and what follows.
  void forget(const PageRun& taken);

  // Whose beginning `prompt`, which has just been given `taken`, may read, and how many pages of
  // it: the longest. Pages taken count where they hold it in its own place. `from` null: nobody.
  struct Found {
    const KeptPrompt* from = nullptr;
    std::int64_t pages = 0;
  };
  Found longest(std::span<const std::int32_t> prompt, const PageRun& taken) const;
  // Twice the pages that would be forgotten, were these taken for that prompt; one less where it
  // would find its beginning in place, which saves a copy.
  std::int64_t cost(std::span<const std::int32_t> prompt, const PageRun& place) const;

 private:
  std::vector<KeptPrompt> kept_;  // their pages differ
};

}  // namespace versieve::engine
