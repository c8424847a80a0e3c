// The launches of attention over a dense cache, each as a trace.
#pragma once

#include "engine/analyse/sim/dense_case.h"
#include "engine/analyse/sim/row_trace.h"
#include "engine/analyse/sim/simulated_run.h"

namespace versieve::engine {

// flash_decode and flash_combine in the order in which kernels/flash_decode enqueues them; slices
// of 128 queries each.
void append_flash_decode(const DenseCase& a, LaunchSequence& out);
// dense_pass and its merge: a chain whose rows are written anew. REQUIRES: takes_dense_pass of it.
void append_dense_pass(const DenseCase& a, LaunchSequence& out);
// ReSA's one query: its blocks are chosen. The keys of the newest token's block afterwards.
std::unique_ptr<LaunchTrace> trace_resa_decode(const DenseCase& a);
// The same launch by launch: resa_score, resa_select, resa_attend, resa_combine.
void append_resa_launches(const DenseCase& a, LaunchSequence& out);
// Tokens of a KV head's chosen blocks, the newest one included, and places [first, end) of that
// list: which blocks, their keys and values.
std::int64_t listed_tokens(const DenseCase& a);
void append_listed_tokens(const DenseCase& a, std::int64_t g, std::int64_t first, std::int64_t end,
                          AccessKind kind, std::vector<Access>& out);
std::unique_ptr<LaunchTrace> trace_block_keys(const DenseCase& a);
// A layer's part of a launch for all of them.
void append_block_keys(const DenseCase& a, RowLaunch& out);
// An indexer: query, scores and top-k of a layer; index keys of the newest tokens afterwards, of
// one layer or a layer's part of a launch for all of them.
void append_index_choice(const DenseCase& a, LaunchSequence& out);
std::unique_ptr<LaunchTrace> trace_index_keys(const DenseCase& a);
void append_index_keys(const DenseCase& a, std::int64_t tokens, RowLaunch& out);
// SpecAttn: the tokens that carry a share of `rows` rows of weights; thresholds, then their union.
void append_top_p(const DenseCase& a, std::int64_t rows, LaunchSequence& out);
// The mean over heads of a query's weights that no attention kept, from the keys; the chosen
// tokens' list, from the mask.
void append_attention_weights(const DenseCase& a, LaunchSequence& out);
void append_token_list(const DenseCase& a, LaunchSequence& out);

}  // namespace versieve::engine
