// What pages hold of prompts that were read: where a later prompt that begins alike finds the rows
// of its first pages. Pages that ended requests gave back keep theirs until somebody takes them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/run/model/kv_pool.h"

namespace versieve::engine {

// Positions whose entries of the draft head are there: from `from`, before `end`.
struct EntryRange {
  std::int64_t from = 1, end = 0;
};

struct KeptPrompt {
  PageLists pages;  // the prompt's own, whole, and of compressed tokens that they complete
  std::vector<std::int32_t> prompt;
  EntryRange entries;
};

// Pages that lie wholly in what both begin with.
std::int64_t common_pages(std::span<const std::int32_t> one, std::span<const std::int32_t> other);

class KeptPrompts {
 public:
  // `compressed_pages`: those that so many tokens complete.
  explicit KeptPrompts(std::function<std::int64_t(std::int64_t)> compressed_pages)
      : compressed_pages_(std::move(compressed_pages)) {}

  // One that holds no page is not kept, nor those of which it holds all.
  void keep(KeptPrompt prompt);
  // A sequence took the pages that it does not share, and will write them: what lies in them is
  // forgotten, and what follows.
  void forget(const SequencePages& taken);
  std::span<const KeptPrompt> prompts() const { return kept_; }

 private:
  std::function<std::int64_t(std::int64_t)> compressed_pages_;
  std::vector<KeptPrompt> kept_;
};

}  // namespace versieve::engine
