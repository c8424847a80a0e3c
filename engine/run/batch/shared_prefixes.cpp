// Prompts that begin alike: a request that joins holds the whole pages of another whose prompt has
// the same tokens there, instead of computing them. A row's bits depend on the tokens before it
// alone, and prompts are always read with every layer refreshing, so they are the rows that it
// would have computed. It may have to wait until the other has read so far.
#include <algorithm>

#include "engine/run/batch/batch_session.h"
#include "engine/run/speculate/draft_source.h"

namespace versieve::engine {

// Whether it drafts by the head, which needs entries of the prompt.
template <class T>
bool BatchSession<T>::needs_entries(const BatchRequest& request) const {
  const std::span<const Strategy> strategies = strategies_of(request);
  return draft_ != nullptr &&
         std::any_of(strategies.begin(), strategies.end(),
                     [](const Strategy& strategy) { return strategy.draft.speculates(); }) &&
         drafts_at(draft_positions(), std::ssize(request.prompt));
}

// As far back as the first step will look.
template <class T>
std::int64_t BatchSession<T>::first_entry(const BatchRequest& request) const {
  return std::max<std::int64_t>(std::ssize(request.prompt) - draft_->shape().window + 1, 1);
}

// Where the first `common` pages of the prompt are there with those entries. The last token is
// computed always: its logits are asked for. Of shared pages nothing is written, so a request that
// needs entries takes pages before the first of them, or finds all entries in its pages; and the
// one after the last is made of that token's stream, which is computed again.
template <class T>
typename BatchSession<T>::Spared BatchSession<T>::spared(const BatchRequest& request,
                                                         std::int64_t common,
                                                         const EntryRange& entries) const {
  const std::int64_t last = std::ssize(request.prompt) - 1;
  if (!needs_entries(request)) {
    return {common, std::min(common * kPageTokens, last)};
  }
  const std::int64_t from = first_entry(request);
  const std::int64_t before = std::min(common, (from - 1) / kPageTokens);
  const std::int64_t whole = entries.from <= from ? std::min(common, entries.end / kPageTokens) : 0;
  return whole > before ? Spared{whole, std::min(whole * kPageTokens - 1, last)}
                        : Spared{before, before * kPageTokens};
}

// The entries that it will have when it has read its prompt, if it is asked for those from there
// on.
template <class T>
EntryRange BatchSession<T>::promised(const Running& source, std::int64_t from) const {
  if (!source.reads_prompt()) {
    return source.entries;
  }
  if (draft_ == nullptr || !drafts(source)) {
    return {};
  }
  const bool can_begin = from > std::max(source.prefilled, source.result.shared_tokens);
  return {can_begin ? std::min(source.entries.from, from) : source.entries.from,
          source.prompt_tokens()};
}

template <class T>
typename BatchSession<T>::Prefix BatchSession<T>::find_prefix(const BatchRequest& request) {
  Prefix best;
  if (!options_.shares_prefixes) {
    return best;
  }
  for (const KeptPrompt& kept : kept_.prompts()) {
    const std::int64_t common =
        std::min(common_pages(kept.prompt, request.prompt), std::ssize(kept.pages.tokens));
    const Spared own = spared(request, common, kept.entries);
    if (own.tokens > best.spared.tokens) {
      best = {own, nullptr, &kept, pool_.prefix_of(kept.pages, own.pages)};
    }
  }
  const std::int64_t from = draft_ == nullptr ? 0 : first_entry(request);
  for (const std::unique_ptr<Running>& other : running_) {
    if (other->holds_prompt) {
      const Spared own = spared(request, common_pages(other->request.prompt, request.prompt),
                                promised(*other, from));
      if (own.tokens > best.spared.tokens) {
        best = {own, other.get(), nullptr, pool_.prefix_of(other->pages, own.pages)};
      }
    }
  }
  return best;
}

// Of a request that has just been given its pages.
template <class T>
void BatchSession<T>::follow(Running& run, const Prefix& prefix) {
  run.result.shared_tokens = prefix.spared.tokens;
  if (prefix.kept != nullptr) {
    take_prefix(run, prefix.kept->pages);
  } else if (prefix.source != nullptr) {
    run.follows = {prefix.source, prefix.spared.pages};
    if (needs_entries(run.request) && run.entries.from <= prefix.spared.tokens &&
        prefix.source->reads_prompt()) {
      prefix.source->entries.from = std::min(prefix.source->entries.from, run.entries.from);
    }
  }
}

// Its first pages have been read by the sequence of those pages.
template <class T>
void BatchSession<T>::take_prefix(Running& run, const PageLists& from) {
  const std::int64_t tokens = run.result.shared_tokens;
  pool_.copy_compressed(from, run.pages, tokens);
  run.cache.set_length(tokens);
  run.prefilled = tokens;
  if (needs_entries(run.request) && run.entries.from <= tokens) {
    run.entries.end = tokens + 1;
  }
}

// Of all whose source has read as far as they share its pages.
template <class T>
void BatchSession<T>::take_ready_prefixes() {
  for (const std::unique_ptr<Running>& run : running_) {
    const Following follows = run->follows;
    if (follows.source != nullptr && follows.source->prefilled >= follows.pages * kPageTokens) {
      run->follows = {};
      take_prefix(*run, follows.source->pages);
    }
  }
}

// What its prompt's pages hold is remembered until somebody takes them.
template <class T>
void BatchSession<T>::give_back(Running& run) {
  const bool keeps = options_.shares_prefixes && run.holds_prompt;
  const std::int64_t pages = keeps ? run.prompt_tokens() / kPageTokens : 0;
  pool_.give_back(run.pages, pages * kPageTokens);
  if (draft_pool_) {
    draft_pool_->give_back(run.draft_pages);
  }
  if (keeps) {
    run.pages.tokens.resize(static_cast<std::size_t>(pages));
    run.pages.compressed.resize(
        static_cast<std::size_t>(pool_.compressed_pages(pages * kPageTokens)));
    kept_.keep({.pages = std::move(run.pages),
                .prompt = std::move(run.request.prompt),
                .entries = run.entries});
  }
}

template bool BatchSession<double>::needs_entries(const BatchRequest&) const;
template std::int64_t BatchSession<double>::first_entry(const BatchRequest&) const;
template typename BatchSession<double>::Prefix BatchSession<double>::find_prefix(
    const BatchRequest&);
template void BatchSession<double>::follow(Running&, const Prefix&);
template void BatchSession<double>::take_ready_prefixes();
template void BatchSession<double>::give_back(Running&);
template bool BatchSession<float>::needs_entries(const BatchRequest&) const;
template std::int64_t BatchSession<float>::first_entry(const BatchRequest&) const;
template typename BatchSession<float>::Prefix BatchSession<float>::find_prefix(const BatchRequest&);
template void BatchSession<float>::follow(Running&, const Prefix&);
template void BatchSession<float>::take_ready_prefixes();
template void BatchSession<float>::give_back(Running&);
template bool BatchSession<Bf16>::needs_entries(const BatchRequest&) const;
template std::int64_t BatchSession<Bf16>::first_entry(const BatchRequest&) const;
template typename BatchSession<Bf16>::Prefix BatchSession<Bf16>::find_prefix(const BatchRequest&);
template void BatchSession<Bf16>::follow(Running&, const Prefix&);
template void BatchSession<Bf16>::take_ready_prefixes();
template void BatchSession<Bf16>::give_back(Running&);

}  // namespace versieve::engine
