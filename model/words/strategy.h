// A strategy tuple and its canonical text: the key in the database, the label in the app and the
// argument of the command line. Text: attention/draft/order/group/schedule[/option=value...], for
// example `nsa/d6k8n64/dfs/c4e/(FR)*` or `nsa/ar`. README.md of this folder has the grammar.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/words/llm_shape.h"

namespace versieve {

enum class AttentionMethod { kNsa, kDense, kResa, kSpecAttn, kIndexer };
enum class Traversal { kBfs, kDfs };
enum class GroupMode { kExact, kApprox };
enum class TopkAlgorithm { kSort, kRadix, kGvr };
// kCoupled: draft and target share their Gumbel noise, so that the text is that of plain sampling.
enum class SamplingAlgorithm { kGreedy, kBaseline, kExact, kSigmoid, kCoupled };
// Which launches do the sparse attention of a layer. kVanilla: five, the baseline; of ReSA four,
// scoring, selection and attending each alone. kFused: two in a refresh layer (routing; selection +
// window + gates), one in a reuse layer; of ReSA one.
enum class NsaForm { kVanilla, kFused };

// What may differ from autoregressive decoding: Sparse Speculative Verification, section 4, for
// Native Sparse Attention, and the lossy classes of the other seeds. A strategy is in the class of
// its weakest promise; the later of two in this list promises less.
enum class PrecisionClass {
  kStrict,
  kReuseOnly,
  kApproxOnly,
  kApproxReuse,
  kSparseRectified,  // ReSA (Rectified Sparse Attention) with its dense passes
  kSparse,           // SpecAttn (SpecAttn), ReSA without them, a token-level indexer
  kApproxSampling    // sampling=sigmoid (Optimized Speculative Sampling), whatever the attention
};
inline constexpr int kPrecisionClassCount = 7;

const char* name_of(AttentionMethod method);       // "nsa", "dense", "resa", "specattn", …
const char* name_of(Traversal traversal);          // "bfs", "dfs"
const char* name_of(TopkAlgorithm algorithm);      // "sort", "radix", "gvr"
const char* name_of(SamplingAlgorithm algorithm);  // "greedy", "exact", …
const char* name_of(NsaForm form);                 // "vanilla", "fused"
// "Strict", "Reuse-only", "Approx-only", "Approx+Reuse", "Sparse+Rectify", "Sparse",
// "Approx-sampling"
const char* name_of(PrecisionClass precision);
// What may differ, in a few words.
const char* loss_of(PrecisionClass precision);
// Its text, or above temperature 0 its law, is that of autoregressive decoding (Reuse-only: of the
// same schedule).
bool claims_autoregressive_text(PrecisionClass precision);

// Draft tree: grown to `depth` levels, `width` children a node, the best `nodes` kept (root
// included).
struct DraftChoice {
  std::int64_t depth = 0;
  std::int64_t width = 0;
  std::int64_t nodes = 1;

  bool speculates() const { return nodes > 1; }
  // Levels that a tree of that choice is expanded.
  std::int64_t levels() const { return speculates() ? std::min(depth, nodes - 1) : 0; }
  bool operator==(const DraftChoice&) const = default;
};

// Rectified Sparse Attention, section 3: what is not written of a `resa` text.
inline constexpr std::int64_t kResaFewestBlocks = 16;  // n_min
inline constexpr std::int64_t kResaLocalBlocks = 1;    // n_local

// A token-level indexer: what is not written of an `indexer` text.
inline constexpr std::int64_t kIndexerWindow = 64;  // newest tokens that are always read

struct Strategy {
  AttentionMethod attention = AttentionMethod::kNsa;
  // ReSA (Rectified Sparse Attention): block size of block keys, active fraction, rectification
  // period (0: never), least number of chosen blocks, newest blocks that are always among them.
  std::int64_t resa_key_block = 16;
  double resa_active_ratio = 0.1;
  std::int64_t resa_rectify_every = 32;
  std::int64_t resa_n_min = kResaFewestBlocks;
  std::int64_t resa_n_local = kResaLocalBlocks;
  double specattn_p = 0.97;  // SpecAttn (SpecAttn): mass kept by top-p
  // A token-level indexer (after DeepSeek Sparse Attention): tokens that are chosen of those before
  // the newest ones, and the newest ones.
  std::int64_t indexer_k = 2048;
  std::int64_t indexer_window = kIndexerWindow;

  DraftChoice draft;  // default: `ar`, no speculation
  Traversal order = Traversal::kBfs;
  std::int64_t group_size = 1;                // C in {1, 2, 4, 8}
  GroupMode group_mode = GroupMode::kExact;   // exact when group_size is 1
  std::string schedule = "F*";                // one letter a layer, or a repeated pattern
  std::optional<TopkAlgorithm> topk;          // not said: sort, of an indexer gvr
  std::optional<SamplingAlgorithm> sampling;  // not said: greedy at temperature 0, else coupled
  NsaForm form = NsaForm::kFused;             // only the vanilla form is written
  // Self-speculation (Rectified Sparse Attention, appendix B): the target's own steps over chosen
  // blocks draft, by the settings above but the period, and its dense pass verifies.
  bool drafts_itself = false;
  // How many tokens a chain drafts follows what is accepted (model/words/chain_length.h), up to
  // those of `draft`.
  bool adapts_length = false;

  // Strict and total: accepts exactly the canonical texts, so parse(t).text() == t. Otherwise
  // throws Error(kUsage) naming the part and what is allowed.
  static Strategy parse(std::string_view text);
  std::string text() const;

  PrecisionClass precision() const;
  // One letter a layer, 'F' (refresh) or 'R' (reuse). Throws Error(kUsage) if a literal schedule
  // has another length than `layers`.
  std::string schedule_for(std::int64_t layers) const;

  bool operator==(const Strategy&) const = default;
};

// The plain steps that draft for a strategy that drafts for itself: ReSA without its passes.
Strategy drafting_steps(const Strategy& strategy);

// How its steps choose tokens at that temperature: at 0 the largest logit decides.
SamplingAlgorithm sampling_at(const Strategy& strategy, double temperature);
// Whether the draft samples a chain from its own law, which is then tested against the target's;
// else it proposes the likeliest tokens. `own_vocabulary`: it proposes some of the target's tokens
// alone, and only sigmoids are taken over such a law.
bool draws_chain(const DraftChoice& draft, SamplingAlgorithm sampling, bool own_vocabulary);
// Whether the host leads its steps wherever they run: samplers that share no noise read their
// random numbers from the host, and a chain's next length is decided there.
bool is_led_by_host(const Strategy& strategy, double temperature);

// Why this strategy cannot run on this target (geometry, layer count, a part that has no kernels
// yet), or an empty text if it can.
std::string illegal_because(const Strategy& strategy, const LlmShape& target);

}  // namespace versieve
