// Does the engine hand all layers of a token to one operation without changing a bit? On the CPU
// that operation is the reference of kernels/decode_layers.
#include <catch2/catch.hpp>

#include "tests/engine/run/tiny_engine.h"
#include "tests/support/decode_pair.h"

namespace versieve::engine {

TEMPLATE_TEST_CASE("a token's layers in one operation have the bits of the operations", "", float,
                   double) {
  const std::unique_ptr<kernels::Ops<TestType>> ops = kernels::make_cpu_ops<TestType>(1);
  for (const CompressStage stage : {CompressStage::kBeforeRope, CompressStage::kAfterRope}) {
    test::DecodeShape shape{.llm = tiny::shape(), .capture_layers = {0, 2, 3}};
    shape.llm.compress_stage = stage;
    test::DecodePair<TestType> pair(*ops, shape, 700);
    for (const char* schedule : {"", "FRF", "FRR"}) {
      for (const std::int64_t context : {300, 130, 63, 47, 31, 8, 7, 1, 0}) {
        pair.led(context, schedule, 5);
      }
      pair.recorded(300, schedule, 12);
      pair.recorded(3, schedule, 12);
    }
    pair.recorded(240, "FRR", 300, 25);  // past a recording's bound
    pair.check_turns(70, "FFF", "FRR");
  }
}

TEST_CASE("one operation for a token's layers fills every slot that asks for a stream") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  for (const std::vector<std::int64_t>& slots :
       {std::vector<std::int64_t>{1, 1, 3}, {2, 3, 2}, {0, 0, 1}, {3, 3, 3}}) {
    test::DecodePair<float> pair(*ops, {tiny::shape(), slots, false}, 100);
    pair.led(50, "FRF", 3);
  }
}

}  // namespace versieve::engine
