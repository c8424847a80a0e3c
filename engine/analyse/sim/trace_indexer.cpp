// A token-level indexer over a dense cache: the newest tokens' index keys, the index query of the
// root, its scores of all positions (a CTA takes 32 of them at once) and the top-k.
#include <algorithm>

#include "engine/analyse/sim/dense_traces.h"
#include "engine/analyse/sim/kernel_traces.h"
#include "model/words/index_shape.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kInt = 4;

}  // namespace

std::unique_ptr<LaunchTrace> trace_index_scores(const IndexScoresLaunch& l) {
  constexpr std::int64_t kPositions = 32;
  const std::int64_t key_bytes = l.dim * l.element_bytes;
  std::vector<RowTensor> written;
  for (std::int64_t row = 0; row < l.rows; ++row) {
    written.push_back({l.scores + static_cast<std::uint64_t>(row * l.length * l.element_bytes),
                       kPositions * l.element_bytes, kPositions * l.element_bytes});
  }
  return trace_rows({.path = "index_scores",
                     .rows = (l.length + kPositions - 1) / kPositions,
                     .reads = {{l.keys, kPositions * key_bytes, kPositions * key_bytes}},
                     .writes = std::move(written)});
}

void append_index_keys(const DenseCase& a, std::int64_t tokens, RowLaunch& out) {
  const IndexShape index = index_shape(a.shape);
  const std::uint64_t first = static_cast<std::uint64_t>(a.context_len - tokens);
  const std::uint64_t width = static_cast<std::uint64_t>(a.token_bytes());
  const std::int64_t key_bytes = index.dim * a.element_bytes;
  out.reads.push_back({a.at.k + first * width, tokens * a.token_bytes(), 0});
  out.writes.push_back(
      {a.at.index_keys + first * static_cast<std::uint64_t>(key_bytes), tokens * key_bytes, 0});
}

std::unique_ptr<LaunchTrace> trace_index_keys(const DenseCase& a) {
  RowLaunch launch{.path = "index_keys"};
  append_index_keys(a, 1, launch);
  return trace_rows(launch);
}

void append_index_choice(const DenseCase& a, LaunchSequence& out) {
  const IndexShape index = index_shape(a.shape);
  const std::int64_t scored = a.context_len - a.newest;
  const std::int64_t e = a.element_bytes;
  out.push_back(
      trace_rows({.path = "index_query",
                  .reads = {{a.at.q, a.shape.q_width() * e, 0}, {a.at.tokens, a.indexed * kInt, 0}},
                  .writes = {{a.at.index_query, index.heads * index.dim * e, 0},
                             {a.at.hint, a.indexed * kInt, 0},
                             {a.at.tokens + static_cast<std::uint64_t>(a.indexed * kInt),
                              a.newest * kInt, 0}}}));
  out.push_back(trace_index_scores({.length = scored,
                                    .dim = index.dim,
                                    .element_bytes = e,
                                    .keys = a.at.index_keys,
                                    .scores = a.at.scores}));
  append_topk({.rows = 1,
               .length = scored,
               .k = a.indexed,
               .element_bytes = e,
               .scores = a.at.scores,
               .hint = a.topk == TopkAlgorithm::kGvr ? a.at.hint : 0,
               .indices = a.at.tokens,
               .values = a.at.chosen_values,
               .scratch = a.at.sorted},
              a.topk, out);
}

}  // namespace versieve::engine
