// Scores of real decoding: the attention that each KV head of some layers of the demo target pays
// to every token of its context, at consecutive steps of a held-out text. What a token-level
// selection ranks, and where a step's top-k is the next step's hint.
#pragma once

#include <cstdint>
#include <vector>

namespace versieve::testing {

struct DecodeScores {
  std::int64_t length = 0;  // tokens of the context
  std::int64_t steps = 0;
  std::int64_t heads = 0;  // (layer, KV head) pairs: rows a step
  // [steps, heads, length]: sum over the query heads of softmax(q k / sqrt(d)) over the context.
  std::vector<float> scores;
};

// One entry a length, ascending; bf16 on the GPU. REQUIRES: a GPU, the demo model in the sources.
std::vector<DecodeScores> decode_scores(const std::vector<std::int64_t>& lengths,
                                        std::int64_t steps);

}  // namespace versieve::testing
