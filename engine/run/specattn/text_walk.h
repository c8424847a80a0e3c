// One walk of a target along a text, block by block, under some selection: losses and choices.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/run/model/target.h"

namespace versieve::engine {

struct WalkedText {
  std::vector<double> loss;          // nats, of each scored token
  std::vector<std::int32_t> choice;  // the target's argmax there
};

// The tokens after position `start` - 1 of `text` are scored; blocks of `block` tokens are verified
// at once. REQUIRES: the target's cache holds text[0, start). before(index) is called before each
// block's verify.
template <class T>
WalkedText walk_text(kernels::Ops<T>& ops, Target<T>& target, std::span<const std::int32_t> text,
                     std::int64_t start, std::int64_t block,
                     const std::function<void(std::size_t)>& before);

// Where the blocks begin: start, start + block, ... as long as a token follows.
std::vector<std::int64_t> block_starts(std::int64_t start, std::int64_t block,
                                       std::int64_t text_tokens);

}  // namespace versieve::engine
