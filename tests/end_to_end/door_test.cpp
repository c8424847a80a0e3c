// The kernel door end to end: right answers, shapes and types, through the built command.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/common/bf16.h"
#include "kernels/common/f16.h"
#include "tests/end_to_end/door_case.h"
#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;
using testing::NsaCase;
using testing::NsaResult;

namespace {

std::vector<double> floats(const DoorRun& run, const std::string& name) {
  REQUIRE(run.results.find(name) != nullptr);
  return values_as<double>(*run.results.find(name), name);
}
std::vector<std::int32_t> integers(const DoorRun& run, const std::string& name) {
  REQUIRE(run.results.find(name) != nullptr);
  REQUIRE(run.results.find(name)->type == StorageType::kI32);
  return values_as<std::int32_t>(*run.results.find(name), name);
}
Shape shape(const DoorRun& run, const std::string& name) {
  return run.results.find(name)->shape;
}

NsaResult nsa_result(const DoorRun& run) {
  return {.out = floats(run, "out"),
          .indices = integers(run, "indices"),
          .importance = floats(run, "importance")};
}

template <class T>
void check_nsa(const char* dtype, StorageType stored) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(dtype, seed);
    const NsaCase c = small_nsa_case(seed);
    const DoorRun run = run_door_on(nsa_tensors(c), std::string("nsa_verify --dtype ") + dtype);
    INFO(run.command.err);
    REQUIRE(run.command.code == 0);
    CHECK(run.results.find("out")->type == stored);
    CHECK(run.results.find("importance")->type == stored);
    CHECK(shape(run, "out") == Shape{6, 4, 8});
    CHECK(shape(run, "indices") == Shape{6, 2, 4});
    CHECK(shape(run, "importance") == Shape{6, 2, 3});
    CHECK(testing::disagreement(testing::rounded<T>(c), nsa_result(run),
                                testing::tolerance_of<T>()) == "");
  }
}

}  // namespace

TEST_CASE("nsa_verify agrees with plain loops in every dtype") {
  check_nsa<double>("f64", StorageType::kF64);
  check_nsa<float>("f32", StorageType::kF32);
  check_nsa<Bf16>("bf16", StorageType::kF32);
}

TEST_CASE("nsa_verify starts from nothing: L = 0 and no compressed tokens") {
  std::mt19937_64 rng(5);
  testing::NsaCaseShape s = small_nsa_case(1).shape;
  s.context_len = 0;
  s.nodes = 2;
  const NsaCase c = testing::make_nsa_case(s, rng);
  const DoorRun run = run_door_on(nsa_tensors(c), "nsa_verify --dtype f64");
  INFO(run.command.err);
  REQUIRE(run.command.code == 0);
  CHECK(testing::disagreement(c, nsa_result(run), testing::tolerance_of<double>()) == "");
}

TEST_CASE("nsa_verify reuse takes the indices as they are and routes nothing") {
  const NsaCase c = small_nsa_case(7);
  TensorSet set = nsa_tensors(c);
  const DoorRun vanilla = run_door_on(set, "nsa_verify --variant vanilla");
  REQUIRE(vanilla.command.code == 0);
  const std::vector<std::int32_t> indices = integers(vanilla, "indices");
  set.tensors["indices_in"] = tensor_of(indices, {6, 2, 4});
  set.metadata.erase("group_size");
  const DoorRun reuse = run_door_on(set, "nsa_verify --variant reuse");
  INFO(reuse.command.err);
  REQUIRE(reuse.command.code == 0);
  CHECK(integers(reuse, "indices") == indices);
  CHECK(floats(reuse, "out") == floats(vanilla, "out"));
  CHECK(reuse.results.find("importance") == nullptr);
  // Other blocks, other output: the indices are really used. Block 5 lies past every position.
  std::vector<std::int32_t> others;
  for (int row = 0; row < 12; ++row) {
    others.insert(others.end(), {1, 5, -1, -1});
  }
  set.tensors["indices_in"] = tensor_of(others, {6, 2, 4});
  const DoorRun other = run_door_on(set, "nsa_verify --variant reuse");
  REQUIRE(other.command.code == 0);
  CHECK(integers(other, "indices") == others);
  CHECK(floats(other, "out") != floats(vanilla, "out"));
}

TEST_CASE("nsa_verify gives the same bits as vanilla, refresh and exact groups of any size") {
  NsaCase c = small_nsa_case(13);
  const DoorRun vanilla = run_door_on(nsa_tensors(c), "nsa_verify --variant vanilla");
  REQUIRE(vanilla.command.code == 0);
  for (const std::int64_t size : {1, 2, 5, 100}) {
    c.shape.group_size = size;
    for (const char* variant : {"vanilla", "refresh", "exact"}) {
      CAPTURE(size, variant);
      const DoorRun run =
          run_door_on(nsa_tensors(c), std::string("nsa_verify --variant ") + variant);
      INFO(run.command.err);
      REQUIRE(run.command.code == 0);
      for (const char* name : {"out", "importance"}) {
        CHECK(floats(run, name) == floats(vanilla, name));
      }
      CHECK(integers(run, "indices") == integers(vanilla, "indices"));
    }
  }
}

template <class T>
void check_approx(const char* dtype, std::int64_t size) {
  CAPTURE(dtype, size);
  NsaCase c = many_blocks_case(17);
  c.shape.group_mode = GroupMode::kApprox;
  c.shape.group_size = size;
  const std::string more = std::string(" --dtype ") + dtype;
  TensorSet set = nsa_tensors(c);
  const DoorRun run = run_door_on(set, "nsa_verify --variant approx" + more);
  INFO(run.command.err);
  REQUIRE(run.command.code == 0);
  CHECK(testing::disagreement(testing::rounded<T>(c), nsa_result(run),
                              testing::tolerance_of<T>()) == "");
  // Approximate reuse is reuse fed with the indices of approximate routing.
  set.tensors["indices_in"] = tensor_of(integers(run, "indices"), shape(run, "indices"));
  const DoorRun reuse = run_door_on(set, "nsa_verify --variant reuse" + more);
  REQUIRE(reuse.command.code == 0);
  CHECK(floats(reuse, "out") == floats(run, "out"));
  CHECK(integers(reuse, "indices") == integers(run, "indices"));
  // The groups bite: other rows than the representatives' change.
  const DoorRun exact = run_door_on(set, "nsa_verify --variant exact" + more);
  CHECK((integers(exact, "indices") == integers(run, "indices")) == (size == 1));
}

TEST_CASE("nsa_verify approx shares the blocks of each group's newest row") {
  for (const std::int64_t size : {1, 2, 3, 8, 50}) {
    check_approx<double>("f64", size);
    check_approx<float>("f32", size);
    check_approx<Bf16>("bf16", size);
  }
}

TEST_CASE("F32 and F64 inputs of the same values give the same bits") {
  const NsaCase c = testing::rounded<float>(small_nsa_case(11));
  TensorSet narrow = nsa_tensors(c);
  for (auto& [name, tensor] : narrow.tensors) {
    if (tensor.type == StorageType::kF64) {
      const TensorView view{tensor.type, tensor.shape, tensor.bytes};
      tensor = tensor_of(values_as<float>(view, name), tensor.shape);
    }
  }
  const DoorRun a = run_door_on(narrow, "nsa_verify --threads 1");
  const DoorRun b = run_door_on(nsa_tensors(c), "nsa_verify --threads 3");
  REQUIRE(a.command.code == 0);
  REQUIRE(b.command.code == 0);
  CHECK(floats(a, "out") == floats(b, "out"));
}

TEST_CASE("unknown tensors and metadata are ignored, and --json describes the result") {
  TensorSet set = nsa_tensors(small_nsa_case(3));
  set.metadata["note"] = "none of your business";
  set.tensors["extra"] = tensor_of(std::vector<float>{NAN}, {1});
  set.tensors["indices_in"] = tensor_of(std::vector<std::int32_t>{9}, {1});  // vanilla: unknown
  const DoorRun run = run_door_on(set, "nsa_verify --json");
  REQUIRE(run.command.code == 0);
  CHECK(run.command.err.empty());
  const nlohmann::json answer = nlohmann::json::parse(run.command.out);
  CHECK(answer["family"] == "nsa_verify");
  CHECK(answer["variant"] == "vanilla");
  CHECK(answer["outputs"]["out"]["shape"] == nlohmann::json({6, 4, 8}));
}

TEST_CASE("topk orders by index, prefers the lower one among equals and keeps bits") {
  const DoorRun run = run_door_on(topk_tensors(), "topk --variant sort");
  INFO(run.command.err);
  REQUIRE(run.command.code == 0);
  CHECK(integers(run, "indices") == std::vector<std::int32_t>{1, 2, 4, 0, 1, 2});
  const std::vector<double> values = floats(run, "values");
  CHECK(values == std::vector<double>{5, 5, 3, 0, 0, 0});
  CHECK(std::signbit(values[4]));
  TensorSet wide = topk_tensors();
  wide.metadata["k"] = "6";
  const DoorRun all = run_door_on(wide, "topk");
  REQUIRE(all.command.code == 0);
  CHECK(integers(all, "indices")[5] == -1);
  CHECK(floats(all, "values")[5] == -std::numeric_limits<double>::infinity());
}

TEST_CASE("topk gives the same bits by every variant, whatever the hint says") {
  TensorSet set = topk_tensors();
  for (const std::vector<std::int32_t>& hint : {std::vector<std::int32_t>{1, 2, 4, 0, 1, 2},
                                                {-1, -1, -1, -1, -1, -1},
                                                {3, 3, 3, 4, 4, 3},
                                                {9, -7, 2147483647, 5, 0, -2147483647}}) {
    for (const char* variant : {"sort", "radix", "gvr"}) {
      for (const char* dtype : {"f64", "f32", "bf16"}) {
        set.tensors["hint"] = tensor_of(hint, {2, 3});
        CAPTURE(variant, dtype, hint);
        const DoorRun run =
            run_door_on(set, std::string("topk --variant ") + variant + " --dtype " + dtype);
        INFO(run.command.err);
        REQUIRE(run.command.code == 0);
        CHECK(integers(run, "indices") == std::vector<std::int32_t>{1, 2, 4, 0, 1, 2});
        CHECK(floats(run, "values") == std::vector<double>{5, 5, 3, 0, 0, 0});
      }
    }
  }
}

TEST_CASE("topk ranks NaN last and rounds scores first under bf16") {
  TensorSet set;
  set.metadata["k"] = "2";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float low = -std::numeric_limits<float>::infinity();
  set.tensors["scores"] = tensor_of(std::vector<float>{nan, low, -nan, 1.0f, 1.001f, low}, {1, 6});
  const DoorRun f32 = run_door_on(set, "topk");
  CHECK(integers(f32, "indices") == std::vector<std::int32_t>{3, 4});
  set.metadata["k"] = "1";
  CHECK(integers(run_door_on(set, "topk --dtype f32"), "indices") == std::vector<std::int32_t>{4});
  const DoorRun bf16 = run_door_on(set, "topk --dtype bf16");
  CHECK(integers(bf16, "indices") == std::vector<std::int32_t>{3});  // both round to 1
  CHECK(floats(bf16, "values") == std::vector<double>{1.0});
  CHECK(run_door_on(set, "topk --dtype f64").results.find("values")->type == StorageType::kF64);
}

TEST_CASE("spec_sample accepts, rejects and draws as the rules say") {
  // Row 0: target and draft agree, tau = 1, accepted at 0.999. Row 1: the target is uniform, the
  // draft puts e^5/(e^5+3) on token 0: tau = 0.25 (e^5+3)/e^5 = 0.255, rejected at 0.9. The
  // residual is uniform over tokens 1 to 3, u = 0.5 draws token 2.
  for (const char* options :
       {"f64", "f32", "bf16", "f64 --variant exact", "bf16 --variant exact"}) {
    CAPTURE(options);
    const DoorRun run =
        run_door_on(spec_sample_tensors(), std::string("spec_sample --dtype ") + options);
    INFO(run.command.err);
    REQUIRE(run.command.code == 0);
    CHECK(integers(run, "accepted") == std::vector<std::int32_t>{1});
    CHECK(integers(run, "tokens") == std::vector<std::int32_t>{3, 2});
    const std::vector<double> tau = floats(run, "tau");
    REQUIRE(tau.size() == 2);
    CHECK(tau[0] == Approx(1.0));
    CHECK(tau[1] == Approx(0.25 * (std::exp(5.0) + 3) / std::exp(5.0)).epsilon(1e-4));
  }
}

TEST_CASE("spec_sample by sigmoids tests against sigmoids") {
  TensorSet set = spec_sample_tensors();
  set.metadata["alpha"] = "-1";
  set.metadata["beta"] = "1";
  set.metadata["temperature"] = "2";
  const DoorRun run = run_door_on(set, "spec_sample --variant sigmoid");
  INFO(run.command.err);
  REQUIRE(run.command.code == 0);
  const auto sigmoid = [](double z) { return 1.0 / (1.0 + std::exp(-(z / 2.0 + 1.0) / 2.0)); };
  CHECK(floats(run, "tau")[0] == Approx(1.0));
  CHECK(floats(run, "tau")[1] == Approx(sigmoid(1.0) / sigmoid(5.0)));
  // The residual of position 1 is alike for tokens 1 to 3: u = 0.5 draws token 2.
  CHECK(integers(run, "tokens") == std::vector<std::int32_t>{3, 2});
}

TEST_CASE("spec_sample with a leading R draws R samples, padded") {
  TensorSet set = spec_sample_tensors();
  set.tensors["draft_tokens"] = tensor_of(std::vector<std::int32_t>{3, 0, 3, 0}, {2, 2});
  set.tensors["uniforms"] =
      tensor_of(std::vector<float>{0.999f, 0.9f, 0.5f, 0.0f, 0.1f, 0.0f}, {2, 3});
  const DoorRun run = run_door_on(set, "spec_sample --variant baseline");
  INFO(run.command.err);
  REQUIRE(run.command.code == 0);
  CHECK(integers(run, "accepted") == std::vector<std::int32_t>{1, 2});
  CHECK(integers(run, "tokens") == std::vector<std::int32_t>{3, 2, -1, 3, 0, 0});
  CHECK(shape(run, "tokens") == Shape{2, 3});
  CHECK(shape(run, "tau") == Shape{2, 2});
}

TEST_CASE("spec_sample of B sequences is that of each of them alone") {
  const TensorSet one = spec_sample_tensors();
  TensorSet two = one;
  two.tensors["target_logits"] =
      tensor_of(std::vector<float>{0, 1, 2, 3, 1, 1, 1, 1, 3, 2, 1, 0,  //
                                   9, 0, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0},
                {2, 3, 4});
  two.tensors["draft_logits"] =
      tensor_of(std::vector<float>{0, 1, 2, 3, 5, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0, 0}, {2, 2, 4});
  two.tensors["draft_tokens"] = tensor_of(std::vector<std::int32_t>{3, 0, 0, 1}, {2, 2});
  two.tensors["uniforms"] =
      tensor_of(std::vector<float>{0.999f, 0.9f, 0.5f, 0.5f, 0.5f, 0.5f}, {2, 3});
  for (const char* variant : {"baseline", "exact"}) {
    const std::string arguments = std::string("spec_sample --variant ") + variant;
    const DoorRun alone = run_door_on(one, arguments);
    const DoorRun run = run_door_on(two, arguments);
    INFO(run.command.err);
    REQUIRE(run.command.code == 0);
    CHECK(integers(run, "accepted") == std::vector<std::int32_t>{1, 2});
    CHECK(shape(run, "accepted") == Shape{2});
    CHECK(integers(run, "tokens") == std::vector<std::int32_t>{3, 2, -1, 0, 1, 2});
    CHECK(shape(run, "tokens") == Shape{2, 3});
    const std::vector<double> tau = floats(run, "tau");
    CHECK(shape(run, "tau") == Shape{2, 2});
    CHECK(std::vector<double>(tau.begin(), tau.begin() + 2) == floats(alone, "tau"));
  }
  // Each with R samples.
  two.tensors["draft_tokens"] =
      tensor_of(std::vector<std::int32_t>{3, 0, 3, 0, 0, 1, 0, 1}, {2, 2, 2});
  two.tensors["uniforms"] = tensor_of(
      std::vector<float>{0.999f, 0.9f, 0.5f, 0, 0.1f, 0, 0.5f, 0.5f, 0.5f, 0.1f, 0.1f, 0.1f},
      {2, 2, 3});
  const DoorRun many = run_door_on(two, "spec_sample");
  INFO(many.command.err);
  REQUIRE(many.command.code == 0);
  CHECK(integers(many, "accepted") == std::vector<std::int32_t>{1, 2, 2, 2});
  CHECK(shape(many, "accepted") == Shape{2, 2});
  CHECK(integers(many, "tokens") == std::vector<std::int32_t>{3, 2, -1, 3, 0, 0, 0, 1, 2, 0, 1, 2});
  CHECK(shape(many, "tokens") == Shape{2, 2, 3});
}

TEST_CASE("spec_sample takes logits in halves as another engine captured them, cuts and batches") {
  std::mt19937_64 rng(11);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  const auto draw = [&](std::size_t count) {
    std::vector<float> values(count);
    std::generate(values.begin(), values.end(), [&] { return normal(rng); });
    return values;
  };
  const auto halves = [](std::vector<float> values, StorageType type) {
    std::vector<Bf16> bits;  // two bytes each, of either kind
    for (const float v : values) {
      bits.push_back({type == StorageType::kF16 ? to_f16(v).bits : to_bf16(v).bits});
    }
    return bits;
  };
  const std::vector<float> target = draw(2 * 4 * 60), draft = draw(2 * 3 * 60);
  TensorSet set = spec_sample_tensors();
  set.tensors["draft_tokens"] = tensor_of(std::vector<std::int32_t>{3, 0, 9, 59, 1, 2}, {2, 3});
  set.tensors["uniforms"] =
      tensor_of(std::vector<float>{0.1f, 0.2f, 0.3f, 0.4f, 0.05f, 0.6f, 0.7f, 0.8f}, {2, 4});
  for (const auto& [type, dtype] :
       {std::pair{StorageType::kF16, "f16"}, {StorageType::kBf16, "bf16"}}) {
    for (const bool cut : {false, true}) {
      set.metadata["top_k"] = cut ? "20" : "0";
      set.metadata["top_p"] = cut ? "0.9" : "1";
      set.metadata["min_p"] = cut ? "0.01" : "0";
      set.tensors["target_logits"] = tensor_of(target, {2, 4, 60});
      set.tensors["draft_logits"] = tensor_of(draft, {2, 3, 60});
      const std::string line = std::string("spec_sample --dtype ") + dtype;
      const DoorRun rounded = run_door_on(set, line);
      set.tensors["target_logits"] = tensor_of(halves(target, type), {2, 4, 60});
      set.tensors["draft_logits"] = tensor_of(halves(draft, type), {2, 3, 60});
      set.tensors["target_logits"].type = set.tensors["draft_logits"].type = type;
      const DoorRun stored = run_door_on(set, line);
      CAPTURE(line, cut, stored.command.err);
      REQUIRE(rounded.command.code == 0);
      REQUIRE(stored.command.code == 0);
      for (const char* name : {"accepted", "tokens"}) {
        CHECK(integers(stored, name) == integers(rounded, name));
      }
      CHECK(floats(stored, "tau") == floats(rounded, "tau"));
      CHECK(shape(stored, "tokens") == Shape{2, 4});
    }
  }
}

TEST_CASE("spec_sample without drafts is the bonus draw alone") {
  TensorSet set = spec_sample_tensors();
  set.metadata["temperature"] = "0";
  set.tensors["target_logits"] = tensor_of(std::vector<float>{0, 1, 3, 3}, {1, 4});
  set.tensors["draft_logits"] = tensor_of(std::vector<float>{}, {0, 4});
  set.tensors["draft_tokens"] = tensor_of(std::vector<std::int32_t>{}, {0});
  set.tensors["uniforms"] = tensor_of(std::vector<float>{0.99f}, {1});
  const DoorRun run = run_door_on(set, "spec_sample");
  INFO(run.command.err);
  REQUIRE(run.command.code == 0);
  CHECK(integers(run, "accepted") == std::vector<std::int32_t>{0});
  CHECK(integers(run, "tokens") == std::vector<std::int32_t>{2});  // the lowest argmax
  CHECK(shape(run, "tau") == Shape{0});
}

TEST_CASE("tree_sample walks the tree greedily at temperature 0") {
  // The root's argmax is token 1, its second child (node 2); that node's is token 3, its child
  // (node 3); that node's is token 2, the draw.
  for (const char* variant : {"baseline", "exact"}) {
    CAPTURE(variant);
    const DoorRun run =
        run_door_on(tree_sample_tensors(), std::string("tree_sample --variant ") + variant);
    INFO(run.command.err);
    REQUIRE(run.command.code == 0);
    CHECK(integers(run, "accepted") == std::vector<std::int32_t>{2});
    CHECK(integers(run, "tokens") == std::vector<std::int32_t>{1, 3, 2});
    CHECK(integers(run, "path") == std::vector<std::int32_t>{2, 3});
    CHECK(floats(run, "tau") == std::vector<double>{1, 0, 1, 1});
  }
}

TEST_CASE("top_k, top_p and min_p cut the rows of both models, in f16 as in f32") {
  // Position 0 keeps token 3 of both; position 1 all equal tokens of the target, token 0 of the
  // draft.
  for (const char* cut : {"top_k", "top_p", "min_p"}) {
    for (const char* dtype : {"f64", "f32", "bf16", "f16"}) {
      TensorSet set = spec_sample_tensors();
      set.metadata[cut] = std::string(cut) == "top_k"   ? "1"
                          : std::string(cut) == "top_p" ? "0.6"
                                                        : "0.5";
      CAPTURE(cut, dtype);
      const DoorRun run = run_door_on(set, std::string("spec_sample --dtype ") + dtype);
      INFO(run.command.err);
      REQUIRE(run.command.code == 0);
      CHECK(integers(run, "tokens") == std::vector<std::int32_t>{3, 2});
      CHECK(floats(run, "tau") == std::vector<double>{1, 0.25});
    }
  }
}

TEST_CASE("tree_sample with a leading R pads tokens and path") {
  TensorSet set = tree_sample_tensors();
  set.tensors["tokens"] = tensor_of(std::vector<std::int32_t>{0, 2, 1, 3, 0, 2, 3, 3}, {2, 4});
  set.tensors["uniforms"] = tensor_of(std::vector<float>(8, 0.5f), {2, 4});
  const DoorRun run = run_door_on(set, "tree_sample --dtype bf16");
  INFO(run.command.err);
  REQUIRE(run.command.code == 0);
  CHECK(integers(run, "accepted") == std::vector<std::int32_t>{2, 0});
  CHECK(integers(run, "tokens") == std::vector<std::int32_t>{1, 3, 2, -1, 1, -1, -1, -1});
  CHECK(integers(run, "path") == std::vector<std::int32_t>{2, 3, -1, -1, -1, -1, -1, -1});
}

TEST_CASE("--list names every family with its variants, tensors and metadata") {
  const CommandResult list = run_versieve("kernel --list --json");
  REQUIRE(list.code == 0);
  const nlohmann::json families = nlohmann::json::parse(list.out)["families"];
  REQUIRE(families.size() == 8);
  CHECK(families[0]["family"] == "nsa_verify");
  CHECK(families[0]["variants"] ==
        nlohmann::json({"vanilla", "refresh", "reuse", "exact", "approx"}));
  CHECK(families[0]["tensors"][0]["shape"] == "[N,H,d]");
  CHECK(contains(run_versieve("kernel --list").out, "spec_sample: baseline exact sigmoid"));
}
