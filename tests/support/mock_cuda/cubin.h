// What a program's fat binaries say of its kernels: the sections .nv.info.KERNEL of the cubins
// within, which nvcc writes and cuobjdump shows (attributes EIATTR_KPARAM_INFO, _MAX_THREADS).
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace versieve::mock_cuda {

struct KernelFacts {
  std::vector<std::size_t> parameter_bytes;
  std::size_t static_shared_bytes = 0;
  int max_threads = 1024;  // of a block, as __launch_bounds__ has it
  int registers = 0;       // of a thread
};

// By mangled names. `image`: as __cudaRegisterFatBinary gets it, its cubins plain or compressed by
// zstd (nvcc's choice since CUDA 12.9); of others nothing is known.
std::unordered_map<std::string, KernelFacts> kernels_of(const unsigned char* image);

}  // namespace versieve::mock_cuda
