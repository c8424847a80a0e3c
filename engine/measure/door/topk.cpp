// topk at the door: the k largest scores of each row, exactly.
#include "engine/measure/door/cuda_limits.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/workspace.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kMaxResults = 1 << 28;  // R k: what is allocated for the answer

constexpr const char* kVariants[] = {"sort", "radix", "gvr"};
constexpr DoorTensor kInputs[] = {{"scores", "float", "R,Lp"}, {"hint", "I32", "R,k", false}};
constexpr DoorKey kKeys[] = {{"k", "wanted indices a row"}};
constexpr DoorTensor kOutputs[] = {{"indices", "I32", "R,k"}, {"values", "float", "R,k"}};

kernels::TopkVariant variant_of(const std::string& name) {
  if (name == "radix") {
    return kernels::TopkVariant::kRadix;
  }
  return name == "gvr" ? kernels::TopkVariant::kGvr : kernels::TopkVariant::kSort;
}

template <class T>
TensorSet run_as(DoorInput& input, const DoorRequest& request) {
  const std::vector<T> scores = input.floats<T>("scores", "R,Lp");
  input.require_at_least("R", 1);
  input.require_at_least("Lp", 1);
  const std::int64_t k = input.integer_key("k", 1, kMaxResults / input.dim("R"));
  input.set_dim("k", k);
  std::vector<std::int32_t> hint;
  if (input.has("hint")) {
    hint = input.integers("hint", "R,k");
  }
  require_on_cuda(request, input.dim("Lp") <= kCudaMaxIndex, "rows of fewer than 2^31 scores");
  const std::size_t count = static_cast<std::size_t>(input.dim("R") * k);
  std::vector<std::int32_t> indices(count);
  std::vector<T> values(count);
  DoorWorkspace<T> work(request);
  kernels::TopkParams<T> p;
  p.variant = variant_of(request.variant);
  p.rows = input.dim("R");
  p.length = input.dim("Lp");
  p.k = k;
  p.scores = work.in(scores);
  p.hint = work.in(hint);
  p.indices = work.out(indices);
  p.values = work.out(values);
  work.run(p);
  work.finish();
  TensorSet results;
  results.tensors["indices"] = tensor_of(indices, {p.rows, k});
  results.tensors["values"] = float_result(values, {p.rows, k});
  return results;
}

TensorSet run(DoorInput& input, const DoorRequest& request) {
  return with_dtype(request.dtype, [&]<class T>() { return run_as<T>(input, request); });
}

}  // namespace

const DoorFamily kTopkDoor = {"topk", kVariants, kInputs, kKeys, kOutputs, run};

}  // namespace versieve::engine
