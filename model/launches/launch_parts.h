// How a launch is put together from its traffic and its shape on the machine: what the files of all
// root words share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/launches/launch_work.h"

namespace versieve {

inline constexpr double kElementsPerBlock = 256.0;  // of elementwise kernels
inline constexpr double kKeysPerStep = 64.0;  // a chunk of keys (kernels/common/warp_attention.cuh)

inline constexpr double kRowElementsPerStep = 1024.0;  // of a block that walks one row
inline constexpr double kPlacesPerStep = 32.0;         // of a block that goes over a tree's nodes

inline constexpr std::int64_t kF32Bytes = 4;
inline constexpr std::int64_t kIntBytes = 4;

inline double number(std::int64_t value) {
  return static_cast<double>(value);
}

// Of a head's row in memory: 64 elements of bf16 are one line.
inline constexpr double kLineBytes = 128.0;
inline double lines(std::int64_t head_dim, std::int64_t element_bytes) {
  return number(head_dim * element_bytes) / kLineBytes;
}

inline double at_least_one(double value) {
  return std::max(1.0, value);
}

// Bytes of one term in and out, and arithmetic.
inline Traffic moved(TrafficTerm term, std::int64_t read, std::int64_t written, double flops) {
  Traffic t;
  t.read(term, static_cast<double>(read));
  t.write(term, static_cast<double>(written));
  t.flops = flops;
  return t;
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
  bool as_cut = false;  // products at the rate that tiles and waves of them leave (linear.h)

  std::int64_t whole_rows() const { return std::max<std::int64_t>(1, std::llround(rows)); }
};

Traffic scaled(Traffic traffic, double share);
// A launch of one request's becomes one over `requests` alike: their bytes, products and blocks. A
// request's blocks are neighbours in the grid, so what it loads again and hands over is as near as
// before (an assumption: nobody has measured such a launch). Rounds of blocks that the chip (an
// H200) does not hold at once follow one another.
void widen(double requests, LaunchWork& work);
// What `first` and the launches after it are to a step of several requests: each widened, or as
// many launches, as sorts are always (kernels/topk).
void widen_from(std::size_t first, double requests, bool ragged, StepWork& out);
// Takes bytes of a term out of what a launch reads: those that its unique bytes count and DRAM does
// not deliver.
void spare(TrafficTerm term, double bytes, LaunchWork& work);
// An attention launch of a target with a dense cache. `repeated`: LaunchWork's, of all its reads
// where nobody chooses them.
void add_dense_launch(LaunchWork work, StepWork& out, double repeated = 1.0);
// Rows that nobody wrote shortly before come from DRAM.
void read_cold(bool cold, LaunchWork& work);

}  // namespace versieve
