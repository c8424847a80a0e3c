// How a launch is put together from its traffic and its shape on the machine: what joint_work.cpp,
// attention_work.cpp and others share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/launches/fused_parts.h"
#include "model/launches/launch_work.h"

namespace versieve {

inline constexpr double kElementsPerBlock = 256.0;  // of elementwise kernels
inline constexpr double kKeysPerStep = 64.0;        // a chunk of keys (common/warp_attention.cuh)

inline constexpr double kRowElementsPerStep = 1024.0;  // of a block that walks one row
inline constexpr double kPlacesPerStep = 32.0;         // of a block that goes over a tree's nodes

inline double number(std::int64_t value) {
  return static_cast<double>(value);
}

inline double at_least_one(double value) {
  return std::max(1.0, value);
}

// Launches whose bytes are all used once.
inline LaunchWork streaming(LaunchKind kind, Phase phase, double launches, const Traffic& traffic,
                            double blocks, double steps) {
  return {.kind = kind,
          .phase = phase,
          .launches = launches,
          .unique = traffic,
          .loaded = 0.0,
          .reused = 0.0,
          .blocks = at_least_one(blocks),
          .steps = at_least_one(steps),
          .working_set = traffic.total(),
          .reuse_distance = 0.0,
          .handover_distance = traffic.total()};
}

// Launches whose thread blocks load the bytes of one cached term, `reused` in all, again and again.
inline LaunchWork reloading(LaunchKind kind, Phase phase, double launches, const Traffic& traffic,
                            TrafficTerm cached, double loaded, double blocks, double steps) {
  LaunchWork work = streaming(kind, phase, launches, traffic, blocks, steps);
  work.reused = traffic.read_bytes[static_cast<std::size_t>(cached)];
  work.loaded = std::max(work.reused, loaded);
  work.reuse_distance = work.working_set;
  return work;
}

// Rows of one forward pass and where its time is booked.
struct Pass {
  double rows = 1.0;
  double times = 1.0;  // how often the pass (or layer) runs in a step
  Phase matrices = Phase::kMatrices;
  Phase other = Phase::kOther;
  TrafficTerm weights = TrafficTerm::kWeights;
  std::int64_t element_bytes = 2;

  std::int64_t whole_rows() const { return std::max<std::int64_t>(1, std::llround(rows)); }
};

// Launches that every composition has.
void add_copy(const Pass& pass, double times, std::int64_t width, TrafficTerm term, StepWork& out);
void add_logits(const Pass& pass, std::int64_t vocab, std::int64_t k, Phase phase, StepWork& out);
// Path-local compressed tokens of a layer, which come out of the launch that takes the projection's
// rows apart: of a recorded step one a node, its bound; else those that the host lists, at their
// mean (the node whose position completes a block forms one).
Traffic pooled_tokens(const StepShape& shape);
// What traffic.h's unique bytes count and DRAM does not deliver, in tokens of K and V: those that
// the newest selected block still lacks (every query selects it), and those of the window that lie
// in selected blocks.
struct SparedTokens {
  double selected = 0.0;
  double window = 0.0;
};
SparedTokens spared_tokens(const traffic::NsaVerifyShape& shape);
void spare(TrafficTerm term, double bytes, LaunchWork& work);
// The fused launches of one layer's attention, and how the planner of the kernels sees the parts of
// one of them (nsa_route, nsa_attend or nsa_reuse).
void add_fused_attention(const traffic::NsaVerifyShape& shape, bool reuse, double layers,
                         StepWork& out);
FusedGroup fused_group(const traffic::NsaVerifyShape& shape, LaunchKind kind);
// All layers of one token in one launch (model/launches/decode_layers.h).
void add_decode_layers(const StepShape& shape, double growth, StepWork& out);
// All levels of a draft tree in one launch (model/launches/draft_levels.h).
void add_draft_levels(const StepShape& shape, StepWork& out);
Traffic scaled(Traffic traffic, double share);
// Both refresh and reuse layers.
void add_attention_layers(const StepShape& shape, double growth, StepWork& out);
// Tokens that a step is taken to commit where the host leads it.
double committed_tokens(const StepShape& shape);

// A step as the engine enqueues it.
void add_joint_step(const StepShape& shape, double growth, StepWork& out);

}  // namespace versieve
