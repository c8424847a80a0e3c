// A prompt into the caches of target and draft, chunk by chunk.
#include <algorithm>
#include <chrono>
#include <numeric>

#include "engine/run/speculate/generate.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kPrefillChunk = 256;

}  // namespace

template <class T>
void Generator<T>::prefill(std::span<const std::int32_t> prompt) {
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  prompt_len_ = static_cast<std::int64_t>(prompt.size());
  VERSIEVE_ASSERT(prompt_len_ >= 1, "a prompt has at least its first token");
  if (prompt_len_ > target_->shape().max_position) {
    throw Error(ExitCode::kBadInput, "the prompt has " + std::to_string(prompt_len_) +
                                         " tokens, the model takes " +
                                         std::to_string(target_->shape().max_position));
  }
  prompt_.assign(prompt.begin(), prompt.end());
  target_->cache().truncate(0);
  target_->cache().reserve(prompt_len_);
  if (draft_ != nullptr) {
    draft_->reserve(prompt_len_);
    draft_->set_length(1);
  }
  if (draft_model_ != nullptr) {
    draft_model_->cache().truncate(0);
    draft_model_->cache().reserve(prompt_len_);
  }
  for (std::int64_t at = 0; at < prompt_len_; at += kPrefillChunk) {
    const std::int64_t end = std::min(prompt_len_, at + kPrefillChunk);
    std::vector<std::int32_t> path(static_cast<std::size_t>(end - at));
    std::iota(path.begin(), path.end(), 0);
    target_->verify(chain_tree({prompt.begin() + at, prompt.begin() + end}),
                    {.last_logits_only = true});
    target_->commit(path);
    feed_draft(prompt, at, end);
    if (draft_model_ != nullptr) {
      draft_model_->verify(chain_tree({prompt.begin() + at, prompt.begin() + end}),
                           {.last_logits_only = true});
      draft_model_->commit(path);
    }
  }
  ensure_count(*ops_, last_logits_, target_->shape().vocab);
  ops_->copy_rows({.rows = 1,
                   .width = target_->shape().vocab,
                   .src = target_->logits(),
                   .dst = last_logits_.data()});
  ops_->synchronize();
  prefill_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Draft entries for the chunk's tokens, as far back as the first step will look. The entry of the
// token after the prompt waits for that token; its captured row is kept.
template <class T>
void Generator<T>::feed_draft(std::span<const std::int32_t> prompt, std::int64_t begin,
                              std::int64_t end) {
  if (draft_ == nullptr) {
    return;
  }
  const std::int64_t oldest = prompt_len_ - draft_->shape().window + 1;
  const std::int64_t first = std::max(begin + 1, oldest);
  const std::int64_t last = std::min(end, prompt_len_ - 1);
  if (first <= last) {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(last - first + 1));
    std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(first - 1 - begin));
    draft_->extend(first, prompt.subspan(static_cast<std::size_t>(first), rows.size()),
                   target_->captured(), rows, false);
  }
  if (end == prompt_len_) {
    const std::int64_t width = 3 * target_->shape().hidden;
    draft_->set_length(prompt_len_);
    ensure_count(*ops_, last_captured_, width);
    ops_->copy_rows({.rows = 1,
                     .width = width,
                     .src = target_->captured() + (end - 1 - begin) * width,
                     .dst = last_captured_.data(),
                     .term = TrafficTerm::kDraft});
  }
}

template void Generator<double>::prefill(std::span<const std::int32_t>);
template void Generator<float>::prefill(std::span<const std::int32_t>);
template void Generator<Bf16>::prefill(std::span<const std::int32_t>);

}  // namespace versieve::engine
