#include "tests/gpu/host_side/planted_kernels.h"

#include <type_traits>

namespace versieve::test {
namespace {

__global__ void __launch_bounds__(kPlantedThreads) planted_sum_kernel(const int* in, int* out) {
  __shared__ int own[kPlantedSharedBytes / sizeof(int)];
  extern __shared__ int more[];
  own[threadIdx.x] = in[threadIdx.x];
  more[threadIdx.x] = in[threadIdx.x + 1];
  __syncthreads();
  out[threadIdx.x] = own[threadIdx.x ^ 1] + more[threadIdx.x ^ 1];
}

__global__ void __launch_bounds__(kPlantedThreads)
    planted_table_kernel(const __grid_constant__ PlantedTable table, int* out) {
  for (int i = 0; i < table.count; ++i) {
    out[i] += *table.in[i];
  }
}

// Instances of one name that take a number, or a pointer.
template <class Argument>
__global__ void __launch_bounds__(kPlantedThreads) planted_either_kernel(Argument argument) {
  if constexpr (std::is_pointer_v<Argument>) {
    *argument = 1;
  }
}

}  // namespace

const void* planted_either(bool pointer) {
  return pointer ? reinterpret_cast<const void*>(&planted_either_kernel<int*>)
                 : reinterpret_cast<const void*>(&planted_either_kernel<long long>);
}
const void* planted_sum() {
  return reinterpret_cast<const void*>(&planted_sum_kernel);
}
const void* planted_table() {
  return reinterpret_cast<const void*>(&planted_table_kernel);
}

}  // namespace versieve::test
