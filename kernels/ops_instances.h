// What stands beside Ops' virtual functions (ops_cuda.h, ops_together.h), instantiated once behind
// its definitions: in ops_cuda.cu, and in ops_no_cuda.cpp where a build has no CUDA.
#pragma once

#include "kernels/ops_cuda.h"
#include "kernels/ops_together.h"

// For a type of a CUDA engine: float, Bf16.
#define VERSIEVE_INSTANTIATE_CUDA_OPS(T)                    \
  template std::unique_ptr<Ops<T>> make_cuda_ops<T>(void*); \
  template void* stream_of<T>(Ops<T>&);                     \
  template std::int64_t free_memory<T>(Ops<T>&);

// For these and double, in which only the CPU computes.
#define VERSIEVE_INSTANTIATE_OPS_TOGETHER(T)                                             \
  template void enqueue_upload(Ops<T>&, void*, const void*, std::size_t);                \
  template bool has_step_shapes(Ops<T>&);                                                \
  template StepShape prepare_nsa_step(Ops<T>&, const NsaStepParams<T>&);                 \
  template void nsa_verify_layer(Ops<T>&, const NsaStepParams<T>&, std::int64_t);        \
  template StepShape prepare_dense_step(Ops<T>&, const DenseStepParams<T>&);             \
  template void dense_attention_layer(Ops<T>&, const DenseStepParams<T>&, std::int64_t); \
  template void grow_levels(Ops<T>&, std::span<const LevelGrowth>);                      \
  template void tree_attention_together(Ops<T>&, std::span<const TreeAttentionParams<T>>);
