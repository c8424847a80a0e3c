// block_keys at the door: the least and greatest key of each block, elementwise.
#include <cmath>
#include <limits>

#include "engine/measure/door/family.h"
#include "engine/measure/door/resa.h"
#include "engine/measure/door/workspace.h"

namespace versieve::engine {
namespace {

constexpr const char* kVariants[] = {"default"};
constexpr DoorTensor kInputs[] = {{"k", "float", "L,G,d"}};
constexpr DoorKey kKeys[] = {{"key_block", "b, tokens of a block"}};
constexpr DoorTensor kOutputs[] = {{"kmin", "float", "M,G,d"}, {"kmax", "float", "M,G,d"}};

double as_double(double x) {
  return x;
}
double as_double(Bf16 x) {
  return to_float(x);
}

// Infinities have an order, NaN has none.
template <class T>
std::vector<T> ordered_keys(DoorInput& input) {
  std::vector<T> k = input.floats<T>("k", "L,G,d");
  for (const T& x : k) {
    if (std::isnan(as_double(x))) {
      input.refuse("tensor 'k' holds a NaN");
    }
  }
  return k;
}

template <class T>
TensorSet run_as(DoorInput& input, const DoorRequest& request) {
  const std::vector<T> k = ordered_keys<T>(input);
  kernels::BlockKeysParams<T> p;
  p.key_block = input.integer_key("key_block", 1, kMaxKeyBlock);
  p.length = input.dim("L");
  p.num_kv_heads = input.dim("G");
  p.head_dim = input.dim("d");
  const std::int64_t blocks = kernels::key_block_count(p.length, p.key_block);
  const Shape shape = {blocks, p.num_kv_heads, p.head_dim};
  std::vector<T> kmin(static_cast<std::size_t>(blocks * p.num_kv_heads * p.head_dim));
  std::vector<T> kmax(kmin.size());
  if (!kmin.empty()) {
    DoorWorkspace<T> work(request);
    p.k = work.in(k);
    p.kmin = work.out(kmin);
    p.kmax = work.out(kmax);
    work.run(p);
    work.finish();
  }
  TensorSet results;
  results.tensors["kmin"] = float_result(kmin, shape);
  results.tensors["kmax"] = float_result(kmax, shape);
  return results;
}

TensorSet run(DoorInput& input, const DoorRequest& request) {
  return with_dtype(request.dtype, [&]<class T>() { return run_as<T>(input, request); });
}

}  // namespace

const DoorFamily kBlockKeysDoor = {"block_keys", kVariants, kInputs, kKeys, kOutputs, run};

}  // namespace versieve::engine
