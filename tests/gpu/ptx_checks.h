// Small kernels on the wrappers of kernels/ptx, compiled with device asserts on.
#pragma once

namespace versieve::test {

enum class PtxUse {
  kRight,           // barriers, pushes, packets as they are meant
  kWrongParity,     // a phase of parity 2
  kCrookedBarrier,  // a barrier on a multiple of 4
  kForeignBlock,    // a rank that the cluster does not have
  kCrookedStore,    // 16 bytes on a multiple of 8
  kCrookedPackets,  // two packets on a multiple of 8
};

enum class PtxOutcome { kPassed, kAsserted, kNoGpu, kFailed };

// Runs it. A failed assertion ends the CUDA context of the process, so: once a process.
PtxOutcome run_ptx(PtxUse use);

}  // namespace versieve::test
