// rope_append with compressed tokens in its launch against compress behind it, bit for bit.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/gpu/gpu_ops.h"

namespace versieve::kernels {
namespace {

using test::random_elements;
using Ints = std::vector<std::int32_t>;

}  // namespace

TEMPLATE_TEST_CASE("CUDA rope_append pools compressed tokens with the bits of compress after it",
                   "[rope_append]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  const std::int64_t n = 5, heads = 3, kv_heads = 2, cached = 60, rows = 4;
  for (const auto& [d, l] : {std::array<std::int64_t, 2>{64, 32}, {6, 5}, {128, 48}, {16, 1}}) {
    for (const int form : {0, 1, 2, 3}) {
      const bool rotate = form % 2 == 1, older = form / 2 == 1;
      INFO("d " << d << " l " << l << " rotate " << rotate << " older " << older);
      const std::int64_t width = kv_heads * d;
      Ints source;  // in the cache, then in the tree; the last row is past what the counts say
      for (std::int64_t i = 0; i < rows * l; ++i) {
        const std::int64_t j = i % l, drafted = i / l + 1;
        source.push_back(static_cast<std::int32_t>(j + drafted < l ? (j * 7 + i) % cached
                                                                   : -1 - (j + drafted - l) % n));
      }
      const auto elements = [&](std::int64_t count, std::uint32_t seed) {
        return OpsBuffer<TestType>(*ops, random_elements<TestType>(count, seed));
      };
      const OpsBuffer<TestType> x = elements(n * (heads * d + 2 * width), 41),
                                k_cache = elements(cached * width, 42),
                                v_cache = elements(cached * width, 43),
                                key_weight = elements(kv_heads * l, 44),
                                value_weight = elements(kv_heads * l, 45),
                                pe = elements(kv_heads * l * d, 46);
      const OpsBuffer<TestType, float> cosine(*ops, test::random_tensor<float>(n * d / 2, 47)),
          sine(*ops, test::random_tensor<float>(n * d / 2, 48));
      const OpsBuffer<TestType, std::int32_t> device_source(*ops, source),
          block(*ops, Ints{3, 900, 0, 7});
      const OpsBuffer<TestType, StepCounts> counts(
          *ops, std::vector<StepCounts>{{.context_len = 60, .tree_compressed = 3}});
      const OpsBuffer<TestType> q(*ops, n * heads * d), k_raw(*ops, n * width), k(*ops, n * width),
          v(*ops, n * width);
      std::vector<TestType> made[2][2];
      for (const bool apart : {false, true}) {
        const OpsBuffer<TestType> k_cmp = test::poisoned<TestType>(*ops, rows * width),
                                  v_cmp = test::poisoned<TestType>(*ops, rows * width);
        const CompressParams<TestType> compress{.counts = counts.data(),
                                                .older_lists = older,
                                                .rows = rows,
                                                .num_kv_heads = kv_heads,
                                                .head_dim = d,
                                                .cmp_block = l,
                                                .cmp_stride = 16,
                                                .rotate = rotate,
                                                .source = device_source.data(),
                                                .block = block.data(),
                                                .k_cache = k_cache.data(),
                                                .v_cache = v_cache.data(),
                                                .k_tree = rotate ? k_raw.data() : k.data(),
                                                .v_tree = v.data(),
                                                .compress_key = key_weight.data(),
                                                .compress_value = value_weight.data(),
                                                .intra_block_pe = rotate ? pe.data() : nullptr,
                                                .k_cmp = k_cmp.data(),
                                                .v_cmp = v_cmp.data()};
        ops->rope_append({.n = n,
                          .num_heads = heads,
                          .num_kv_heads = kv_heads,
                          .head_dim = d,
                          .x = x.data(),
                          .cosine = cosine.data(),
                          .sine = sine.data(),
                          .q = q.data(),
                          .k_raw = k_raw.data(),
                          .k = k.data(),
                          .v = v.data(),
                          .compress = apart ? CompressParams<TestType>{} : compress});
        if (apart) {
          ops->compress(compress);
        }
        made[apart][0] = k_cmp.read();
        made[apart][1] = v_cmp.read();
      }
      const std::size_t whole = made[0][0].size() * sizeof(TestType);
      CHECK(std::memcmp(made[0][0].data(), made[1][0].data(), whole) == 0);
      CHECK(std::memcmp(made[0][1].data(), made[1][1].data(), whole) == 0);
      const std::vector<TestType> poison = test::poisoned<TestType>(*ops, 1).read();
      for (const std::vector<TestType>& part : made[0]) {
        std::int64_t left = 0;
        for (const TestType& y : part) {
          left += std::memcmp(&y, poison.data(), sizeof y) == 0 ? 1 : 0;
        }
        CHECK(left == width);  // the row that the counts leave out
      }
    }
  }
}

}  // namespace versieve::kernels
