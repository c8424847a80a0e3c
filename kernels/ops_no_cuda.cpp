// The CUDA engine of a build without CUDA: one sentence.
#include <algorithm>

#include "kernels/nsa_verify/prompt.h"
#include "kernels/ops_cuda.h"
#include "kernels/ops_together.h"
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

template std::unique_ptr<Ops<float>> make_cuda_ops<float>(void*);
template std::unique_ptr<Ops<Bf16>> make_cuda_ops<Bf16>(void*);
template void* stream_of<float>(Ops<float>&);
template void* stream_of<Bf16>(Ops<Bf16>&);
template std::int64_t free_memory<float>(Ops<float>&);
template std::int64_t free_memory<Bf16>(Ops<Bf16>&);
template void enqueue_upload(Ops<double>&, void*, const void*, std::size_t);
template bool has_nsa_prompt(Ops<double>&, const NsaVerifyParams<double>&);
template void nsa_prompt(Ops<double>&, const NsaVerifyParams<double>&);
template StepShape prepare_nsa_step(Ops<double>&, const NsaStepParams<double>&);
template void nsa_verify_layer(Ops<double>&, const NsaStepParams<double>&, std::int64_t);
template void enqueue_upload(Ops<float>&, void*, const void*, std::size_t);
template bool has_nsa_prompt(Ops<float>&, const NsaVerifyParams<float>&);
template void nsa_prompt(Ops<float>&, const NsaVerifyParams<float>&);
template StepShape prepare_nsa_step(Ops<float>&, const NsaStepParams<float>&);
template void nsa_verify_layer(Ops<float>&, const NsaStepParams<float>&, std::int64_t);
template void enqueue_upload(Ops<Bf16>&, void*, const void*, std::size_t);
template bool has_nsa_prompt(Ops<Bf16>&, const NsaVerifyParams<Bf16>&);
template void nsa_prompt(Ops<Bf16>&, const NsaVerifyParams<Bf16>&);
template StepShape prepare_nsa_step(Ops<Bf16>&, const NsaStepParams<Bf16>&);
template void nsa_verify_layer(Ops<Bf16>&, const NsaStepParams<Bf16>&, std::int64_t);
template StepShape prepare_dense_step(Ops<double>&, const DenseStepParams<double>&);
template void dense_attention_layer(Ops<double>&, const DenseStepParams<double>&, std::int64_t);
template StepShape prepare_dense_step(Ops<float>&, const DenseStepParams<float>&);
template void dense_attention_layer(Ops<float>&, const DenseStepParams<float>&, std::int64_t);
template StepShape prepare_dense_step(Ops<Bf16>&, const DenseStepParams<Bf16>&);
template void dense_attention_layer(Ops<Bf16>&, const DenseStepParams<Bf16>&, std::int64_t);
template void grow_levels(Ops<double>&, std::span<const LevelGrowth>);
template void grow_levels(Ops<float>&, std::span<const LevelGrowth>);
template void grow_levels(Ops<Bf16>&, std::span<const LevelGrowth>);
template void tree_attention_together(Ops<double>&, std::span<const TreeAttentionParams<double>>);
template void tree_attention_together(Ops<float>&, std::span<const TreeAttentionParams<float>>);
template void tree_attention_together(Ops<Bf16>&, std::span<const TreeAttentionParams<Bf16>>);

}  // namespace versieve::kernels
