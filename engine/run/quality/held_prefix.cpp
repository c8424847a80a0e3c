#include "engine/run/quality/held_prefix.h"

#include <algorithm>
#include <numeric>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kChunk = std::size_t{Target<float>::kMostTogether};  // nodes of a chain

std::size_t shared_count(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  const std::size_t most = std::min(a.size(), b.size());
  const auto differ =
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin());
  return static_cast<std::size_t>(differ.first - a.begin());
}

template <class T>
void append_exactly(Target<T>& model, std::span<const std::int32_t> tokens) {
  model.verify(chain_tree({tokens.begin(), tokens.end()}), {.last_logits_only = true});
  std::vector<std::int32_t> path(tokens.size());
  std::iota(path.begin(), path.end(), 0);
  model.commit(path);
}

}  // namespace

template <class T>
void HeldPrefix<T>::hold(std::span<const std::int32_t> tokens) {
  VERSIEVE_ASSERT(!tokens.empty(), "a prefix has a token");
  std::size_t at = shared_count(held_, tokens);
  const bool as_before = at == tokens.size() && at == held_.size();
  if (draft_.head != nullptr && at > 0 && !as_before) {
    --at;  // its streams make the head's next entry
  }
  target_->set_token_selector(nullptr);
  target_->keep_choice_keys({});
  target_->cache().truncate(static_cast<std::int64_t>(at));
  if (draft_.head != nullptr) {
    draft_.head->reserve(static_cast<std::int64_t>(tokens.size()));
  }
  while (at < tokens.size()) {
    const std::size_t end = std::min(tokens.size(), at + kChunk);
    append_exactly(*target_, tokens.subspan(at, end - at));
    tokens_run_ += static_cast<std::int64_t>(end - at);
    feed_head(tokens, at, end);
    if (end == tokens.size()) {
      keep_newest(static_cast<std::int64_t>(end - at) - 1);
    }
    at = end;
  }
  held_.assign(tokens.begin(), tokens.end());
  rewind();
}

// Entries of the chunk's tokens after its first: each is made of the streams before it. The one
// behind the prefix waits for its token.
template <class T>
void HeldPrefix<T>::feed_head(std::span<const std::int32_t> tokens, std::size_t begin,
                              std::size_t end) {
  const std::size_t last = std::min(end, tokens.size() - 1);
  if (draft_.head == nullptr || last <= begin) {
    return;
  }
  std::vector<std::int32_t> rows(last - begin);
  std::iota(rows.begin(), rows.end(), 0);
  draft_.head->extend(static_cast<std::int64_t>(begin) + 1, tokens.subspan(begin + 1, rows.size()),
                      target_->captured(), rows, false);
}

// Kept apart, so that a prefix which many strategies read behind is run once.
template <class T>
void HeldPrefix<T>::keep_newest(std::int64_t row) {
  if (draft_.head == nullptr) {
    return;
  }
  const std::int64_t width = 3 * target_->shape().hidden;
  ensure_count(*ops_, newest_, width);
  ops_->copy_rows({.rows = 1,
                   .width = width,
                   .src = target_->captured() + row * width,
                   .dst = newest_.data(),
                   .term = TrafficTerm::kDraft});
}

template <class T>
void HeldPrefix<T>::hold_by_model(std::span<const std::int32_t> tokens) {
  VERSIEVE_ASSERT(draft_.model != nullptr, "a draft model holds a text");
  std::size_t at = shared_count(model_held_, tokens);
  draft_.model->cache().truncate(static_cast<std::int64_t>(at));
  for (; at < tokens.size(); at = std::min(tokens.size(), at + kChunk)) {
    append_exactly(*draft_.model, tokens.subspan(at, std::min(kChunk, tokens.size() - at)));
  }
  model_held_.assign(tokens.begin(), tokens.end());
}

template <class T>
void HeldPrefix<T>::rewind() {
  target_->cache().truncate(static_cast<std::int64_t>(held_.size()));
  if (draft_.head != nullptr) {
    draft_.head->set_length(static_cast<std::int64_t>(held_.size()));
  }
  if (draft_.model != nullptr) {
    draft_.model->cache().truncate(static_cast<std::int64_t>(model_held_.size()));
  }
}

template <class T>
Observation<T> HeldPrefix<T>::before(std::int32_t next) const {
  return {.first = static_cast<std::int64_t>(held_.size()) - 1,
          .next_token = {next},
          .captured = newest_.data(),
          .rows = {0}};
}

template class HeldPrefix<double>;
template class HeldPrefix<float>;
template class HeldPrefix<Bf16>;

}  // namespace versieve::engine
