// What the one launch of a prompt's tokens moves and computes, beside sums over its tokens.
#include "model/launches/nsa_prompt.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace versieve;

namespace {

traffic::NsaVerifyShape shape_of(std::int64_t context, std::int64_t tokens) {
  return {.nsa = {32, 16, 64, 16, 1, 2, 512},
          .num_heads = 32,
          .num_kv_heads = 8,
          .head_dim = 64,
          .context_len = context,
          .num_queries = tokens};
}

double keys_of(const traffic::NsaVerifyShape& s, std::int64_t most) {
  double keys = 0.0;
  for (std::int64_t i = 0; i < s.num_queries; ++i) {
    keys += static_cast<double>(std::min(most, s.context_len + i + 1));
  }
  return keys;
}

}  // namespace

TEST_CASE("a prompt's tokens need the products of the keys that each of them sees") {
  for (const auto& [context, tokens] :
       {std::pair<int, int>{0, 100}, {0, 3000}, {700, 2048}, {5000, 1}}) {
    const traffic::NsaVerifyShape s = shape_of(context, tokens);
    const double own = keys_of(s, 16 * 64) + keys_of(s, 512);
    const double compressed = static_cast<double>(tokens) *
                              static_cast<double>(compressed_count(s.nsa, context) +
                                                  compressed_count(s.nsa, context + tokens)) /
                              2.0;
    // Two products of d multiply-adds for each key and head.
    CHECK(traffic::nsa_prompt(s).flops == Approx((own + compressed) * 4.0 * 64.0 * 32.0));
  }
}

TEST_CASE("a prompt's tokens read each cache once") {
  const traffic::NsaVerifyShape s = shape_of(14336, 2048);
  const Traffic t = traffic::nsa_prompt(s);
  const double token = 2.0 * 8.0 * 64.0 * 2.0;  // bytes of K and V
  const auto read = [&](TrafficTerm term) { return t.read_bytes[static_cast<std::size_t>(term)]; };
  CHECK(read(TrafficTerm::kSelectedBlocks) == Approx(16384.0 * token));
  CHECK(read(TrafficTerm::kCompressedCache) == Approx(1023.0 * token));
  CHECK(read(TrafficTerm::kQueryOutput) == Approx(2048.0 * 32.0 * (64.0 + 3.0) * 2.0));
}
