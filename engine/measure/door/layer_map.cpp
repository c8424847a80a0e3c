// layer_map at the door: which draft layer speaks for each verifier layer.
#include <cmath>
#include <limits>

#include "engine/measure/door/cuda_limits.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/workspace.h"

namespace versieve::engine {
namespace {

constexpr const char* kVariants[] = {"default"};
constexpr DoorTensor kInputs[] = {{"similarity", "float", "m,n"}};
constexpr DoorTensor kOutputs[] = {{"map", "I32", "n"}, {"score", "float", "1"}};

// -infinity forbids a pair; NaN and +infinity are refused. Kept as stored: a similarity is no
// tensor that --dtype rounds.
std::vector<double> similarities(DoorInput& input) {
  std::vector<double> values = input.floats<double>("similarity", "m,n");
  input.require_at_least("m", 1);
  input.require_at_least("n", 1);
  for (const double value : values) {
    if (std::isnan(value) || value == std::numeric_limits<double>::infinity()) {
      input.refuse("tensor 'similarity' holds NaN or +infinity");
    }
  }
  return values;
}

template <class T>
TensorSet run_as(DoorInput& input, const DoorRequest& request) {
  const std::vector<double> similarity = similarities(input);
  require_on_cuda(request, input.dim("m") * input.dim("n") <= kCudaMaxIndex,
                  "fewer than 2^31 pairs of layers");
  std::vector<std::int32_t> map(static_cast<std::size_t>(input.dim("n")));
  std::vector<double> score(1);
  DoorWorkspace<T> work(request);
  const kernels::LayerMapParams p{.draft_layers = input.dim("m"),
                                  .verifier_layers = input.dim("n"),
                                  .similarity = work.in(similarity),
                                  .map = work.out(map),
                                  .score = work.out(score)};
  work.run(p);
  work.finish();
  if (map[0] < 0) {
    throw Error(ExitCode::kAnswerNo,
                "layer_map: every monotone map takes a pair whose similarity is -infinity");
  }
  TensorSet results;
  results.tensors["map"] = tensor_of(map, {input.dim("n")});
  const std::vector<kernels::SumOf<T>> sum{static_cast<kernels::SumOf<T>>(score[0])};
  results.tensors["score"] = float_result(sum, {1});
  return results;
}

TensorSet run(DoorInput& input, const DoorRequest& request) {
  return with_dtype(request.dtype, [&]<class T>() { return run_as<T>(input, request); });
}

}  // namespace

const DoorFamily kLayerMapDoor = {"layer_map", kVariants, kInputs, {}, kOutputs, run};

}  // namespace versieve::engine
