// Does the engine compute every dense architecture as the ecosystem's own code does?
#include <catch2/catch.hpp>

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
