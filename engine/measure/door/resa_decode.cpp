// resa_decode at the door: one decoding query over the blocks that it selects. The block keys are
// made here from k, as the engine keeps them.
#include <string>

#include "engine/measure/door/cuda_limits.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/resa.h"
#include "engine/measure/door/workspace.h"

namespace versieve::engine {
namespace {

using kernels::BlockKeysParams;
using kernels::ResaDecodeParams;

constexpr const char* kVariants[] = {"default"};
constexpr DoorTensor kInputs[] = {
    {"q", "float", "H,d"}, {"k", "float", "L,G,d"}, {"v", "float", "L,G,d"}};
constexpr DoorKey kKeys[] = {{"key_block", "b, tokens of a block"},
                             {"active_ratio", "p, the active fraction of the blocks, in (0, 1]"},
                             {"n_min", "blocks attended at least"},
                             {"n_local", "newest blocks, always attended"},
                             {"splits", "parts a KV head's blocks are cut into; changes no bit"}};
constexpr DoorTensor kOutputs[] = {{"out", "float", "H,d"}, {"indices", "I32", "G,count"}};

template <class T>
struct ResaTensors {
  std::vector<T> q, k, v, kmin, kmax, out;
  std::vector<std::int32_t> indices;
};

kernels::ResaSelection selection_of(const DoorInput& input) {
  kernels::ResaSelection selection;
  selection.key_block = input.integer_key("key_block", 1, kMaxKeyBlock);
  selection.active_ratio = input.number_key("active_ratio");
  if (!(selection.active_ratio > 0.0 && selection.active_ratio <= 1.0)) {
    input.refuse("the metadata key 'active_ratio' must be above 0 and at most 1");
  }
  selection.n_min = input.integer_key("n_min", 0, INT32_MAX);
  selection.n_local = input.integer_key("n_local", 0, INT32_MAX);
  return selection;
}

template <class T>
ResaDecodeParams<T> read_shape(DoorInput& input, ResaTensors<T>& tensors) {
  ResaDecodeParams<T> p;
  p.selection = selection_of(input);
  p.splits = input.integer_key("splits", 1, INT32_MAX);
  tensors.q = input.finite_floats<T>("q", "H,d");
  tensors.k = input.finite_floats<T>("k", "L,G,d");
  tensors.v = input.finite_floats<T>("v", "L,G,d");
  input.require_scores_in_range(tensors.q, tensors.k, "k");
  for (const char* letter : {"H", "G", "d", "L"}) {
    input.require_at_least(letter, 1);
  }
  p.num_heads = input.dim("H");
  p.num_kv_heads = input.dim("G");
  p.head_dim = input.dim("d");
  p.context_len = input.dim("L");
  if (p.num_heads % p.num_kv_heads != 0) {
    input.refuse("G = " + std::to_string(p.num_kv_heads) +
                 " does not divide H = " + std::to_string(p.num_heads));
  }
  return p;
}

template <class T>
TensorSet run_as(DoorInput& input, const DoorRequest& request) {
  ResaTensors<T> tensors;
  ResaDecodeParams<T> p = read_shape(input, tensors);
  require_heads_on_cuda(request, p.num_heads, p.num_kv_heads, p.head_dim);
  require_on_cuda(request, p.context_len < kCudaMaxIndex, "fewer than 2^31 - 1 tokens");
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  tensors.kmin.resize(static_cast<std::size_t>(p.block_count() * width));
  tensors.kmax.resize(tensors.kmin.size());
  tensors.out.resize(tensors.q.size());
  tensors.indices.resize(static_cast<std::size_t>(p.num_kv_heads * p.active_count()));
  DoorWorkspace<T> work(request);
  BlockKeysParams<T> keys{.num_kv_heads = p.num_kv_heads,
                          .head_dim = p.head_dim,
                          .key_block = p.selection.key_block,
                          .length = p.context_len};
  keys.k = work.in(tensors.k);
  keys.kmin = work.out(tensors.kmin);
  keys.kmax = work.out(tensors.kmax);
  work.run(keys);
  p.q = work.in(tensors.q);
  p.k = keys.k;
  p.v = work.in(tensors.v);
  p.kmin = keys.kmin;
  p.kmax = keys.kmax;
  p.out = work.out(tensors.out);
  p.indices = work.out(tensors.indices);
  work.run(p);
  work.finish();
  TensorSet results;
  results.tensors["out"] = float_result(tensors.out, {p.num_heads, p.head_dim});
  results.tensors["indices"] = tensor_of(tensors.indices, {p.num_kv_heads, p.active_count()});
  return results;
}

TensorSet run(DoorInput& input, const DoorRequest& request) {
  return with_dtype(request.dtype, [&]<class T>() { return run_as<T>(input, request); });
}

}  // namespace

const DoorFamily kResaDecodeDoor = {"resa_decode", kVariants, kInputs, kKeys, kOutputs, run};

}  // namespace versieve::engine
