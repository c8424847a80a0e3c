// A prompt's tokens, many in one forward: weights are read once for all of them, and each layer's
// keys and compressed tokens go to the cache before its attention. That is one launch for all of
// them where there is such a form (kernels/nsa_verify/prompt.h), else that of pieces of the prompt
// side by side, each over the cache as the pieces before leave it. No bit depends on which.
#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/run/model/target.h"
#include "kernels/nsa_verify/prompt.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// Neighbours choose many of the same blocks; no bit depends on it.
constexpr std::int64_t kPieceGroup = 8;

std::vector<std::int32_t> counted_from(std::int64_t first, std::int64_t count) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), static_cast<std::int32_t>(first));
  return out;
}

// The attention of `count` tokens behind `before`: its sizes, without arrays.
template <class T>
kernels::NsaVerifyParams<T> prompt_sizes(const LlmShape& shape, std::int64_t before,
                                         std::int64_t count) {
  return {.nsa = shape.nsa,
          .num_heads = shape.num_heads,
          .num_kv_heads = shape.num_kv_heads,
          .head_dim = shape.head_dim,
          .context_len = before,
          .num_queries = count,
          .num_compressed = compressed_count(shape.nsa, before),
          .num_blocks = (before + count - 1) / shape.nsa.sel_block + 1};
}

}  // namespace

template <class T>
bool Target<T>::attends_at_once(std::int64_t before, std::int64_t count) const {
  return shape_.attention == AttentionKind::kNsa &&
         kernels::has_nsa_prompt<T>(*ops_, prompt_sizes<T>(shape_, before, count));
}

template <class T>
std::int64_t Target<T>::prompt_bytes(kernels::Ops<T>& ops, const LlmShape& shape,
                                     std::int64_t tokens, std::int64_t rows) {
  const std::int64_t count = std::min(tokens, rows);
  return shape.attention == AttentionKind::kNsa && count > kMostTogether
             ? kernels::nsa_prompt_bytes<T>(ops, prompt_sizes<T>(shape, tokens - count, count))
             : 0;
}

template <class T>
void Target<T>::read_prompt(std::span<const std::int32_t> tokens) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  VERSIEVE_ASSERT(count >= 1, "a prompt has at least its first token");
  const auto chain = [&](std::int64_t from, std::int64_t to) {
    return chain_tree({tokens.begin() + from, tokens.begin() + to});
  };
  // In powers of two: recordings name the rows, and prompts of about one length keep them.
  ensure_rows(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count))));
  if (count <= kMostTogether) {
    verify(chain(0, count), {.group_size = kPieceGroup, .last_logits_only = true});
    commit(counted_from(0, count));
    return;
  }
  const std::int64_t before = length();
  cache_.reserve(before + count);
  piece_rows_ = PieceRows{.before = before, .count = count};
  if (attends_at_once(before, count)) {
    lay_out({{.tree = chain(0, count), .options = {.last_logits_only = true}, .cache = &cache_}});
    run_nodes();
  } else {
    std::vector<SequencePart<T>> pieces;
    piece_caches_.clear();
    piece_caches_.reserve(static_cast<std::size_t>((count + kMostTogether - 1) / kMostTogether));
    for (std::int64_t at = 0; at < count; at += kMostTogether) {
      const std::int64_t end = std::min(count, at + kMostTogether);
      piece_caches_.emplace_back(*ops_, shape_, cache_.rows());
      piece_caches_.back().set_length(before + at);
      pieces.push_back({.tree = chain(at, end),
                        .options = {.group_size = kPieceGroup,
                                    .last_logits_only = end == count,
                                    .no_logits = end < count},
                        .cache = &piece_caches_.back()});
    }
    verify_batch(std::move(pieces));
  }
  piece_rows_.reset();
  cache_.set_length(before + count);
  nsa_.set_hint(shape_.attention == AttentionKind::kNsa ? count - 1 : -1);
  blocks_.update(cache_, before);
  indexer_.update(cache_, before);
}

// The nodes' rows lie side by side among the step's, and so they do in the cache.
template <class T>
void Target<T>::keep_piece_rows(std::int64_t layer) {
  const std::int64_t width = shape_.kv_width();
  const auto copy = [&](const T* from, T* to, std::int64_t first, std::int64_t rows) {
    if (from != nullptr && rows > 0) {
      ops_->copy_rows({.rows = 1,
                       .width = rows * width,
                       .src = from,
                       .dst = to + first * width,
                       .term = TrafficTerm::kKvAppend});
    }
  };
  const auto [before, count] = *piece_rows_;
  copy(tree_kv_.k(layer), cache_.k(layer), before, count);
  copy(tree_kv_.v(layer), cache_.v(layer), before, count);
  if (cache_.keeps_raw_keys()) {
    copy(tree_kv_.k_raw(layer), cache_.k_raw(layer), before, count);
  }
  if (shape_.attention == AttentionKind::kNsa) {
    const std::int64_t first = compressed_count(shape_.nsa, before);
    const std::int64_t rows = compressed_count(shape_.nsa, before + count) - first;
    copy(tree_kv_.k_cmp(layer), cache_.k_cmp(layer), first, rows);
    copy(tree_kv_.v_cmp(layer), cache_.v_cmp(layer), first, rows);
  }
}

template bool Target<double>::attends_at_once(std::int64_t, std::int64_t) const;
template std::int64_t Target<double>::prompt_bytes(kernels::Ops<double>&, const LlmShape&,
                                                   std::int64_t, std::int64_t);
template void Target<double>::read_prompt(std::span<const std::int32_t>);
template void Target<double>::keep_piece_rows(std::int64_t);
template bool Target<float>::attends_at_once(std::int64_t, std::int64_t) const;
template std::int64_t Target<float>::prompt_bytes(kernels::Ops<float>&, const LlmShape&,
                                                  std::int64_t, std::int64_t);
template void Target<float>::read_prompt(std::span<const std::int32_t>);
template void Target<float>::keep_piece_rows(std::int64_t);
template bool Target<Bf16>::attends_at_once(std::int64_t, std::int64_t) const;
template std::int64_t Target<Bf16>::prompt_bytes(kernels::Ops<Bf16>&, const LlmShape&, std::int64_t,
                                                 std::int64_t);
template void Target<Bf16>::read_prompt(std::span<const std::int32_t>);
template void Target<Bf16>::keep_piece_rows(std::int64_t);

}  // namespace versieve::engine
