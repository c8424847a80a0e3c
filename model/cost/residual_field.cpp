#include "model/cost/residual_field.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/launches/dense_pass.h"
#include "model/launches/draft_levels.h"
#include "model/launches/fused_parts.h"
#include "model/launches/nsa_shape.h"
#include "model/launches/resa_decode.h"
#include "model/launches/sampling.h"
#include "model/launches/spec_sample.h"

namespace versieve {
namespace {

constexpr double kNegligible = 6.0;  // lengths away, where the kernel is below 4e-4

// How far a step that draws its tokens lies from the greedy one, of which it is the most part.
constexpr double kDrawn = 0.3;

// Of families that no layer of NSA has.
constexpr int kOneLaunchFamilies = 20;  // of steps, added
constexpr int kSmallPairFamilies = 40;  // the same, of pairs whose draft runs in one launch
constexpr int kDenseSteps = 60;        // of steps of a target with a dense cache, whatever it reads
constexpr int kPeriods = 61;           // of ReSA's, a step's share
constexpr int kSelfDrafted = 62;       // of steps of a target that drafts for itself
constexpr int kVanillaFamilies = 110;  // one a launch of ReSA's vanilla form
// A sampler's forms, which are launches unlike each other.
constexpr double kFormApart = 1.0;
constexpr int kDenseFamilies = 101, kTopkFamilies = 120, kSamplingFamilies = 140;

double logarithm(std::int64_t value, double unit) {
  return std::log(static_cast<double>(std::max<std::int64_t>(1, value))) / std::log(unit);
}

double squared_distance(const std::array<double, kRegimeAxes>& a,
                        const std::array<double, kRegimeAxes>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < kRegimeAxes; ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return sum;
}

std::array<double, kRegimeAxes> shared_axes(const StepShape& s) {
  return {logarithm(s.context_len, 4.0),
          logarithm(s.num_queries, 4.0),
          (s.num_queries > 1 ? s.overlap : 1.0) / 0.3,
          logarithm(std::min(s.group_size, s.num_queries), 4.0),
          s.group_mode == GroupMode::kApprox && s.group_size > 1 ? 1.0 : 0.0,
          0.0,
          0.0,
          0.0};
}

// Of heads wider than kFusedManyHead: whether several row tiles go through a group's list together.
// The closed form has a step there (model/launches/nsa_fused.cpp), so what it misses on one side
// says little of the other.
bool is_wide_team(const StepShape& s) {
  const traffic::NsaVerifyShape heads{.num_heads = s.target.num_heads,
                                      .num_kv_heads = s.target.num_kv_heads};
  return s.form == NsaForm::kFused && s.target.head_dim > kFusedManyHead &&
         std::min(s.group_size, s.num_queries) > heads.row_tile_queries();
}

}  // namespace

Regime attention_regime(const StepShape& s, bool reuse, bool warm) {
  Regime regime{(s.form == NsaForm::kFused ? 0 : 2) + (reuse ? 1 : 0), shared_axes(s)};
  regime.at[5] = warm ? 1.0 : 0.0;
  regime.at[6] = is_wide_team(s) ? 2.0 : 0.0;
  regime.at[7] = logarithm(2 * s.target.kv_width() * s.element_bytes, 2.0);
  return regime;
}

Regime step_regime(const StepShape& s) {
  if (s.target.attention == AttentionKind::kDense) {
    return {kDenseSteps,
            {logarithm(s.context_len, 4.0), logarithm(s.num_queries, 4.0),
             logarithm(s.target.hidden, 4.0), 0.0, 0.0,
             s.sampling == SamplingAlgorithm::kGreedy ? 0.0 : kDrawn}};
  }
  Regime regime{s.form == NsaForm::kFused ? 4 : 5, shared_axes(s)};
  regime.family += s.recorded ? 0 : 2;
  regime.family += s.one_launch ? kOneLaunchFamilies : 0;
  regime.family += is_small_pair(s.draft, s.target.vocab) ? kSmallPairFamilies : 0;
  regime.at[5] = s.sampling == SamplingAlgorithm::kGreedy ? 0.0 : kDrawn;
  const double layers = static_cast<double>(std::max<std::int64_t>(1, s.target.layers));
  regime.at[6] = static_cast<double>(s.reuse_layers) / layers;
  regime.at[7] = std::log(1.0 + static_cast<double>(s.tree.depth)) / std::log(4.0);
  return regime;
}

Regime period_regime(const StepShape& s, std::int64_t period) {
  Regime regime = step_regime(s);
  regime.family = kPeriods;
  regime.at[1] = logarithm(period, 4.0);
  return regime;
}

Regime self_drafted_regime(const StepShape& s) {
  Regime regime = step_regime(s);
  regime.family = kSelfDrafted;
  regime.at[3] = std::log(resa_attended_ratio(s.context_len, s.dense)) / std::log(4.0);
  regime.at[4] = logarithm(s.dense.key_block, 4.0);
  return regime;
}

Regime dense_regime(const StepShape& s) {
  const DenseRead& read = s.dense;
  // A dense pass is another launch than those of chains that are verified, ReSA's vanilla form
  // others than its fused one.
  Regime regime{kDenseFamilies + 2 * static_cast<int>(read.method) +
                    (takes_dense_pass(s) || read.vanilla ? 1 : 0),
                {logarithm(s.context_len, 4.0), logarithm(s.num_queries, 4.0)}};
  regime.at[4] = std::log2(token_bytes(s));
  if (read.method == AttentionMethod::kResa) {
    regime.at[2] = std::log(resa_attended_ratio(s.context_len, read)) / std::log(4.0);
    regime.at[3] = logarithm(read.key_block, 4.0);
  } else if (read.method == AttentionMethod::kSpecAttn) {
    regime.at[2] = logarithm(std::llround(read.chosen_tokens), 4.0);
  } else if (read.method == AttentionMethod::kIndexer) {
    regime.at[2] = logarithm(std::llround(dense_keys(s)), 4.0);
  }
  return regime;
}

Regime vanilla_regime(const StepShape& s, LaunchKind kind) {
  Regime regime = dense_regime(s);
  regime.family =
      kVanillaFamilies + static_cast<int>(kind) - static_cast<int>(LaunchKind::kResaScore);
  return regime;
}

Regime topk_regime(const TopkCase& c, std::int64_t length, std::int64_t rows) {
  Regime regime{
      kTopkFamilies + static_cast<int>(c.algorithm),
      {logarithm(length, 4.0), logarithm(rows, 4.0), logarithm(c.k, 8.0), c.hint.value_or(0.0)}};
  regime.at[4] = c.index ? logarithm(c.index->heads * c.index->dim, 4.0) : 0.0;
  return regime;
}

Regime sampling_regime(const SamplingCase& c, std::int64_t vocab, std::int64_t nodes,
                       std::int64_t element_bytes) {
  // The sigmoid test is a launch of the exact one's.
  const bool sigmoid = c.algorithm == SamplingAlgorithm::kSigmoid;
  const int algorithm = static_cast<int>(sigmoid ? SamplingAlgorithm::kExact : c.algorithm);
  double form = 0.0, rounds = 0.0;
  if (c.algorithm != SamplingAlgorithm::kBaseline && c.width == 0 && chain_in_one_launch(vocab)) {
    const ChainGrid grid = chain_grid(nodes - 1, c.samples, vocab, c.batch);
    form = kFormApart * static_cast<double>(chain_form(grid, grid.votes(), sigmoid));
    rounds = static_cast<double>(grid.rounds - 1);
  }
  return {kSamplingFamilies + 2 * algorithm + (c.width > 0 ? 1 : 0),
          {logarithm(vocab, 4.0), logarithm(nodes, 4.0), logarithm(c.samples, 4.0),
           (sigmoid ? 0.5 : 0.0) + (c.cuts() ? 2.0 : 0.0), logarithm(element_bytes, 4.0),
           logarithm(c.batch, 4.0), form, rounds}};
}

double distance(const Regime& a, const Regime& b) {
  return a.family == b.family ? std::sqrt(squared_distance(a.at, b.at))
                              : std::numeric_limits<double>::infinity();
}

double residual_kernel(double d) {
  const double scaled = std::sqrt(3.0) * d;
  return (1.0 + scaled) * std::exp(-scaled);
}

double ResidualField::at(const Regime& regime) const {
  double sum = 0.0;
  for (const Family& family : families) {
    if (family.family != regime.family) {
      continue;
    }
    const double reach = kNegligible * family.length;
    for (std::size_t i = 0; i < family.anchors.size(); ++i) {
      const double square = squared_distance(family.anchors[i], regime.at);
      if (square < reach * reach) {
        sum += family.weights[i] * residual_kernel(std::sqrt(square) / family.length);
      }
    }
  }
  return sum;
}

void correct_vanilla(const StepShape& shape, const ResidualField& field, StepWork& work) {
  if (!shape.dense.vanilla || shape.dense.method != AttentionMethod::kResa) {
    return;
  }
  for (std::size_t i = 0; i < work.count; ++i) {
    LaunchWork& launch = work.work[i];
    if (is_resa_vanilla(launch.kind)) {
      launch.time_factor = std::exp(field.at(vanilla_regime(shape, launch.kind)));
    }
  }
}

void correct_dense_attention(const StepShape& shape, const ResidualField& field, StepWork& work) {
  if (field.families.empty()) {
    return;
  }
  correct_vanilla(shape, field, work);
  const double factor = std::exp(field.at(dense_regime(shape)));
  for (std::size_t i = 0; i < work.count; ++i) {
    if (work.work[i].layer != LayerKind::kNone) {
      work.work[i].time_factor *= factor;
    }
  }
}

void correct_sampler(const StepShape& s, const ResidualField& field, StepWork& work) {
  const bool own_vocabulary = s.draft.vocab < s.target.vocab;
  const SamplingCase c{.algorithm = s.sampling,
                       .width = draws_chain(s.tree, s.sampling, own_vocabulary)
                                    ? 0
                                    : std::max<std::int64_t>(1, s.tree.width)};
  const double factor =
      std::exp(field.at(sampling_regime(c, s.target.vocab, s.num_queries, s.element_bytes)));
  for (std::size_t i = 0; i < work.count; ++i) {
    if (is_sampler(work.work[i].kind) && work.work[i].phase == Phase::kAcceptance) {
      work.work[i].time_factor = factor;
    }
  }
}

void correct_attention(const StepShape& shape, bool warm, const ResidualField& field,
                       StepWork& work) {
  if (field.families.empty()) {
    return;
  }
  for (const LayerKind layer : {LayerKind::kRefresh, LayerKind::kReuse}) {
    const auto is_of = [layer](const LaunchWork& launch) { return launch.layer == layer; };
    if (std::none_of(work.begin(), work.end(), is_of)) {
      continue;
    }
    const double factor =
        std::exp(field.at(attention_regime(shape, layer == LayerKind::kReuse, warm)));
    for (std::size_t i = 0; i < work.count; ++i) {
      if (is_of(work.work[i])) {
        work.work[i].time_factor = factor;
      }
    }
  }
}

}  // namespace versieve
