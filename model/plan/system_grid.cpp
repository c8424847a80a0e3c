#include "model/plan/system_grid.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "model/plan/chain_shares.h"

namespace versieve {
namespace {

constexpr std::int64_t kSelfChains[] = {3, 7, 15, 31};
constexpr std::int64_t kChains[] = {1, 2, 3, 4, 5, 6, 7, 8, 10};
// Of an indexer: tokens chosen, and what a draft head grows beside chains.
constexpr std::int64_t kIndexed[] = {512, 1024, 2048, 4096};
constexpr DraftChoice kIndexedTrees[] = {{3, 4, 8}, {4, 4, 16}, {6, 6, 32}, {7, 6, 64}};

Strategy resa(std::int64_t block, double ratio, std::int64_t period) {
  Strategy s;
  s.attention = AttentionMethod::kResa;
  s.resa_key_block = block;
  s.resa_active_ratio = ratio;
  s.resa_rectify_every = period;
  return s;
}

Strategy chain(AttentionMethod attention, std::int64_t depth) {
  Strategy s;
  s.attention = attention;
  s.draft = {.depth = depth, .width = 1, .nodes = depth + 1};
  return s;
}

void add_resa(bool rectified, const SystemSettings& settings, std::vector<Strategy>& space) {
  for (const std::int64_t block : settings.resa_key_blocks) {
    for (const double ratio : settings.resa_active_ratios) {
      if (!rectified) {
        space.push_back(resa(block, ratio, 0));
        continue;
      }
      for (const std::int64_t period : settings.resa_periods) {
        space.push_back(resa(block, ratio, period));
      }
    }
  }
}

void add_indexed(std::vector<Strategy>& space) {
  for (const std::int64_t tokens : kIndexed) {
    Strategy s;
    s.attention = AttentionMethod::kIndexer;
    s.indexer_k = tokens;
    space.push_back(s);
    for (const std::int64_t depth : kChains) {
      s.draft = {.depth = depth, .width = 1, .nodes = depth + 1};
      space.push_back(s);
    }
    for (const DraftChoice& tree : kIndexedTrees) {
      s.draft = tree;
      space.push_back(s);
    }
  }
}

// Of a step made of two, the wider, and what nobody timed of the whole.
SystemEvidence of_parts(const SystemEvidence& a, const SystemEvidence& b) {
  return {std::hypot(std::max(a.log_latency, b.log_latency), kUnmeasuredStep), false};
}

}  // namespace

LlmShape dense_sibling(const LlmShape& target) {
  LlmShape dense = target;
  if (target.attention == AttentionKind::kDense) {
    return dense;
  }
  dense.attention = AttentionKind::kDense;
  const std::string nsa = "nsa-";
  dense.name = target.name.rfind(nsa, 0) == 0 ? "dense-" + target.name.substr(nsa.size())
                                              : target.name + " with dense attention";
  return dense;
}

void add_self_drafted(const SystemSettings& settings, std::vector<Strategy>& space) {
  std::vector<Strategy> steps;
  add_resa(false, settings, steps);
  for (const Strategy& step : steps) {
    for (const std::int64_t depth : kSelfChains) {
      Strategy s = chain(AttentionMethod::kDense, depth);
      s.resa_key_block = step.resa_key_block;
      s.resa_active_ratio = step.resa_active_ratio;
      s.drafts_itself = true;
      space.push_back(s);
    }
  }
}

std::vector<Strategy> system_space(PrecisionClass precision, const SystemSettings& settings) {
  std::vector<Strategy> space;
  if (precision == PrecisionClass::kSparseRectified) {
    add_resa(true, settings, space);
  } else if (precision == PrecisionClass::kSparse) {
    add_resa(false, settings, space);
    for (const double share : settings.specattn_shares) {
      for (const std::int64_t depth : kChains) {
        Strategy s = chain(AttentionMethod::kSpecAttn, depth);
        s.specattn_p = share;
        space.push_back(s);
      }
    }
    add_indexed(space);
  } else if (precision == PrecisionClass::kApproxSampling) {
    for (const std::int64_t depth : kChains) {
      Strategy s = chain(AttentionMethod::kNsa, depth);
      s.sampling = SamplingAlgorithm::kSigmoid;
      space.push_back(s);
    }
  }
  return space;
}

double resa_overlap(std::int64_t key_block) {
  constexpr double kOf16 = 0.83, kOf64 = 0.92;
  const double at =
      std::log2(static_cast<double>(std::max<std::int64_t>(1, key_block)) / 16.0) / 2.0;
  return std::lerp(kOf16, kOf64, std::clamp(at, 0.0, 1.0));
}

std::optional<SystemEvidence> system_evidence(const Strategy& s, const FittedModel& fit,
                                              std::int64_t context_len, std::string& reason) {
  if (s.sampling == SamplingAlgorithm::kSigmoid) {
    if (fit.system("sampling sigmoid chain") != nullptr) {
      return SystemEvidence{fit.half_width(context_len - 1, context_len), true};
    }
    reason = "what sampling=sigmoid takes was not measured; profile --sweep h200-systems does";
    return {};
  }
  if (s.attention == AttentionMethod::kSpecAttn && !ChainShares(fit.chain_shares).of(s) &&
      !ChainShares(fit.lent_shares.rows).of(s)) {
    reason =
        "what share of the context SpecAttn chooses was measured of no pair; profile --model PAIR "
        "--dense FOLDER --sweep pair does";
    return {};
  }
  if (s.drafts_itself) {
    if (const SystemQuantile* own = fit.system(kSelfDraftedSteps);
        own != nullptr && context_len <= own->longest) {
      return SystemEvidence{own->log_latency, true};
    }
    Strategy whole = s;
    whole.drafts_itself = false;
    const auto steps = system_evidence(drafting_steps(s), fit, context_len, reason);
    const auto pass = steps ? system_evidence(whole, fit, context_len, reason) : std::nullopt;
    return pass ? std::optional(of_parts(*steps, *pass)) : std::nullopt;
  }
  const std::string method = name_of(s.attention);
  const SystemQuantile* const step = fit.system("step " + method);
  const SystemQuantile* const layer = fit.system("decode " + method);
  if (step != nullptr && context_len <= step->longest) {
    return SystemEvidence{step->log_latency, true};
  }
  if (layer != nullptr && context_len <= layer->longest) {
    return SystemEvidence{std::hypot(layer->log_latency, kUnmeasuredStep), false};
  }
  if (step == nullptr && layer == nullptr) {
    reason = "attention of " + method + " over a dense cache was not measured; profile --sweep " +
             (s.attention == AttentionMethod::kIndexer ? "indexer" : "h200-systems") + " does";
  } else {
    const std::int64_t longest =
        std::max(step == nullptr ? 0 : step->longest, layer == nullptr ? 0 : layer->longest);
    reason = "the points of " + method + " end at " + std::to_string(longest) + " tokens";
  }
  return {};
}

std::string unpriced_because(PrecisionClass precision, const FittedModel& fit,
                             std::int64_t context_len) {
  std::string reason;
  for (const Strategy& s : system_space(precision)) {
    if (system_evidence(s, fit, context_len, reason)) {
      return {};
    }
  }
  return std::string(name_of(precision)) + " is not planned: " + reason;
}

}  // namespace versieve
