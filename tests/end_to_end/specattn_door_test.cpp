// layer_map and top_p at the door: answers, types and refusals.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/end_to_end/door_case.h"
#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TensorSet layer_map_tensors(const std::vector<double>& similarity, std::int64_t m, std::int64_t n) {
  TensorSet set;
  set.tensors["similarity"] = tensor_of(similarity, {m, n});
  return set;
}

TensorSet top_p_tensors(const std::vector<float>& weights, std::int64_t rows, const char* p,
                        const char* iterations) {
  TensorSet set;
  set.tensors["weights"] =
      tensor_of(weights, {rows, static_cast<std::int64_t>(weights.size()) / rows});
  set.metadata = {{"p", p}, {"iterations", iterations}};
  return set;
}

template <class E>
std::vector<E> values(const DoorRun& run, const char* name) {
  REQUIRE(run.results.find(name) != nullptr);
  return values_as<E>(*run.results.find(name), name);
}

void check_refused(const TensorSet& set, const char* family, int code, const char* sentence) {
  const DoorRun run = run_door_on(set, family);
  INFO(run.command.err);
  CHECK(run.command.code == code);
  CHECK(is_one_sentence(run.command.err));
  CHECK(contains(run.command.err, sentence));
  CHECK(!run.wrote);
  CHECK(run.beside == 0);
}

}  // namespace

TEST_CASE("layer_map answers in every dtype without rounding the similarities") {
  // The sums -3 and -3 - 1e-12 differ in double alone.
  const TensorSet set = layer_map_tensors({-1.0, -2.0 - 1e-12, -5.0, -2.0}, 2, 2);
  for (const char* dtype : {"f64", "f32", "bf16"}) {
    CAPTURE(dtype);
    const DoorRun run = run_door_on(set, std::string("layer_map --dtype ") + dtype);
    INFO(run.command.err);
    REQUIRE(run.command.code == 0);
    CHECK(run.results.find("map")->type == StorageType::kI32);
    CHECK(values<std::int32_t>(run, "map") == std::vector<std::int32_t>{0, 1});
    const bool wide = std::string(dtype) == "f64";
    CHECK(run.results.find("score")->type == (wide ? StorageType::kF64 : StorageType::kF32));
    CHECK(values<double>(run, "score") == std::vector<double>{-3.0});
  }
}

TEST_CASE("layer_map refuses what is no table and answers no without a finite map") {
  const TensorSet valid = layer_map_tensors({-1, -2, -3, -4}, 2, 2);
  REQUIRE(run_door_on(valid, "layer_map --variant default").command.code == 0);
  TensorSet set = valid;
  set.tensors.clear();
  check_refused(set, "layer_map", 3, "'similarity' is missing");
  set = valid;
  set.tensors["similarity"].shape = {4};
  check_refused(set, "layer_map", 3, "[m,n]");
  check_refused(layer_map_tensors({}, 0, 2), "layer_map", 3, "m must be at least 1");
  check_refused(layer_map_tensors({}, 2, 0), "layer_map", 3, "n must be at least 1");
  check_refused(layer_map_tensors({kNan}, 1, 1), "layer_map", 3, "NaN or +infinity");
  check_refused(layer_map_tensors({kInfinity}, 1, 1), "layer_map", 3, "NaN or +infinity");
  check_refused(layer_map_tensors({-kInfinity, -1, -1, -kInfinity}, 2, 2), "layer_map", 1,
                "every monotone map");
}

TEST_CASE("top_p answers in every dtype") {
  const TensorSet set =
      top_p_tensors({0.5F, 0.25F, 0.125F, 0.125F, 0.0F, 0.0F, 0.0F, 0.0F}, 2, "0.75", "3");
  for (const char* dtype : {"f64", "f32", "bf16"}) {
    CAPTURE(dtype);
    const DoorRun run = run_door_on(set, std::string("top_p --dtype ") + dtype);
    INFO(run.command.err);
    REQUIRE(run.command.code == 0);
    CHECK(run.results.find("mask")->type == StorageType::kI32);
    // The row of zeros keeps all.
    CHECK(values<std::int32_t>(run, "mask") == std::vector<std::int32_t>{1, 1, 1, 1});
    const bool wide = std::string(dtype) == "f64";
    CHECK(run.results.find("mass")->type == (wide ? StorageType::kF64 : StorageType::kF32));
    CHECK(values<double>(run, "mass") == std::vector<double>{0.75, 0.0});
  }
  // 0.3001953125 is no bf16 number: it must not be rounded to its neighbour 0.30078125.
  const DoorRun exact = run_door_on(top_p_tensors({0.3001953125F, 0.30078125F}, 1, "0.5", "20"),
                                    "top_p --dtype bf16");
  REQUIRE(exact.command.code == 0);
  CHECK(values<std::int32_t>(exact, "mask") == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("top_p refuses every broken rule with exit 3") {
  const TensorSet valid = top_p_tensors({0.5F, 0.5F, 0.25F, 0.75F}, 2, "0.9", "10");
  REQUIRE(run_door_on(valid, "top_p").command.code == 0);
  for (const char* p : {"0", "-0.1", "1.0001", "nan", "inf", "", "0.9x"}) {
    CAPTURE(p);
    TensorSet set = valid;
    set.metadata["p"] = p;
    check_refused(set, "top_p", 3, "p");
  }
  for (const char* iterations : {"-1", "1.5", "", "ten"}) {
    CAPTURE(iterations);
    TensorSet set = valid;
    set.metadata["iterations"] = iterations;
    check_refused(set, "top_p", 3, "iterations");
  }
  for (const char* key : {"p", "iterations"}) {
    TensorSet set = valid;
    set.metadata.erase(key);
    check_refused(set, "top_p", 3, "is missing");
  }
  check_refused(top_p_tensors({-0.1F, 0.5F}, 1, "0.9", "10"), "top_p", 3, "negative weight");
  check_refused(top_p_tensors({NAN, 0.5F}, 1, "0.9", "10"), "top_p", 3, "not finite");
  check_refused(top_p_tensors({INFINITY, 0.5F}, 1, "0.9", "10"), "top_p", 3, "not finite");
  TensorSet set = valid;
  set.tensors.clear();
  check_refused(set, "top_p", 3, "'weights' is missing");
  set = valid;
  set.tensors["weights"].shape = {4};
  check_refused(set, "top_p", 3, "[gamma,L]");
}
