#include "kernels/common/element.h"

namespace versieve::kernels {

const char* name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return "f64";
    case Dtype::kF32:
      return "f32";
    case Dtype::kBf16:
      return "bf16";
    case Dtype::kF16:
      return "f16";
  }
  return "";
}

}  // namespace versieve::kernels
