#include "model/launches/launch_work.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/words/assert.h"

namespace versieve {
namespace {

constexpr std::array<const char*, kLaunchKindCount> kNames = {
    "nsa_compressed",     "nsa_select",   "nsa_selected",
    "nsa_window",         "nsa_combine",  "nsa_route",
    "nsa_attend",         "nsa_reuse",    "linear",
    "rms_norm",           "rope",         "copy_rows",
    "tree_attention",     "top_logits",   "grow_tree",
    "finish_tree",        "accept_tree",  "commit_path",
    "flash_decode",       "flash_rows",   "flash_combine",
    "resa_decode",        "block_keys",   "top_p",
    "attention_weights",  "topk_sort",    "topk_radix",
    "topk_gvr",           "spec_softmax", "spec_ratio",
    "spec_difference",    "spec_sum",     "spec_draw",
    "spec_chain",         "spec_pick",    "tree_tau",
    "tree_walk_baseline", "tree_tests",   "decode_layers",
    "draft_levels"};

}  // namespace

const char* name_of(LaunchKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

const char* path_of(LaunchKind kind) {
  if (kind == LaunchKind::kFlashRows) {
    return "flash_decode";
  }
  if (kind == LaunchKind::kTreeWalkBaseline) {
    return "tree_walk";
  }
  const bool ranks = kind == LaunchKind::kTopkSort || kind == LaunchKind::kTopkRadix ||
                     kind == LaunchKind::kTopkGvr;
  return ranks ? "topk" : name_of(kind);
}

std::optional<LaunchKind> launch_kind(std::string_view path) {
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
         kind == LaunchKind::kDraftLevels;
}

void StepWork::add(const LaunchWork& launch) {
  VERSIEVE_ASSERT(count < kCapacity, "a step has at most kCapacity kinds of launch");
  if (launch.launches > 0.0) {
    work[count++] = launch;
  }
}

DraftPasses draft_passes(const DraftChoice& choice) {
  if (!choice.speculates()) {
    return {};
  }
  // Path scores are sums of ranks; candidates are counted by score.
  constexpr std::size_t kScores = 33 * 64 + 1;
  const std::size_t scores = static_cast<std::size_t>((choice.depth + 1) * choice.width + 1);
  VERSIEVE_ASSERT(scores <= kScores, "strategy texts stop at depth 32 and width 64");
  std::array<std::int64_t, kScores> level{};
  std::array<std::int64_t, kScores> all{};
  for (std::int64_t rank = 1; rank <= choice.width; ++rank) {
    level[static_cast<std::size_t>(rank)] = 1;
  }
  DraftPasses out{.passes = 1.0, .rows = 1.0};  // the first reads out one row
  double rows = 1.0;
  const std::int64_t last = choice.levels();
  for (std::int64_t depth = 1; depth < last; ++depth) {
    std::int64_t better = 0;
    std::size_t bar = 0;  // the score of the (nodes - 1)-th best candidate so far, or none
    for (std::size_t s = 0; s < scores; ++s) {
      all[s] += level[s];
      better += all[s];
      bar = bar == 0 && better >= choice.nodes - 1 ? s : bar;
    }
    std::array<std::int64_t, kScores> next{};
    std::int64_t taken = 0;
    for (std::size_t s = 0; s < (bar == 0 ? scores : bar) && taken < choice.width; ++s) {
      const std::int64_t count = std::min(level[s], choice.width - taken);
      taken += count;
      for (std::size_t rank = 1; count > 0 && rank <= static_cast<std::size_t>(choice.width);
           ++rank) {
        next[s + rank] += count;
      }
    }
    if (taken == 0) {
      break;
    }
    out.passes += 1.0;
    rows += static_cast<double>(taken);
    level = next;
  }
  out.rows = rows / out.passes;
  return out;
}

double chain_blocks(double steps, double chosen, double blocks, double overlap) {
  const double left = blocks - chosen;
  if (left <= 0.0) {
    return blocks;
  }
  const double drawn = std::min(1.0, chosen * (1.0 - overlap) / left);
  return blocks - left * std::pow(1.0 - drawn, steps);
}

double remembering_chain_blocks(double steps, double chosen, double blocks, double overlap) {
  const double fresh = chosen * (1.0 - overlap);
  if (steps <= kChainMemory || fresh <= 0.0) {
    return std::min(blocks, chosen + steps * fresh);
  }
  const double unknown = blocks - chosen - (kChainMemory - 1.0) * fresh;  // to the sets in memory
  if (unknown <= fresh) {
    return blocks;
  }
  return blocks - (unknown - fresh) * std::pow(1.0 - fresh / unknown, steps - kChainMemory);
}

// Both constants fit 468 routings of synthetic queries of one layer (L 1K-256K, N 4-256, rho
// 0.2-0.95) with a median error of 1.3 %, 90 % within 4.5 %; the trained pair's 176 on text are
// within 6 % in the median.
constexpr double kReturnPower = 2.5;  // of rho: how soon queries meet blocks of earlier ones again
// Far apart queries share nothing but chance: a step then brings at least (1 - rho) / (1 - rho + h)
// of what its neighbour lacks.
constexpr double kFarReturn = 0.23;

// Steps of a chain that never returns which see as many blocks as `queries` that do: sum over k of
// max(k^-(1 - exponent), least).
double lasting_steps(double queries, double exponent, double overlap) {
  const auto power_steps = [exponent](double n) {
    return (std::pow(n, exponent) - 1.0) / exponent;
  };
  const double apart = std::max(0.0, 1.0 - overlap);
  const double least = apart / (apart + kFarReturn);
  if (least <= 0.0 || exponent >= 1.0) {
    return power_steps(queries);
  }
  const double turn = std::pow(least, -1.0 / (1.0 - exponent));
  return queries <= turn ? power_steps(queries) : power_steps(turn) + least * (queries - turn);
}

double distinct_blocks(double queries, double chosen, double blocks, double overlap,
                       double growth) {
  const double picked = std::min(chosen, blocks);
  if (growth == 1.0) {
    return std::clamp(picked * (1.0 + (queries - 1.0) * (1.0 - overlap)), picked,
                      std::min(queries * picked, blocks));
  }
  const double exponent =
      std::max(0.01, 1.0 - (1.0 - growth) * std::pow(std::max(0.0, overlap), kReturnPower));
  const double steps = lasting_steps(queries, exponent, overlap);
  return std::clamp(chain_blocks(steps, picked, blocks, overlap), picked,
                    std::min(queries * picked, blocks));
}

void add_step(const StepShape& s, double growth, StepWork& out) {
  VERSIEVE_ASSERT(s.refresh_layers + s.reuse_layers == s.target.layers, "one letter a layer");
  VERSIEVE_ASSERT(!s.one_launch || (s.num_queries == 1 && s.form == NsaForm::kFused &&
                                    s.target.attention == AttentionKind::kNsa),
                  "one launch runs the layers of one token");
  add_joint_step(s, growth, out);
}

}  // namespace versieve
