// Does the engine compute what the independent reference of the dense demo pair computed (float64
// on the same bf16 weights), target and draft model? Tensors: engine/demo/README.md.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "engine/io/safetensors.h"
#include "engine/run/model/load.h"
#include "engine/run/speculate/model_drafter.h"
#include "tests/support/paths.h"

namespace versieve::engine {
namespace {

constexpr double kBound = 1e-4;  // relative norm that float sums of these lengths stay under
constexpr std::int64_t kChain = 7;

std::filesystem::path demo_folder() {
  return std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo";
}

double relative_norm(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

struct DenseParity {
  explicit DenseParity(const char* name)
      : file(SafetensorsFile::read(demo_folder() / "parity" / name)),
        checkpoint(load_target(demo_folder() / "dense")),
        ops(kernels::make_cpu_ops<float>(2)),
        target(make_target<float>(*ops, checkpoint, nullptr)),
        draft(make_target<float>(
            *ops, load_draft_model(demo_folder() / "dense/draft", checkpoint.shape), nullptr)),
        tokens(values<std::int32_t>("tokens")) {}

  template <class E>
  std::vector<E> values(const char* tensor) const {
    REQUIRE(file.find(tensor) != nullptr);
    return values_as<E>(*file.find(tensor), tensor);
  }
  // The last `rows` rows of logits after the whole text in one verify.
  std::vector<double> last_logits(Target<float>& model, std::int64_t rows) {
    model.cache().truncate(0);
    model.verify(chain_tree(tokens), {});
    const float* end = model.logits() + model.node_count() * model.shape().vocab;
    return {end - rows * model.shape().vocab, end};
  }

  SafetensorsFile file;
  Checkpoint checkpoint;
  std::unique_ptr<kernels::Ops<float>> ops;
  Target<float> target;
  Target<float> draft;
  std::vector<std::int32_t> tokens;
};

}  // namespace

TEST_CASE("the dense demo pair's engine results are the reference's") {
  for (const char* name : {"dense-0.safetensors", "dense-1.safetensors"}) {
    CAPTURE(name);
    DenseParity parity(name);
    CHECK(relative_norm(parity.last_logits(parity.target, 16), parity.values<double>("logits")) <
          kBound);
    CHECK(relative_norm(parity.last_logits(parity.draft, 8),
                        parity.values<double>("draft_logits")) < kBound);
    // The greedy chain after the text, as the speculative engine draws it.
    parity.draft.cache().truncate(0);
    const std::int64_t newest = static_cast<std::int64_t>(parity.tokens.size()) - 1;
    ModelDrafter<float> drafter(*parity.ops, parity.draft,
                                {parity.tokens.begin(), parity.tokens.end() - 1}, true);
    drafter.begin(newest, {.first = newest - 1,
                           .next_token = {parity.tokens.back()},
                           .captured = nullptr,
                           .rows = {}});
    const std::vector<std::int32_t> chain = parity.values<std::int32_t>("draft_chain_tokens");
    const std::vector<double> logits = parity.values<double>("draft_chain_logits");
    const std::size_t vocab = static_cast<std::size_t>(drafter.vocab());
    for (std::int32_t i = 0; i < kChain; ++i) {
      const std::size_t row = static_cast<std::size_t>(i);
      CHECK(relative_norm({drafter.logits(), drafter.logits() + vocab},
                          {logits.begin() + static_cast<std::ptrdiff_t>(row * vocab),
                           logits.begin() + static_cast<std::ptrdiff_t>((row + 1) * vocab)}) <
            kBound);
      drafter.step({.token = {chain[row]},
                    .position = {static_cast<std::int32_t>(newest + 1) + i},
                    .parent = {i - 1}});
    }
  }
}

TEST_CASE("a draft folder says whether it holds a model or a head") {
  CHECK(is_draft_model(demo_folder() / "dense/draft"));
  CHECK(!is_draft_model(demo_folder() / "nsa/draft"));
}

}  // namespace versieve::engine
