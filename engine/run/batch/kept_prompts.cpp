#include "engine/run/batch/kept_prompts.h"

#include <algorithm>
#include <utility>

namespace versieve::engine {
namespace {

// Pages from the first on that do not lie in `taken`.
std::int64_t pages_before(const PageRun& pages, const PageRun& taken) {
  const bool meet =
      taken.first < pages.first + pages.count && pages.first < taken.first + taken.count;
  return meet ? std::max<std::int64_t>(taken.first - pages.first, 0) : pages.count;
}

}  // namespace

std::int64_t common_pages(std::span<const std::int32_t> one, std::span<const std::int32_t> other) {
  const auto [end, ignored] = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  return (end - one.begin()) / kPageTokens;
}

void KeptPrompts::keep(KeptPrompt prompt) {
  if (prompt.pages.count > 0) {
    kept_.push_back(std::move(prompt));
  }
}

void KeptPrompts::forget(const PageRun& taken) {
  for (KeptPrompt& kept : kept_) {
    kept.pages.count = pages_before(kept.pages, taken);
  }
  std::erase_if(kept_, [](const KeptPrompt& kept) { return kept.pages.count == 0; });
}

KeptPrompts::Found KeptPrompts::longest(std::span<const std::int32_t> prompt,
                                        const PageRun& taken) const {
  Found found;
  for (const KeptPrompt& kept : kept_) {
    const bool in_place = kept.pages.first == taken.first;
    const std::int64_t there = in_place ? kept.pages.count : pages_before(kept.pages, taken);
    const std::int64_t pages = std::min(there, common_pages(kept.prompt, prompt));
    if (pages > found.pages) {
      found = {&kept, pages};
    }
  }
  return found;
}

std::int64_t KeptPrompts::cost(std::span<const std::int32_t> prompt, const PageRun& place) const {
  std::int64_t cost = 0;
  for (const KeptPrompt& kept : kept_) {
    std::int64_t lost = kept.pages.count - pages_before(kept.pages, place);
    if (kept.pages.first == place.first) {
      const std::int64_t stay = std::min(kept.pages.count, common_pages(kept.prompt, prompt));
      lost -= stay;
      cost -= stay > 0 ? 1 : 0;
    }
    cost += 2 * lost;
  }
  return cost;
}

}  // namespace versieve::engine
