#include "engine/run/batch/batch_session.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/prefilled.h"
#include "engine/run/speculate/sampling_checks.h"
#include "engine/run/speculate/step.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

AcceptanceOptions acceptance_options(const GenerateOptions& options) {
  return {.temperature = options.temperature,
          .seed = options.seed,
          .sampling = options.strategy.sampling.value_or(SamplingAlgorithm::kCoupled),
          .truncation = options.truncation,
          .sigmoid = options.sigmoid};
}

std::int64_t token_limit(const LlmShape& shape, const BatchRequest& request) {
  const std::int64_t prompt = static_cast<std::int64_t>(request.prompt.size());
  return std::min(request.options.max_new_tokens, shape.max_position - prompt + 1);
}

}  // namespace

template <class T>
bool may_pad(kernels::Ops<T>& ops, const LlmShape& shape, const SessionOptions& options) {
  return options.concurrency > kLeastClasses &&
         (options.padding == Padding::kAlways ||
          (options.padding == Padding::kWhereRecorded && options.records &&
           Target<T>::records_steps(ops, shape)));
}

template <class T>
BatchSession<T>::BatchSession(kernels::Ops<T>& ops, Target<T>& target, Draft<T>* draft,
                              const SessionOptions& options, Target<T>* draft_model)
    : ops_(&ops),
      target_(&target),
      draft_(draft),
      draft_model_(draft_model),
      options_(options),
      pool_(ops, target.shape(), draft == nullptr ? nullptr : &draft->shape(), options.pages,
            options.concurrency, options.shuffled_pages, may_pad(ops, target.shape(), options)),
      kept_([this](std::int64_t tokens) { return pool_.compressed_pages(tokens); }),
      acceptance_(ops),
      self_drafter_(target),
      self_trees_(ops, self_drafter_) {
  VERSIEVE_ASSERT(options.concurrency >= 1 && options.prefill_rows >= 1, "a step has rows");
  VERSIEVE_ASSERT(draft == nullptr || draft_model == nullptr, "one draft at most");
  target.set_records(options.records);
  const bool always = options.padding == Padding::kAlways;
  if (may_pad(ops, target.shape(), options)) {
    idle_.emplace(pool_.idle_cache(), options.concurrency, always);
  }
  if (draft != nullptr) {
    trees_.emplace(ops, head_drafter_.emplace(*draft));
    head_drafter_->use({pool_.draft_k(), pool_.draft_v()});
  }
  if (draft_model != nullptr) {
    draft_pool_.emplace(ops, draft_model->shape(), nullptr, options.pages, options.concurrency,
                        options.shuffled_pages, may_pad(ops, draft_model->shape(), options));
    if (may_pad(ops, draft_model->shape(), options)) {
      draft_idle_.emplace(draft_pool_->idle_cache(), options.concurrency, always);
    }
    trees_.emplace(
        ops, model_drafter_.emplace(ops, *draft_model, draft_idle_ ? &*draft_idle_ : nullptr));
  }
}

template <class T>
std::int64_t BatchSession<T>::pages_needed(const LlmShape& shape, const BatchRequest& request) {
  return pages_of(static_cast<std::int64_t>(request.prompt.size()) + token_limit(shape, request) +
                  kDeepestTree);
}

template <class T>
std::string BatchSession<T>::strategy_refusal(const GenerateOptions& options, const LlmShape& shape,
                                              const BatchDrafts& drafts) {
  if (std::string reason = sampling_refusal(options); !reason.empty()) {
    return reason;
  }
  const bool own = options.strategy.drafts_itself;
  const bool chooses = options.strategy.attention == AttentionMethod::kSpecAttn;
  if (std::string reason = own || chooses ? illegal_because(options.strategy, shape)
                                          : unavailable_because(options.strategy, shape);
      !reason.empty()) {
    return reason;
  }
  if (options.strategy.draft.speculates() && !own && !drafts.any) {
    return "the model has no draft, so a batch of it can only decode with ar";
  }
  return chooses ? specattn_refusal(shape, drafts.draft_model, drafts.has_layer_map) : "";
}

template <class T>
std::string BatchSession<T>::refusal(const BatchRequest& request) const {
  const LlmShape& shape = target_->shape();
  const std::int64_t prompt = static_cast<std::int64_t>(request.prompt.size());
  if (prompt < 1 || prompt > shape.max_position) {
    return "the prompt has " + std::to_string(prompt) + " tokens, the model takes 1 to " +
           std::to_string(shape.max_position);
  }
  GenerateOptions options = request.options;
  const BatchDrafts drafts{
      .any = trees_.has_value(),
      .draft_model = draft_model_ == nullptr ? nullptr : &draft_model_->shape(),
      .has_layer_map = !options_.layer_map.empty()};
  for (const Strategy& strategy : strategies_of(request)) {
    options.strategy = strategy;
    if (std::string reason = strategy_refusal(options, shape, drafts); !reason.empty()) {
      return reason;
    }
  }
  const std::int64_t needed = pages_needed(shape, request);
  if (needed > pool_.page_count()) {
    return "it may come to hold " + std::to_string(needed * kPageTokens) +
           " tokens, and there is memory for the keys and values of " +
           std::to_string(pool_.page_count() * kPageTokens);
  }
  return {};
}

template <class T>
double BatchSession<T>::now() const {
  if (options_.now) {
    return options_.now();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class T>
void BatchSession<T>::submit(std::int64_t id, BatchRequest request, std::optional<double> arrived) {
  VERSIEVE_ASSERT(refusal(request).empty(), "refused requests are not run");
  queue_.push_back({id, std::move(request), arrived ? *arrived : now()});
}

template <class T>
std::unique_ptr<typename BatchSession<T>::Running> BatchSession<T>::make_running(
    std::int64_t id, BatchRequest request, const PageLists& prefix, double submitted) {
  const LlmShape& shape = target_->shape();
  const std::int64_t limit = token_limit(shape, request);
  const std::int64_t needed = pages_needed(shape, request);
  const SequencePages pages = pool_.take(needed, prefix);
  auto run = std::make_unique<Running>(Running{.result = {},
                                               .request = std::move(request),
                                               .pages = pages,
                                               .cache = pool_.cache_in(pages),
                                               .verify = {},
                                               .limit = limit,
                                               .tree = {}});
  if (draft_pool_) {
    run->draft_pages = draft_pool_->take(draft_pages(run->request));
  }
  run->choice.emplace(*ops_, shape);
  begin_drafting(*run);
  run->result.id = id;
  run->result.submitted = submitted;
  run->result.joined = now();
  run->result.generation.stopped = limit < run->request.options.max_new_tokens
                                       ? StopReason::kMaxPosition
                                       : StopReason::kMaxNewTokens;
  return run;
}

// A draft model reads no further than its own positions.
template <class T>
std::int64_t BatchSession<T>::draft_pages(const BatchRequest& request) const {
  return std::min(pages_needed(target_->shape(), request),
                  pages_of(draft_model_->shape().max_position + kPageTokens));
}

template <class T>
bool BatchSession<T>::has_room(const BatchRequest& request, const PageLists& prefix) const {
  const std::int64_t needed = pages_needed(target_->shape(), request);
  return pool_.has_room(needed, prefix) &&
         (!draft_pool_ || draft_pool_->has_room(draft_pages(request)));
}

template <class T>
void BatchSession<T>::count_pages() {
  most_running_ = std::max(most_running_, running());
  most_pages_ = std::max(most_pages_, pool_.pages().used_pages());
  most_saved_pages_ = std::max(most_saved_pages_, pool_.pages().saved_pages());
}

// Whether anybody came. In the order in which they came: a large request is not passed by smaller
// ones.
template <class T>
bool BatchSession<T>::admit() {
  const std::int64_t before = running();
  while (!queue_.empty() && running() < options_.concurrency) {
    Waiting& next = queue_.front();
    const Prefix prefix = find_prefix(next.request);
    if (!has_room(next.request, prefix.pages)) {
      break;
    }
    std::unique_ptr<Running> run =
        make_running(next.id, std::move(next.request), prefix.pages, next.submitted);
    follow(*run, prefix);
    kept_.forget(run->pages);
    running_.push_back(std::move(run));
    queue_.pop_front();
    count_pages();
  }
  take_ready_prefixes();
  return running() > before;
}

template <class T>
void BatchSession<T>::submit_prefilled(std::int64_t id, BatchRequest request,
                                       const std::function<void(KvCache<T>&)>& fill) {
  VERSIEVE_ASSERT(refusal(request).empty(), "refused requests are not run");
  VERSIEVE_ASSERT(has_room(request, {}) && running() < options_.concurrency,
                  "there is room for the request");
  std::unique_ptr<Running> run = make_running(id, std::move(request), {}, now());
  kept_.forget(run->pages);
  run->holds_prompt = false;
  fill(run->cache);
  VERSIEVE_ASSERT(run->cache.length() + 1 == run->prompt_tokens(),
                  "all tokens but the newest are in the cache");
  run->prefilled = run->prompt_tokens();
  run->newest = run->result.first_token = now();
  run->result.generation.tokens = {run->request.prompt.back()};
  run->tree = NoDraft<T>().propose(0, run->request.prompt.back());
  running_.push_back(std::move(run));
  ahead_.reset();
  count_pages();
}

// Pieces of prompts first, those that end a prompt last of them, then trees: the rows whose logits
// are asked for lie together.
template <class T>
std::vector<typename BatchSession<T>::Part> BatchSession<T>::plan() {
  std::vector<Part> pieces, ends, trees;
  std::int64_t left = options_.prefill_rows;
  for (const std::unique_ptr<Running>& run : running_) {
    if (!run->reads_prompt()) {
      trees.push_back({.run = run.get(), .path = {}, .yielded = {}, .rectified = {}});
      continue;
    }
    std::int64_t rows = std::min(run->prompt_tokens() - run->prefilled, left);
    if (rows > Target<T>::kMostTogether && !target_->attends_at_once(run->prefilled, rows)) {
      rows = Target<T>::kMostTogether;
    }
    if (rows > 0 && run->follows.source == nullptr) {
      Part part{.run = run.get(),
                .begin = run->prefilled,
                .end = run->prefilled + rows,
                .path = {},
                .yielded = {},
                .rectified = {}};
      (part.ends_prompt() ? ends : pieces).push_back(std::move(part));
      left -= rows;
    }
  }
  for (std::vector<Part>* more : {&ends, &trees}) {
    std::move(more->begin(), more->end(), std::back_inserter(pieces));
  }
  return pieces;
}

// All of their step but its tokens, if these are still to come.
template <class T>
void BatchSession<T>::prepare(std::vector<Part>& parts) {
  std::vector<SequencePart<T>> sequences;
  for (Part& part : parts) {
    Running& run = *part.run;
    SequencePart<T> sequence{.tree = {}, .options = {}, .cache = &run.cache};
    if (part.is_prompt()) {
      const auto begin = run.request.prompt.begin();
      sequence.tree = chain_tree({begin + part.begin, begin + part.end});
      sequence.options = {.last_logits_only = true, .no_logits = !part.ends_prompt()};
      sequence.of_prompt = true;
      part.path.resize(static_cast<std::size_t>(part.end - part.begin));
      std::iota(part.path.begin(), part.path.end(), 0);
    } else {
      part.path = {0};  // of a root alone; acceptance says of others
      sequence.tree = run.tree;
      sequence.options = run.verify;
      run.choice->keep(run.cache, run.choosing);
      sequence.choice = &*run.choice;
      if (const ChainChoice<T>* const choice = run.drafted ? run.chooser_of_step() : nullptr) {
        sequence.lists = choice->lists(run.cache.length());
      }
    }
    sequences.push_back(std::move(sequence));
  }
  target_->prepare_batch(std::move(sequences), idle_ ? &*idle_ : nullptr);
}

template <class T>
void BatchSession<T>::verify() {
  std::vector<std::int32_t> tokens;
  if (ahead_) {
    parts_ = std::move(*ahead_);
    ahead_.reset();
    ++steps_ahead_;
    for (const Part& part : parts_) {
      const std::span<const std::int32_t> own =
          part.is_prompt() ? std::span(part.run->request.prompt)
                                 .subspan(static_cast<std::size_t>(part.begin), part.path.size())
                           : std::span(part.run->tree.token);
      tokens.insert(tokens.end(), own.begin(), own.end());
    }
  } else {
    parts_ = plan();
    prepare(parts_);
  }
  target_->run_prepared(tokens);
  list_verified();
}

// The first token of a prompt is chosen as after a tree of its last token alone.
template <class T>
void BatchSession<T>::list_verified() {
  verified_.clear();
  verified_parts_.clear();
  logits_rows_ = target_->logits_rows();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    const Running& run = *part.run;
    if (part.is_prompt() && !part.ends_prompt()) {
      continue;
    }
    verified_.push_back(
        {.tree = part.is_prompt() ? &root_ : &run.tree,
         .position = part.is_prompt() ? part.end - 1 : run.cache.length(),
         .first_row = target_->logits_row(i),
         .options = acceptance_options(run.request.options),
         .sampled_logits = !part.is_prompt() && run.drafted ? run.chain_logits.data() : nullptr,
         .forced_yield = part.is_prompt() ? 0 : run.request.forced_yield});
    verified_parts_.push_back(&part);
  }
}

template <class T>
void BatchSession<T>::accept() {
  const std::vector<Acceptance> accepted =
      acceptance_.accept(target_->logits(), logits_rows_, target_->shape().vocab, verified_);
  const double time = now();
  for (std::size_t i = 0; i < verified_parts_.size(); ++i) {
    take(*verified_parts_[i], accepted[i], time);
  }
}

template <class T>
void BatchSession<T>::take(Part& part, const Acceptance& acceptance, double time) {
  Running& run = *part.run;
  Generation& generation = run.result.generation;
  const std::size_t before = generation.tokens.size();
  if (part.is_prompt()) {
    part.yielded = {acceptance.next_token};
    run.result.first_token = time;
  } else {
    part.path = acceptance.path;
    for (std::size_t i = 1; i < part.path.size(); ++i) {
      part.yielded.push_back(run.tree.token[static_cast<std::size_t>(part.path[i])]);
    }
    part.yielded.push_back(acceptance.next_token);
    generation.count_yield(acceptance.yield());
    learn(run, acceptance.yield());
  }
  run.over = generation.append(part.yielded, run.limit, run.request.options.eos);
  const std::size_t came = generation.tokens.size() - before;
  if (!part.is_prompt()) {
    run.result.gaps.insert(run.result.gaps.end(), came,
                           (time - run.newest) / static_cast<double>(came));
  }
  run.newest = time;
  run.result.finished = time;
}

template <class T>
void BatchSession<T>::commit() {
  std::vector<std::vector<std::int32_t>> paths;
  for (Part& part : parts_) {
    // A prompt's rows may be another's, whose request goes on.
    const bool needed = part.is_prompt() || !part.run->over;
    paths.push_back(needed ? part.path : std::vector<std::int32_t>());
    if (part.is_prompt()) {
      part.run->prefilled = part.end;
    }
  }
  target_->commit_batch(paths);
}

template <class T>
std::vector<FinishedRequest> BatchSession<T>::release_finished() {
  std::vector<FinishedRequest> finished;
  for (const std::unique_ptr<Running>& run : running_) {
    if (run->over) {
      if (run->chain_choice) {
        run->result.generation.reads_saved = run->chain_choice->reads().saved();
      }
      give_back(*run);
      if (run->chain_logits.count() > 0) {
        spare_chain_logits_.push_back(std::move(run->chain_logits));
      }
      finished.push_back(std::move(run->result));
    }
  }
  std::erase_if(running_, [](const std::unique_ptr<Running>& run) { return run->over; });
  if (!finished.empty()) {  // the step ahead was prepared with them
    ahead_.reset();
  }
  return finished;
}

template <class T>
std::vector<FinishedRequest> BatchSession<T>::step() {
  if (admit()) {
    ahead_.reset();
  }
  if (running_.empty()) {
    return {};
  }
  double at = now();
  const auto spend = [&](double& seconds) {
    const double time = now();
    seconds += time - at;
    at = time;
  };
  verify();
  spend(seconds_.enqueue);
  const bool known = yields_are_known();
  if (known) {
    commit();
    spend(seconds_.commit);
    prepare_ahead();
    spend(seconds_.ahead);
  }
  accept();
  spend(seconds_.accept);
  if (!known) {
    commit();
  }
  for (Part& part : parts_) {
    count_sparse(part);
  }
  spend(seconds_.commit);
  draft_next();
  spend(seconds_.draft);
  rectify();
  take_ready_prefixes();
  spend(seconds_.rectify);
  parts_.clear();
  ++steps_;
  return release_finished();
}

template bool may_pad(kernels::Ops<double>&, const LlmShape&, const SessionOptions&);
template bool may_pad(kernels::Ops<float>&, const LlmShape&, const SessionOptions&);
template bool may_pad(kernels::Ops<Bf16>&, const LlmShape&, const SessionOptions&);
template class BatchSession<double>;
template class BatchSession<float>;
template class BatchSession<Bf16>;

}  // namespace versieve::engine
