// The kernel door on CUDA, through the built command: every family and variant, f32 and bf16,
// against plain loops in double where there are any, else against the door on the CPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/common/bf16.h"
#include "tests/end_to_end/door_case.h"
#include "tests/gpu/device.h"
#include "tests/support/resa_case.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;
using testing::NsaCase;
using testing::NsaCaseShape;
using testing::NsaResult;
using testing::TreeForm;

namespace {

std::vector<double> floats(const DoorRun& run, const char* name) {
  REQUIRE(run.results.find(name) != nullptr);
  return values_as<double>(*run.results.find(name), name);
}
std::vector<std::int32_t> integers(const DoorRun& run, const char* name) {
  REQUIRE(run.results.find(name) != nullptr);
  return values_as<std::int32_t>(*run.results.find(name), name);
}
DoorRun run_on(const char* backend, const TensorSet& set, const std::string& arguments) {
  const DoorRun run = run_door_on(set, arguments + " --backend " + backend);
  INFO(arguments << " on " << backend << ": " << run.command.err);
  REQUIRE(run.command.code == 0);
  return run;
}

NsaResult nsa_result(const DoorRun& run) {
  NsaResult result{.out = floats(run, "out"), .indices = integers(run, "indices")};
  if (run.results.find("importance") != nullptr) {
    result.importance = floats(run, "importance");
  }
  return result;
}

std::vector<NsaCaseShape> nsa_shapes() {
  const NsaGeometry small{.cmp_block = 8,
                          .cmp_stride = 4,
                          .sel_block = 16,
                          .sel_count = 4,
                          .init_blocks = 1,
                          .local_blocks = 2,
                          .window = 12};
  const NsaGeometry usual{.cmp_block = 32,
                          .cmp_stride = 16,
                          .sel_block = 64,
                          .sel_count = 16,
                          .init_blocks = 1,
                          .local_blocks = 2,
                          .window = 512};
  return {{.nsa = small, .context_len = 0, .nodes = 3},
          {.nsa = small, .context_len = 7, .nodes = 1},
          {.nsa = small, .context_len = 11, .nodes = 1},
          {.nsa = small, .context_len = 300, .nodes = 11},
          {.nsa = small, .head_dim = 48, .context_len = 301, .nodes = 9, .tree = TreeForm::kChain},
          {.nsa = usual, .heads = 8, .head_dim = 64, .context_len = 3000, .nodes = 1},
          {.nsa = usual, .heads = 8, .head_dim = 64, .context_len = 3000, .nodes = 33},
          {.nsa = usual, .heads = 6, .head_dim = 128, .context_len = 2111, .nodes = 20},
          {.nsa = usual,
           .heads = 8,
           .kv_heads = 1,
           .head_dim = 64,
           .context_len = 1999,
           .nodes = 70,
           .tree = TreeForm::kStar}};
}

template <class T>
void check_nsa(const NsaCaseShape& shape, std::uint64_t seed, const std::string& dtype) {
  std::mt19937_64 rng(seed);
  NsaCase c = testing::make_nsa_case(shape, rng);
  CAPTURE(dtype, shape.text());
  const auto door = [&](const char* variant) {
    return std::string("nsa_verify --dtype ") + dtype + " --variant " + variant;
  };
  const auto check = [&](const NsaCase& asked, const NsaResult& got) {
    CHECK(testing::disagreement(testing::rounded<T>(asked), got, testing::tolerance_of<T>()) == "");
  };
  check(c, nsa_result(run_on("cuda", nsa_tensors(c), door("vanilla"))));
  const NsaResult refreshed = nsa_result(run_on("cuda", nsa_tensors(c), door("refresh")));
  check(c, refreshed);
  for (const std::int64_t size : {3, 8}) {
    CAPTURE(size);
    c.shape.group_size = size;
    const NsaResult exact = nsa_result(run_on("cuda", nsa_tensors(c), door("exact")));
    CHECK(exact.out == refreshed.out);
    CHECK(exact.indices == refreshed.indices);
    CHECK(exact.importance == refreshed.importance);
  }
  c.shape.group_size = 4;
  c.shape.group_mode = GroupMode::kApprox;
  const NsaResult shared = nsa_result(run_on("cuda", nsa_tensors(c), door("approx")));
  check(c, shared);
  TensorSet set = nsa_tensors(c);
  const std::int64_t chosen = shape.nsa.sel_count;
  set.tensors["indices_in"] = tensor_of(shared.indices, {shape.nodes, shape.kv_heads, chosen});
  const NsaResult reused = nsa_result(run_on("cuda", set, door("reuse")));
  CHECK(reused.indices == shared.indices);
  CHECK(reused.importance.empty());
  c.indices_in = shared.indices;
  check(c, reused);
}

TensorSet random_logits(std::mt19937_64& rng, std::int64_t rows, std::int64_t vocabulary,
                        const char* name) {
  std::normal_distribution<double> normal(0.0, 3.0);
  std::vector<float> x(static_cast<std::size_t>(rows * vocabulary));
  for (float& value : x) {
    value = static_cast<float>(normal(rng));
  }
  TensorSet set;
  set.tensors[name] = tensor_of(x, {rows, vocabulary});
  set.metadata["temperature"] = "0.8";
  return set;
}
std::vector<float> uniforms(std::mt19937_64& rng, std::int64_t count) {
  std::vector<float> u(static_cast<std::size_t>(count));
  for (float& value : u) {
    value = static_cast<float>(rng() >> 40) * 0x1p-24F;
  }
  return u;
}

// The same decisions on both, and tau within `tolerance`.
void check_sampler(const TensorSet& set, const std::string& arguments) {
  CAPTURE(arguments);
  const DoorRun cpu = run_on("cpu", set, arguments);
  const DoorRun cuda = run_on("cuda", set, arguments);
  for (const char* name : {"accepted", "tokens", "path"}) {
    if (cpu.results.find(name) != nullptr) {
      CHECK(integers(cuda, name) == integers(cpu, name));
    }
  }
  const std::vector<double> expected = floats(cpu, "tau");
  const std::vector<double> tau = floats(cuda, "tau");
  REQUIRE(tau.size() == expected.size());
  for (std::size_t i = 0; i < tau.size(); ++i) {
    CHECK(tau[i] == Approx(expected[i]).epsilon(1e-4).margin(1e-5));
  }
}

// The same bits on both.
void check_same(const TensorSet& set, const std::string& arguments,
                const std::vector<const char*>& names) {
  CAPTURE(arguments);
  const DoorRun cpu = run_on("cpu", set, arguments);
  const DoorRun cuda = run_on("cuda", set, arguments);
  for (const char* name : names) {
    REQUIRE(cuda.results.find(name) != nullptr);
    const auto got = cuda.results.find(name)->bytes;
    const auto expected = cpu.results.find(name)->bytes;
    CHECK(std::equal(got.begin(), got.end(), expected.begin(), expected.end()));
  }
}

}  // namespace

TEST_CASE("the door's nsa_verify on CUDA") {
  if (testing::no_gpu()) {
    return;
  }
  std::uint64_t seed = 1;
  for (const NsaCaseShape& shape : nsa_shapes()) {
    if (seed % 4 == 1) {  // every other shape: each run is a process that opens the GPU
      check_nsa<float>(shape, ++seed, "f32");
    } else {
      ++seed;
    }
    check_nsa<Bf16>(shape, ++seed, "bf16");
  }
}

TEST_CASE("the door's topk on CUDA gives the CPU's bits") {
  if (testing::no_gpu()) {
    return;
  }
  std::mt19937_64 rng(3);
  constexpr std::int64_t kRows = 3;
  for (const std::int64_t length : {5, 700, 9000}) {
    for (const std::int64_t k : {1, 512}) {
      std::vector<float> scores(static_cast<std::size_t>(kRows * length));
      for (float& x : scores) {
        const int form = static_cast<int>(rng() % 16);
        x = form == 0   ? std::numeric_limits<float>::quiet_NaN()
            : form == 1 ? -std::numeric_limits<float>::infinity()
            : form == 2 ? std::numeric_limits<float>::infinity()
            : form == 3 ? -0.0F
            : form == 4 ? 0.0F
                        : static_cast<float>(static_cast<int>(rng() % 64) - 32) * 0.25F;
      }
      std::vector<std::int32_t> hint(static_cast<std::size_t>(kRows * k));
      for (std::int32_t& h : hint) {
        h = static_cast<std::int32_t>(rng() % static_cast<std::uint64_t>(length + 3)) - 1;
      }
      TensorSet set;
      set.tensors["scores"] = tensor_of(scores, {kRows, length});
      set.tensors["hint"] = tensor_of(hint, {kRows, k});
      set.metadata["k"] = std::to_string(k);
      for (const char* variant : {"sort", "radix", "gvr"}) {
        check_same(set, std::string("topk --variant ") + variant, {"indices", "values"});
      }
      check_same(set, "topk --variant gvr --dtype bf16", {"indices", "values"});
    }
  }
}

TEST_CASE("the door's samplers on CUDA decide as on the CPU") {
  if (testing::no_gpu()) {
    return;
  }
  std::mt19937_64 rng(5);
  constexpr std::int64_t kVocabulary = 1003;
  constexpr std::int64_t kDrafts = 5;
  TensorSet chain = random_logits(rng, kDrafts + 1, kVocabulary, "target_logits");
  chain.tensors["draft_logits"] =
      random_logits(rng, kDrafts, kVocabulary, "draft_logits").tensors.at("draft_logits");
  std::vector<std::int32_t> tokens(kDrafts);
  for (std::int32_t& token : tokens) {
    token = static_cast<std::int32_t>(rng() % kVocabulary);
  }
  chain.tensors["draft_tokens"] = tensor_of(tokens, {kDrafts});
  chain.tensors["uniforms"] = tensor_of(uniforms(rng, kDrafts + 1), {kDrafts + 1});
  chain.metadata["alpha"] = "-10";
  chain.metadata["beta"] = "10";
  for (const char* dtype : {"f32", "bf16"}) {
    for (const char* variant : {"baseline", "exact", "sigmoid"}) {
      check_sampler(chain, std::string("spec_sample --variant ") + variant + " --dtype " + dtype);
    }
  }
  constexpr std::int64_t kNodes = 9;
  TensorSet tree = random_logits(rng, kNodes, kVocabulary, "target_logits");
  std::vector<std::int32_t> parent{-1};
  std::vector<std::int32_t> drafted{0};
  for (std::int32_t i = 1; i < kNodes; ++i) {
    parent.push_back(static_cast<std::int32_t>(rng() % static_cast<std::uint64_t>(i)));
    drafted.push_back(i * 37);
  }
  tree.tensors["parent"] = tensor_of(parent, {kNodes});
  tree.tensors["tokens"] = tensor_of(drafted, {kNodes});
  tree.tensors["uniforms"] = tensor_of(uniforms(rng, kNodes), {kNodes});
  for (const char* temperature : {"0", "0.8"}) {
    tree.metadata["temperature"] = temperature;
    for (const char* variant : {"baseline", "exact"}) {
      check_sampler(tree, std::string("tree_sample --variant ") + variant);
    }
  }
}

TEST_CASE("the door's layer_map, top_p and block_keys on CUDA give the CPU's bits") {
  if (testing::no_gpu()) {
    return;
  }
  std::mt19937_64 rng(7);
  std::vector<double> similarity(7 * 12);
  for (double& s : similarity) {
    s = rng() % 8 == 0 ? -std::numeric_limits<double>::infinity()
                       : -static_cast<double>(rng() % 5) * 0.5;
  }
  TensorSet map;
  map.tensors["similarity"] = tensor_of(similarity, {7, 12});
  check_same(map, "layer_map", {"map", "score"});
  // Multiples of 2^-10: sums are exact in any order.
  std::vector<float> weights(5 * 777);
  for (float& w : weights) {
    w = static_cast<float>(rng() % 64) * 0x1p-10F;
  }
  TensorSet top;
  top.tensors["weights"] = tensor_of(weights, {5, 777});
  for (const char* p : {"0.5", "0.95", "1"}) {
    top.metadata = {{"p", p}, {"iterations", "20"}};
    check_same(top, "top_p", {"mask", "mass"});
  }
  TensorSet keys = random_logits(rng, 333, 2 * 48, "k");
  keys.tensors.at("k").shape = {333, 2, 48};
  keys.metadata = {{"key_block", "16"}};
  for (const char* dtype : {"f32", "bf16"}) {
    check_same(keys, std::string("block_keys --dtype ") + dtype, {"kmin", "kmax"});
  }
}

TEST_CASE("the door's resa_decode on CUDA") {
  if (testing::no_gpu()) {
    return;
  }
  for (const std::int64_t head_dim : {16, 64, 128}) {
    std::mt19937_64 rng(static_cast<std::uint64_t>(head_dim));
    testing::ResaCase c{.heads = 8, .kv_heads = 2, .head_dim = head_dim, .length = 2345};
    c.selection = {.key_block = 16, .active_ratio = 0.25, .n_min = 4, .n_local = 1};
    c = testing::make_resa_case(c, rng);
    TensorSet set;
    set.tensors["q"] = tensor_of(c.q, {c.heads, c.head_dim});
    set.tensors["k"] = tensor_of(c.k, {c.length, c.kv_heads, c.head_dim});
    set.tensors["v"] = tensor_of(c.v, {c.length, c.kv_heads, c.head_dim});
    set.metadata = {{"key_block", "16"},
                    {"active_ratio", "0.25"},
                    {"n_min", "4"},
                    {"n_local", "1"},
                    {"splits", "1"}};
    const auto check = [&](const std::string& dtype, const testing::ResaCase& rounded,
                           double norm) {
      CAPTURE(dtype, head_dim);
      const std::string door = "resa_decode --dtype " + dtype;
      const DoorRun run = run_on("cuda", set, door);
      CHECK(testing::resa_disagreement(rounded, {floats(run, "out"), integers(run, "indices")},
                                       norm, 1e-5) == "");
      TensorSet split = set;
      split.metadata["splits"] = "7";
      const DoorRun other = run_on("cuda", split, door);
      CHECK(floats(other, "out") == floats(run, "out"));
      CHECK(integers(other, "indices") == integers(run, "indices"));
    };
    check("f32", testing::rounded_case<float>(c), 1e-5);
    check("bf16", testing::rounded_case<Bf16>(c), 1e-2);
  }
}
