// The numbers of the cost model that are fitted to measurements: what each means, its unit, its
// bounds of physical sense and where the fit begins. All are relative to a machine's raw rates, so
// that a fit made on one machine can be scaled to another.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "model/launches/launch_work.h"

namespace versieve {

// Parameters that all kinds of launch share.
enum class SharedParameter {
  // DRAM bytes.
  kEffectiveL2,      // share of the L2 capacity that a working set can use
  kL2Knee,           // sharpness of the step from fitting to missing
  kReloadMiss,       // share of the repeated loads that miss when nothing fits
  kHandoverMiss,     // share of bytes handed from one launch to the next read from DRAM though fit
  kHandoverL2,       // share of the L2 capacity that bytes handed over can use
  kHandoverKnee,     // sharpness of that step
  kWriteBack,        // share of written bytes that reach DRAM though little is read beside
  kWriteL2,          // bytes moved, as a share of L2, that push half of them out
  kWriteKnee,        // sharpness of that step
  kWriteFill,        // of L2 that a written byte takes, against a read one
  kFixedWrite,       // bytes written by a launch that no term names
  kOverfetchSparse,  // bytes fetched for a byte of selected blocks
  kOverfetchStream,  // bytes fetched for a byte read in order
  kKeptL2,           // cache read by a step, as a share of L2, of which half stays till the next
  kKeptKnee,         // sharpness of that step
  kUniqueGrowth,     // of distinct blocks over queries; 1 is the linear overlap formula
  // Time.
  kDramEfficiency,     // share of the raw bandwidth that a stream gets
  kL2BytesPerClockSm,  // L2 bytes a clock and SM
  kStreamL2,           // the same of a ring of weights and of the rows beside them
  kStreamGapUs,        // between two launches on a stream
  kGraphGapUs,         // between two nodes of a graph
  kHostTripUs,         // the host waits for a result and enqueues again
  kOverlap,            // share of a dependent launch's time that runs beside the one before it
  kStartOverlap,       // the same of a ring of weights, of whose time kBaseUs alone can hide
};
inline constexpr std::size_t kSharedParameterCount = 24;

// Parameters of each kind of launch: its own arithmetic, latency and bytes.
enum class KindParameter {
  kFixedRead,     // bytes read that no term names
  kWriteShare,    // bytes that can reach DRAM for a byte that the traffic function writes
  kComputeShare,  // share of the fp32 peak that its arithmetic reaches
  kBaseUs,        // of a block that does nothing; of a ring of weights, before and after its flow
  kStepNs,        // of one dependent step of a block
  kResident,      // blocks that an SM runs at once
  kRoundUs,       // of one round, a wait of all thread blocks; of launches that have rounds
};
inline constexpr std::size_t kKindParameterCount = 7;

inline constexpr std::size_t kParameterCount =
    kSharedParameterCount + kLaunchKindCount * kKindParameterCount;

constexpr std::size_t index_of(SharedParameter parameter) {
  return static_cast<std::size_t>(parameter);
}
constexpr std::size_t index_of(LaunchKind kind, KindParameter parameter) {
  return kSharedParameterCount + static_cast<std::size_t>(kind) * kKindParameterCount +
         static_cast<std::size_t>(parameter);
}

using CostParameters = std::array<double, kParameterCount>;

// Which measurements say something about a parameter; none about one that its launches do not have.
enum class Evidence { kBytes, kTime, kNone };

struct ParameterInfo {
  const char* name;  // "effective_l2", "nsa_selected.step"
  const char* unit;
  double low;
  double high;
  double initial;
  Evidence evidence;
};

std::span<const ParameterInfo, kParameterCount> parameter_table();
CostParameters initial_parameters();

}  // namespace versieve
