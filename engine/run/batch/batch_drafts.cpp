// How a request's next tree comes about: which tuple, which entries of the draft head, which nodes.
#include <algorithm>

#include "engine/run/batch/batch_session.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/step.h"

namespace versieve::engine {

// Where the laws of the chain lie that its strategy draws; null: it draws none.
template <class T>
T* BatchSession<T>::chain_logits(const Running& run) const {
  return draws_chains(run.request.options) ? run.chain_logits.data() : nullptr;
}

template <class T>
void BatchSession<T>::use_strategy(Running& run, const Strategy& strategy) {
  run.request.options.strategy = strategy;
  run.verify = verify_options(strategy, target_->shape());
  run.choosing = strategy.drafts_itself ? drafting_options(strategy, target_->shape()) : run.verify;
  run.chain_length.reset();
  run.unrectified.clear();
  if (run.chooser_of_step() != nullptr) {
    run.chain_choice->use(strategy);
  }
  if (strategy.adapts_length) {
    run.chain_length.emplace(strategy.draft.levels());
  }
}

std::optional<ChainChoiceShape> chain_choice_shape(const BatchRequest& request,
                                                   std::int64_t positions,
                                                   std::int64_t draft_layers,
                                                   const std::vector<std::int32_t>& layer_map) {
  std::int64_t levels = 0;
  for (const Strategy& strategy : strategies_of(request)) {
    if (strategy.attention == AttentionMethod::kSpecAttn) {
      levels = std::max(levels, strategy.draft.levels());
    }
  }
  if (levels == 0) {
    return {};
  }
  return ChainChoiceShape{.draft_layers = draft_layers,
                          .levels = levels,
                          .positions = positions,
                          .layer_map = layer_map};
}

template <class T>
void BatchSession<T>::make_chain_choice(Running& run) {
  const std::int64_t pages = pages_needed(target_->shape(), run.request);
  const std::int64_t layers = draft_model_ == nullptr ? 0 : draft_model_->shape().layers;
  if (const std::optional<ChainChoiceShape> shape =
          chain_choice_shape(run.request, pages * kPageTokens, layers, options_.layer_map)) {
    run.chain_choice = std::make_unique<ChainChoice<T>>(*ops_, *shape, SpecAttnOptions{});
  }
}

// Where the draft never writes, every request's say that it never proposes that.
template <class T>
kernels::OpsBuffer<T> BatchSession<T>::take_chain_logits(std::int64_t count) {
  auto& spare = spare_chain_logits_;
  const auto fits = std::find_if(spare.begin(), spare.end(),
                                 [&](const auto& buffer) { return buffer.count() >= count; });
  if (fits != spare.end()) {
    std::swap(*fits, spare.back());
    kernels::OpsBuffer<T> taken = std::move(spare.back());
    spare.pop_back();
    return taken;
  }
  if (!spare.empty()) {
    spare.pop_back();  // its memory goes first
  }
  return {*ops_, std::vector<T>(static_cast<std::size_t>(count), never_proposed<T>())};
}

// Of a request that joins: what its strategies need, and the first of them.
template <class T>
void BatchSession<T>::begin_drafting(Running& run) {
  std::int64_t levels = 0;
  GenerateOptions options = run.request.options;
  for (const Strategy& strategy : strategies_of(run.request)) {
    options.strategy = strategy;
    run.may_draft |= strategy.draft.speculates();
    levels = std::max(levels, draws_chains(options) ? strategy.draft.levels() : 0);
  }
  if (levels > 0) {
    run.chain_logits = take_chain_logits(levels * target_->shape().vocab);
  }
  if (draft_ != nullptr) {
    run.entries.from = first_entry(run.request);
  }
  if (draft_pool_) {
    run.draft_context.emplace(DraftContext<T>{draft_pool_->cache_in(run.draft_pages), {}});
    run.text = run.request.prompt;
  }
  make_chain_choice(run);
  if (run.request.plan) {
    run.chooser = run.request.plan->chooser();
    run.result.tuple_steps.resize(run.request.plan->tuples().size());
  }
  use_strategy(run, strategies_of(run.request).front());
}

// Of the next step, in which those that wait for a place will run, too.
template <class T>
void BatchSession<T>::choose_tuple(Running& run) {
  if (!run.chooser) {
    return;
  }
  const std::int64_t stay =
      std::count_if(running_.begin(), running_.end(),
                    [](const std::unique_ptr<Running>& other) { return !other->over; });
  const std::int64_t next = std::min(options_.concurrency, stay + waiting());
  const std::size_t tuple = run.chooser->next(run.cache.length(), next);
  if (tuple != run.tuple) {
    run.result.tuple_moves += run.result.generation.steps > 0 ? 1 : 0;
    run.tuple = tuple;
    use_strategy(run, run.request.plan->tuples()[tuple]);
  }
}

// From a step of its tree.
template <class T>
void BatchSession<T>::learn(Running& run, std::int64_t yield) {
  if (run.chain_length && run.drafted) {
    run.chain_length->count_accepted(yield - 1);
  }
  if (run.chooser) {
    run.chooser->observe(yield);
    ++run.result.tuple_steps[run.tuple];
    ++played_[{running(), run.tuple}];
  }
}

// As Prefilled's.
template <class T>
std::int64_t BatchSession<T>::draft_positions() const {
  if (draft_ != nullptr) {
    return draft_->shape().max_position;
  }
  const std::int64_t own = draft_model_->shape().max_position;
  return own < target_->shape().max_position ? own : 0;
}

// Whether the step after this one has a drafted tree; a draft that fell silent stays so.
template <class T>
bool BatchSession<T>::drafts(const Running& run) const {
  return run.may_draft && !run.over &&
         drafts_at(draft_positions(), std::max(run.prompt_tokens(), run.cache.length()));
}

// Of a prompt whose request ended with it: others may share its pages.
template <class T>
bool BatchSession<T>::leaves_entries(const Part& part) const {
  return draft_ != nullptr && part.is_prompt() && part.run->over &&
         needs_entries(part.run->request);
}

// The entries that follow a part's tokens; of a prompt those that are kept.
template <class T>
typename Draft<T>::BatchEntries BatchSession<T>::entries_of(const Part& part,
                                                            std::size_t index) const {
  const Running& run = *part.run;
  typename Draft<T>::BatchEntries entries{
      .page = run.pages.tokens, .table = pool_.table_of(run.pages), .token = {}, .rows = {}};
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
  const Strategy& strategy = run.request.options.strategy;
  if (!run.over && !run.reads_prompt() && strategy.draft.speculates() && !strategy.drafts_itself) {
    entries.slots = draft_slots(strategy.draft);
  }
  return entries;
}

template <class T>
WantedTree<T> BatchSession<T>::wanted_tree(const Running& run) const {
  const GenerateOptions& options = run.request.options;
  T* const laws = chain_logits(run);
  DraftChoice choice = options.strategy.draft;
  if (run.chain_length || laws != nullptr) {
    choice.depth = run.chain_length ? run.chain_length->length() : choice.levels();
    choice.nodes = choice.depth + 1;
  }
  const bool draws = samples_coupled(options.strategy) || laws != nullptr;
  return {.choice = choice,
          .order = options.strategy.order,
          .temperature = draws ? options.temperature : 0.0,
          .seed = options.seed,
          .token = run.result.generation.tokens.back(),
          .position = run.cache.length(),
          .scores_by_rank = options_.drafts_by_rank,
          .chain_logits = laws,
          .chain_vocab = target_->shape().vocab,
          .truncation = options.truncation};
}

template <class T>
bool BatchSession<T>::draws_chains(const GenerateOptions& options) const {
  const bool own = options.strategy.drafts_itself;
  return options.temperature > 0.0 && (own || trees_.has_value()) &&
         draws_chain(options.strategy.draft,
                     options.strategy.sampling.value_or(SamplingAlgorithm::kCoupled),
                     !own && draft_ != nullptr && draft_->has_own_vocabulary());
}

template <class T>
std::vector<WantedTree<T>> BatchSession<T>::wanted_trees(
    const std::vector<Running*>& drafting) const {
  std::vector<WantedTree<T>> wanted;
  for (const Running* run : drafting) {
    wanted.push_back(wanted_tree(*run));
  }
  return wanted;
}

template <class T>
void BatchSession<T>::take_trees(const std::vector<Running*>& drafting,
                                 std::vector<DraftTree> trees) {
  for (std::size_t i = 0; i < drafting.size(); ++i) {
    drafting[i]->tree = std::move(trees[i]);
    drafting[i]->drafted = true;
  }
}

template <class T>
void BatchSession<T>::draft_by_head(const std::vector<std::size_t>& parts) {
  std::vector<typename Draft<T>::BatchEntries> entries;
  std::vector<Running*> drafting;
  for (const std::size_t i : parts) {
    Running& run = *parts_[i].run;
    typename Draft<T>::BatchEntries own = entries_of(parts_[i], i);
    if (own.token.empty()) {
      continue;
    }
    if (parts_[i].is_prompt()) {
      run.entries.end = own.first + static_cast<std::int64_t>(own.token.size());
    }
    if (own.slots > 0) {
      drafting.push_back(&run);
    }
    entries.push_back(std::move(own));
  }
  if (!entries.empty()) {
    draft_->extend_batch({pool_.draft_k(), pool_.draft_v()}, entries, target_->captured());
  }
  if (!drafting.empty()) {
    take_trees(drafting, trees_->grow(wanted_trees(drafting)));
  }
}

// Its rows of a prompt are made when it drafts first.
template <class T>
void BatchSession<T>::draft_by_model(const std::vector<std::size_t>& parts) {
  std::vector<typename ModelBatchDrafter<T>::Sequence> sequences;
  std::vector<Running*> drafting;
  for (const std::size_t i : parts) {
    Running& run = *parts_[i].run;
    const Strategy& strategy = run.request.options.strategy;
    if (!run.reads_prompt() && strategy.draft.speculates() && !strategy.drafts_itself) {
      const std::vector<std::int32_t>& answer = run.result.generation.tokens;
      const std::ptrdiff_t known =
          static_cast<std::ptrdiff_t>(run.text.size()) - run.prompt_tokens();
      run.text.insert(run.text.end(), answer.begin() + known, answer.end());
      sequences.push_back({.context = &*run.draft_context,
                           .text = run.text,
                           .chain = strategy.draft.width == 1,
                           .attention = run.chooser_of_step()});
      drafting.push_back(&run);
    }
  }
  if (drafting.empty()) {
    return;
  }
  model_drafter_->begin(std::move(sequences));
  take_trees(drafting, trees_->grow(wanted_trees(drafting)));
  std::vector<ChainChoice<T>*> choices;
  for (const Running* run : drafting) {
    if (ChainChoice<T>* const choice = run->chooser_of_step()) {
      choices.push_back(choice);
    }
  }
  ChainChoice<T>::choose_together(*ops_, choices);
}

// As SelfSource: chains of the target's own sparse steps, which leave nothing behind. After other
// drafts, which read what the step's forward left.
template <class T>
void BatchSession<T>::draft_by_itself(const std::vector<Running*>& drafting) {
  if (drafting.empty()) {
    return;
  }
  std::vector<typename SelfBatchDrafter<T>::Sequence> sequences;
  for (Running* run : drafting) {
    run->choice->keep(run->cache, run->choosing);
    sequences.push_back({.cache = &run->cache,
                         .choice = &*run->choice,
                         .sparse = run->choosing,
                         .position = run->cache.length(),
                         .root = run->result.generation.tokens.back()});
  }
  const std::vector<WantedTree<T>> wanted = wanted_trees(drafting);
  self_drafter_.begin(std::move(sequences));
  take_trees(drafting, self_trees_.grow(wanted));
  self_drafter_.end();
}

template <class T>
void BatchSession<T>::draft_next() {
  std::vector<std::size_t> drafting;
  std::vector<Running*> own;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Running& run = *parts_[i].run;
    if (!run.over && !run.reads_prompt()) {
      run.tree = NoDraft<T>().propose(run.cache.length(), run.result.generation.tokens.back());
      run.drafted = false;
      choose_tuple(run);
    }
    if (trees_ && (drafts(run) || leaves_entries(parts_[i]))) {
      drafting.push_back(i);
    }
    if (!run.over && !run.reads_prompt() && run.request.options.strategy.drafts_itself) {
      own.push_back(&run);
    }
  }
  if (draft_ != nullptr) {
    draft_by_head(drafting);
  } else if (draft_model_ != nullptr) {
    draft_by_model(drafting);
  }
  draft_by_itself(own);
}

template void BatchSession<double>::begin_drafting(Running&);
template void BatchSession<double>::learn(Running&, std::int64_t);
template bool BatchSession<double>::drafts(const Running&) const;
template std::int64_t BatchSession<double>::draft_positions() const;
template double* BatchSession<double>::chain_logits(const Running&) const;
template void BatchSession<double>::draft_next();
template void BatchSession<float>::begin_drafting(Running&);
template void BatchSession<float>::learn(Running&, std::int64_t);
template bool BatchSession<float>::drafts(const Running&) const;
template std::int64_t BatchSession<float>::draft_positions() const;
template float* BatchSession<float>::chain_logits(const Running&) const;
template void BatchSession<float>::draft_next();
template void BatchSession<Bf16>::begin_drafting(Running&);
template void BatchSession<Bf16>::learn(Running&, std::int64_t);
template bool BatchSession<Bf16>::drafts(const Running&) const;
template std::int64_t BatchSession<Bf16>::draft_positions() const;
template Bf16* BatchSession<Bf16>::chain_logits(const Running&) const;
template void BatchSession<Bf16>::draft_next();

}  // namespace versieve::engine
