// What a verification step launches: for each launch its unique bytes by term, the bytes that its
// thread blocks ask of L2, its arithmetic and its shape on the machine. Kinds bear the kernels'
// root words, so that predictions meet measured ranges by name.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "model/launches/traffic.h"
#include "model/words/evaluation.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

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
  // Over a dense cache (dense, ReSA, SpecAttn).
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
};
inline constexpr std::size_t kLaunchKindCount = 40;
const char* name_of(LaunchKind kind);  // "nsa_compressed", ...
const char* path_of(LaunchKind kind);  // of the measured range: the kernel's root word
// By the path; of those that share one, the first in the list above.
std::optional<LaunchKind> launch_kind(std::string_view path);
// Whose arithmetic is done in matrix products of bf16.
bool uses_tensor_cores(LaunchKind kind);

// Whose attention a launch belongs to.
enum class LayerKind { kNone, kRefresh, kReuse };

// One or more identical launches. Bytes and flops are of one launch.
struct LaunchWork {
  LaunchKind kind = LaunchKind::kLinear;
  Phase phase = Phase::kOther;
  double launches = 1.0;
  Traffic unique;               // bytes that must move once
  double loaded = 0.0;          // bytes of cached terms that thread blocks load, repeats counted
  double reused = 0.0;          // of `unique`: the bytes that those loads touch
  double blocks = 1.0;          // thread blocks
  double steps = 1.0;           // dependent steps of a block
  double working_set = 0.0;     // bytes that the launch touches
  double reuse_distance = 0.0;  // bytes touched between two loads of a reused byte
  // Bytes touched between the writing of a byte that is handed over and its reading; zero where a
  // launch merges its own partial results.
  double handover_distance = 0.0;
  // Times that handed-over bytes are read. Those after the first come from DRAM as far as the
  // working set exceeds L2.
  double passes = 1.0;
  double scattered = 1.0;  // time that DRAM takes for these bytes, over that of a stream
  bool dependent = false;  // may start before the launch before it has ended
  // A ring of weights (kernels/linear, decode_layers): what comes from DRAM passes L2 on its way,
  // so the slower of the two is the flow's time, and the launch's own steps come on top of it.
  bool streams = false;
  double ahead = 0.0;  // bytes of such a flow that come while those steps are taken
  LayerKind layer = LayerKind::kNone;
  double time_factor = 1.0;  // what measurements say beyond the closed form (residual_field.h)
};

// A fixed store, so that composing a step allocates nothing.
struct StepWork {
  static constexpr std::size_t kCapacity = 80;
  std::array<LaunchWork, kCapacity> work;
  std::size_t count = 0;
  // Times that the host waits for a result before it goes on, where it leads the step (a stream).
  double host_trips = 0.0;

  void add(const LaunchWork& launch);
  const LaunchWork* begin() const { return work.data(); }
  const LaunchWork* end() const { return work.data() + count; }
};

// How a target with a dense cache attends: which of it a layer reads, and by which launches.
struct DenseRead {
  AttentionMethod method = AttentionMethod::kDense;
  std::int64_t key_block = 16;   // b of ReSA
  double active_ratio = 0.1;     // p of ReSA
  double chosen_tokens = 0.0;    // SpecAttn's, of the context
  std::int64_t weight_rows = 1;  // the draft's steps that they were chosen by
  double filled = 1.0;           // tokens of the block whose keys a step keeps
  bool whole_step = true;        // block keys of all layers in one launch
};

// What a step is asked to do.
struct StepShape {
  LlmShape target;
  DraftShape draft;
  DraftChoice tree;              // one node: autoregressive, no draft
  std::int64_t context_len = 0;  // L
  std::int64_t num_queries = 1;  // N
  std::int64_t refresh_layers = 0;
  std::int64_t reuse_layers = 0;
  std::int64_t element_bytes = 2;
  double overlap = 0.6;  // of adjacent queries' selected blocks
  // The blocks are a chain of sets made to have that overlap (synthetic reuse layers), not routed.
  bool imposed_chain = false;
  double unique_blocks = 0.0;  // measured distinct blocks over all queries; 0: from overlap
  NsaForm form = NsaForm::kFused;
  std::int64_t group_size = 1;  // C; the vanilla form loads for each query alone
  GroupMode group_mode = GroupMode::kExact;
  // Draft, tree, acceptance and commit run on the device by static sizes; else the host leads.
  bool recorded = false;
  // All layers in one launch. REQUIRES: one query of an NSA target, fused.
  bool one_launch = false;
  DenseRead dense;  // of a target of AttentionKind::kDense
};

// Forward passes of the draft in a step and their mean rows, for a tree whose j-th child has
// probability 2^-j: the passes that a confident draft runs. Allocates nothing.
struct DraftPasses {
  double passes = 0.0;
  double rows = 1.0;
};
DraftPasses draft_passes(const DraftChoice& choice);

// U(C, rho): distinct blocks of `queries` adjacent queries that select `chosen` of `blocks` each,
// clipped to [chosen, min(queries chosen, blocks)]. growth 1 is the linear formula of the cost
// model; below it queries return to blocks that earlier ones left: chain_blocks of as many steps as
// (N^g - 1) / g, g = 1 - (1 - growth) rho^2.5, until a step brings the least that any does.
double distinct_blocks(double queries, double chosen, double blocks, double overlap, double growth);
// Distinct blocks of a chain of sets, each of which replaces a share 1 - rho of its predecessor by
// blocks drawn from all others, after `steps` steps: B - (B - n) (1 - n (1 - rho) / (B - n))^steps.
double chain_blocks(double steps, double chosen, double blocks, double overlap);
// The same where what is drawn is new to the last kChainMemory sets, as far as there are blocks
// (engine/measure/sweep/imposed_blocks.h): n + steps n (1 - rho) at first, then a chain in what is
// left.
inline constexpr double kChainMemory = 7.0;
double remembering_chain_blocks(double steps, double chosen, double blocks, double overlap);

// One layer's attention in that step, distinct blocks filled in.
traffic::NsaVerifyShape attention_shape(const StepShape& shape, double growth);
// The launches of one layer's attention (a reuse layer runs no importance and no selection).
void add_attention(const traffic::NsaVerifyShape& shape, NsaForm form, bool reuse, double layers,
                   StepWork& out);
// The whole step: target, draft, acceptance, commit. `growth` as in distinct_blocks.
void add_step(const StepShape& shape, double growth, StepWork& out);

}  // namespace versieve
