// A prompt read in one forward leaves the bits that its tokens leave in any chains.
#include "tests/engine/run/read_prompt_case.h"

namespace versieve::engine {
namespace {

template <class T>
void check(const LlmShape& shape, std::int64_t chunk, std::int64_t piece) {
  tiny::check_read_prompt<T>([] { return kernels::make_cpu_ops<T>(1); }, shape, 1200, chunk, piece);
}

}  // namespace

TEMPLATE_TEST_CASE("a prompt read many tokens at once has the bits of its chains", "", float,
                   double) {
  LlmShape shape = tiny::shape();
  check<TestType>(shape, 1200, 97);
  check<TestType>(shape, 700, 256);
  shape.compress_stage = CompressStage::kAfterRope;
  check<TestType>(shape, 531, 101);
  check<TestType>(tiny::shape(AttentionKind::kDense), 900, 64);
}

}  // namespace versieve::engine
