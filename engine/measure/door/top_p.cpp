// top_p at the door: the tokens that carry a share of each row's mass, and their union.
#include "engine/measure/door/cuda_limits.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/workspace.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kMaxIterations = 4096;  // more than the halvings of any double

constexpr const char* kVariants[] = {"default"};
constexpr DoorTensor kInputs[] = {{"weights", "float", "gamma,L"}};
constexpr DoorKey kKeys[] = {{"p", "wanted share of a row's mass"},
                             {"iterations", "halvings of the threshold"}};
constexpr DoorTensor kOutputs[] = {{"mask", "I32", "L"}, {"mass", "float", "gamma"}};

// Weights are no tensor that --dtype rounds: f32 unless the answer is wanted in f64.
template <class S>
std::vector<S> weights_of(DoorInput& input) {
  std::vector<S> weights = input.finite_floats<S>("weights", "gamma,L");
  for (const S weight : weights) {
    if (weight < S{0}) {
      input.refuse("tensor 'weights' holds a negative weight");
    }
  }
  return weights;
}

double share_of(const DoorInput& input) {
  const double p = input.number_key("p");
  if (!(p > 0.0 && p <= 1.0)) {
    input.refuse("p must be in (0, 1]");
  }
  return p;
}

template <class T>
TensorSet run_as(DoorInput& input, const DoorRequest& request) {
  using S = kernels::SumOf<T>;
  const std::vector<S> weights = weights_of<S>(input);
  const std::int64_t rows = input.dim("gamma");
  const std::int64_t length = input.dim("L");
  require_on_cuda(request, length < kCudaMaxIndex && rows < kCudaMaxRows,
                  "rows of fewer than 2^31 - 1 weights, and fewer than 2^27 of them");
  std::vector<std::int32_t> mask(static_cast<std::size_t>(length));
  std::vector<S> mass(static_cast<std::size_t>(rows));
  kernels::TopPParams<S> p{.rows = rows, .length = length, .p = share_of(input)};
  p.iterations = input.integer_key("iterations", 0, kMaxIterations);
  DoorWorkspace<T> work(request);
  p.weights = work.in(weights);
  p.mask = work.out(mask);
  p.mass = work.out(mass);
  work.run(p);
  work.finish();
  TensorSet results;
  results.tensors["mask"] = tensor_of(mask, {length});
  results.tensors["mass"] = float_result(mass, {rows});
  return results;
}

TensorSet run(DoorInput& input, const DoorRequest& request) {
  return with_dtype(request.dtype, [&]<class T>() { return run_as<T>(input, request); });
}

}  // namespace

const DoorFamily kTopPDoor = {"top_p", kVariants, kInputs, kKeys, kOutputs, run};

}  // namespace versieve::engine
