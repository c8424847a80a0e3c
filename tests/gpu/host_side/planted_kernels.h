// Kernels for planted faults: what they compute is of no matter.
#pragma once

namespace versieve::test {

inline constexpr int kPlantedThreads = 256;                     // of a block, at most
inline constexpr int kPlantedSharedBytes = 1024 * sizeof(int);  // of its own

// Handles for cudaLaunchKernel: of (const int* in, int* out), and of a struct of 5 KiB that holds
// pointers.
struct PlantedTable {
  int count = 0;
  const int* in[640] = {};
};
// Instances of one template: of an int*, or of a number of as many bytes.
const void* planted_either(bool pointer);
const void* planted_sum();
const void* planted_table();

}  // namespace versieve::test
