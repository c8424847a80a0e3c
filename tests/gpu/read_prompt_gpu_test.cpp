// Does a prompt that is read many tokens at once leave the bits of its chains on the GPU?
#include "tests/engine/run/read_prompt_case.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::engine {
namespace {

template <class T>
void check(LlmShape shape, std::int64_t tokens, std::int64_t chunk, std::int64_t piece) {
  if (test::try_gpu_ops<T>() != nullptr) {
    tiny::check_read_prompt<T>([] { return test::try_gpu_ops<T>(); }, shape, tokens, chunk, piece);
  }
}

LlmShape few_layers(const char* geometry) {
  LlmShape shape = named_llm_shape(geometry);
  shape.layers = 2;
  shape.vocab = 512;
  return shape;
}

}  // namespace

TEST_CASE("a prompt read many tokens at once has the bits of its chains on the GPU") {
  check<Bf16>(tiny::shape(), 1200, 1200, 97);
  check<Bf16>(tiny::shape(AttentionKind::kDense), 1200, 700, 64);
  check<float>(tiny::shape(), 1200, 700, 101);
  LlmShape shape = few_layers("nsa-1b");
  check<Bf16>(shape, 5000, 2048, 256);
  check<Bf16>(shape, 5000, 4096, 101);
  shape.attention = AttentionKind::kDense;
  check<Bf16>(shape, 3000, 2048, 256);
}

TEST_CASE("a prompt in two pieces", "[race]") {
  check<Bf16>(tiny::shape(), 300, 300, 256);
}

}  // namespace versieve::engine
