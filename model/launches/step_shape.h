// What a step is asked to do: target, draft, tree, context, how layers attend.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "model/words/block_sharing.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"
#include "model/words/traffic.h"

namespace versieve {

// How a target with a dense cache attends: which of it a layer reads, and by which launches.
struct DenseRead {
  AttentionMethod method = AttentionMethod::kDense;
  std::int64_t key_block = 16;              // b of ReSA
  double active_ratio = 0.1;                // p of ReSA
  std::int64_t n_min = kResaFewestBlocks;   // of ReSA's chosen blocks
  std::int64_t n_local = kResaLocalBlocks;  // newest ones always among them
  double chosen_tokens = 0.0;               // SpecAttn's, of the context
  std::int64_t indexer_k = 0;               // an indexer's chosen tokens
  std::int64_t indexer_window = 0;          // and the newest ones, which it reads beside them
  TopkAlgorithm indexer_topk = TopkAlgorithm::kGvr;
  std::int64_t weight_rows = 1;  // the draft's steps that they were chosen by
  double filled = 1.0;           // tokens of the block whose keys a step keeps
  bool whole_step = true;        // block keys of all layers in one launch
  bool rewrites = false;         // a chain whose rows are written anew: rectification
  double repeated = 1.0;         // of ReSA's chosen blocks, that the step before chose
  bool vanilla = false;          // ReSA's phases as launches of their own
};

// What a step is asked to do.
struct StepShape {
  LlmShape target;
  DraftShape draft;
  DraftChoice tree;              // one node: autoregressive, no draft
  bool drafts = true;            // by the head, as part of the step; else its draft is another's
  std::int64_t context_len = 0;  // L
  std::int64_t num_queries = 1;  // N
  std::int64_t refresh_layers = 0;
  std::int64_t reuse_layers = 0;
  std::int64_t element_bytes = 2;
  double overlap = 0.6;  // of adjacent queries' selected blocks
  // Of groups, along the order that they are cut in: overlap of neighbours (0: as `overlap`), and
  // distinct blocks of kSharingGroups[i] of them in blocks of one query (0: by the overlap).
  double group_overlap = 0.0;
  std::array<double, kSharingGroups.size()> group_share{};
  // The blocks are a chain of sets made to have that overlap (synthetic reuse layers), not routed.
  bool imposed_chain = false;
  double unique_blocks = 0.0;  // measured distinct blocks over all queries; 0: from overlap
  NsaForm form = NsaForm::kFused;
  std::int64_t group_size = 1;  // C; the vanilla form loads for each query alone
  GroupMode group_mode = GroupMode::kExact;
  // Draft, tree, acceptance and commit run on the device by static sizes; else the host leads.
  bool recorded = false;
  SamplingAlgorithm sampling = SamplingAlgorithm::kGreedy;  // how draft and target choose tokens
  // All layers in one launch. REQUIRES: one request and query of an NSA target, fused.
  bool one_launch = false;
  // B: requests that the step takes at once, each of num_queries nodes, so that rows are (request,
  // node). Weights are read once for all.
  std::int64_t requests = 1;
  // Of each request its context, in any order; empty: context_len of all. Not owned.
  // REQUIRES: empty or `requests` many.
  std::span<const std::int64_t> contexts;
  // Requests of one attention launch, at most; 0: all in one. As many launches as that takes.
  std::int64_t together = 0;
  // Attention is one launch over all requests, whose thread blocks are the sum of theirs; else one
  // a request. Neither shares keys between requests.
  bool ragged = true;
  DenseRead dense;  // of a target of AttentionKind::kDense
};

// The step that a strategy asks for. What else a shape holds (overlap, how the step is enqueued,
// which of a dense cache it reads) is known to whoever measured it or prices it.
StepShape asked_step(const Strategy& strategy, const LlmShape& target, const DraftShape& draft,
                     std::int64_t context_len, std::int64_t element_bytes);
// What a step of a dense target's strategy reads, as far as the strategy says.
DenseRead asked_read(const Strategy& strategy);
// What an indexer's step reads; of other strategies nothing is set.
void set_indexer(const Strategy& strategy, DenseRead& read);
// Tokens that a step is taken to commit where the host leads it.
double committed_tokens(const StepShape& shape);
// Of a target with a dense cache: whether a layer reads tokens that were chosen, how many tokens it
// reads, by which term they count, and the bytes of a token's keys and values.
bool reads_chosen(const StepShape& shape);
double dense_keys(const StepShape& shape);
TrafficTerm dense_term(const StepShape& shape);
// Rows of a step: nodes of all requests.
inline double step_rows(const StepShape& shape) {
  return static_cast<double>(shape.requests * shape.num_queries);
}
double token_bytes(const StepShape& shape);

}  // namespace versieve
