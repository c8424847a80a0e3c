#include "engine/run/speculate/device_step.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "engine/run/speculate/tree_growth.h"
#include "kernels/memory_log.h"
#include "kernels/staged_upload.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kSmallestPiece = 512;
constexpr std::int64_t kHeadroom = 256;     // positions, so that a new recording lasts a while
constexpr std::size_t kMostRecordings = 4;  // of one runner: of different bounds

// The pool of a tree that is grown already.
void fill_pool(const DraftTree& tree, kernels::TreePool& pool) {
  pool.count = static_cast<std::int32_t>(tree.size() - 1);
  for (std::int32_t i = 0; i < pool.count; ++i) {
    const std::size_t node = static_cast<std::size_t>(i) + 1;
    pool.parent[i] = tree.parent[node] - 1;
    pool.depth[i] = tree.depth[node];
    pool.token[i] = tree.token[node];
    pool.log_probability[i] = tree.log_probability[node];
  }
}

}  // namespace

std::int64_t recording_bound(std::int64_t context_len) {
  std::int64_t piece = kSmallestPiece;
  while (32 * piece <= context_len) {
    piece *= 2;
  }
  return (context_len + kHeadroom + piece - 1) / piece * piece;
}

template <class T>
DeviceStepRunner<T>::DeviceStepRunner(kernels::Ops<T>& ops, Target<T>& target, Draft<T>* draft,
                                      const DeviceStepOptions& options, Target<T>* draft_model)
    : ops_(&ops),
      target_(&target),
      draft_(draft),
      options_(options),
      levels_(options.choice.levels()),
      max_path_(kernels::longest_path(options.choice)) {
  if (draft_model != nullptr && options_.choice.speculates() && options_.drafts) {
    chain_ =
        std::make_unique<RecordedChain<T>>(ops, *draft_model,
                                           RecordedChainOptions{.choice = options_.choice,
                                                                .temperature = options_.temperature,
                                                                .chooses = options_.chooses,
                                                                .layer_map = options_.layer_map,
                                                                .beside = options_.chooses_beside});
  }
  VERSIEVE_ASSERT(!has_entries() || draft_ != nullptr, "a draft grows the tree or is fed");
  VERSIEVE_ASSERT(options_.drafts || options_.forced_yield > 0,
                  "a tree that nobody drafted says nothing about acceptance");
  VERSIEVE_ASSERT(options_.choice.nodes <= kernels::kMaxTreeNodes &&
                      options_.choice.width <= kernels::kMaxTreeWidth &&
                      max_path_ <= kernels::kMaxPathNodes,
                  "a strategy's tree is within the kernels' limits");
  if (drafts()) {
    const std::int64_t width = options_.choice.width;
    branch_ = std::min(width, draft_->shape().vocab);
    slot_count_ = std::max(1 + (levels_ - 1) * width, max_path_);
    top_score_ = kernels::OpsBuffer<T, float>(ops, width * branch_);
    if (draft_->has_own_vocabulary()) {
      target_token_ = kernels::OpsBuffer<T, std::int32_t>(ops, draft_->target_tokens());
    }
  }
  if (options_.temperature > 0.0) {
    const std::int64_t drafted = drafts() ? options_.choice.width * draft_->shape().vocab : 0;
    perturbed_ = kernels::OpsBuffer<T, kernels::SumOf<T>>(
        ops, std::max(drafted, options_.choice.nodes * target.shape().vocab));
  }
  ints_ = kernels::OpsBuffer<T, std::int32_t>(ops, lay_out(nullptr));
  lay_out(ints_.data());
  state_ = kernels::OpsBuffer<T, kernels::StepState>(ops, 1);
  yields_ = {static_cast<kernels::StepYield*>(
                 ops.allocate_host(kernels::kYieldSlots * sizeof(kernels::StepYield))),
             [&ops](kernels::StepYield* memory) { ops.release_host(memory); }};
  for (std::unique_ptr<kernels::Marker>& marker : markers_) {
    marker = ops.make_marker();
  }
}

template <class T>
DeviceStepRunner<T>::~DeviceStepRunner() {
  while (pending() > 0) {
    kernels::wait_at_end(*markers_[waited_++ % kernels::kYieldSlots]);
  }
}

// Places the lists one after another from `base`; returns how many integers they take.
template <class T>
std::int64_t DeviceStepRunner<T>::lay_out(std::int32_t* base) {
  std::int64_t used = 0;
  const auto place = [&](std::int32_t*& list, std::int64_t count) {
    list = base == nullptr ? nullptr : base + used;
    used += count;
  };
  for (std::int32_t** list : {&lists_.entry_token, &lists_.entry_row, &lists_.entry_position}) {
    place(*list, max_path_);
  }
  for (std::int32_t** list : {&lists_.slot_parent, &lists_.slot_position, &lists_.identity}) {
    place(*list, slot_count_);
  }
  place(lists_.node_token, options_.choice.width);
  place(lists_.top_index, options_.choice.width * branch_);
  for (std::int32_t** list : {&lists_.token, &lists_.parent, &lists_.position, &lists_.owner,
                              &lists_.block, &lists_.choice}) {
    place(*list, options_.choice.nodes);
  }
  place(lists_.source, options_.choice.nodes * target_->shape().nsa.cmp_block);
  return used;
}

template <class T>
DeviceTree DeviceStepRunner<T>::device_tree() const {
  return {.nodes = options_.choice.nodes,
          .max_depth = max_path_ - 1,
          .max_context = bound_,
          .chain = chain_ != nullptr,
          .counts = &state_.data()->counts,
          .token = lists_.token,
          .parent = lists_.parent,
          .position = lists_.position,
          .owner = lists_.owner,
          .block = lists_.block,
          .source = lists_.source};
}

template <class T>
typename Draft<T>::DeviceSlots DeviceStepRunner<T>::slots() const {
  return {.counts = &state_.data()->counts,
          .max_context = bound_,
          .identity = lists_.identity,
          .parent = lists_.slot_parent,
          .position = lists_.slot_position};
}

template <class T>
typename Draft<T>::DeviceEntries DeviceStepRunner<T>::entries() const {
  return {.rows = max_path_,
          .token = lists_.entry_token,
          .row = lists_.entry_row,
          .position = lists_.entry_position};
}

template <class T>
std::string DeviceStepRunner<T>::refusal(const Target<T>& target, const DeviceStepOptions& options,
                                         std::int64_t max_context) {
  const kernels::StepCounts counts;
  const DeviceTree tree{.nodes = options.choice.nodes,
                        .max_depth = options.choice.levels(),
                        .max_context = max_context,
                        .counts = &counts};
  if (!target.can_verify_device(tree, options.verify)) {
    return "the attention kernels of this backend, type and shape take the context's length from "
           "the host, so steps are not recorded";
  }
  return {};
}

template <class T>
void DeviceStepRunner<T>::begin(const Start& start) {
  VERSIEVE_ASSERT(start.context_len >= 1 && start.max_context >= start.context_len,
                  "steps begin after a context");
  VERSIEVE_ASSERT(refusal(*target_, options_, start.max_context).empty(),
                  "refused steps are not run");
  ops_->synchronize();
  launched_ = waited_ = 0;
  length_ = start.context_len;
  newest_ = start.token;
  newest_but_one_ = start.token_before;
  max_context_ = start.max_context;
  seed_ = start.seed;
  const std::int64_t rows = max_context_ + 2 * max_path_ + 1;  // padded entries lie past the newest
  target_->cache().reserve(rows);
  kernels::StepState state;
  state.counts.context_len = static_cast<std::int32_t>(start.context_len);
  state.root_token = start.token;
  state.seed = seed_;
  if (options_.choice.speculates() && !options_.drafts) {
    fill_pool(ranked_tree(options_.choice, target_->shape().vocab, start.token), state.pool);
  }
  ops_->upload(state_.data(), &state, sizeof state);
  if (options_.forces_by_position) {
    force_yields(start);
  }
  if (chain_ != nullptr) {
    chain_->begin({.context_len = start.context_len,
                   .token_before = start.token_before,
                   .token = start.token,
                   .max_context = max_context_ + max_path_});
  }
  if (!has_entries()) {
    return;
  }
  VERSIEVE_ASSERT(start.captured != nullptr, "a draft reads the streams before the newest token");
  draft_->reserve_device(rows, std::max(options_.choice.width, max_path_), slot_count_);
  std::vector<std::int32_t> ints(static_cast<std::size_t>(3 * max_path_ + 3 * slot_count_), 0);
  ints[0] = start.token;
  for (std::int64_t i = 0; i < max_path_; ++i) {
    ints[static_cast<std::size_t>(2 * max_path_ + i)] =
        static_cast<std::int32_t>(start.context_len + i);
  }
  ints[static_cast<std::size_t>(3 * max_path_)] = -1;  // slot 0 has no parent
  std::iota(ints.end() - static_cast<std::ptrdiff_t>(slot_count_), ints.end(), 0);
  ops_->upload(lists_.entry_token, ints.data(), ints.size() * sizeof(std::int32_t));
  const std::int64_t width = 3 * target_->shape().hidden;
  ops_->copy_rows({.rows = 1,
                   .width = width,
                   .src = start.captured,
                   .dst = target_->reserve_captured(options_.choice.nodes),
                   .term = TrafficTerm::kDraft});
}

// A place for every root that a step may have, so that recordings of longer contexts find it too.
template <class T>
void DeviceStepRunner<T>::force_yields(const Start& start) {
  ensure_count(*ops_, forced_, std::max(target_->shape().max_position, max_context_) + 1);
  std::vector<std::int32_t> forced(start.forced_yields.begin(), start.forced_yields.end());
  forced.resize(static_cast<std::size_t>(max_context_ - start.context_len + 1), 0);
  ops_->upload(forced_.data() + start.context_len, forced.data(),
               forced.size() * sizeof(std::int32_t));
}

template <class T>
bool DeviceStepRunner<T>::can_launch() const {
  return pending() < kernels::kYieldSlots && length_ + pending() * max_path_ <= max_context_;
}

template <class T>
typename DeviceStepRunner<T>::Start DeviceStepRunner<T>::stop() {
  VERSIEVE_ASSERT(pending() == 0 && waited_ > 0, "steps have run, and none is under way");
  target_->cache().set_length(length_);
  Start next{.context_len = length_,
             .token = newest_,
             .token_before = newest_but_one_,
             .max_context = max_context_,
             .seed = seed_};
  if (!has_entries()) {
    return next;
  }
  draft_->keep_device(entries(), target_->captured());
  draft_->set_length(length_ + 1);
  const std::int64_t width = 3 * target_->shape().hidden;
  ensure_count(*ops_, newest_captured_, width);
  ops_->copy_rows({.rows = 1,
                   .width = width,
                   .src_row = lists_.entry_row,
                   .src = target_->captured(),
                   .dst = newest_captured_.data(),
                   .term = TrafficTerm::kDraft});
  next.captured = newest_captured_.data();
  return next;
}

// A step of a bound that was not recorded runs as it is, which also makes every buffer that it
// needs; then the steps after it are recorded.
template <class T>
void DeviceStepRunner<T>::launch() {
  VERSIEVE_ASSERT(can_launch(), "at most two steps are under way, within the promised context");
  const std::int64_t longest = length_ + pending() * max_path_;
  const std::int64_t bound = std::min(recording_bound(longest), max_context_);
  const bool replays = try_replay(longest, bound);
  if (!replays) {
    bound_ = bound;
    enqueue();
  }
  markers_[launched_++ % kernels::kYieldSlots]->mark();
  if (!replays && options_.records) {
    record();
  }
}

template <class T>
void DeviceStepRunner<T>::forget_gone() {
  std::erase_if(recorded_, [&](const Recorded& known) {
    return !kernels::memory_log(*ops_).keeps(known.made);
  });
}

// The recording of the least bound from `longest` to `bound`, if there is one.
template <class T>
bool DeviceStepRunner<T>::try_replay(std::int64_t longest, std::int64_t bound) {
  forget_gone();
  const Recorded* best = nullptr;
  for (const Recorded& known : recorded_) {
    if (known.bound >= longest && known.bound <= bound &&
        (best == nullptr || known.bound < best->bound)) {
      best = &known;
    }
  }
  if (best == nullptr) {
    return false;
  }
  bound_ = best->bound;
  best->steps->launch();
  return true;
}

template <class T>
void DeviceStepRunner<T>::record() {
  ops_->synchronize();
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  forget_gone();
  if (recorded_.size() == kMostRecordings) {
    recorded_.erase(recorded_.begin());
  }
  recorded_.push_back(
      {bound_, ops_->record([this] { enqueue(); }), kernels::memory_log(*ops_).now()});
  record_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ++recordings_;
}

template <class T>
kernels::StepYield DeviceStepRunner<T>::wait() {
  VERSIEVE_ASSERT(pending() > 0, "a step was enqueued");
  const std::int64_t slot = waited_++ % kernels::kYieldSlots;
  markers_[slot]->wait();
  const kernels::StepYield yield = yields_[static_cast<std::size_t>(slot)];
  VERSIEVE_ASSERT(yield.count >= 1 && yield.count <= max_path_, "a step yields a path");
  if (chain_ != nullptr) {
    chain_->count_step(length_);
  }
  length_ += yield.count;
  newest_but_one_ = yield.count > 1 ? yield.token[yield.count - 2] : newest_;
  newest_ = yield.token[yield.count - 1];
  return yield;
}

template <class T>
void DeviceStepRunner<T>::enqueue() {
  if (chain_ != nullptr) {
    chain_->enqueue(state_.data(), bound_);
  } else if (drafts()) {
    draft_tree();
  } else if (options_.feeds_draft) {
    draft_->keep_device(entries(), target_->captured());
  }
  verify_tree();
  accept_tree();
}

template <class T>
void DeviceStepRunner<T>::draft_tree() {
  const std::int64_t width = options_.choice.width;
  if (options_.draft_in_one_launch && options_.temperature == 0.0 &&
      draft_->try_grow_device({.choice = options_.choice,
                               .scores_by_rank = options_.scores_by_rank,
                               .target_token = target_token_.data(),
                               .state = state_.data(),
                               .max_context = bound_},
                              entries(), target_->captured(), target_->shape().vocab)) {
    return;
  }
  draft_->extend_device(slots(), entries(), target_->captured());
  for (std::int64_t level = 0; level < levels_; ++level) {
    if (level > 0) {
      draft_->step_device(slots(), 1 + (level - 1) * width, width, lists_.node_token);
    }
    const kernels::GrowTreeParams growth{.choice = options_.choice,
                                         .branch = branch_,
                                         .level = level,
                                         .scores_by_rank = options_.scores_by_rank,
                                         .index = lists_.top_index,
                                         .log_probability = top_score_.data(),
                                         .target_token = target_token_.data(),
                                         .state = state_.data(),
                                         .node_token = lists_.node_token,
                                         .slot_parent = lists_.slot_parent,
                                         .slot_position = lists_.slot_position};
    if (options_.temperature == 0.0) {
      ops_->grow_tree_from({.rows = level == 0 ? 1 : width,
                            .vocab = draft_->shape().vocab,
                            .k = branch_,
                            .logits = draft_->logits(),
                            .index = lists_.top_index,
                            .log_probability = top_score_.data()},
                           growth);
    } else {
      list_children(level);
      ops_->grow_tree(growth);
    }
  }
}

// The best tokens of a level's nodes, perturbed: level 0 is the root, whose place is the newest
// entry's.
template <class T>
void DeviceStepRunner<T>::list_children(std::int64_t level) {
  const std::int64_t width = options_.choice.width;
  ops_->gumbel_top({.rows = level == 0 ? 1 : width,
                    .vocab = draft_->shape().vocab,
                    .k = branch_,
                    .temperature = options_.temperature,
                    .device_seed = &state_.data()->seed,
                    .logits = draft_->logits(),
                    .position = level == 0 ? lists_.entry_position
                                           : lists_.slot_position + 1 + (level - 1) * width,
                    .token = target_token_.data(),
                    .perturbed = perturbed_.data(),
                    .index = lists_.top_index,
                    .log_probability = top_score_.data()});
}

template <class T>
void DeviceStepRunner<T>::verify_tree() {
  const LlmShape& shape = target_->shape();
  ops_->finish_tree({.nodes = options_.choice.nodes,
                     .order = options_.order,
                     .sparse = shape.attention == AttentionKind::kNsa,
                     .cmp_block = shape.nsa.cmp_block,
                     .cmp_stride = shape.nsa.cmp_stride,
                     .state = state_.data(),
                     .token = lists_.token,
                     .parent = lists_.parent,
                     .position = lists_.position,
                     .owner = lists_.owner,
                     .block = lists_.block,
                     .source = lists_.source});
  target_->set_token_selector(chain_ != nullptr && chain_->chooses() ? chain_.get() : selector_);
  target_->verify_device(device_tree(), options_.verify);
  target_->set_token_selector(nullptr);
}

template <class T>
void DeviceStepRunner<T>::accept_tree() {
  const LlmShape& shape = target_->shape();
  if (options_.temperature == 0.0) {
    ops_->top_logits({.rows = options_.choice.nodes,
                      .vocab = shape.vocab,
                      .k = 1,
                      .logits = target_->logits(),
                      .index = lists_.choice});
  } else {
    ops_->gumbel_top({.rows = options_.choice.nodes,
                      .vocab = shape.vocab,
                      .temperature = options_.temperature,
                      .device_seed = &state_.data()->seed,
                      .logits = target_->logits(),
                      .position = lists_.position,
                      .perturbed = perturbed_.data(),
                      .index = lists_.choice});
  }
  ops_->accept_tree({.nodes = options_.choice.nodes,
                     .max_path = max_path_,
                     .sparse = shape.attention == AttentionKind::kNsa,
                     .cmp_block = shape.nsa.cmp_block,
                     .cmp_stride = shape.nsa.cmp_stride,
                     .forced_yield = options_.forced_yield,
                     .forced_at = options_.forces_by_position ? forced_.data() : nullptr,
                     .choice = lists_.choice,
                     .token = lists_.token,
                     .parent = lists_.parent,
                     .position = lists_.position,
                     .owner = lists_.owner,
                     .state = state_.data(),
                     .yield = yields_.get(),
                     .entry_token = lists_.entry_token,
                     .entry_row = lists_.entry_row,
                     .entry_position = lists_.entry_position,
                     .passes = chain_ != nullptr ? chain_->passes() : kernels::DraftPasses{}});
  target_->commit_device(state_.data(), max_path_);
}

template class DeviceStepRunner<double>;
template class DeviceStepRunner<float>;
template class DeviceStepRunner<Bf16>;

}  // namespace versieve::engine
