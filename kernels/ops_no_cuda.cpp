// The CUDA engine of a build without CUDA: one sentence.
#include <algorithm>

#include "kernels/nsa_verify/prompt.h"
#include "kernels/ops_instances.h"
#include "kernels/staged_upload.h"
#include "model/words/error.h"

namespace versieve::kernels {
namespace {

[[noreturn]] void refuse() {
  throw Error(
      ExitCode::kEnvironment,
      "this build has no CUDA engine: configure it where a CUDA 13 toolkit is installed, or "
      "use the cpu backend");
}

}  // namespace

template <class T>
std::unique_ptr<Ops<T>> make_cuda_ops(void*) {
  refuse();
}
template <class T>
void* stream_of(Ops<T>&) {
  refuse();
}
template <class T>
std::int64_t free_memory(Ops<T>&) {
  refuse();
}
template <class T>
void enqueue_upload(Ops<T>& ops, void* destination, const void* source, std::size_t bytes) {
  ops.upload(destination, source, bytes);
}
template <class T>
bool has_nsa_prompt(Ops<T>&, const NsaVerifyParams<T>&) {
  return true;
}
template <class T>
void nsa_prompt(Ops<T>& ops, const NsaVerifyParams<T>& p) {
  ops.nsa_verify(p);
}
template <class T>
std::int64_t nsa_prompt_bytes(Ops<T>&, const NsaVerifyParams<T>&) {
  return 0;
}
template <class T>
void reserve_nsa_prompt(Ops<T>&, const NsaVerifyParams<T>&) {}
template <class T>
bool has_step_shapes(Ops<T>&) {
  return false;
}
template <class T>
StepShape prepare_nsa_step(Ops<T>&, const NsaStepParams<T>&) {
  return {};
}
template <class T>
void nsa_verify_layer(Ops<T>& ops, const NsaStepParams<T>& step, std::int64_t layer) {
  for (std::size_t i = 0; i < step.calls.size(); ++i) {
    ops.nsa_verify(call_in_layer(step, i, layer));
  }
}
template <class T>
StepShape prepare_dense_step(Ops<T>&, const DenseStepParams<T>&) {
  return {};
}
template <class T>
void dense_attention_layer(Ops<T>& ops, const DenseStepParams<T>& step, std::int64_t layer) {
  for (std::size_t i = 0; i < step.calls.size(); ++i) {
    ops.tree_attention(call_in_layer(step, i, layer));
  }
}
template <class T>
void grow_levels(Ops<T>&, std::span<const LevelGrowth> trees) {
  std::for_each(trees.begin(), trees.end(), grow_level_cpu);
}
template <class T>
void tree_attention_together(Ops<T>& ops, std::span<const TreeAttentionParams<T>> calls) {
  for (const TreeAttentionParams<T>& p : calls) {
    ops.tree_attention(p);
  }
}

VERSIEVE_INSTANTIATE_CUDA_OPS(float)
VERSIEVE_INSTANTIATE_CUDA_OPS(Bf16)
VERSIEVE_INSTANTIATE_OPS_TOGETHER(double)
VERSIEVE_INSTANTIATE_OPS_TOGETHER(float)
VERSIEVE_INSTANTIATE_OPS_TOGETHER(Bf16)
template bool has_nsa_prompt(Ops<double>&, const NsaVerifyParams<double>&);
template void nsa_prompt(Ops<double>&, const NsaVerifyParams<double>&);
template std::int64_t nsa_prompt_bytes(Ops<double>&, const NsaVerifyParams<double>&);
template void reserve_nsa_prompt(Ops<double>&, const NsaVerifyParams<double>&);
template bool has_nsa_prompt(Ops<float>&, const NsaVerifyParams<float>&);
template void nsa_prompt(Ops<float>&, const NsaVerifyParams<float>&);
template std::int64_t nsa_prompt_bytes(Ops<float>&, const NsaVerifyParams<float>&);
template void reserve_nsa_prompt(Ops<float>&, const NsaVerifyParams<float>&);
template bool has_nsa_prompt(Ops<Bf16>&, const NsaVerifyParams<Bf16>&);
template void nsa_prompt(Ops<Bf16>&, const NsaVerifyParams<Bf16>&);
template std::int64_t nsa_prompt_bytes(Ops<Bf16>&, const NsaVerifyParams<Bf16>&);
template void reserve_nsa_prompt(Ops<Bf16>&, const NsaVerifyParams<Bf16>&);

}  // namespace versieve::kernels
