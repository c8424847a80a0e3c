#include "engine/run/speculate/decode_loss.h"

#include <algorithm>
#include <numeric>

#include "engine/run/calibrate/text_loss.h"
#include "engine/run/speculate/rectify.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kChunk = Target<float>::kMostTogether;

template <class T>
void encode(Target<T>& target, std::span<const std::int32_t> text) {
  target.drop_block_keys();
  target.cache().truncate(0);
  for (std::size_t at = 0; at < text.size(); at += kChunk) {
    const std::size_t end = std::min<std::size_t>(text.size(), at + kChunk);
    std::vector<std::int32_t> path(end - at);
    std::iota(path.begin(), path.end(), 0);
    target.verify(chain_tree({text.begin() + static_cast<std::ptrdiff_t>(at),
                              text.begin() + static_cast<std::ptrdiff_t>(end)}),
                  {.last_logits_only = true});
    target.commit(path);
  }
}

}  // namespace

template <class T>
std::vector<double> decode_losses(kernels::Ops<T>& ops, Target<T>& target,
                                  std::span<const std::int32_t> text, std::int64_t prefix,
                                  const DecodeLossOptions& options) {
  const std::int64_t tokens = static_cast<std::int64_t>(text.size());
  VERSIEVE_ASSERT(prefix >= 1 && prefix <= tokens - 2, "a token is decoded and another predicted");
  target.cache().reserve(tokens);
  encode(target, text.first(static_cast<std::size_t>(prefix)));
  std::optional<Rectifier<T>> rectifier;
  if (options.resa) {
    target.keep_block_keys(options.resa->key_block);
    if (options.rectify_every > 0) {
      rectifier.emplace(target, options.rectify_every);
    }
  }
  const std::int32_t path = 0;
  std::vector<T> logits(static_cast<std::size_t>(target.shape().vocab));
  std::vector<double> losses;
  for (std::int64_t at = prefix; at + 1 < tokens; ++at) {
    const std::int32_t token = text[static_cast<std::size_t>(at)];
    target.verify(chain_tree({token}), {.splits_chain = true, .resa = options.resa});
    ops.download(logits.data(), target.logits(), logits.size() * sizeof(T));
    losses.push_back(
        token_loss(std::span<const T>(logits), text[static_cast<std::size_t>(at) + 1]));
    target.commit({&path, 1});
    if (rectifier) {
      rectifier->committed(token);
    }
  }
  return losses;
}

template std::vector<double> decode_losses(kernels::Ops<double>&, Target<double>&,
                                           std::span<const std::int32_t>, std::int64_t,
                                           const DecodeLossOptions&);
template std::vector<double> decode_losses(kernels::Ops<float>&, Target<float>&,
                                           std::span<const std::int32_t>, std::int64_t,
                                           const DecodeLossOptions&);
template std::vector<double> decode_losses(kernels::Ops<Bf16>&, Target<Bf16>&,
                                           std::span<const std::int32_t>, std::int64_t,
                                           const DecodeLossOptions&);

}  // namespace versieve::engine
