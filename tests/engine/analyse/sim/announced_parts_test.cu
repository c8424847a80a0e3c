// Where a launch's announced parts lie in their memory. Host code of the launches alone: no GPU is
// asked.
#include <catch2/catch.hpp>
#include <cstddef>

#include "kernels/nsa_verify/fused_call.cuh"

using namespace versieve;

TEST_CASE("announced parts lie one behind the other, as far apart as they are read at once") {
  alignas(256) static std::byte memory[kFusedPartBytes];
  const auto offset = [](const void* at) { return static_cast<const std::byte*>(at) - memory; };
  int placed = 0;
  for (const int nodes : {1, 3, 12, 63, 64, 128}) {
    for (const int heads : {1, 9, 10, 32, 124}) {
      for (const int spans : {1, 2, 7, 16}) {
        for (const bool reuses : {false, true}) {
          if (!fused_announces(reuses ? FusedLaunch::kReuse : FusedLaunch::kAttend, nodes, heads,
                               48, spans)) {
            continue;
          }
          CAPTURE(nodes, heads, spans, reuses);
          kernels::FusedArguments a{};
          a.nodes = nodes;
          a.heads = heads;
          a.max_spans = spans;
          kernels::place_announced(memory, reuses, a);
          const std::ptrdiff_t rows = nodes * heads;
          CHECK(offset(a.segment_outs) == 0);
          CHECK((a.span_outs != nullptr) == reuses);
          const std::ptrdiff_t outs = rows * kFusedSegments * 256;
          if (reuses) {
            CHECK(offset(a.span_outs) == outs);
            CHECK(offset(a.span_outs) % 16 == 0);
            CHECK(offset(a.segment_states) == outs + rows * spans * 256);
            CHECK(offset(a.span_states) == offset(a.segment_states) + rows * kFusedSegments * 8);
            CHECK(offset(a.span_states) + rows * spans * 8 <= kFusedPartBytes);
          }
          CHECK(offset(a.segment_states) % 8 == 0);
          CHECK(offset(a.segment_states) + rows * kFusedSegments * 8 <= kFusedPartBytes);
          ++placed;
        }
      }
    }
  }
  CHECK(placed > 100);
}
