// What the door does not hand to CUDA is an answer "no" with its sentence, on any machine; whatever
// else is legal is not refused.
#include <catch2/catch.hpp>

#include "engine/measure/door/cuda_limits.h"
#include "tests/end_to_end/door_case.h"
#include "tests/support/door_fuzz_cases.h"

using namespace versieve;
using engine::tensor_of;
using engine::TensorSet;
using testing::DoorAnswer;
using testing::DoorCase;

namespace {

std::vector<float> zeros(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count));
}

DoorAnswer on_cuda(const std::string& family, const std::string& variant, TensorSet input) {
  const DoorCase c{.family = family, .variant = variant, .dtype = "f32", .input = std::move(input)};
  return testing::answer_of(c, "cuda", c.dtype);
}
void check_refused(const DoorAnswer& answer, const std::string& part) {
  CAPTURE(answer.sentence);
  CHECK(answer.code == ExitCode::kAnswerNo);
  CHECK(answer.sentence.find(part) != std::string::npos);
}

// One token of as many KV heads as query heads.
TensorSet one_token(std::int64_t heads, std::int64_t head_dim) {
  TensorSet set;
  set.tensors["q"] = tensor_of(zeros(heads * head_dim), {heads, head_dim});
  set.tensors["k"] = tensor_of(zeros(heads * head_dim), {1, heads, head_dim});
  set.tensors["v"] = set.tensors["k"];
  set.metadata = {{"key_block", "16"},
                  {"active_ratio", "1"},
                  {"n_min", "0"},
                  {"n_local", "0"},
                  {"splits", "1"}};
  return set;
}

testing::NsaCase lone_node(std::int64_t heads, std::int64_t head_dim) {
  testing::NsaCase c = test::small_nsa_case(1);
  testing::NsaCaseShape shape = c.shape;
  shape.heads = shape.kv_heads = heads;
  shape.head_dim = head_dim;
  shape.context_len = 0;
  shape.nodes = 1;
  std::mt19937_64 rng(1);
  return testing::make_nsa_case(shape, rng);
}

}  // namespace

TEST_CASE("CUDA refuses head sizes, groups and KV heads beyond its own") {
  check_refused(on_cuda("resa_decode", "", one_token(2, 24)), "d = 24");
  check_refused(on_cuda("resa_decode", "", one_token(2, 144)), "d = 144");
  check_refused(on_cuda("resa_decode", "", one_token(engine::kCudaMaxKvHeads + 1, 16)),
                "G = 65536");
  check_refused(on_cuda("nsa_verify", "exact", test::nsa_tensors(lone_node(2, 8))), "d = 8");
  check_refused(
      on_cuda("nsa_verify", "exact", test::nsa_tensors(lone_node(engine::kCudaMaxKvHeads + 1, 16))),
      "G = 65536");
  TensorSet group = one_token(17, 16);
  group.tensors["k"] = tensor_of(zeros(16), {1, 1, 16});
  group.tensors["v"] = group.tensors["k"];
  check_refused(on_cuda("resa_decode", "", group), "H/G = 17");
}

TEST_CASE("CUDA refuses samplers and rows beyond its own") {
  TensorSet tree;
  const std::int64_t nodes = engine::kCudaMaxNodes + 1;
  std::vector<std::int32_t> parent(static_cast<std::size_t>(nodes));
  parent[0] = -1;
  tree.tensors["target_logits"] = tensor_of(zeros(nodes), {nodes, 1});
  tree.tensors["parent"] = tensor_of(parent, {nodes});
  parent[0] = 0;
  tree.tensors["tokens"] = tensor_of(parent, {nodes});
  tree.tensors["uniforms"] = tensor_of(zeros(nodes), {nodes});
  tree.metadata["temperature"] = "1";
  check_refused(on_cuda("tree_sample", "exact", tree), "4096 nodes");

  TensorSet chain;
  const std::int64_t gamma = engine::kCudaMaxGamma;
  chain.tensors["target_logits"] = tensor_of(zeros(gamma + 1), {gamma + 1, 1});
  chain.tensors["draft_logits"] = tensor_of(zeros(gamma), {gamma, 1});
  chain.tensors["draft_tokens"] =
      tensor_of(std::vector<std::int32_t>(static_cast<std::size_t>(gamma)), {gamma});
  chain.tensors["uniforms"] = tensor_of(zeros(gamma + 1), {gamma + 1});
  chain.metadata["temperature"] = "1";
  check_refused(on_cuda("spec_sample", "exact", chain), "gamma below 2^20");

  TensorSet rows;  // without a weight, so that the file is small
  rows.tensors["weights"] = tensor_of(zeros(0), {engine::kCudaMaxRows, 0});
  rows.metadata = {{"p", "0.5"}, {"iterations", "8"}};
  check_refused(on_cuda("top_p", "", rows), "2^27");
}

TEST_CASE("CUDA does not refuse block_keys of rows that are no whole 16-byte words") {
  TensorSet set;
  set.tensors["k"] = tensor_of(zeros(5 * 3 * 7), {5, 3, 7});
  set.metadata["key_block"] = "2";
  const DoorAnswer answer = on_cuda("block_keys", "", set);
  CAPTURE(answer.sentence);
  CHECK((answer.code == ExitCode::kDone || answer.code == ExitCode::kEnvironment));
}

TEST_CASE("reuse of blocks that no row reaches attends nothing there and copies them") {
  const testing::NsaCase c = test::small_nsa_case(3);
  const std::int64_t rows = c.shape.nodes * c.shape.kv_heads;
  const auto reuse_of = [&](std::int32_t third, std::int32_t fourth) {
    DoorCase door{.family = "nsa_verify", .variant = "reuse", .input = test::nsa_tensors(c)};
    std::vector<std::int32_t> indices;
    for (std::int64_t row = 0; row < rows; ++row) {
      indices.insert(indices.end(), {0, 2, third, fourth});
    }
    door.input.tensors["indices_in"] =
        tensor_of(indices, {c.shape.nodes, c.shape.kv_heads, c.shape.nsa.sel_count});
    const DoorAnswer answer = testing::answer_of(door, "cpu", "f32");
    REQUIRE(answer.code == ExitCode::kDone);
    CHECK(testing::integers_of(answer.results, "indices") == indices);
    return testing::floats_of(answer.results, "out");
  };
  CHECK(reuse_of(1000, INT32_MAX) == reuse_of(-1, -1));
}
