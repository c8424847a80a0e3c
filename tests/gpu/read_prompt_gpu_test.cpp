// Does a prompt that is read many tokens at once leave the bits of its chains on the GPU?
#include <cstdio>

#include "engine/run/batch/batch_memory.h"
#include "tests/engine/run/batch/long_piece_case.h"
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

LlmShape few_layers(const char* geometry, std::int64_t layers = 2) {
  LlmShape shape = named_llm_shape(geometry);
  shape.layers = layers;
  shape.vocab = 512;
  return shape;
}

void check_long_pieces(const LlmShape& shape, const std::vector<std::int64_t>& sizes) {
  std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops != nullptr) {
    tiny::LongPieces<Bf16> pieces(std::move(ops), shape, sizes);
    CHECK(pieces.check() == static_cast<int>(shape.layers * std::ssize(sizes)));
    pieces.check_shared_rows();
  }
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

TEST_CASE("long pieces of a prompt beside a tree have the bits of short ones on the GPU",
          "[long_pieces]") {
  check_long_pieces(tiny::shape(), {530, 257});
  check_long_pieces(few_layers("demo", 3), {700, 513, 1024});
  check_long_pieces(few_layers("nsa-1b", 3), {2048, 600});
}

TEST_CASE("a long piece of a prompt beside a tree", "[long_pieces][race]") {
  check_long_pieces(tiny::shape(), {512});
}

TEST_CASE("memory for long pieces of prompts is counted before it is taken", "[long_pieces]") {
  std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  const LlmShape shape = named_llm_shape("nsa-1b");
  const auto step_bytes = [&](std::int64_t tokens, std::int64_t rows) {
    const std::vector<BatchRequest> requests = {
        {.prompt = tiny::prompt(tokens, 1), .options = tiny::options("nsa/ar", 10)}};
    return plan_memory<Bf16>(*ops, true, shape, nullptr, nullptr, requests,
                             {.concurrency = 1, .prefill_rows = rows}, std::int64_t{8} << 30)
        .step_bytes;
  };
  const std::int64_t taken = Target<Bf16>::prompt_bytes(*ops, shape, 16384, 2048);
  CHECK(taken > std::int64_t{16} << 20);
  CHECK(step_bytes(16384, 2048) - step_bytes(256, 2048) == taken);
  CHECK(step_bytes(16384, 256) == step_bytes(256, 256));  // no piece is long
  std::printf("a prompt of 16,384 tokens in pieces of 2,048: %.1f MiB of scratch memory\n",
              static_cast<double>(taken) / (1 << 20));
}

}  // namespace versieve::engine
