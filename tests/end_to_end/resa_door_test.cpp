// The door's block_keys and resa_decode through the built command: answers, shapes, refusals.
#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "tests/end_to_end/door_case.h"
#include "tests/support/errors.h"
#include "tests/support/resa_case.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;
using testing::ResaAnswer;
using testing::ResaCase;

namespace {

TensorSet tensors_of(const ResaCase& c, const char* ratio, const char* splits) {
  TensorSet set;
  set.tensors["q"] = tensor_of(c.q, {c.heads, c.head_dim});
  set.tensors["k"] = tensor_of(c.k, {c.length, c.kv_heads, c.head_dim});
  set.tensors["v"] = tensor_of(c.v, {c.length, c.kv_heads, c.head_dim});
  set.metadata["key_block"] = std::to_string(c.selection.key_block);
  set.metadata["active_ratio"] = ratio;
  set.metadata["n_min"] = std::to_string(c.selection.n_min);
  set.metadata["n_local"] = std::to_string(c.selection.n_local);
  set.metadata["splits"] = splits;
  return set;
}

ResaCase random_case(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  ResaCase c{.heads = 4, .kv_heads = 2, .head_dim = 16, .length = 75};
  c.selection = {.key_block = 4, .active_ratio = 0.3, .n_min = 2, .n_local = 1};
  return testing::make_resa_case(c, rng);
}

std::vector<double> floats(const DoorRun& run, const char* name) {
  REQUIRE(run.results.find(name) != nullptr);
  return values_as<double>(*run.results.find(name), name);
}
std::vector<std::int32_t> integers(const DoorRun& run, const char* name) {
  REQUIRE(run.results.find(name) != nullptr);
  REQUIRE(run.results.find(name)->type == StorageType::kI32);
  return values_as<std::int32_t>(*run.results.find(name), name);
}

struct Broken {
  const char* what;
  std::function<void(TensorSet&)> change;
  const char* sentence;
};
std::function<void(TensorSet&)> key(const char* name, const char* value) {
  return [=](TensorSet& set) { set.metadata[name] = value; };
}
std::function<void(TensorSet&)> drop_key(const char* name) {
  return [=](TensorSet& set) { set.metadata.erase(name); };
}
std::function<void(TensorSet&)> drop(const char* name) {
  return [=](TensorSet& set) { set.tensors.erase(name); };
}
std::function<void(TensorSet&)> poke(const char* name, std::size_t index, double value) {
  return [=](TensorSet& set) {
    std::memcpy(set.tensors.at(name).bytes.data() + index * sizeof value, &value, sizeof value);
  };
}
std::function<void(TensorSet&)> reshape(const char* name, Shape shape) {
  return [=](TensorSet& set) { set.tensors.at(name).shape = shape; };
}

void check_refusals(const TensorSet& valid, const std::string& family,
                    const std::vector<Broken>& cases) {
  REQUIRE(run_door_on(valid, family).command.code == 0);
  for (const Broken& broken : cases) {
    CAPTURE(broken.what);
    TensorSet set = valid;
    broken.change(set);
    const DoorRun run = run_door_on(set, family);
    INFO(run.command.err);
    CHECK(run.command.code == 3);
    CHECK(is_one_sentence(run.command.err));
    CHECK(contains(run.command.err, broken.sentence));
    CHECK(!run.wrote);
    CHECK(run.beside == 0);
  }
}

}  // namespace

TEST_CASE("block_keys of a partial last block, in every dtype") {
  TensorSet set;
  set.metadata["key_block"] = "2";
  set.tensors["k"] = tensor_of(std::vector<float>{1, -5, 4, 2, -3, 0, 7, 8, 6, -9}, {5, 1, 2});
  for (const char* dtype : {"f64", "f32", "bf16"}) {
    const DoorRun run = run_door_on(set, std::string("block_keys --dtype ") + dtype);
    INFO(run.command.err);
    REQUIRE(run.command.code == 0);
    CHECK(run.results.find("kmin")->shape == Shape{3, 1, 2});
    CHECK(run.results.find("kmax")->shape == Shape{3, 1, 2});
    CHECK(floats(run, "kmin") == std::vector<double>{1, -5, -3, 0, 6, -9});
    CHECK(floats(run, "kmax") == std::vector<double>{4, 2, 7, 8, 6, -9});
  }
  set.tensors["k"] = tensor_of(std::vector<float>{}, {0, 1, 2});
  const DoorRun empty = run_door_on(set, "block_keys");
  REQUIRE(empty.command.code == 0);
  CHECK(empty.results.find("kmin")->shape == Shape{0, 1, 2});
}

TEST_CASE("resa_decode agrees with plain loops in every dtype, whatever the splits") {
  const ResaCase c = random_case(5);
  for (const auto& [dtype, norm] :
       {std::pair("f64", 1e-10), std::pair("f32", 1e-5), std::pair("bf16", 1e-2)}) {
    std::vector<double> out;
    for (const char* splits : {"1", "3", "100"}) {
      const DoorRun run =
          run_door_on(tensors_of(c, "0.3", splits), std::string("resa_decode --dtype ") + dtype);
      INFO(run.command.err);
      REQUIRE(run.command.code == 0);
      CHECK(run.results.find("out")->type ==
            (std::string(dtype) == "f64" ? StorageType::kF64 : StorageType::kF32));
      CHECK(run.results.find("out")->shape == Shape{4, 16});
      CHECK(run.results.find("indices")->shape == Shape{2, 6});  // ceil(19 x 0.3)
      const ResaCase seen = std::string(dtype) == "bf16" ? testing::rounded_case<Bf16>(c) : c;
      CHECK(testing::resa_disagreement(
                seen, {.out = floats(run, "out"), .indices = integers(run, "indices")}, norm,
                1e-5) == "");
      CHECK((out.empty() || out == floats(run, "out")));
      out = floats(run, "out");
    }
  }
}

TEST_CASE("resa_decode counts its blocks from the decimal text") {
  ResaCase c = random_case(6);
  c.selection = {.key_block = 1, .active_ratio = 0.0, .n_min = 0, .n_local = 0};
  const std::pair<const char*, std::int64_t> expected[] = {
      {"0.04", 3}, {"4e-2", 3}, {"0.041", 4}, {"1", 75}, {"0.00000000001", 0}, {"0.2", 15}};
  for (const auto& [text, count] : expected) {
    CAPTURE(text);
    const DoorRun run = run_door_on(tensors_of(c, text, "2"), "resa_decode");
    INFO(run.command.err);
    REQUIRE(run.command.code == 0);
    CHECK(run.results.find("indices")->shape == Shape{2, count});
  }
}

TEST_CASE("resa_decode refuses every broken rule with exit 3") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  check_refusals(tensors_of(random_case(1), "0.3", "2"), "resa_decode",
                 {{"no q", drop("q"), "is missing"},
                  {"no v", drop("v"), "is missing"},
                  {"no ratio", drop_key("active_ratio"), "is missing"},
                  {"no splits", drop_key("splits"), "is missing"},
                  {"no n_min", drop_key("n_min"), "is missing"},
                  {"no n_local", drop_key("n_local"), "is missing"},
                  {"block 0", key("key_block", "0"), "must be an integer"},
                  {"splits 0", key("splits", "0"), "must be an integer"},
                  {"ratio 0", key("active_ratio", "0"), "active_ratio"},
                  {"ratio above 1", key("active_ratio", "1.0001"), "active_ratio"},
                  {"ratio nan", key("active_ratio", "nan"), "decimal number"},
                  {"negative n_min", key("n_min", "-1"), "must be an integer"},
                  {"NaN query", poke("q", 3, nan), "not finite"},
                  {"infinite value", poke("v", 3, infinity), "not finite"},
                  {"too large for f32", poke("k", 3, 1e39), "not finite"},
                  {"scores too large for f32",
                   [&](TensorSet& set) {
                     poke("q", 0, 1e25)(set);
                     poke("k", 0, 1e25)(set);
                   },
                   "'q' and 'k' are so large"},
                  {"another head size", reshape("q", {1, 64}), "where d is 64"},
                  {"v of another shape", reshape("v", {2, 75, 16}), "[L,G,d]"}});
  TensorSet odd = tensors_of(random_case(1), "0.3", "2");
  odd.tensors["q"] = tensor_of(std::vector<double>(48, 1.0), {3, 16});
  const DoorRun run = run_door_on(odd, "resa_decode");
  CHECK(run.command.code == 3);
  CHECK(contains(run.command.err, "does not divide"));
  TensorSet empty = odd;
  empty.tensors["q"] = tensor_of(std::vector<double>(64, 1.0), {4, 16});
  empty.tensors["k"] = tensor_of(std::vector<double>{}, {0, 2, 16});
  empty.tensors["v"] = empty.tensors["k"];
  CHECK(run_door_on(empty, "resa_decode").command.code == 3);
}

TEST_CASE("block_keys refuses every broken rule with exit 3") {
  TensorSet set;
  set.metadata["key_block"] = "2";
  set.tensors["k"] = tensor_of(std::vector<double>(12, 1.0), {3, 2, 2});
  check_refusals(set, "block_keys",
                 {{"no k", drop("k"), "is missing"},
                  {"no key_block", drop_key("key_block"), "is missing"},
                  {"block 0", key("key_block", "0"), "must be an integer"},
                  {"not an integer", key("key_block", "1.5"), "must be an integer"},
                  {"NaN", poke("k", 11, std::numeric_limits<double>::quiet_NaN()), "NaN"},
                  {"two axes", reshape("k", {3, 4}), "[L,G,d]"}});
  CHECK(run_door_on(set, "block_keys --variant fast").command.code == 2);
}
