#include "model/launches/launch_work.h"

#include "model/launches/sampling.h"
#include "model/words/assert.h"

namespace versieve {
namespace {

constexpr std::array<const char*, kLaunchKindCount> kNames = {"nsa_compressed",
                                                              "nsa_select",
                                                              "nsa_selected",
                                                              "nsa_window",
                                                              "nsa_combine",
                                                              "nsa_route",
                                                              "nsa_attend",
                                                              "nsa_reuse",
                                                              "linear",
                                                              "rms_norm",
                                                              "rope",
                                                              "copy_rows",
                                                              "tree_attention",
                                                              "top_logits",
                                                              "grow_tree",
                                                              "finish_tree",
                                                              "accept_tree",
                                                              "commit_path",
                                                              "flash_decode",
                                                              "flash_rows",
                                                              "flash_combine",
                                                              "resa_decode",
                                                              "block_keys",
                                                              "top_p",
                                                              "attention_weights",
                                                              "topk_sort",
                                                              "topk_radix",
                                                              "topk_gvr",
                                                              "spec_softmax",
                                                              "spec_ratio",
                                                              "spec_difference",
                                                              "spec_sum",
                                                              "spec_draw",
                                                              "spec_chain",
                                                              "spec_pick",
                                                              "tree_tau",
                                                              "tree_walk_baseline",
                                                              "tree_tests",
                                                              "decode_layers",
                                                              "draft_levels",
                                                              "dense_pass",
                                                              "dense_pass_merge",
                                                              "resa_decode_score",
                                                              "resa_decode_select",
                                                              "resa_score",
                                                              "resa_select",
                                                              "resa_attend",
                                                              "resa_combine",
                                                              "gumbel_noise",
                                                              "index_keys",
                                                              "index_query",
                                                              "index_scores",
                                                              "topk_short"};

struct KindOfPath {
  LaunchKind kind;
  const char* path;
};

// Kinds of another path than their name.
constexpr KindOfPath kPaths[] = {{LaunchKind::kFlashRows, "flash_decode"},
                                 {LaunchKind::kTreeWalkBaseline, "tree_walk"},
                                 {LaunchKind::kResaDecodeScore, "resa_decode"},
                                 {LaunchKind::kResaDecodeSelect, "resa_decode"},
                                 {LaunchKind::kTopkSort, "topk"},
                                 {LaunchKind::kTopkRadix, "topk"},
                                 {LaunchKind::kTopkGvr, "topk"},
                                 {LaunchKind::kTopkShort, "topk"}};
// Paths of no kind of their own: what they do is counted in another one's.
constexpr KindOfPath kCountedIn[] = {{kCutsKind, "row_cuts"}};

}  // namespace

LaunchKind launch_of(LaunchKind kind) {
  const bool phase = kind == LaunchKind::kResaDecodeScore || kind == LaunchKind::kResaDecodeSelect;
  return phase ? LaunchKind::kResaDecode : kind;
}

bool is_resa_vanilla(LaunchKind kind) {
  return kind >= LaunchKind::kResaScore && kind <= LaunchKind::kResaCombine;
}

const char* name_of(LaunchKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

const char* path_of(LaunchKind kind) {
  for (const KindOfPath& other : kPaths) {
    if (other.kind == kind) {
      return other.path;
    }
  }
  return name_of(kind);
}

std::optional<LaunchKind> launch_kind(std::string_view path) {
  for (const KindOfPath& part : kCountedIn) {
    if (path == part.path) {
      return part.kind;
    }
  }
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (path == path_of(static_cast<LaunchKind>(i))) {
      return static_cast<LaunchKind>(i);
    }
  }
  return {};
}

bool uses_tensor_cores(LaunchKind kind) {
  return kind == LaunchKind::kLinear || kind == LaunchKind::kNsaRoute ||
         kind == LaunchKind::kNsaAttend || kind == LaunchKind::kNsaReuse ||
         kind == LaunchKind::kFlashDecode || kind == LaunchKind::kFlashRows ||
         kind == LaunchKind::kResaDecode || kind == LaunchKind::kDecodeLayers ||
         kind == LaunchKind::kDraftLevels || kind == LaunchKind::kDensePass ||
         kind == LaunchKind::kIndexScores;
}

void StepWork::add(const LaunchWork& launch) {
  VERSIEVE_ASSERT(count < kCapacity, "a step has at most kCapacity kinds of launch");
  if (launch.launches > 0.0) {
    work[count++] = launch;
  }
}

}  // namespace versieve
