#include "engine/run/specattn/text_walk.h"

#include <algorithm>
#include <numeric>

#include "engine/run/calibrate/text_loss.h"
#include "engine/run/model/wide.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

template <class T>
std::int32_t argmax(std::span<const T> row) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < row.size(); ++i) {
    best = wide(row[i]) > wide(row[best]) ? i : best;
  }
  return static_cast<std::int32_t>(best);
}

}  // namespace

std::vector<std::int64_t> block_starts(std::int64_t start, std::int64_t block,
                                       std::int64_t text_tokens) {
  std::vector<std::int64_t> starts;
  for (std::int64_t at = start; at + 1 < text_tokens; at += block) {
    starts.push_back(at);
  }
  return starts;
}

template <class T>
WalkedText walk_text(kernels::Ops<T>& ops, Target<T>& target, std::span<const std::int32_t> text,
                     std::int64_t start, std::int64_t block,
                     const std::function<void(std::size_t)>& before) {
  const std::int64_t length = static_cast<std::int64_t>(text.size());
  const std::size_t vocab = static_cast<std::size_t>(target.shape().vocab);
  VERSIEVE_ASSERT(target.length() >= start, "the cache holds what comes before");
  target.cache().truncate(start);
  WalkedText walked;
  std::size_t index = 0;
  for (const std::int64_t at : block_starts(start, block, length)) {
    const std::int64_t end = std::min(length - 1, at + block);
    before(index++);
    target.verify(chain_tree({text.begin() + at, text.begin() + end}), {});
    std::vector<T> logits(static_cast<std::size_t>(end - at) * vocab);
    ops.download(logits.data(), target.logits(), logits.size() * sizeof(T));
    for (std::int64_t row = 0; row < end - at; ++row) {
      const std::span<const T> own =
          std::span<const T>(logits).subspan(static_cast<std::size_t>(row) * vocab, vocab);
      walked.loss.push_back(token_loss(own, text[static_cast<std::size_t>(at + row + 1)]));
      walked.choice.push_back(argmax(own));
    }
    std::vector<std::int32_t> path(static_cast<std::size_t>(end - at));
    std::iota(path.begin(), path.end(), 0);
    target.commit(path);
  }
  return walked;
}

template WalkedText walk_text(kernels::Ops<double>&, Target<double>&, std::span<const std::int32_t>,
                              std::int64_t, std::int64_t, const std::function<void(std::size_t)>&);
template WalkedText walk_text(kernels::Ops<float>&, Target<float>&, std::span<const std::int32_t>,
                              std::int64_t, std::int64_t, const std::function<void(std::size_t)>&);
template WalkedText walk_text(kernels::Ops<Bf16>&, Target<Bf16>&, std::span<const std::int32_t>,
                              std::int64_t, std::int64_t, const std::function<void(std::size_t)>&);

}  // namespace versieve::engine
