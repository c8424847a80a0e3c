// Functions that the host and CUDA kernels share.
#pragma once

#ifdef __CUDACC__
#define VERSIEVE_HOST_DEVICE __host__ __device__
#else
#define VERSIEVE_HOST_DEVICE
#endif
