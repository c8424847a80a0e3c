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

std::int64_t token_limit(const LlmShape& shape, const BatchRequest& request) {
  const std::int64_t prompt = static_cast<std::int64_t>(request.prompt.size());
  return std::min(request.options.max_new_tokens, shape.max_position - prompt + 1);
}

DraftTree root_alone(std::int32_t token) {
  return {.parent = {-1}, .depth = {0}, .token = {token}, .log_probability = {0.0F}};
}

// What a batch does not do of a strategy that a single request takes, or an empty text.
std::string batch_refusal(const GenerateOptions& options) {
  const Strategy& strategy = options.strategy;
  if (strategy.attention == AttentionMethod::kResa ||
      strategy.attention == AttentionMethod::kSpecAttn ||
      strategy.attention == AttentionMethod::kIndexer || strategy.drafts_itself) {
    return "batches take nsa and dense attention; resa, specattn, indexer and draft=resa run one "
           "request at a time";
  }
  return sampling_refusal(options);
}

AcceptanceOptions acceptance_options(const GenerateOptions& options) {
  return {.temperature = options.temperature,
          .seed = options.seed,
          .sampling = options.strategy.sampling.value_or(SamplingAlgorithm::kCoupled),
          .truncation = options.truncation,
          .sigmoid = options.sigmoid};
}

}  // namespace

template <class T>
BatchSession<T>::BatchSession(kernels::Ops<T>& ops, Target<T>& target, Draft<T>* draft,
                              const SessionOptions& options)
    : ops_(&ops),
      target_(&target),
      draft_(draft),
      options_(options),
      pool_(ops, target.shape(), draft == nullptr ? nullptr : &draft->shape(), options.pages),
      acceptance_(ops) {
  VERSIEVE_ASSERT(options.concurrency >= 1 && options.prefill_rows >= 1, "a step has rows");
  target.set_records(options.records);
  if (draft != nullptr) {
    trees_.emplace(ops, *draft);
  }
}

template <class T>
std::int64_t BatchSession<T>::pages_needed(const LlmShape& shape, const BatchRequest& request) {
  return pages_of(static_cast<std::int64_t>(request.prompt.size()) + token_limit(shape, request) +
                  kDeepestTree);
}

template <class T>
std::string BatchSession<T>::refusal(const BatchRequest& request) const {
  const LlmShape& shape = target_->shape();
  const std::int64_t prompt = static_cast<std::int64_t>(request.prompt.size());
  if (prompt < 1 || prompt > shape.max_position) {
    return "the prompt has " + std::to_string(prompt) + " tokens, the model takes 1 to " +
           std::to_string(shape.max_position);
  }
  if (const std::string reason = unavailable_because(request.options.strategy, shape);
      !reason.empty()) {
    return reason;
  }
  if (const std::string reason = batch_refusal(request.options); !reason.empty()) {
    return reason;
  }
  if (request.options.strategy.draft.speculates() && draft_ == nullptr) {
    return "the model has no draft head, so a batch of it can only decode with ar";
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
    std::int64_t id, BatchRequest request, const PageRun& pages, double submitted) {
  const LlmShape& shape = target_->shape();
  const std::int64_t limit = token_limit(shape, request);
  auto run = std::make_unique<Running>(Running{.result = {},
                                               .request = std::move(request),
                                               .pages = pages,
                                               .cache = pool_.cache_in(pages),
                                               .verify = {},
                                               .limit = limit,
                                               .tree = {}});
  run->verify = verify_options(run->request.options.strategy, shape);
  if (draft_ != nullptr) {  // as far back as the first step will look
    run->entries.from =
        std::max<std::int64_t>(run->prompt_tokens() - draft_->shape().window + 1, 1);
  }
  const GenerateOptions& asked = run->request.options;
  if (asked.strategy.adapts_length) {
    run->chain_length.emplace(asked.strategy.draft.levels());
  }
  if (draws_chains(asked)) {
    run->chain_logits = {
        *ops_, std::vector<T>(static_cast<std::size_t>(asked.strategy.draft.levels() * shape.vocab),
                              never_proposed<T>())};
  }
  run->result.id = id;
  run->result.submitted = submitted;
  run->result.joined = now();
  run->result.generation.stopped = limit < run->request.options.max_new_tokens
                                       ? StopReason::kMaxPosition
                                       : StopReason::kMaxNewTokens;
  return run;
}

// In the order in which they came: a large request is not passed by smaller ones.
template <class T>
void BatchSession<T>::admit() {
  while (!queue_.empty() && running() < options_.concurrency) {
    Waiting& next = queue_.front();
    const std::optional<PageRun> pages = pool_.pages().try_take(
        pages_needed(target_->shape(), next.request),
        [&](const PageRun& place) { return kept_.cost(next.request.prompt, place); });
    if (!pages) {
      break;
    }
    std::unique_ptr<Running> run =
        make_running(next.id, std::move(next.request), *pages, next.submitted);
    if (options_.shares_prefixes) {
      find_prefix(*run);
    }
    kept_.forget(*pages);
    running_.push_back(std::move(run));
    queue_.pop_front();
  }
  take_ready_prefixes();
  most_running_ = std::max(most_running_, running());
}

template <class T>
void BatchSession<T>::submit_prefilled(std::int64_t id, BatchRequest request,
                                       const std::function<void(KvCache<T>&)>& fill) {
  VERSIEVE_ASSERT(refusal(request).empty(), "refused requests are not run");
  const std::optional<PageRun> pages =
      pool_.pages().try_take(pages_needed(target_->shape(), request));
  VERSIEVE_ASSERT(pages && running() < options_.concurrency, "there is room for the request");
  std::unique_ptr<Running> run = make_running(id, std::move(request), *pages, now());
  kept_.forget(*pages);
  run->holds_prompt = false;
  fill(run->cache);
  VERSIEVE_ASSERT(run->cache.length() + 1 == run->prompt_tokens(),
                  "all tokens but the newest are in the cache");
  run->prefilled = run->prompt_tokens();
  run->newest = run->result.first_token = now();
  run->result.generation.tokens = {run->request.prompt.back()};
  run->tree = root_alone(run->request.prompt.back());
  running_.push_back(std::move(run));
  most_running_ = std::max(most_running_, running());
}

// Pieces of prompts first, those that end a prompt last of them, then trees: the rows whose logits
// are asked for lie together.
template <class T>
void BatchSession<T>::plan() {
  constexpr std::int64_t kMostRows = 256;  // of one prompt: as a single request's prefill
  std::vector<Part> pieces, ends, trees;
  std::int64_t left = options_.prefill_rows;
  for (const std::unique_ptr<Running>& run : running_) {
    if (!run->reads_prompt()) {
      trees.push_back({.run = run.get(), .path = {}, .yielded = {}});
      continue;
    }
    const std::int64_t rows = std::min({run->prompt_tokens() - run->prefilled, left, kMostRows});
    if (rows > 0 && run->follows.source == nullptr) {
      Part part{.run = run.get(),
                .begin = run->prefilled,
                .end = run->prefilled + rows,
                .path = {},
                .yielded = {}};
      (part.ends_prompt() ? ends : pieces).push_back(std::move(part));
      left -= rows;
    }
  }
  parts_ = std::move(pieces);
  for (std::vector<Part>* more : {&ends, &trees}) {
    std::move(more->begin(), more->end(), std::back_inserter(parts_));
  }
}

template <class T>
void BatchSession<T>::verify() {
  std::vector<SequencePart<T>> sequences;
  for (Part& part : parts_) {
    Running& run = *part.run;
    SequencePart<T> sequence{.tree = {}, .options = {}, .cache = &run.cache};
    if (part.is_prompt()) {
      const auto begin = run.request.prompt.begin();
      sequence.tree = chain_tree({begin + part.begin, begin + part.end});
      sequence.options = {.last_logits_only = true, .no_logits = !part.ends_prompt()};
    } else {
      sequence.tree = run.tree;
      sequence.options = run.verify;
    }
    sequences.push_back(std::move(sequence));
  }
  target_->verify_batch(std::move(sequences));
}

// The first token of a prompt is chosen as after a tree of its last token alone.
template <class T>
void BatchSession<T>::accept() {
  const DraftTree last = root_alone(0);
  std::vector<VerifiedTree<T>> verified;
  std::vector<Part*> owner;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    const Running& run = *part.run;
    if (part.is_prompt()) {
      part.path.resize(static_cast<std::size_t>(part.end - part.begin));
      std::iota(part.path.begin(), part.path.end(), 0);
    }
    if (part.is_prompt() && !part.ends_prompt()) {
      continue;
    }
    verified.push_back(
        {.tree = part.is_prompt() ? &last : &run.tree,
         .position = part.is_prompt() ? part.end - 1 : run.cache.length(),
         .first_row = target_->logits_row(i),
         .options = acceptance_options(run.request.options),
         .sampled_logits = !part.is_prompt() && run.drafted ? run.chain_logits.data() : nullptr,
         .forced_yield = part.is_prompt() ? 0 : run.request.forced_yield});
    owner.push_back(&part);
  }
  const std::vector<Acceptance> accepted = acceptance_.accept(
      target_->logits(), target_->logits_rows(), target_->shape().vocab, verified);
  const double time = now();
  for (std::size_t i = 0; i < owner.size(); ++i) {
    take(*owner[i], accepted[i], time);
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
    if (run.chain_length && run.drafted) {
      run.chain_length->count_accepted(acceptance.yield() - 1);
    }
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

// Whether the step after this one has a drafted tree; a draft that fell silent stays so.
template <class T>
bool BatchSession<T>::drafts(const Running& run) const {
  return run.request.options.strategy.draft.speculates() && !run.over &&
         drafts_at(draft_->shape().max_position, std::max(run.prompt_tokens(), run.cache.length()));
}

// The entries that follow a part's tokens; of a prompt those that are kept.
template <class T>
typename Draft<T>::BatchEntries BatchSession<T>::entries_of(const Part& part,
                                                            std::size_t index) const {
  const Running& run = *part.run;
  typename Draft<T>::BatchEntries entries{
      .cache_row = run.pages.first * kPageTokens, .token = {}, .rows = {}};
  const std::int64_t row = target_->first_row(index);
  if (!part.is_prompt()) {
    entries.first = run.cache.length() - static_cast<std::int64_t>(part.path.size()) + 1;
    entries.token = part.yielded;
    for (const std::int32_t node : part.path) {
      entries.rows.push_back(static_cast<std::int32_t>(row + node));
    }
  } else {
    entries.first = std::max(part.begin + 1, run.entries.from);
    for (std::int64_t at = entries.first; at <= part.end; ++at) {
      const bool known = at < run.prompt_tokens();
      if (known || part.ends_prompt()) {
        entries.token.push_back(known ? run.request.prompt[static_cast<std::size_t>(at)]
                                      : part.yielded.front());
        entries.rows.push_back(static_cast<std::int32_t>(row + at - 1 - part.begin));
      }
    }
  }
  if (!run.reads_prompt()) {
    entries.slots = draft_slots(run.request.options.strategy.draft);
  }
  return entries;
}

template <class T>
WantedTree<T> BatchSession<T>::wanted_tree(const Running& run) const {
  const GenerateOptions& options = run.request.options;
  T* const chain_logits = run.chain_logits.data();
  DraftChoice choice = options.strategy.draft;
  if (run.chain_length || chain_logits != nullptr) {
    choice.depth = run.chain_length ? run.chain_length->length() : choice.levels();
    choice.nodes = choice.depth + 1;
  }
  const bool draws = samples_coupled(options.strategy) || chain_logits != nullptr;
  return {.choice = choice,
          .order = options.strategy.order,
          .temperature = draws ? options.temperature : 0.0,
          .seed = options.seed,
          .token = run.result.generation.tokens.back(),
          .position = run.cache.length(),
          .scores_by_rank = options_.drafts_by_rank,
          .chain_logits = chain_logits,
          .chain_vocab = target_->shape().vocab,
          .truncation = options.truncation};
}

template <class T>
bool BatchSession<T>::draws_chains(const GenerateOptions& options) const {
  return options.temperature > 0.0 && draft_ != nullptr &&
         draws_chain(options.strategy.draft, acceptance_options(options).sampling,
                     draft_->has_own_vocabulary());
}

template <class T>
void BatchSession<T>::draft_next() {
  std::vector<typename Draft<T>::BatchEntries> entries;
  std::vector<WantedTree<T>> wanted;
  std::vector<Running*> drafting;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Running& run = *parts_[i].run;
    if (run.over) {
      continue;
    }
    if (!run.reads_prompt()) {
      run.tree = root_alone(run.result.generation.tokens.back());
      run.drafted = false;
    }
    if (draft_ == nullptr || !drafts(run)) {
      continue;
    }
    typename Draft<T>::BatchEntries own = entries_of(parts_[i], i);
    if (own.token.empty()) {
      continue;
    }
    if (parts_[i].is_prompt()) {
      run.entries.end = own.first + static_cast<std::int64_t>(own.token.size());
    }
    if (own.slots > 0) {
      wanted.push_back(wanted_tree(run));
      drafting.push_back(&run);
    }
    entries.push_back(std::move(own));
  }
  if (entries.empty()) {
    return;
  }
  const typename Draft<T>::SharedEntries shared{pool_.draft_k(), pool_.draft_v()};
  draft_->extend_batch(shared, entries, target_->captured());
  if (drafting.empty()) {
    return;
  }
  std::vector<DraftTree> trees = trees_->grow(shared, wanted);
  for (std::size_t i = 0; i < drafting.size(); ++i) {
    drafting[i]->tree = std::move(trees[i]);
    drafting[i]->drafted = true;
  }
}

template <class T>
std::vector<FinishedRequest> BatchSession<T>::release_finished() {
  std::vector<FinishedRequest> finished;
  for (const std::unique_ptr<Running>& run : running_) {
    if (run->over) {
      pool_.pages().give_back(run->pages);
      keep_prompt(*run);
      finished.push_back(std::move(run->result));
    }
  }
  std::erase_if(running_, [](const std::unique_ptr<Running>& run) { return run->over; });
  return finished;
}

template <class T>
std::vector<FinishedRequest> BatchSession<T>::step() {
  admit();
  if (running_.empty()) {
    return {};
  }
  plan();
  const double begin = now();
  verify();
  const double enqueued = now();
  accept();
  const double accepted = now();
  commit();
  const double committed = now();
  draft_next();
  take_ready_prefixes();
  seconds_.enqueue += enqueued - begin;
  seconds_.accept += accepted - enqueued;
  seconds_.commit += committed - accepted;
  seconds_.draft += now() - committed;
  parts_.clear();
  ++steps_;
  return release_finished();
}

template class BatchSession<double>;
template class BatchSession<float>;
template class BatchSession<Bf16>;

}  // namespace versieve::engine
