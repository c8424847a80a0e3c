// What the closed form misses, learned from its residuals at measured points: a smooth correction
// of log time (or log bytes) over the axes of a regime that returns to none away from data. A
// Gaussian process's mean: weights times a Matern-3/2 kernel of the distance to each anchor.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/launches/launch_work.h"
#include "model/launches/step_shape.h"
#include "model/words/kernel_case.h"

namespace versieve {

// Axes of a regime, each in units over which a correction keeps its sign: ln L, ln N, overlap,
// ln C, approximate groups, warm cache (of steps: tokens that are drawn), and for steps the share
// of reuse layers and the depth of the tree, for attention how wide heads go through a group's list
// and the bytes of a token.
inline constexpr std::size_t kRegimeAxes = 8;

struct Regime {
  int family = 0;  // of launches; families know nothing of one another
  std::array<double, kRegimeAxes> at{};
};

Regime attention_regime(const StepShape& shape, bool reuse, bool warm);
Regime step_regime(const StepShape& shape);
// Of a step of ReSA with its share of the pass that ends a period.
Regime period_regime(const StepShape& shape, std::int64_t period);
// Of a step of a target that drafts for itself, whose `dense` says how its drafting steps read.
Regime self_drafted_regime(const StepShape& shape);
// Of a layer's attention over a dense cache, and of the kernels that are measured alone.
Regime dense_regime(const StepShape& shape);
// Of one launch of ReSA's vanilla form, whose phases are launches of their own.
Regime vanilla_regime(const StepShape& shape, LaunchKind kind);
Regime topk_regime(const TopkCase& c, std::int64_t length, std::int64_t rows);
Regime sampling_regime(const SamplingCase& c, std::int64_t vocab, std::int64_t nodes,
                       std::int64_t element_bytes);
// Euclidean; families are infinitely far apart.
double distance(const Regime& a, const Regime& b);

struct ResidualField {
  struct Family {
    int family = 0;
    double length = 1.0;  // of the kernel, in units of the axes
    std::vector<std::array<double, kRegimeAxes>> anchors;
    std::vector<double> weights;
  };
  std::vector<Family> families;

  // Log of measured / predicted to expect; 0 where nothing was measured.
  double at(const Regime& regime) const;
};

// Matern 3/2 of unit variance.
double residual_kernel(double distance_in_lengths);

// What each launch of ReSA's vanilla form takes beyond the closed form; of others nothing.
void correct_vanilla(const StepShape& shape, const ResidualField& field, StepWork& work);
// The same of a target with a dense cache.
void correct_dense_attention(const StepShape& shape, const ResidualField& field, StepWork& work);
// Of the sampler that ends a step of speculative sampling.
void correct_sampler(const StepShape& shape, const ResidualField& field, StepWork& work);
// Sets the time factor of the attention launches of a step by the field.
void correct_attention(const StepShape& shape, bool warm, const ResidualField& field,
                       StepWork& work);

}  // namespace versieve
