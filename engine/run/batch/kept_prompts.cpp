#include "engine/run/batch/kept_prompts.h"

#include <algorithm>
#include <unordered_set>

namespace versieve::engine {
namespace {

bool begins_with(const std::vector<std::int32_t>& one, const std::vector<std::int32_t>& other) {
  return one.size() >= other.size() && std::equal(other.begin(), other.end(), one.begin());
}

// Whether whoever finds its beginning in `other` finds as much in `one`.
bool holds_all(const KeptPrompt& one, const KeptPrompt& other) {
  const std::int64_t end =
      std::min(other.entries.end, kPageTokens * std::ssize(other.pages.tokens));
  const bool entries = end <= other.entries.from ||
                       (one.entries.from <= other.entries.from && one.entries.end >= end);
  return entries && begins_with(one.pages.tokens, other.pages.tokens) &&
         begins_with(one.pages.compressed, other.pages.compressed);
}

using Pages = std::unordered_set<std::int32_t>;

Pages written(const std::vector<std::int32_t>& pages, std::int64_t shared) {
  return {pages.begin() + shared, pages.end()};
}

// How many first pages are not among those.
std::int64_t first_but(const std::vector<std::int32_t>& pages, const Pages& taken) {
  return std::find_if(pages.begin(), pages.end(),
                      [&](std::int32_t page) { return taken.contains(page); }) -
         pages.begin();
}

}  // namespace

std::int64_t common_pages(std::span<const std::int32_t> one, std::span<const std::int32_t> other) {
  const auto [end, ignored] = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  return (end - one.begin()) / kPageTokens;
}

void KeptPrompts::keep(KeptPrompt prompt) {
  if (prompt.pages.tokens.empty()) {
    return;
  }
  std::erase_if(kept_, [&](const KeptPrompt& other) { return holds_all(prompt, other); });
  kept_.push_back(std::move(prompt));
}

void KeptPrompts::forget(const SequencePages& taken) {
  const Pages tokens = written(taken.tokens, taken.shared);
  const Pages compressed = written(taken.compressed, taken.shared_compressed);
  for (KeptPrompt& kept : kept_) {
    std::int64_t left = first_but(kept.pages.tokens, tokens);
    const std::int64_t left_compressed = first_but(kept.pages.compressed, compressed);
    while (left > 0 && compressed_pages_(left * kPageTokens) > left_compressed) {
      --left;
    }
    kept.pages.tokens.resize(static_cast<std::size_t>(left));
    kept.pages.compressed.resize(
        static_cast<std::size_t>(std::min(left_compressed, compressed_pages_(left * kPageTokens))));
  }
  std::erase_if(kept_, [](const KeptPrompt& kept) { return kept.pages.tokens.empty(); });
}

}  // namespace versieve::engine
