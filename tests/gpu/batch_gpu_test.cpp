// Has a request the same text alone, in any batch and in any order, on the GPU?
#include <catch2/catch.hpp>
#include <cstdio>

#include "engine/run/model/kv_pool.h"
#include "tests/engine/run/batch/batch_cases.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::engine {
namespace {

// The demo pair's geometry, whose kernels are those of real models, with few layers.
LlmShape demo_shape(AttentionKind attention) {
  LlmShape shape = named_llm_shape("demo");
  shape.layers = 3;
  shape.attention = attention;
  return shape;
}

template <class T>
void check(const LlmShape& shape, int batches, std::int64_t longest, std::uint64_t seed) {
  std::unique_ptr<kernels::Ops<T>> ops = test::try_gpu_ops<T>();
  if (ops == nullptr) {
    return;
  }
  tiny::Engine<T> engine(std::move(ops), shape);
  const tiny::BatchTally tally = tiny::compare_random_batches(engine, batches, longest, seed);
  CHECK(tally.identical == tally.requests);
  CHECK(tally.yielded > tally.steps);
  std::printf("%s, %zu-byte elements: %d of %d requests identical, %.2f tokens a drafted step\n",
              shape.name.c_str(), sizeof(T), tally.identical, tally.requests,
              static_cast<double>(tally.yielded) / static_cast<double>(tally.steps));
}

TEST_CASE("a request's text is the same alone and in any batch on the GPU, tiny") {
  check<float>(tiny::shape(), 20, 150, 1);
  check<Bf16>(tiny::shape(), 20, 150, 2);
  check<float>(tiny::shape(AttentionKind::kDense), 10, 150, 3);
  check<Bf16>(tiny::shape(AttentionKind::kDense), 10, 150, 4);
}

TEST_CASE("a request's text is the same alone and in any batch on the GPU, a real geometry") {
  check<Bf16>(demo_shape(AttentionKind::kNsa), 20, 900, 5);
  check<Bf16>(demo_shape(AttentionKind::kDense), 10, 900, 6);
  check<float>(demo_shape(AttentionKind::kNsa), 5, 400, 7);
}

TEST_CASE("a small batch, for the checkers of memory and races [small]", "[small]") {
  check<Bf16>(demo_shape(AttentionKind::kNsa), 1, 200, 8);
  check<Bf16>(demo_shape(AttentionKind::kDense), 1, 200, 9);
  check<float>(tiny::shape(), 1, 60, 10);
}

}  // namespace
}  // namespace versieve::engine
