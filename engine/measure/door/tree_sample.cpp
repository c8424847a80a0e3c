// tree_sample at the door: speculative sampling of a tree of deterministic proposals.
#include "engine/measure/door/cuda_limits.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/sampling.h"
#include "engine/measure/door/workspace.h"

namespace versieve::engine {
namespace {

constexpr const char* kVariants[] = {"baseline", "exact"};
constexpr DoorTensor kInputs[] = {{"target_logits", "float", "N,V"},
                                  {"parent", "I32", "N"},
                                  {"tokens", "I32", "[R,]N"},
                                  {"uniforms", "float", "[R,]N"}};
constexpr DoorKey kKeys[] = {
    {"temperature", "T >= 0; 0 is one-hot at the lowest argmax"},
    {"top_k", "optional: of each row the k largest logits; 0 is all"},
    {"top_p", "optional, in (0, 1]: of those the fewest that have this mass"},
    {"min_p", "optional, in [0, 1]: of those what is as likely as this share of the likeliest"}};
constexpr DoorTensor kOutputs[] = {{"accepted", "I32", "1 or R"},
                                   {"tokens", "I32", "accepted+1 or R,N"},
                                   {"path", "I32", "accepted or R,N"},
                                   {"tau", "float", "[R,]N"}};

template <class T>
struct Tree {
  bool many = false;  // with a leading R
  std::vector<T> target;
  std::vector<std::int32_t> parent, tokens;
  std::vector<kernels::SumOf<T>> uniforms;
  double temperature = 1.0;
};

void check_parents(const DoorInput& input, const std::vector<std::int32_t>& parent) {
  if (parent[0] != -1) {
    input.refuse("node 0 must be the root (parent -1)");
  }
  for (std::size_t i = 1; i < parent.size(); ++i) {
    if (parent[i] < 0 || parent[i] >= static_cast<std::int64_t>(i)) {
      input.refuse("parent[" + std::to_string(i) + "] must name an earlier node");
    }
  }
}

template <class T>
Tree<T> read_tree(DoorInput& input) {
  Tree<T> tree;
  tree.many = input.rank("tokens") == 2;
  const std::string leading = tree.many ? "R," : "";
  if (!tree.many) {
    input.set_dim("R", 1);
  }
  tree.target = logits<T>(input, "target_logits", "N,V");
  input.require_at_least("N", 1);
  input.require_at_least("V", 1);
  tree.parent = input.integers("parent", "N");
  check_parents(input, tree.parent);
  tree.tokens = vocabulary_tokens(input, "tokens", leading + "N");
  input.require_at_least("R", 1);
  tree.uniforms = below_one<kernels::SumOf<T>>(unit_numbers(input, "uniforms", leading + "N"));
  tree.temperature = temperature(input);
  return tree;
}

template <class T>
TensorSet run_as(DoorInput& input, const DoorRequest& request) {
  const Tree<T> tree = read_tree<T>(input);
  kernels::TreeSampleParams<T> p;
  p.variant = request.variant == "baseline" ? kernels::TreeSampleVariant::kBaseline
                                            : kernels::TreeSampleVariant::kExact;
  p.samples = input.dim("R");
  p.num_nodes = input.dim("N");
  p.vocab = input.dim("V");
  p.temperature = tree.temperature;
  p.truncation = truncation(input);
  require_on_cuda(request, p.vocab < kCudaMaxVocab && p.num_nodes <= kCudaMaxNodes,
                  "a vocabulary below 2^30 and at most 4096 nodes");
  std::vector<std::int32_t> accepted(static_cast<std::size_t>(p.samples));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(p.samples * p.num_nodes));
  std::vector<std::int32_t> path(tokens.size());
  std::vector<kernels::SumOf<T>> tau(tokens.size());
  DoorWorkspace<T> work(request);
  p.target_logits = work.in(tree.target);
  p.parent = work.in(tree.parent);
  p.token = work.in(tree.tokens);
  p.uniforms = work.in(tree.uniforms);
  p.accepted = work.out(accepted);
  p.tokens = work.out(tokens);
  p.path = work.out(path);
  p.tau = work.out(tau);
  work.run(p);
  work.finish();
  TensorSet results;
  results.tensors["accepted"] = tensor_of(accepted, {p.samples});
  if (tree.many) {
    results.tensors["tokens"] = tensor_of(tokens, {p.samples, p.num_nodes});
    results.tensors["path"] = tensor_of(path, {p.samples, p.num_nodes});
    results.tensors["tau"] = float_result(tau, {p.samples, p.num_nodes});
  } else {
    tokens.resize(static_cast<std::size_t>(accepted[0]) + 1);
    path.resize(static_cast<std::size_t>(accepted[0]));
    results.tensors["tokens"] = tensor_of(tokens, {accepted[0] + 1});
    results.tensors["path"] = tensor_of(path, {accepted[0]});
    results.tensors["tau"] = float_result(tau, {p.num_nodes});
  }
  return results;
}

TensorSet run(DoorInput& input, const DoorRequest& request) {
  return with_logits_dtype(request.dtype, [&]<class T>() { return run_as<T>(input, request); });
}

}  // namespace

const DoorFamily kTreeSampleDoor = {"tree_sample", kVariants, kInputs, kKeys, kOutputs, run};

}  // namespace versieve::engine
