// Steps, greedy or coupled (kernels/gumbel_top), that run whole on the device: draft levels, tree,
// verification, acceptance, commit and the draft's new entries are enqueued as one recording (on a
// GPU a graph), replayed once a step; the host reads back the accepted tokens and nothing else. The
// tokens are those of StepRunner with a DraftSource. Sizes in the recording are bounds: another is
// made when the context grows past its bound, so that short contexts do not pay for long ones.
// Recordings are kept, also from one request to the next, until memory that they may name, which
// was there when they were made, is released.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/run/model/draft.h"
#include "engine/run/model/target.h"
#include "engine/run/speculate/recorded_chain.h"
#include "kernels/draft_tree/params.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct DeviceStepOptions {
  DraftChoice choice;  // one node: autoregressive decoding
  Traversal order = Traversal::kBfs;
  VerifyOptions verify;
  double temperature = 0.0;
  bool scores_by_rank = false;      // DraftSourceOptions
  std::int64_t forced_yield = 0;    // StepOptions
  bool forces_by_position = false;  // Start::forced_yields in its place
  bool draft_in_one_launch = true;  // where the device has such a launch; no bit depends on it
  // false, for timing: no draft runs, every step verifies ranked_tree() and takes a forced yield.
  bool drafts = true;
  // Steps without a draft hand their tokens on to it, so that steps with one may follow.
  bool feeds_draft = false;
  // Of a draft model's chains with SpecAttn (RecordedChainOptions).
  std::optional<SpecAttnOptions> chooses;
  std::vector<std::int32_t> layer_map;
  bool chooses_beside = true;  // the target's first layers; no bit depends on it
  bool records = true;  // false: each step is enqueued launch by launch, so that it can be watched
};

// Positions that a recording made at this context serves: the next piece of 512, or of a sixteenth
// to a thirty-second of a long context, some way ahead. Work is cut by the bound, so it is tight; a
// recording costs about a millisecond.
std::int64_t recording_bound(std::int64_t context_len);

template <class T>
class DeviceStepRunner {
 public:
  // `draft` and `draft_model`, which drafts chains: null where none runs. All outlive the runner.
  DeviceStepRunner(kernels::Ops<T>& ops, Target<T>& target, Draft<T>* draft,
                   const DeviceStepOptions& options, Target<T>* draft_model = nullptr);
  DeviceStepRunner(const DeviceStepRunner&) = delete;
  DeviceStepRunner& operator=(const DeviceStepRunner&) = delete;
  ~DeviceStepRunner();

  // Why such steps cannot run up to that context, or an empty text.
  static std::string refusal(const Target<T>& target, const DeviceStepOptions& options,
                             std::int64_t max_context);

  struct Start {
    std::int64_t context_len =
        0;                   // committed tokens: the target's and the draft's caches hold them
    std::int32_t token = 0;  // the newest, at that position
    std::int32_t token_before = 0;  // where a draft model drafts: the one before it
    const T* captured = nullptr;    // [3 * hidden]: streams of the token before it; null: no draft
    std::int64_t max_context = 0;   // no step will begin at a longer context
    std::uint64_t seed = 0;         // above temperature 0
    // Where yields are forced by position: of the steps whose roots stand at context_len and
    // behind; 0, and beyond the last, the target decides.
    std::span<const std::int32_t> forced_yields;
  };
  // Forgets what ran before. REQUIRES: refusal() is empty up to max_context.
  void begin(const Start& start);
  // After the last step: what a runner of other steps begins with, up to the same context. The
  // caches hold all committed tokens, the draft's too if this runner drafts or feeds it.
  // `captured` is valid as long as this runner. REQUIRES: no step is under way, one has run.
  Start stop();

  // What a dense target reads where no draft model's attention chooses; null: all. It outlives the
  // recordings, which name its lists. REQUIRES: before the first step.
  void set_token_selector(TokenSelector<T>* selector) { selector_ = selector; }

  // Enqueues a step after those enqueued before. REQUIRES: can_launch().
  void launch();
  // The accepted tokens of the oldest step not yet waited for. REQUIRES: pending() > 0.
  kernels::StepYield wait();

  std::int64_t pending() const { return launched_ - waited_; }  // 0 to 2
  bool can_launch() const;
  std::int64_t length() const {
    return length_;
  }  // committed tokens after the last step waited for
  // Of the committed tokens' reads of all steps so far, dropped ones too, where the draft model's
  // attention chooses them. Waits.
  ReadCount reads() const { return chain_ != nullptr ? chain_->reads() : ReadCount{}; }
  std::int64_t longest_yield() const { return max_path_; }
  std::int64_t recordings() const { return recordings_; }    // made so far
  double record_seconds() const { return record_seconds_; }  // what making them took

 private:
  bool drafts() const {  // by a draft head
    return options_.choice.speculates() && options_.drafts && chain_ == nullptr;
  }
  bool has_entries() const { return drafts() || options_.feeds_draft; }
  typename Draft<T>::DeviceEntries entries() const;
  std::int64_t lay_out(std::int32_t* base);
  void force_yields(const Start& start);
  void enqueue();
  void draft_tree();
  void list_children(std::int64_t level);
  void verify_tree();
  void accept_tree();
  DeviceTree device_tree() const;
  typename Draft<T>::DeviceSlots slots() const;
  void forget_gone();
  bool try_replay(std::int64_t longest, std::int64_t bound);
  void record();

  kernels::Ops<T>* ops_;
  Target<T>* target_;
  Draft<T>* draft_;
  DeviceStepOptions options_;
  std::unique_ptr<RecordedChain<T>> chain_;  // of a draft model, or null
  TokenSelector<T>* selector_ = nullptr;
  std::int64_t levels_;
  std::int64_t max_path_;
  std::int64_t branch_ = 1;  // children listed a node
  std::int64_t slot_count_ = 1;

  // Integer lists in device memory, one block.
  struct Lists {
    std::int32_t *entry_token = nullptr, *entry_row = nullptr, *entry_position = nullptr;  // [P]
    std::int32_t *slot_parent = nullptr, *slot_position = nullptr, *identity = nullptr;  // [slots]
    std::int32_t* node_token = nullptr;                                                  // [W]
    std::int32_t* top_index = nullptr;                                      // [W, branch]
    std::int32_t *token = nullptr, *parent = nullptr, *position = nullptr;  // [N]
    std::int32_t *owner = nullptr, *block = nullptr, *choice = nullptr;     // [N]
    std::int32_t* source = nullptr;                                         // [N, l]
  };
  Lists lists_;
  kernels::OpsBuffer<T, std::int32_t> ints_;
  kernels::OpsBuffer<T, float> top_score_;              // [W, branch]
  kernels::OpsBuffer<T, std::int32_t> target_token_;    // [draft V], if it has its own
  kernels::OpsBuffer<T, kernels::StepState> state_;     // one
  kernels::OpsBuffer<T, kernels::SumOf<T>> perturbed_;  // rows of logits, above temperature 0
  kernels::OpsBuffer<T> newest_captured_;               // [3 * hidden], once stopped
  kernels::OpsBuffer<T, std::int32_t> forced_;          // [positions], where yields are forced so
  std::unique_ptr<kernels::StepYield[], std::function<void(kernels::StepYield*)>> yields_;
  std::unique_ptr<kernels::Marker> markers_[kernels::kYieldSlots];
  struct Recorded {
    std::int64_t bound = 0;
    std::unique_ptr<kernels::Recording> steps;
    std::int64_t made = 0;  // by the memory's log: it names nothing that came later
  };
  std::vector<Recorded> recorded_;  // oldest first

  std::int64_t max_context_ = 0;  // of all steps
  std::int64_t bound_ = 0;        // of the newest step
  std::int64_t length_ = 0;
  std::int32_t newest_ = 0;  // token of the last step waited for
  std::int32_t newest_but_one_ = 0;
  std::uint64_t seed_ = 0;
  std::int64_t launched_ = 0;
  std::int64_t waited_ = 0;
  std::int64_t recordings_ = 0;
  double record_seconds_ = 0.0;
};

}  // namespace versieve::engine
