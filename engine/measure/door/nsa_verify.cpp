// nsa_verify at the door: one NSA layer's attention for the nodes of a draft tree.
#include <algorithm>

#include "engine/measure/door/cuda_limits.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/workspace.h"
#include "kernels/nsa_verify/input_check.h"

namespace versieve::engine {
namespace {

using kernels::NsaVerifyParams;

// Bounds that keep every table small enough to allocate, far beyond any model.
constexpr std::int64_t kMaxBlock = 1 << 20;
constexpr std::int64_t kMaxWindow = INT32_MAX;

constexpr const char* kVariants[] = {"vanilla", "refresh", "reuse", "exact", "approx"};

// What a variant asks of the kernels. `vanilla` and `refresh` verify one query a thread block.
struct Plan {
  kernels::NsaForm form = kernels::NsaForm::kFused;
  GroupMode group_mode = GroupMode::kExact;
  bool groups = false;  // by the file's group_size
  bool reuse = false;   // blocks are given, routing does not run
};

Plan plan_of(const std::string& variant) {
  if (variant == "vanilla") {
    return {.form = kernels::NsaForm::kVanilla};
  }
  if (variant == "reuse") {
    return {.reuse = true};
  }
  if (variant == "approx") {
    return {.group_mode = GroupMode::kApprox, .groups = true};
  }
  return {.groups = variant == "exact"};
}

constexpr DoorTensor kInputs[] = {{"q", "float", "N,H,d"},
                                  {"k", "float", "L,G,d"},
                                  {"v", "float", "L,G,d"},
                                  {"k_cmp", "float", "Lc,G,d"},
                                  {"v_cmp", "float", "Lc,G,d"},
                                  {"k_tree", "float", "N,G,d"},
                                  {"v_tree", "float", "N,G,d"},
                                  {"parent", "I32", "N"},
                                  {"position", "I32", "N"},
                                  {"gates", "float", "N,H,3"},
                                  {"k_cmp_tree", "float", "E,G,d", false},
                                  {"v_cmp_tree", "float", "E,G,d", false},
                                  {"cmp_tree_owner", "I32", "E", false},
                                  {"indices_in", "I32", "N,G,n", false}};
constexpr DoorKey kKeys[] = {
    {"cmp_block", "l, tokens of a compression block"},
    {"cmp_stride", "s, tokens between two compression blocks"},
    {"sel_block", "B, tokens of a selection block"},
    {"sel_count", "n, selected blocks, forced ones included"},
    {"init_blocks", "forced at the start"},
    {"local_blocks", "forced at the end, the current one included"},
    {"window", "W, tokens of the window, the own one included; 0: no window"},
    {"group_size", "C, queries of a group; reuse ignores it"}};
constexpr DoorTensor kOutputs[] = {{"out", "float", "N,H,d"},
                                   {"indices", "I32", "N,G,n"},
                                   {"importance", "float", "N,G,blocks", false}};

NsaGeometry geometry_of(const DoorInput& input) {
  return {.cmp_block = input.integer_key("cmp_block", 1, kMaxBlock),
          .cmp_stride = input.integer_key("cmp_stride", 1, kMaxBlock),
          .sel_block = input.integer_key("sel_block", 1, kMaxBlock),
          .sel_count = input.integer_key("sel_count", 1, kMaxBlock),
          .init_blocks = input.integer_key("init_blocks", 0, kMaxBlock),
          .local_blocks = input.integer_key("local_blocks", 0, kMaxBlock),
          .window = input.integer_key("window", 0, kMaxWindow)};
}

// The file's tensors in T, and what is computed from them.
template <class T>
struct NsaTensors {
  NsaGeometry nsa;
  std::vector<T> q, k, v, k_cmp, v_cmp, k_tree, v_tree, gates, k_cmp_tree, v_cmp_tree;
  std::vector<std::int32_t> parent, position, cmp_tree_owner, indices_in;
  std::int64_t group_size = 1;
  std::vector<T> out;                 // [N, H, d]
  std::vector<std::int32_t> indices;  // [N, G, n]
  // [N, G, blocks], 0 in rows where it is not defined; empty: routing does not run.
  std::vector<kernels::SumOf<T>> importance;
};

template <class T>
void read_path_local(DoorInput& input, NsaTensors<T>& tensors) {
  const char* const names[] = {"cmp_tree_owner", "k_cmp_tree", "v_cmp_tree"};
  if (std::none_of(std::begin(names), std::end(names),
                   [&](const char* name) { return input.has(name); })) {
    input.set_dim("E", 0);
    return;
  }
  tensors.cmp_tree_owner = input.integers("cmp_tree_owner", "E");
  tensors.k_cmp_tree = input.finite_floats<T>("k_cmp_tree", "E,G,d");
  tensors.v_cmp_tree = input.finite_floats<T>("v_cmp_tree", "E,G,d");
}

template <class T>
NsaTensors<T> read_tensors(DoorInput& input, const Plan& plan) {
  NsaTensors<T> tensors;
  tensors.nsa = geometry_of(input);
  if (!plan.reuse) {
    tensors.group_size = input.integer_key("group_size", 1, INT32_MAX);
  }
  tensors.q = input.finite_floats<T>("q", "N,H,d");
  tensors.k = input.finite_floats<T>("k", "L,G,d");
  tensors.v = input.finite_floats<T>("v", "L,G,d");
  tensors.k_cmp = input.finite_floats<T>("k_cmp", "Lc,G,d");
  tensors.v_cmp = input.finite_floats<T>("v_cmp", "Lc,G,d");
  tensors.k_tree = input.finite_floats<T>("k_tree", "N,G,d");
  tensors.v_tree = input.finite_floats<T>("v_tree", "N,G,d");
  tensors.gates = input.finite_floats<T>("gates", "N,H,3");
  tensors.parent = input.integers("parent", "N");
  tensors.position = input.integers("position", "N");
  read_path_local(input, tensors);
  input.require_scores_in_range(tensors.q, tensors.k, "k");
  input.require_scores_in_range(tensors.q, tensors.k_cmp, "k_cmp");
  input.require_scores_in_range(tensors.q, tensors.k_tree, "k_tree");
  input.require_scores_in_range(tensors.q, tensors.k_cmp_tree, "k_cmp_tree");
  if (plan.reuse) {
    input.set_dim("n", tensors.nsa.sel_count);
    tensors.indices_in = input.integers("indices_in", "N,G,n");
  }
  return tensors;
}

template <class T>
NsaVerifyParams<T> shape_params(const DoorInput& input, const Plan& plan,
                                const NsaTensors<T>& tensors) {
  NsaVerifyParams<T> p;
  p.nsa = tensors.nsa;
  p.form = plan.form;
  p.group_mode = plan.group_mode;
  p.group_size = plan.groups ? tensors.group_size : 1;
  p.num_heads = input.dim("H");
  p.num_kv_heads = input.dim("G");
  p.head_dim = input.dim("d");
  p.context_len = input.dim("L");
  p.num_queries = input.dim("N");
  p.num_compressed = input.dim("Lc");
  p.num_tree_compressed = input.dim("E");
  return p;
}

// The contract's rules on indices, judged on the host's own tensors.
template <class T>
void check_rules(const DoorInput& input, NsaVerifyParams<T> p, const NsaTensors<T>& tensors) {
  p.parent = tensors.parent.data();
  p.position = tensors.position.data();
  p.cmp_tree_owner = tensors.cmp_tree_owner.data();
  p.indices_in = tensors.indices_in.empty() ? nullptr : tensors.indices_in.data();
  const std::string wrong = kernels::nsa_verify_input_error(p);
  if (!wrong.empty()) {
    input.refuse(wrong);
  }
}

// Blocks that no row reaches hold no visible token, so the kernels see the end of a row instead.
std::vector<std::int32_t> blocks_within(std::vector<std::int32_t> indices, std::int64_t blocks) {
  std::replace_if(
      indices.begin(), indices.end(), [&](std::int32_t index) { return index >= blocks; }, -1);
  return indices;
}

template <class T>
void compute(const DoorRequest& request, NsaVerifyParams<T> p, NsaTensors<T>& tensors) {
  const std::vector<std::int32_t> given = blocks_within(tensors.indices_in, p.num_blocks);
  DoorWorkspace<T> work(request);
  p.q = work.in(tensors.q);
  p.k = work.in(tensors.k);
  p.v = work.in(tensors.v);
  p.k_cmp = work.in(tensors.k_cmp);
  p.v_cmp = work.in(tensors.v_cmp);
  p.k_tree = work.in(tensors.k_tree);
  p.v_tree = work.in(tensors.v_tree);
  p.k_cmp_tree = work.in(tensors.k_cmp_tree);
  p.v_cmp_tree = work.in(tensors.v_cmp_tree);
  p.gates = work.in(tensors.gates);
  p.parent = work.in(tensors.parent);
  p.position = work.in(tensors.position);
  p.cmp_tree_owner = work.in(tensors.cmp_tree_owner);
  p.indices_in = work.in(given);
  p.out = work.out(tensors.out);
  p.indices = work.out(tensors.indices);
  p.importance = work.out(tensors.importance);
  work.run(p);
  work.finish();
  for (std::size_t i = 0; i < given.size(); ++i) {  // copied as they were given
    if (tensors.indices[i] == given[i]) {
      tensors.indices[i] = tensors.indices_in[i];
    }
  }
}

template <class T>
TensorSet run_as(DoorInput& input, const DoorRequest& request) {
  const Plan plan = plan_of(request.variant);
  NsaTensors<T> tensors = read_tensors<T>(input, plan);
  NsaVerifyParams<T> p = shape_params(input, plan, tensors);
  check_rules(input, p, tensors);
  require_heads_on_cuda(request, p.num_heads, p.num_kv_heads, p.head_dim);
  const std::int32_t newest = *std::max_element(tensors.position.begin(), tensors.position.end());
  p.num_blocks = newest / p.nsa.sel_block + 1;
  const Shape out_shape = {p.num_queries, p.num_heads, p.head_dim};
  const Shape index_shape = {p.num_queries, p.num_kv_heads, p.nsa.sel_count};
  const Shape importance_shape = {p.num_queries, p.num_kv_heads, p.num_blocks};
  tensors.out.resize(static_cast<std::size_t>(p.num_queries * p.num_heads * p.head_dim));
  const std::int64_t rows = p.num_queries * p.num_kv_heads;
  tensors.indices.resize(static_cast<std::size_t>(rows * p.nsa.sel_count));
  tensors.importance.resize(plan.reuse ? 0 : static_cast<std::size_t>(rows * p.num_blocks));
  compute(request, p, tensors);
  TensorSet results;
  results.tensors["out"] = float_result(tensors.out, out_shape);
  results.tensors["indices"] = tensor_of(tensors.indices, index_shape);
  if (!plan.reuse) {
    results.tensors["importance"] = float_result(tensors.importance, importance_shape);
  }
  return results;
}

TensorSet run(DoorInput& input, const DoorRequest& request) {
  return with_dtype(request.dtype, [&]<class T>() { return run_as<T>(input, request); });
}

}  // namespace

const DoorFamily kNsaVerifyDoor = {"nsa_verify", kVariants, kInputs, kKeys, kOutputs, run};

}  // namespace versieve::engine
