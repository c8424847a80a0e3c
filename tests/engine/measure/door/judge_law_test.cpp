// The judges of samplers over many seeds: how often a right sampler is called wrong, and how often
// a wrong one is found.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "engine/io/safetensors_bytes.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/judges.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

std::vector<float> logits(std::mt19937_64& rng, std::size_t count) {
  std::normal_distribution<float> logit(0.0F, 1.5F);
  std::vector<float> out(count);
  for (float& value : out) {
    value = logit(rng);
  }
  return out;
}

std::vector<float> uniforms(std::mt19937_64& rng, std::size_t count) {
  std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
  std::vector<float> out(count);
  for (float& value : out) {
    value = std::min(uniform(rng), 0.999999F);
  }
  return out;
}

// A chain of three, 12 tokens; each draw has proposals of its own, of the draft's law.
TensorSet chain(std::int64_t draws, std::uint64_t seed) {
  constexpr std::size_t kGamma = 3, kVocab = 12;
  std::mt19937_64 rng(seed);
  const std::vector<float> draft = logits(rng, kGamma * kVocab);
  std::vector<std::discrete_distribution<std::int32_t>> laws;
  for (std::size_t c = 0; c < kGamma; ++c) {
    std::vector<double> weights;
    for (std::size_t x = 0; x < kVocab; ++x) {
      weights.push_back(std::exp(draft[c * kVocab + x]));
    }
    laws.emplace_back(weights.begin(), weights.end());
  }
  std::vector<std::int32_t> tokens;
  for (std::int64_t r = 0; r < draws; ++r) {
    for (auto& law : laws) {
      tokens.push_back(law(rng));
    }
  }
  TensorSet set;
  set.tensors["target_logits"] = tensor_of(logits(rng, (kGamma + 1) * kVocab), {4, 12});
  set.tensors["draft_logits"] = tensor_of(draft, {3, 12});
  set.tensors["draft_tokens"] = tensor_of(tokens, {draws, 3});
  set.tensors["uniforms"] =
      tensor_of(uniforms(rng, static_cast<std::size_t>(4 * draws)), {draws, 4});
  set.metadata["temperature"] = "1";
  return set;
}

// A root with two children, each with one of its own; 9 tokens.
TensorSet tree(std::int64_t draws, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<std::int32_t> tokens;
  for (std::int64_t r = 0; r < draws; ++r) {
    const std::int32_t first = static_cast<std::int32_t>(rng() % 4);
    tokens.insert(tokens.end(), {0, first, first + 1, 7, 8});
  }
  TensorSet set;
  set.tensors["target_logits"] = tensor_of(logits(rng, 45), {5, 9});
  set.tensors["parent"] = tensor_of(std::vector<std::int32_t>{-1, 0, 0, 1, 2}, {5});
  set.tensors["tokens"] = tensor_of(tokens, {draws, 5});
  set.tensors["uniforms"] =
      tensor_of(uniforms(rng, static_cast<std::size_t>(5 * draws)), {draws, 5});
  set.metadata["temperature"] = "1";
  return set;
}

SafetensorsFile file_of(const TensorSet& set) {
  return SafetensorsFile::parse(safetensors_bytes(set), "its.name");
}

struct Family {
  const DoorFamily* door;
  TensorSet (*inputs)(std::int64_t draws, std::uint64_t seed);
  Judgement (*judge)(DoorInput& input, DoorInput& answers, const DoorRequest& request);
};
const Family kFamilies[] = {{&kSpecSampleDoor, chain, judge_spec_sample},
                            {&kTreeSampleDoor, tree, judge_tree_sample}};

// Of so many seeds those whose draws, made at one temperature, are called wrong at 1.
int called_wrong(const Family& family, const char* temperature, std::int64_t draws, int seeds) {
  const DoorRequest request = {.family = family.door, .variant = "baseline"};
  int wrong = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    TensorSet inputs = family.inputs(draws, static_cast<std::uint64_t>(seed));
    inputs.metadata["temperature"] = temperature;
    const TensorSet results = door_results(file_of(inputs), request);
    inputs.metadata["temperature"] = "1";
    inputs.tensors.erase("uniforms");
    TensorSet answers;
    for (const char* name : {"tokens", "accepted"}) {
      answers.tensors[name] = results.tensors.at(name);
    }
    DoorInput input(file_of(inputs));
    DoorInput theirs(file_of(answers));
    wrong += family.judge(input, theirs, request).verdict == JudgedAs::kWrong ? 1 : 0;
  }
  return wrong;
}

}  // namespace

// At one in ten thousand more than two of a thousand come once in 6,000 such tests.
TEST_CASE("a right sampler is called wrong no more often than is stated") {
  for (const Family& family : kFamilies) {
    CAPTURE(family.door->name);
    CHECK(called_wrong(family, "1", 250, 1000) <= 2);
  }
}

TEST_CASE("a sampler that is somewhat too cold or too warm is found") {
  for (const Family& family : kFamilies) {
    CAPTURE(family.door->name);
    CHECK(called_wrong(family, "0.75", 4000, 60) >= 54);
    CHECK(called_wrong(family, "1.35", 4000, 60) >= 54);
    // A hundredth is beyond what so few draws tell: no verdict may claim it.
    CHECK(called_wrong(family, "1.01", 250, 60) <= 1);
  }
}
