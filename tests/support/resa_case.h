// One ReSA decoding problem held in double, its answer by plain loops, and its buffers in T.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/resa_decode/params.h"

namespace versieve::testing {

struct ResaCase {
  std::int64_t heads = 4, kv_heads = 2, head_dim = 16, length = 1;
  kernels::ResaSelection selection;
  std::vector<double> q, k, v;  // [H, d], [L, G, d]

  std::string text() const;
};

// `cuda` keeps to the shapes the CUDA kernels take.
ResaCase random_resa_case(std::mt19937_64& rng, bool cuda);
// Normal values; the selection and the shape as given.
ResaCase make_resa_case(ResaCase shape, std::mt19937_64& rng);
// Every value rounded to T.
template <class T>
ResaCase rounded_case(const ResaCase& c);

struct ResaAnswer {
  std::vector<double> out;            // [H, d]
  std::vector<std::int32_t> indices;  // [G, count]
};
// Scores of all blocks of KV head g, in double.
std::vector<double> plain_block_scores(const ResaCase& c, std::int64_t g);
// Attention over given blocks, [G, count].
std::vector<double> plain_block_attention(const ResaCase& c,
                                          const std::vector<std::int32_t>& indices);
ResaAnswer plain_resa_decode(const ResaCase& c);
// Why the answer to `c` (rounded to its T) is wrong, or an empty text. Blocks may differ from plain
// loops where the scores lie within `margin` of each other, relative to the largest.
std::string resa_disagreement(const ResaCase& c, const ResaAnswer& answer, double norm,
                              double margin);

template <class T>
struct ResaBuffers {
  explicit ResaBuffers(const ResaCase& c);
  kernels::BlockKeysParams<T> key_params();
  // The newest row apart, as a decoding step has it, or all rows in k and v.
  kernels::ResaDecodeParams<T> params(bool newest_apart = false);
  ResaAnswer answer() const;

  ResaCase source;
  std::vector<T> q, k, v, kmin, kmax, out;
  std::vector<std::int32_t> indices;
};

}  // namespace versieve::testing
