#include "tests/end_to_end/door_case.h"

#include <random>

namespace versieve::test {

using engine::tensor_of;
using engine::TensorSet;
using testing::NsaCase;
using testing::NsaCaseShape;

TensorSet nsa_tensors(const NsaCase& c) {
  const NsaCaseShape& s = c.shape;
  const std::int64_t lc = compressed_count(s.nsa, s.context_len);
  TensorSet set;
  set.tensors["q"] = tensor_of(c.q, {s.nodes, s.heads, s.head_dim});
  set.tensors["k"] = tensor_of(c.k, {s.context_len, s.kv_heads, s.head_dim});
  set.tensors["v"] = tensor_of(c.v, {s.context_len, s.kv_heads, s.head_dim});
  set.tensors["k_cmp"] = tensor_of(c.k_cmp, {lc, s.kv_heads, s.head_dim});
  set.tensors["v_cmp"] = tensor_of(c.v_cmp, {lc, s.kv_heads, s.head_dim});
  set.tensors["k_tree"] = tensor_of(c.k_tree, {s.nodes, s.kv_heads, s.head_dim});
  set.tensors["v_tree"] = tensor_of(c.v_tree, {s.nodes, s.kv_heads, s.head_dim});
  set.tensors["gates"] = tensor_of(c.gates, {s.nodes, s.heads, 3});
  set.tensors["parent"] = tensor_of(c.parent, {s.nodes});
  set.tensors["position"] = tensor_of(c.position, {s.nodes});
  const std::int64_t e = static_cast<std::int64_t>(c.owner.size());
  if (e > 0) {
    set.tensors["k_cmp_tree"] = tensor_of(c.k_cmp_tree, {e, s.kv_heads, s.head_dim});
    set.tensors["v_cmp_tree"] = tensor_of(c.v_cmp_tree, {e, s.kv_heads, s.head_dim});
    set.tensors["cmp_tree_owner"] = tensor_of(c.owner, {e});
  }
  const std::pair<const char*, std::int64_t> keys[] = {
      {"cmp_block", s.nsa.cmp_block},     {"cmp_stride", s.nsa.cmp_stride},
      {"sel_block", s.nsa.sel_block},     {"sel_count", s.nsa.sel_count},
      {"init_blocks", s.nsa.init_blocks}, {"local_blocks", s.nsa.local_blocks},
      {"window", s.nsa.window},           {"group_size", s.group_size}};
  for (const auto& [key, value] : keys) {
    set.metadata[key] = std::to_string(value);
  }
  return set;
}

NsaCase small_nsa_case(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  NsaCaseShape shape;
  shape.nsa = {.cmp_block = 8,
               .cmp_stride = 4,
               .sel_block = 16,
               .sel_count = 4,
               .init_blocks = 1,
               .local_blocks = 2,
               .window = 12};
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 8;
  shape.context_len = 40;
  shape.nodes = 6;
  shape.tree = testing::TreeForm::kChain;
  return testing::make_nsa_case(shape, rng);
}

NsaCase many_blocks_case(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  NsaCaseShape shape = small_nsa_case(seed).shape;
  shape.context_len = 300;
  shape.nodes = 11;
  shape.tree = testing::TreeForm::kRandom;
  return testing::make_nsa_case(shape, rng);
}

TensorSet topk_tensors() {
  TensorSet set;
  set.metadata["k"] = "3";
  set.tensors["scores"] = tensor_of(std::vector<float>{1, 5, 5, -2, 3, 0, -0.0f, 0, 0, -1}, {2, 5});
  return set;
}

TensorSet spec_sample_tensors() {
  TensorSet set;
  set.metadata["temperature"] = "1";
  set.tensors["target_logits"] =
      tensor_of(std::vector<float>{0, 1, 2, 3, 1, 1, 1, 1, 3, 2, 1, 0}, {3, 4});
  set.tensors["draft_logits"] = tensor_of(std::vector<float>{0, 1, 2, 3, 5, 0, 0, 0}, {2, 4});
  set.tensors["draft_tokens"] = tensor_of(std::vector<std::int32_t>{3, 0}, {2});
  set.tensors["uniforms"] = tensor_of(std::vector<float>{0.999f, 0.9f, 0.5f}, {3});
  return set;
}

TensorSet tree_sample_tensors() {
  TensorSet set;
  set.metadata["temperature"] = "0";
  set.tensors["target_logits"] =
      tensor_of(std::vector<float>{0, 9, 0, 0, 9, 0, 0, 0, 0, 0, 0, 9, 0, 0, 9, 0}, {4, 4});
  set.tensors["parent"] = tensor_of(std::vector<std::int32_t>{-1, 0, 0, 2}, {4});
  set.tensors["tokens"] = tensor_of(std::vector<std::int32_t>{0, 2, 1, 3}, {4});
  set.tensors["uniforms"] = tensor_of(std::vector<float>{0.5f, 0.5f, 0.5f, 0.5f}, {4});
  return set;
}

DoorRun run_door_on(const TensorSet& input, const std::string& arguments,
                    const std::string& before) {
  const TempFolder folder;
  const std::filesystem::path in = folder / "in.safetensors";
  const std::filesystem::path out = folder / "out.safetensors";
  engine::write_safetensors(in, input);
  DoorRun run;
  run.command = run_versieve(
      "kernel " + arguments + " --in " + in.string() + " --out " + out.string(), before);
  run.wrote = std::filesystem::exists(out);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    run.beside += entry.path() != in && entry.path() != out ? 1 : 0;
  }
  if (run.wrote) {
    run.results = engine::SafetensorsFile::read(out);
  }
  return run;
}

}  // namespace versieve::test
