// Bytes and arithmetic of the engine's kernels outside attention, by term; see
// model/launches/traffic.h for what a byte counts as. Samplers are counted launch by launch, as
// their baseline runs.
#pragma once

#include <cstdint>

#include "model/launches/traffic.h"

namespace versieve::traffic {

// y = silu(x wg^T) (x wu^T): 2 m weight rows in, m columns out.
Traffic linear_swiglu(std::int64_t n, std::int64_t k, std::int64_t m, std::int64_t element_bytes,
                      TrafficTerm weights);
// Rows of m that a linear layer also writes times the next norm's weight (FoldedNorm).
Traffic weighted_rows(std::int64_t n, std::int64_t m, std::int64_t element_bytes);
Traffic rms_norm(std::int64_t n, std::int64_t k, std::int64_t element_bytes);
// Rows that rms_norm also writes as they are.
Traffic kept_rows(std::int64_t n, std::int64_t k, std::int64_t element_bytes);
Traffic rope(std::int64_t n, std::int64_t heads, std::int64_t head_dim, std::int64_t element_bytes);
// Positions in, a cosine and a sine of each pair out.
Traffic rope_table(std::int64_t n, std::int64_t head_dim, std::int64_t element_bytes);
// The joint projection's rows in, their parts out, keys twice if `keeps_raw_keys`.
Traffic rope_append(std::int64_t n, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, std::int64_t gates, bool keeps_raw_keys,
                    std::int64_t element_bytes);
// Rows of a joint projection that attention takes apart itself: keys and values in and into the
// tree; queries are counted where they are read.
Traffic turned_rows(std::int64_t n, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, std::int64_t element_bytes);
// `inputs` tensors of `count` elements in, one out.
Traffic elementwise(std::int64_t count, std::int64_t inputs, std::int64_t element_bytes,
                    double flops_per_element);
Traffic copy_rows(std::int64_t rows, std::int64_t width, std::int64_t element_bytes,
                  TrafficTerm term);
Traffic top_logits(std::int64_t rows, std::int64_t vocab, std::int64_t k,
                   std::int64_t element_bytes);
// Scores in once, k indices and values out; `hints` indices a row in. A sort's own passes are not
// unique bytes, and the hinted scores are the row's.
Traffic topk(std::int64_t rows, std::int64_t length, std::int64_t k, std::int64_t element_bytes,
             std::int64_t hints);

// Keys of one query in, a weight a key out.
Traffic attention_weights(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                          std::int64_t context_len, std::int64_t element_bytes);
// A table of similarities in, a map and its score out; all in double.
Traffic layer_map(std::int64_t draft_layers, std::int64_t verifier_layers);
// Rows of f32 weights in, once for the thresholds and once for the union; a mask out.
Traffic top_p(std::int64_t rows, std::int64_t length);
// At most: every token listed.
Traffic token_list(std::int64_t lists, std::int64_t length);

// Rows of logits in, rows of f32 probabilities out.
Traffic softmax_rows(std::int64_t rows, std::int64_t vocab, std::int64_t element_bytes);
// max(0, p - q) of gamma rows, all f32.
Traffic sample_difference(std::int64_t gamma, std::int64_t vocab);
// One f32 row read for a sum or a draw, for each of `rows`.
Traffic sample_rows_read(std::int64_t rows, std::int64_t vocab);
// Every logit of a chain's gamma + 1 target and gamma draft rows once.
Traffic spec_chain(std::int64_t gamma, std::int64_t vocab, std::int64_t element_bytes);
// Tokens drafted and drawn in, tokens of the samples out.
Traffic spec_pick(std::int64_t samples, std::int64_t gamma);
// Every logit of `parents` rows of a tree once.
Traffic tree_tests(std::int64_t parents, std::int64_t vocab, std::int64_t element_bytes);

// kernels/draft_tree: ints a node, in and out; the last level's tree and the level's children grow.
Traffic grow_tree(std::int64_t nodes, std::int64_t children);
Traffic finish_tree(std::int64_t nodes);
Traffic accept_tree(std::int64_t nodes);
// Keys and values of a path in all layers.
Traffic commit_path(std::int64_t layers, std::int64_t max_path, std::int64_t width,
                    std::int64_t element_bytes);

}  // namespace versieve::traffic
