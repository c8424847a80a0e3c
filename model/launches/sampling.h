// Samplers, launch by launch, as they are measured alone or end a step: of drafted chains
// (model/launches/spec_sample.h) and of trees (model/launches/tree_sample.h).
#pragma once

#include <cstdint>

#include "model/launches/launch_work.h"
#include "model/words/kernel_case.h"

namespace versieve {

// Chains: `nodes` - 1 drafted tokens; trees: `nodes` nodes.
void add_sampling(const SamplingCase& c, std::int64_t vocab, std::int64_t nodes,
                  std::int64_t element_bytes, bool cold, StepWork& out);

// The same as the end of a step, whose logits were just written: of a chain whose positions vote
// without the launch that picks the first rejection.
void add_step_sampling(const SamplingCase& c, std::int64_t vocab, std::int64_t nodes,
                       std::int64_t element_bytes, StepWork& out);
bool is_sampler(LaunchKind kind);

inline constexpr double kSms = 132.0;  // of an H100 and an H200
// Clusters of `blocks` thread blocks that run at once, `of_sm` blocks an SM, on the eight GPCs of
// 16 and 18 SMs that those SMs are; a cluster stays within one.
double clusters_at_once(double blocks, double of_sm);

// What the launches of both share.
inline constexpr double kSamplerLogits = 1024.0;  // of a block
inline constexpr double kSamplerCluster = 16.0;   // blocks that share a row

// The kind that a search for rows' cuts is counted in.
inline constexpr LaunchKind kCutsKind = LaunchKind::kSpecChain;

struct Sampler {
  std::int64_t vocab = 0, element_bytes = 2;
  bool cold = false;
  StepWork& out;

  // One launch of dependent steps of a block; `reads_logits`: of rows that nobody wrote before.
  LaunchWork made(LaunchKind kind, const Traffic& traffic, double blocks, double steps,
                  bool reads_logits) const;
  // `blocks` blocks, each going over `share` of a row.
  void add(LaunchKind kind, const Traffic& traffic, double blocks, double share,
           bool reads_logits) const;
  void add_steps(LaunchKind kind, const Traffic& traffic, double blocks, double steps,
                 bool reads_logits) const;
  // The search for what is left of rows (kernels/spec_sample/row_cuts.cu), before the sampler
  // itself, which finds them in the second-level cache then.
  void add_cuts(const SamplingCase& c, std::int64_t rows) const;
};

}  // namespace versieve
