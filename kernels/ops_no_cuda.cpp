// The CUDA engine of a build without CUDA: one sentence.
#include "kernels/ops_cuda.h"
#include "kernels/ops_together.h"
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
void nsa_verify_together(Ops<T>& ops, std::span<const NsaVerifyParams<T>> calls) {
  for (const NsaVerifyParams<T>& p : calls) {
    ops.nsa_verify(p);
  }
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
template void nsa_verify_together(Ops<double>&, std::span<const NsaVerifyParams<double>>);
template void tree_attention_together(Ops<double>&, std::span<const TreeAttentionParams<double>>);
template void nsa_verify_together(Ops<float>&, std::span<const NsaVerifyParams<float>>);
template void tree_attention_together(Ops<float>&, std::span<const TreeAttentionParams<float>>);
template void nsa_verify_together(Ops<Bf16>&, std::span<const NsaVerifyParams<Bf16>>);
template void tree_attention_together(Ops<Bf16>&, std::span<const TreeAttentionParams<Bf16>>);

}  // namespace versieve::kernels
