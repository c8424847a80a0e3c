// One kind of launch: its unique bytes by term, the bytes that its thread blocks ask of L2, its
// arithmetic and its shape on the machine. Kinds bear the kernels' root words, so that predictions
// meet measured ranges by name. Each root word has a file beside this one that holds its traffic
// (unless it says otherwise the bytes that a launch must touch once; the launch's NVTX payload, the
// roofline, the cost model and the check against counters share them), how it is cut between thread
// blocks, and its work.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "model/words/evaluation.h"
#include "model/words/traffic.h"

namespace versieve {

enum class LaunchKind {
  kNsaCompressed,
  kNsaSelect,
  kNsaSelected,
  kNsaWindow,
  kNsaCombine,
  kNsaRoute,
  kNsaAttend,
  kNsaReuse,
  kLinear,
  kRmsNorm,
  kRope,
  kCopyRows,
  kTreeAttention,
  kTopLogits,
  kGrowTree,
  kFinishTree,
  kAcceptTree,
  kCommitPath,
  // Over a dense cache (dense, ReSA, SpecAttn, an indexer's chosen tokens).
  kFlashDecode,
  kFlashRows,  // path flash_decode: more query rows a KV head than one warp takes
  kFlashCombine,
  kResaDecode,
  kBlockKeys,
  kTopP,
  kAttentionWeights,
  // Top-k, all of path topk.
  kTopkSort,
  kTopkRadix,
  kTopkGvr,
  // Samplers.
  kSpecSoftmax,
  kSpecRatio,
  kSpecDifference,
  kSpecSum,
  kSpecDraw,
  kSpecChain,
  kSpecPick,
  kTreeTau,
  kTreeWalkBaseline,  // path tree_walk
  kTreeTests,
  kDecodeLayers,  // all layers of one token (model/launches/decode_layers.h)
  kDraftLevels,   // all levels of a draft tree (model/launches/draft_levels.h)
  // Rectification over a dense cache (model/launches/dense_pass.h).
  kDensePass,
  kDensePassMerge,
  // Phases of kResaDecode before its attention, of path resa_decode.
  kResaDecodeScore,
  kResaDecodeSelect,
  // The same as launches of their own (the vanilla form).
  kResaScore,
  kResaSelect,
  kResaAttend,
  kResaCombine,
  kGumbelNoise,  // of choices above temperature 0 (model/launches/top_logits.h)
  // Of a token-level indexer (model/launches/index_scores.h).
  kIndexKeys,
  kIndexQuery,
  kIndexScores,
  kTopkShort,  // of path topk: a row in the registers of one block
};
inline constexpr std::size_t kLaunchKindCount = 53;
// The kind of the launch that a phase is part of; of launches themselves.
LaunchKind launch_of(LaunchKind kind);
// A launch of ReSA's vanilla form.
bool is_resa_vanilla(LaunchKind kind);
const char* name_of(LaunchKind kind);  // "nsa_compressed", ...
const char* path_of(LaunchKind kind);  // of the measured range: the kernel's root word
// By the path; of those that share one, the first in the list above.
std::optional<LaunchKind> launch_kind(std::string_view path);
// Whose arithmetic is done in matrix products of bf16.
bool uses_tensor_cores(LaunchKind kind);

// Whose attention a launch belongs to.
enum class LayerKind { kNone, kRefresh, kReuse };

// How a launch's own latency (start, rounds, steps) stands to its flow of bytes.
enum class LatencyOrder {
  kBeside,  // one of the limits, of which the greatest says most
  kBefore,  // on top of the flow: what is read once, by blocks that have nothing else to do
  kInTurn,  // start and rounds on top; steps take turns with products, both beside the bytes
};

// One or more identical launches. Bytes and flops are of one launch.
struct LaunchWork {
  LaunchKind kind = LaunchKind::kLinear;
  Phase phase = Phase::kOther;
  double launches = 1.0;
  Traffic unique;       // bytes that must move once
  double loaded = 0.0;  // bytes of cached terms that thread blocks load, repeats counted
  double reused = 0.0;  // of `unique`: the bytes that those loads touch
  double blocks = 1.0;  // thread blocks
  double steps = 1.0;   // dependent steps of a block
  // Waits that every thread block goes through: meetings of all, passes over what it holds.
  double rounds = 0.0;
  double working_set = 0.0;     // bytes that the launch touches
  double reuse_distance = 0.0;  // bytes touched between two loads of a reused byte
  // Bytes touched between the writing of a byte that is handed over and its reading; zero where a
  // launch merges its own partial results.
  double handover_distance = 0.0;
  // Times that handed-over bytes are read. Those after the first come from DRAM as far as the
  // working set exceeds L2.
  double passes = 1.0;
  // Of what it reads of the cache, the share that the step before read too, as far as that is known
  // (over a dense cache).
  double repeated = 0.0;
  double scattered = 1.0;  // time that DRAM takes for these bytes, over that of a stream
  bool dependent = false;  // may start before the launch before it has ended
  bool led = false;        // the host enqueues it by itself, also where the rest is recorded
  // A phase of a launch that is listed too, behind a barrier: no launch and no gap of its own.
  bool is_phase = false;
  LatencyOrder order = LatencyOrder::kBeside;
  // A ring of weights (kernels/linear, decode_layers): what comes from DRAM passes L2 on its way,
  // so the slower of the two is the flow's time, and the launch's own steps come on top of it.
  bool streams = false;
  double ahead = 0.0;  // bytes of such a flow that come while those steps are taken
  LayerKind layer = LayerKind::kNone;
  double time_factor = 1.0;   // what measurements say beyond the closed form (residual_field.h)
  double product_rate = 1.0;  // of its products, over the rate that its kind was fitted with
};

// A fixed store, so that composing a step allocates nothing.
struct StepWork {
  static constexpr std::size_t kCapacity = 80;
  std::array<LaunchWork, kCapacity> work;
  std::size_t count = 0;
  // Times that the host waits for a result before it goes on, where it leads the step (a stream).
  double host_trips = 0.0;
  bool led_by_host = false;  // so it does, whatever the other steps of a fit do
  double led_trips = 0.0;    // those of launches that it leads whatever the rest is
  // Of a step of many requests (model/cost/batch_fit.h): the host's own time to enqueue it, which
  // runs beside the device's, and what it takes while the device waits.
  double enqueue_us = 0.0;
  double host_us = 0.0;

  void add(const LaunchWork& launch);
  const LaunchWork* begin() const { return work.data(); }
  const LaunchWork* end() const { return work.data() + count; }
};

}  // namespace versieve
