#include "engine/measure/sweep/synthetic_batch.h"

#include <algorithm>
#include <optional>

#include "engine/run/batch/batch_memory.h"
#include "engine/run/model/synthetic.h"
#include "kernels/common/bf16.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// Requests in step complete compressed tokens all in one step, or none in the next; those of a
// server do not. So each context is up to so many tokens shorter than asked for.
constexpr std::int64_t kStagger = 16;

void stagger(std::vector<std::int64_t>& contexts) {
  for (std::size_t id = 0; id < contexts.size(); ++id) {
    contexts[id] =
        std::max<std::int64_t>(1, contexts[id] - static_cast<std::int64_t>(id) % kStagger);
  }
  std::sort(contexts.rbegin(), contexts.rend());
}

BatchRequest request_of(const BatchAsked& asked, std::size_t id) {
  const std::int64_t context = asked.contexts[id];
  const std::int64_t tokens = asked.steps * (asked.yield + 1);
  BatchRequest request{
      .prompt = std::vector<std::int32_t>(static_cast<std::size_t>(context + 1), 1),
      .options = {.strategy = asked.strategy,
                  .max_new_tokens = 1 + tokens,
                  .temperature = asked.temperature,
                  .seed = id + 1}};
  request.forced_yield =
      asked.strategy.draft.speculates() ? std::min(asked.yield, asked.strategy.draft.depth + 1) : 0;
  return request;
}

}  // namespace

LlmShape batch_shape(const std::string& geometry, const Strategy& strategy) {
  LlmShape shape = named_llm_shape(geometry);
  shape.attention =
      strategy.attention == AttentionMethod::kNsa ? AttentionKind::kNsa : AttentionKind::kDense;
  return shape;
}

std::string unbatched_because(const Strategy& strategy, const LlmShape& shape) {
  if (strategy.attention == AttentionMethod::kSpecAttn) {
    return "what SpecAttn reads is chosen by a draft model, and a geometry has none";
  }
  if (strategy.drafts_itself || strategy.adapts_length || strategy.sampling) {
    return "steps of many requests draft the tree that the strategy names by the draft head, "
           "greedily";
  }
  return illegal_because(strategy, shape);
}

template <class T>
SyntheticBatch<T>::SyntheticBatch(kernels::Ops<T>& ops, const LlmShape& shape, bool on_gpu,
                                  std::uint64_t seed, double alike)
    : ops_(&ops),
      on_gpu_(on_gpu),
      seed_(seed),
      shape_(shape),
      draft_shape_(usual_draft(shape)),
      target_(make_synthetic_target(ops, shape_, draft_shape_, seed, alike)),
      draft_(make_synthetic_draft(ops, draft_shape_, target_, seed + 1)) {}

template <class T>
std::string SyntheticBatch<T>::make_session(const BatchAsked& asked) {
  const std::int64_t requests = std::ssize(asked.contexts);
  std::vector<BatchRequest> all;
  std::int64_t pages = 0;
  for (std::size_t id = 0; id < asked.contexts.size(); ++id) {
    all.push_back(request_of(asked, id));
    pages += BatchSession<T>::pages_needed(shape_, all.back());
  }
  // Pages lie scattered, as a server's do after a while.
  SessionOptions options{.concurrency = requests,
                         .shuffled_pages = seed_ + 3,
                         .drafts_by_rank = true,
                         .records = records_};
  try {
    const MemoryPlan memory =
        plan_memory<T>(*ops_, on_gpu_, shape_, &draft_shape_, nullptr, all, options, std::nullopt);
    if (memory.pages < pages || memory.concurrency < requests) {
      return "keys and values of " + std::to_string(requests) +
             " requests do not fit into this machine's memory";
    }
  } catch (const Error& error) {
    return error.what();
  }
  options.pages = pages;
  session_ = std::make_unique<BatchSession<T>>(*ops_, target_, &draft_, options);
  const std::string refusal = session_->refusal(all.front());
  if (!refusal.empty()) {
    session_.reset();
  }
  return refusal;
}

// The longest request's context is random, the others' are copies of its beginning.
template <class T>
std::string SyntheticBatch<T>::begin(const BatchAsked& asked) {
  VERSIEVE_ASSERT(!asked.contexts.empty() && asked.steps >= 1, "a batch has requests and steps");
  session_.reset();  // frees first
  std::vector<std::int64_t> contexts(asked.contexts.begin(), asked.contexts.end());
  stagger(contexts);
  BatchAsked longest_first = asked;
  longest_first.contexts = contexts;
  if (std::string reason = make_session(longest_first); !reason.empty()) {
    return reason;
  }
  std::optional<KvCache<T>> longest;
  for (std::size_t id = 0; id < contexts.size(); ++id) {
    session_->submit_prefilled(static_cast<std::int64_t>(id), request_of(longest_first, id),
                               [&](KvCache<T>& cache) {
                                 if (longest) {
                                   copy_context(*longest, cache, contexts[id]);
                                 } else {
                                   fill_context(*ops_, shape_, cache, contexts[id], seed_ + 2);
                                   longest = KvCache<T>(*ops_, shape_, cache.rows());
                                 }
                               });
  }
  ops_->synchronize();
  left_ = asked.steps;
  nodes_ = asked.strategy.draft.nodes;
  return {};
}

template <class T>
void SyntheticBatch<T>::set_records(bool records) {
  records_ = records;
  target_.set_records(records);
}

template <class T>
void SyntheticBatch<T>::step() {
  VERSIEVE_ASSERT(session_ != nullptr && left_ > 0, "a batch steps within its room");
  left_ -= 1;
  const std::vector<FinishedRequest> finished = session_->step();
  ops_->synchronize();
  VERSIEVE_ASSERT(finished.empty(), "requests outlast the steps that they have room for");
}

template <class T>
BlockStatistics SyntheticBatch<T>::chosen_blocks() const {
  VERSIEVE_ASSERT(shape_.attention == AttentionKind::kNsa, "a dense target chooses no blocks");
  BlockStatistics mean;
  const auto rows = static_cast<std::size_t>(nodes_ * shape_.num_kv_heads * shape_.nsa.sel_count);
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
    std::vector<std::int32_t> chosen = target_.selected_blocks(layer);
    VERSIEVE_ASSERT(chosen.size() >= rows, "the first request's tree was verified");
    chosen.resize(rows);
    const BlockStatistics own =
        block_statistics(chosen, nodes_, shape_.num_kv_heads, shape_.nsa.sel_count);
    const double share = 1.0 / static_cast<double>(shape_.layers);
    mean.unique_blocks += share * own.unique_blocks;
    if (own.adjacent_overlap) {
      mean.adjacent_overlap = mean.adjacent_overlap.value_or(0.0) + share * *own.adjacent_overlap;
    }
  }
  return mean;
}

template <class T>
void SyntheticBatch<T>::copy_context(const KvCache<T>& from, KvCache<T>& to, std::int64_t tokens) {
  to.set_length(tokens);
  const std::int64_t width = shape_.kv_width();
  const auto copy = [&](const T* rows, T* copies, const PagedRows& source,
                        const PagedRows& destination, std::int64_t layer_rows, std::int64_t count) {
    for (std::int64_t at = 0; rows != nullptr && at < count;) {
      const std::int64_t side_by_side = std::min(source.run(at, count), destination.run(at, count));
      ops_->copy_rows({.rows = shape_.layers,
                       .width = side_by_side * width,
                       .src_stride = layer_rows * width,
                       .dst_stride = layer_rows * width,
                       .src = rows + source.row(at) * width,
                       .dst = copies + destination.row(at) * width,
                       .term = TrafficTerm::kKvAppend});
      at += side_by_side;
    }
  };
  const KvRows<T>& a = from.rows();
  const KvRows<T>& b = to.rows();
  const std::int64_t compressed = to.compressed_length();
  VERSIEVE_ASSERT(a.layer_rows == b.layer_rows && a.cmp_layer_rows == b.cmp_layer_rows,
                  "caches of one pool");
  copy(a.k, b.k, a.paged, b.paged, a.layer_rows, tokens);
  copy(a.v, b.v, a.paged, b.paged, a.layer_rows, tokens);
  copy(a.k_raw, b.k_raw, a.paged, b.paged, a.layer_rows, tokens);
  copy(a.k_cmp, b.k_cmp, a.cmp_paged, b.cmp_paged, a.cmp_layer_rows, compressed);
  copy(a.v_cmp, b.v_cmp, a.cmp_paged, b.cmp_paged, a.cmp_layer_rows, compressed);
}

template class SyntheticBatch<double>;
template class SyntheticBatch<float>;
template class SyntheticBatch<Bf16>;

}  // namespace versieve::engine
