// The CUDA engine of a build without CUDA: one sentence.
#include "kernels/ops_cuda.h"
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

template std::unique_ptr<Ops<float>> make_cuda_ops<float>(void*);
template std::unique_ptr<Ops<Bf16>> make_cuda_ops<Bf16>(void*);
template void* stream_of<float>(Ops<float>&);
template void* stream_of<Bf16>(Ops<Bf16>&);

}  // namespace versieve::kernels
