// The texts of measured kernels: one canonical form, anything else refused.
#include "model/words/kernel_case.h"

#include <catch2/catch.hpp>

#include "model/words/error.h"

using namespace versieve;

TEST_CASE("canonical kernel texts are read back to themselves") {
  for (const char* text : {"topk:sort/k1", "topk:radix/k2048", "topk:gvr/k16",
                           "topk:gvr/k16/hint0.75", "topk:gvr/k16/hint0", "topk:gvr/k16/hint1",
                           "topk:radix/k2048/index64x128", "topk:gvr/k16/hint0.5/index8x64"}) {
    CAPTURE(text);
    CHECK(TopkCase::parse(text).text() == text);
  }
  for (const char* text :
       {"sampling:baseline/chain/r1", "sampling:sigmoid/chain/r8", "sampling:exact/k4/r1",
        "sampling:baseline/k1/r2", "sampling:exact/chain/r1/b16",
        "sampling:exact/chain/r1/b4/topk50/topp0.95/minp0.05", "sampling:exact/k4/r1/topp0.9",
        "sampling:sigmoid/chain/r1/minp1"}) {
    CAPTURE(text);
    CHECK(SamplingCase::parse(text).text() == text);
  }
  CHECK(TopkCase::parse("topk:gvr/k16/hint0.75").hint == 0.75);
  CHECK(TopkCase::parse("topk:gvr/k16/hint0.75/index64x128").index == IndexHeads{64, 128});
  CHECK_FALSE(TopkCase::parse("topk:gvr/k16").index);
  CHECK(SamplingCase::parse("sampling:exact/k4/r3").samples == 3);
  const SamplingCase cut = SamplingCase::parse("sampling:exact/chain/r1/b4/topk50/topp0.95");
  CHECK(cut.batch == 4);
  CHECK(cut.top_k == 50);
  CHECK(cut.top_p == 0.95);
  CHECK(cut.cuts());
  CHECK(!SamplingCase::parse("sampling:exact/chain/r1/b4").cuts());
}

TEST_CASE("kernel texts that are not canonical are refused") {
  for (const char* text : {"",
                           "topk",
                           "topk:",
                           "topk:heap/k4",
                           "topk:radix",
                           "topk:radix/k0",
                           "topk:radix/k04",
                           "topk:radix/k4/hint0.5",
                           "topk:gvr/k4/hint2",
                           "topk:gvr/k4/hint0.50",
                           "topk:gvr/k4/",
                           "topk:gvr/k4/hintnan",
                           "topk:gvr/k4/index",
                           "topk:gvr/k4/index8",
                           "topk:gvr/k4/index0x64",
                           "topk:gvr/k4/index8x64x",
                           "topk:gvr/k4/index8x064",
                           "topk:gvr/k4/index8x64/hint0.5",
                           "topk:gvr/k4/index8x2000",
                           "topk:gvr/hint0.5",
                           "topk:gvr/k-4"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(TopkCase::parse(text), Error);
  }
  for (const char* text :
       {"", "sampling:greedy/chain/r1", "sampling:exact/chain", "sampling:exact/r1",
        "sampling:exact/k0/r1", "sampling:sigmoid/k4/r1", "sampling:exact/chain/r0",
        "sampling:exact/chain/r1/", "sampling:exact/chain/r01", "sampling:exact/chain/r1/b1",
        "sampling:exact/chain/r1/b0", "sampling:exact/k4/r1/b2", "sampling:exact/chain/r1/topk0",
        "sampling:exact/chain/r1/topp1", "sampling:exact/chain/r1/topp0.90",
        "sampling:exact/chain/r1/minp0", "sampling:exact/chain/r1/topp0.9/topk4",
        "sampling:exact/chain/r1/minp1.5", "sampling:exact/chain/r1/toppnan"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(SamplingCase::parse(text), Error);
  }
}
