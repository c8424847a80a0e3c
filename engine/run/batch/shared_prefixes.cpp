// Prompts that begin alike: a request that joins takes the rows of whole pages from one whose
// prompt holds the same tokens there, instead of computing them. A row's bits depend on the tokens
// before it alone, and prompts are always read with every layer refreshing, so they are the rows
// that it would have computed. It may have to wait until the other has read so far.
#include <algorithm>

#include "engine/run/batch/batch_session.h"

namespace versieve::engine {

// Tokens of the prompt that need not be computed where its first `pages` pages are there with those
// entries of the draft head. The last token always is: its logits are asked for. A request that
// drafts by a head needs entries, and the one after the first computed token is made of that
// token's stream.
template <class T>
std::int64_t BatchSession<T>::tokens_spared(const Running& run, std::int64_t pages,
                                            const EntryRange& entries) const {
  const std::int64_t tokens = std::min(pages * kPageTokens, run.prompt_tokens() - 1);
  if (draft_ == nullptr || !drafts(run)) {
    return tokens;
  }
  const std::int64_t computing_entries = std::min(tokens, run.entries.from - 1);
  const std::int64_t taking_entries =
      entries.from <= run.entries.from
          ? std::min({tokens, pages * kPageTokens - 1, entries.end - 1})
          : 0;
  return std::max({computing_entries, taking_entries, std::int64_t{0}});
}

template <class T>
void BatchSession<T>::take_prefix(Running& run, std::int64_t from_page, std::int64_t pages,
                                  const EntryRange& entries) {
  const std::int64_t tokens = tokens_spared(run, pages, entries);
  if (tokens == 0) {
    return;
  }
  pool_.copy_prefix(from_page, run.pages.first, tokens);
  run.cache.set_length(tokens);
  run.prefilled = tokens;
  run.result.shared_tokens = tokens;
  if (draft_ != nullptr && drafts(run) && run.entries.from <= tokens) {
    run.entries.end = tokens + 1;
  }
}

// Those whose prompts have not been read so far keep entries from there on, if they draft.
template <class T>
void BatchSession<T>::ask_for_entries(Running& source, std::int64_t from) {
  for (Running* at = &source; at != nullptr; at = at->follows.source) {
    if (drafts(*at) && at->prefilled < from) {
      at->entries.from = std::min(at->entries.from, from);
    }
  }
}

// Of a request that has just been given its pages.
template <class T>
void BatchSession<T>::find_prefix(Running& run) {
  const KeptPrompts::Found kept = kept_.longest(run.request.prompt, run.pages);
  Running* source = nullptr;
  std::int64_t pages = kept.pages;
  for (const std::unique_ptr<Running>& other : running_) {
    const std::int64_t common =
        other->holds_prompt ? common_pages(other->request.prompt, run.request.prompt) : 0;
    if (common > pages) {
      source = other.get();
      pages = common;
    }
  }
  if (source != nullptr) {
    run.follows = {source, pages};
    if (drafts(run)) {
      ask_for_entries(*source, run.entries.from);
    }
  } else if (kept.from != nullptr) {
    take_prefix(run, kept.from->pages.first, kept.pages, kept.from->entries);
  }
}

// Of all whose source has read as far as they begin alike.
template <class T>
void BatchSession<T>::take_ready_prefixes() {
  for (const std::unique_ptr<Running>& run : running_) {
    const Following follows = run->follows;
    if (follows.source != nullptr && follows.source->prefilled >= follows.pages * kPageTokens) {
      run->follows = {};
      take_prefix(*run, follows.source->pages.first, follows.pages, follows.source->entries);
    }
  }
}

template <class T>
void BatchSession<T>::keep_prompt(Running& run) {
  if (options_.shares_prefixes && run.holds_prompt) {
    kept_.keep({.pages = {run.pages.first, run.prompt_tokens() / kPageTokens},
                .prompt = std::move(run.request.prompt),
                .entries = run.entries});
  }
}

template void BatchSession<double>::find_prefix(Running&);
template void BatchSession<double>::take_ready_prefixes();
template void BatchSession<double>::keep_prompt(Running&);
template void BatchSession<float>::find_prefix(Running&);
template void BatchSession<float>::take_ready_prefixes();
template void BatchSession<float>::keep_prompt(Running&);
template void BatchSession<Bf16>::find_prefix(Running&);
template void BatchSession<Bf16>::take_ready_prefixes();
template void BatchSession<Bf16>::keep_prompt(Running&);

}  // namespace versieve::engine
