// Many requests decoded together: each step is one forward over the trees of all running requests
// and over pieces of the prompts of those that join. A request's tokens are those that it would
// have alone, whoever runs beside it: no op of the engine lets a row's bits depend on other rows.
//
// Requests wait in the order in which they came until a place and the pages that they may come to
// need are free, and give both back when they end. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/run/batch/acceptance_batch.h"
#include "engine/run/batch/chain_choice.h"
#include "engine/run/batch/kept_prompts.h"
#include "engine/run/batch/tree_batch.h"
#include "engine/run/batch/tuple_plan.h"
#include "engine/run/model/draft.h"
#include "engine/run/model/idle_sequences.h"
#include "engine/run/model/kv_pool.h"
#include "engine/run/model/target.h"
#include "engine/run/speculate/generation.h"
#include "model/words/chain_length.h"

namespace versieve::engine {

struct BatchRequest {
  std::vector<std::int32_t> prompt;
  // Of which a batch takes: strategy, max_new_tokens, temperature, seed, truncation, sigmoid, eos.
  GenerateOptions options;
  // Or null: each step's tuple in the place of options.strategy.
  std::shared_ptr<const TuplePlan> plan = {};
  std::int64_t forced_yield = 0;  // VerifiedTree: for timing with untrained weights
};

struct FinishedRequest {
  std::int64_t id = 0;
  Generation generation;
  // Of the prompt's: taken from pages of another that begins alike, not computed again.
  std::int64_t shared_tokens = 0;
  // By the session's clock, seconds: when it was submitted, joined, had its first and last token.
  double submitted = 0.0, joined = 0.0, first_token = 0.0, finished = 0.0;
  // Of each token after the first: the time since the step before it, shared among the tokens that
  // its step yielded.
  std::vector<double> gaps;
  // Of a plan: steps that each of its tuples verified, and how often another one took over.
  std::vector<std::int64_t> tuple_steps;
  std::int64_t tuple_moves = 0;
};

// The strategies that may verify its steps.
inline std::span<const Strategy> strategies_of(const BatchRequest& request) {
  return request.plan ? std::span<const Strategy>(request.plan->tuples())
                      : std::span<const Strategy>(&request.options.strategy, 1);
}

// Requests that ran, tuple -> steps of requests, of plans.
using PlayedTuples = std::map<std::pair<std::int64_t, std::size_t>, std::int64_t>;

// Which steps idle requests fill up to a size class (IdleSequences).
enum class Padding { kNever, kWhereRecorded, kAlways };

struct SessionOptions {
  std::int64_t concurrency = 1;  // requests that run at once, at most
  std::int64_t pages = 1;        // of keys and values
  // Tokens of prompts that a step takes at most.
  std::int64_t prefill_rows = Target<float>::kMostTogether;
  // Seconds from any beginning; empty: the machine's steady clock.
  std::function<double()> now;
  bool shares_prefixes = true;       // FinishedRequest::shared_tokens; false: all are computed
  std::uint64_t shuffled_pages = 0;  // PageAllocator's; no bit depends on it
  bool drafts_by_rank = false;       // DraftSourceOptions::scores_by_rank
  bool records = true;               // Target::set_records
  // No bit depends on it. The tests fill up steps of a CPU, too.
  Padding padding = Padding::kWhereRecorded;
  // The draft model's layer that chooses for each target layer (SpecAttn), or empty.
  std::vector<std::int32_t> layer_map = {};
};

// What drafts for the requests of a session.
struct BatchDrafts {
  bool any = false;                       // a head, or a model
  const LlmShape* draft_model = nullptr;  // or null
  bool has_layer_map = false;
};

// Where steps' time went, seconds by the host's clock.
struct SessionSeconds {
  double enqueue = 0.0;  // the forward: lists made where they were not ahead, launches enqueued
  double ahead = 0.0;    // the next step's lists, made while the device runs this one
  double accept = 0.0;   // until the accepted tokens are on the host, which waits for the device
  double commit = 0.0;   // enqueued
  double draft = 0.0;    // entries and trees of the next step, which are waited for
  double rectify = 0.0;  // ReSA's dense passes, enqueued
};

// Whether steps of a session with such a target, or such a draft model, may be filled up: then its
// pool has an idle page.
template <class T>
bool may_pad(kernels::Ops<T>& ops, const LlmShape& shape, const SessionOptions& options);

// Of the request's steps whose tokens its draft model's chains choose; none: no strategy of it has
// such. `draft_layers`: of that model.
std::optional<ChainChoiceShape> chain_choice_shape(const BatchRequest& request,
                                                   std::int64_t positions,
                                                   std::int64_t draft_layers,
                                                   const std::vector<std::int32_t>& layer_map);

template <class T>
class BatchSession {
 public:
  // A draft head, or a draft model of its own, or neither: then only `ar`. All outlive the session.
  BatchSession(kernels::Ops<T>& ops, Target<T>& target, Draft<T>* draft,
               const SessionOptions& options, Target<T>* draft_model = nullptr);
  BatchSession(const BatchSession&) = delete;
  BatchSession& operator=(const BatchSession&) = delete;

  // Pages that the request may come to need.
  static std::int64_t pages_needed(const LlmShape& shape, const BatchRequest& request);
  // Why no batch of such a target runs that strategy so, or an empty text.
  static std::string strategy_refusal(const GenerateOptions& options, const LlmShape& shape,
                                      const BatchDrafts& drafts);
  // Why the request cannot run here, or an empty text.
  std::string refusal(const BatchRequest& request) const;
  // `arrived`: by the session's clock; none: now. REQUIRES: no refusal.
  void submit(std::int64_t id, BatchRequest request, std::optional<double> arrived = {});

  std::int64_t waiting() const { return static_cast<std::int64_t>(queue_.size()); }
  std::int64_t running() const { return static_cast<std::int64_t>(running_.size()); }
  // One step of all; those that it ended. Nothing where nobody runs or waits.
  std::vector<FinishedRequest> step();
  std::int64_t steps() const { return steps_; }
  std::int64_t steps_ahead() const { return steps_ahead_; }  // of those, that were prepared ahead
  const SessionSeconds& seconds() const { return seconds_; }
  // Of the target's, those that idle requests filled up.
  std::int64_t steps_padded() const { return idle_ ? idle_->filled() : 0; }
  std::int64_t most_running() const { return most_running_; }
  const PlayedTuples& played() const { return played_; }
  std::int64_t free_pages() const { return pool_.pages().free_pages(); }
  // At most at once: pages that requests held, and that there would have been more, had none held
  // another's.
  std::int64_t most_pages() const { return most_pages_; }
  std::int64_t most_saved_pages() const { return most_saved_pages_; }

  // A running request whose context is there already (synthetic contexts, for timing): `fill`
  // writes the rows of so many tokens. REQUIRES: no refusal, a place and pages are free.
  void submit_prefilled(std::int64_t id, BatchRequest request,
                        const std::function<void(KvCache<T>&)>& fill);

 private:
  struct Running;
  // Who reads its first pages, so many; null: nobody.
  struct Following {
    Running* source = nullptr;
    std::int64_t pages = 0;
  };
  // Pages of another's prompt that a request may share, and tokens that it then does not compute.
  struct Spared {
    std::int64_t pages = 0, tokens = 0;
  };
  struct Prefix {
    Spared spared;
    Running* source = nullptr;  // who has them, or will
    const KeptPrompt* kept = nullptr;
    PageLists pages;
  };
  struct Running {
    FinishedRequest result;
    BatchRequest request;
    SequencePages pages, draft_pages = {};
    KvCache<T> cache;
    std::optional<DraftContext<T>> draft_context = {};  // of a draft model
    std::vector<std::int32_t> text = {};                // that it reads: prompt and answer
    VerifyOptions verify;
    std::int64_t limit = 0;      // tokens to generate
    std::int64_t prefilled = 0;  // tokens of the prompt in the cache
    DraftTree tree;              // of the next step, once the prompt is read
    double newest = 0.0;         // when its newest token came
    Following follows;           // until then it waits
    EntryRange entries;          // of the prompt's positions, and of the first token's
    bool holds_prompt = true;    // the rows are of its prompt's tokens, or will be
    bool drafted = false;        // the tree is a draft's, not a root alone
    bool may_draft = false;      // a strategy of it does
    std::unique_ptr<TupleChooser> chooser = {};         // of a plan
    std::size_t tuple = 0;                              // that verifies the tree
    std::optional<ChainLength> chain_length;            // of a draft that adapts it
    kernels::OpsBuffer<T> chain_logits;                 // [levels, V], of chains that are drawn
    std::optional<ChoiceKeys<T>> choice = {};           // made with the request
    std::unique_ptr<ChainChoice<T>> chain_choice = {};  // of SpecAttn; null: no tuple of it is
    VerifyOptions choosing = {};  // how its steps choose: the verifies', or the drafts'
    std::vector<std::int32_t> unrectified = {};  // committed since its last dense pass
    bool over = false;

    std::int64_t prompt_tokens() const { return static_cast<std::int64_t>(request.prompt.size()); }
    bool reads_prompt() const { return prefilled < prompt_tokens(); }
    // Its draft's chain chooses what its next step reads; null: that step reads all tokens.
    ChainChoice<T>* chooser_of_step() const {
      const bool chooses = request.options.strategy.attention == AttentionMethod::kSpecAttn;
      return chooses ? chain_choice.get() : nullptr;
    }
  };
  // A request's part of the running step.
  struct Part {
    Running* run = nullptr;
    std::int64_t begin = 0, end = 0;  // of the prompt; equal: a tree
    std::vector<std::int32_t> path;   // committed nodes
    std::vector<std::int32_t> yielded;
    std::vector<std::int32_t> rectified;  // the newest tokens, whose rows are to be written anew

    bool is_prompt() const { return begin < end; }
    bool ends_prompt() const { return end == run->prompt_tokens(); }
  };

  std::unique_ptr<Running> make_running(std::int64_t id, BatchRequest request,
                                        const PageLists& prefix, double submitted);
  bool admit();
  bool has_room(const BatchRequest& request, const PageLists& prefix) const;
  std::int64_t draft_pages(const BatchRequest& request) const;
  void count_pages();
  Prefix find_prefix(const BatchRequest& request);  // shared_prefixes.cpp, as those that follow
  Spared spared(const BatchRequest& request, std::int64_t common, const EntryRange& entries) const;
  EntryRange promised(const Running& source, std::int64_t from) const;
  void follow(Running& run, const Prefix& prefix);
  void take_ready_prefixes();
  void take_prefix(Running& run, const PageLists& from);
  void give_back(Running& run);
  bool needs_entries(const BatchRequest& request) const;
  std::int64_t first_entry(const BatchRequest& request) const;
  std::vector<Part> plan();
  void prepare(std::vector<Part>& parts);
  bool yields_are_known() const;  // batch_ahead.cpp, as the next
  void prepare_ahead();
  void verify();
  void list_verified();
  void accept();
  void take(Part& part, const Acceptance& acceptance, double time);
  void commit();
  void count_sparse(Part& part);  // batch_rectify.cpp, as the next
  void rectify();
  void draft_next();  // batch_drafts.cpp, as those that follow
  void begin_drafting(Running& run);
  void make_chain_choice(Running& run);
  void learn(Running& run, std::int64_t yield);
  T* chain_logits(const Running& run) const;
  kernels::OpsBuffer<T> take_chain_logits(std::int64_t count);
  bool drafts(const Running& run) const;
  bool leaves_entries(const Part& part) const;
  void use_strategy(Running& run, const Strategy& strategy);
  void choose_tuple(Running& run);
  std::int64_t draft_positions() const;
  void draft_by_head(const std::vector<std::size_t>& parts);
  void draft_by_model(const std::vector<std::size_t>& parts);
  void draft_by_itself(const std::vector<Running*>& drafting);
  std::vector<WantedTree<T>> wanted_trees(const std::vector<Running*>& drafting) const;
  void take_trees(const std::vector<Running*>& drafting, std::vector<DraftTree> trees);
  typename Draft<T>::BatchEntries entries_of(const Part& part, std::size_t index) const;
  WantedTree<T> wanted_tree(const Running& run) const;
  bool draws_chains(const GenerateOptions& options) const;
  std::vector<FinishedRequest> release_finished();
  double now() const;

  kernels::Ops<T>* ops_;
  Target<T>* target_;
  Draft<T>* draft_;
  Target<T>* draft_model_;
  SessionOptions options_;
  KvPool<T> pool_;
  std::optional<KvPool<T>> draft_pool_;  // of a draft model, which shares none
  std::optional<IdleSequences<T>> idle_, draft_idle_;
  KeptPrompts kept_;
  AcceptanceBatch<T> acceptance_;
  std::optional<HeadBatchDrafter<T>> head_drafter_;
  std::optional<ModelBatchDrafter<T>> model_drafter_;
  std::optional<TreeBatch<T>> trees_;
  SelfBatchDrafter<T> self_drafter_;
  TreeBatch<T> self_trees_;
  struct Waiting {
    std::int64_t id = 0;
    BatchRequest request;
    double submitted = 0.0;
  };
  std::deque<Waiting> queue_;
  std::vector<std::unique_ptr<Running>> running_;  // in the order in which they joined
  std::vector<Part> parts_;                        // of the running step
  std::vector<VerifiedTree<T>> verified_;          // those of them whose tokens are asked for
  std::vector<Part*> verified_parts_;
  std::int64_t logits_rows_ = 0;
  // Of requests that ended: others take them, and no recording goes with them.
  std::vector<kernels::OpsBuffer<T>> spare_chain_logits_;
  std::optional<std::vector<Part>> ahead_;  // of the next step, where it is prepared
  const DraftTree root_ = NoDraft<T>().propose(0, 0);
  std::int64_t steps_ = 0, steps_ahead_ = 0;
  std::int64_t most_running_ = 0;
  std::int64_t most_pages_ = 0, most_saved_pages_ = 0;
  PlayedTuples played_;
  SessionSeconds seconds_;
};

}  // namespace versieve::engine
