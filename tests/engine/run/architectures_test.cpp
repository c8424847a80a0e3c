// Does the engine compute every dense architecture as the ecosystem's own code does, as a target
// and as a draft?
#include <catch2/catch.hpp>

#include "engine/run/speculate/model_drafter.h"
#include "tests/support/architecture_parity.h"

namespace versieve::test {
namespace {

constexpr double kBound = 1e-4;  // relative norm that float sums of these lengths stay under

TEST_CASE("every dense architecture's logits are those of transformers") {
  const auto ops = kernels::make_cpu_ops<float>(1);
  const auto exact = kernels::make_cpu_ops<double>(1);
  for (const std::string& name : architecture_names()) {
    CAPTURE(name);
    const engine::Checkpoint checkpoint = engine::load_target(architectures_folder() / name);
    const ExpectedText expected(name);
    CHECK(checkpoint.remarks.empty());
    CHECK(logit_error(*ops, checkpoint, expected) < kBound);
    CHECK(logit_error(*exact, checkpoint, expected) < 1e-9);
    CHECK(pieces_give_the_same_bits(*ops, checkpoint, expected.tokens));
  }
}

// The largest error of a draft model's logits at the last places of the text, drafted token by
// token along it.
template <class T>
double draft_error(kernels::Ops<T>& ops, const engine::Checkpoint& checkpoint,
                   const ExpectedText& expected, bool chain) {
  constexpr std::size_t kDrafted = 7;
  engine::Target<T> model = engine::make_target<T>(ops, checkpoint, nullptr);
  const std::vector<std::int32_t>& tokens = expected.tokens;
  const std::size_t root = tokens.size() - 1 - kDrafted;
  const auto text = tokens.begin() + static_cast<std::ptrdiff_t>(root);
  engine::ModelDrafter<T> drafter(ops, model, {tokens.begin(), text}, chain);
  drafter.begin(static_cast<std::int64_t>(root), {.first = static_cast<std::int64_t>(root) - 1,
                                                  .next_token = {*text},
                                                  .captured = nullptr,
                                                  .rows = {}});
  const std::size_t vocab = static_cast<std::size_t>(drafter.vocab());
  double worst = 0.0;
  for (std::size_t i = 0; i <= kDrafted; ++i) {
    std::vector<T> got(vocab);
    ops.download(got.data(), drafter.logits(), vocab * sizeof(T));
    const auto end = expected.logits.end() - static_cast<std::ptrdiff_t>((kDrafted - i) * vocab);
    worst = std::max(worst, relative_norm({got.begin(), got.end()},
                                          {end - static_cast<std::ptrdiff_t>(vocab), end}));
    if (i < kDrafted) {
      drafter.step({.token = {tokens[root + 1 + i]},
                    .position = {static_cast<std::int32_t>(root + 1 + i)},
                    .parent = {static_cast<std::int32_t>(i) - 1}});
    }
  }
  return worst;
}

TEST_CASE("every dense architecture drafts with the logits of transformers") {
  const auto ops = kernels::make_cpu_ops<float>(1);
  const auto exact = kernels::make_cpu_ops<double>(1);
  for (const std::string& name : architecture_names()) {
    const engine::Checkpoint checkpoint = engine::load_target(architectures_folder() / name);
    const ExpectedText expected(name);
    for (const bool chain : {true, false}) {
      CAPTURE(name, chain);
      CHECK(draft_error(*ops, checkpoint, expected, chain) < kBound);
      CHECK(draft_error(*exact, checkpoint, expected, chain) < 1e-9);
    }
  }
}

// What an architecture adds would be missed: without it the logits are others.
TEST_CASE("each feature of an architecture shows in the logits") {
  const auto ops = kernels::make_cpu_ops<float>(1);
  const auto error_without = [&](const char* name, const auto& drop) {
    engine::Checkpoint checkpoint = engine::load_target(architectures_folder() / name);
    drop(checkpoint.shape);
    return logit_error(*ops, checkpoint, ExpectedText(name));
  };
  const auto no_scaling = [](LlmShape& shape) { shape.rope = {}; };
  for (const char* name : {"llama-linear", "llama-llama3", "llama-yarn", "llama-yarn-mscale",
                           "llama-yarn-attention-factor"}) {
    CAPTURE(name);
    CHECK(error_without(name, no_scaling) > 0.01);
  }
  CHECK(error_without("llama-yarn-attention-factor",
                      [](LlmShape& shape) { shape.rope.attention_factor = 1.0; }) > 0.01);
  CHECK(error_without("llama-yarn-mscale", [](LlmShape& shape) { shape.rope.truncates = true; }) >
        1e-3);
  const auto no_layers = [](LlmShape& shape) { shape.dense_layers.clear(); };
  for (const char* name : {"mistral-window", "qwen2-window", "qwen3-window", "smollm3"}) {
    CAPTURE(name);
    CHECK(error_without(name, no_layers) > 0.01);
  }
  CHECK(error_without("mistral-window", [](LlmShape& shape) {
          for (DenseLayer& layer : shape.dense_layers) {
            ++layer.window;
          }
        }) > 1e-3);
  CHECK(error_without("qwen2", [](LlmShape& shape) { shape.qkv_bias = false; }) > 0.01);
}

}  // namespace
}  // namespace versieve::test
