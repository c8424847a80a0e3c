// How a launch is put together from its traffic and its shape on the machine: what launch_work.cpp
// and attention_work.cpp share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/launch_work.h"

namespace versieve {

inline constexpr double kElementsPerBlock = 256.0;  // of elementwise kernels
inline constexpr double kKeysPerStep = 64.0;        // a chunk of keys (common/warp_attention.cuh)

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
          .reuse_distance = 0.0};
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

}  // namespace versieve
