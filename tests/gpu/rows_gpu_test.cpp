// rms_norm, rope, swiglu, sigmoid and copy_rows on CUDA against the CPU forms in
// double, and topk against the CPU form bit for bit.
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/cpu.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/support/joint_attention_case.h"

namespace versieve::kernels {
namespace {

using test::kTolerance;
using test::random_elements;
using test::relative_error;
using test::widen_all;
using Ints = std::vector<std::int32_t>;

}  // namespace

TEMPLATE_TEST_CASE("CUDA rms_norm agrees with the CPU and keeps rows apart", "[rms_norm]", float,
                   Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const std::int64_t k : {1, 67, 256, 2048, 4096}) {
    const std::int64_t n = 5, stride = k + 3;
    const auto x = random_elements<TestType>(n * stride, 1, 3.0);
    const auto weight = random_elements<TestType>(k, 2);
    const OpsBuffer<TestType> device_x(*ops, x), device_weight(*ops, weight);
    OpsBuffer<TestType> y = test::poisoned<TestType>(*ops, n * k);
    RmsNormParams<TestType> p{.n = n,
                              .k = k,
                              .x_stride = stride,
                              .x = device_x.data(),
                              .weight = device_weight.data(),
                              .y = y.data()};
    ops->embed({.token = p});
    const std::vector<TestType> all = y.read();
    const std::vector<double> wide_x = widen_all(x), wide_weight = widen_all(weight);
    std::vector<double> want(all.size());
    rms_norm_cpu(RmsNormParams<double>{.n = n,
                                       .k = k,
                                       .x_stride = stride,
                                       .x = wide_x.data(),
                                       .weight = wide_weight.data(),
                                       .y = want.data()},
                 1);
    CHECK(relative_error(widen_all(all), want) < kTolerance<TestType>);
    p.n = 1;
    p.x = device_x.data() + 3 * stride;
    ops->embed({.token = p});
    const std::vector<TestType> one = y.read();
    CHECK(std::memcmp(one.data(), all.data() + 3 * k,
                      static_cast<std::size_t>(k) * sizeof(TestType)) == 0);
  }
}

TEMPLATE_TEST_CASE("CUDA rms_norm gathers and keeps rows, or leaves the division to others",
                   "[rms_norm]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const std::int64_t k : {1, 67, 256, 2048, 4104}) {
    const std::int64_t n = 3, rows = 6;
    const Ints row = {5, 0, 5};
    const auto x = random_elements<TestType>(rows * k, 3, 3.0);
    const auto weight = random_elements<TestType>(k, 4);
    const OpsBuffer<TestType> device_x(*ops, x), device_weight(*ops, weight);
    const OpsBuffer<TestType, std::int32_t> device_row(*ops, row);
    const OpsBuffer<TestType> y = test::poisoned<TestType>(*ops, n * k);
    const OpsBuffer<TestType> copy = test::poisoned<TestType>(*ops, n * k);
    const OpsBuffer<TestType, SquareSum> squares(*ops, n);
    const std::vector<double> wide_x = widen_all(x), wide_weight = widen_all(weight);
    for (const bool divides : {true, false}) {
      ops->embed({.token = {.n = n,
                            .k = k,
                            .x_row = device_row.data(),
                            .x = device_x.data(),
                            .weight = device_weight.data(),
                            .y = y.data(),
                            .copy = copy.data(),
                            .squares = divides ? nullptr : squares.data()}});
      std::vector<double> want(static_cast<std::size_t>(n * k));
      std::vector<SquareSum> sums(static_cast<std::size_t>(n));
      rms_norm_cpu(RmsNormParams<double>{.n = n,
                                         .k = k,
                                         .x_row = row.data(),
                                         .x = wide_x.data(),
                                         .weight = wide_weight.data(),
                                         .y = want.data(),
                                         .squares = divides ? nullptr : sums.data()},
                   1);
      CHECK(relative_error(widen_all(y.read()), want) < kTolerance<TestType>);
      const std::vector<SquareSum> got = squares.read();
      for (std::size_t i = 0; !divides && i < sums.size(); ++i) {
        CHECK(static_cast<double>(got[i]) == Approx(static_cast<double>(sums[i])).epsilon(1e-6));
      }
      const std::vector<TestType> kept = copy.read();
      for (std::size_t i = 0; i < row.size(); ++i) {
        CHECK(std::memcmp(kept.data() + static_cast<std::int64_t>(i) * k, x.data() + row[i] * k,
                          static_cast<std::size_t>(k) * sizeof(TestType)) == 0);
      }
    }
  }
}

TEMPLATE_TEST_CASE("CUDA rope agrees with the CPU to the end of the context", "[rope]", float,
                   Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const std::int64_t d : {2, 6, 64, 128}) {
    const std::int64_t n = 4, heads = 3;
    const Ints position = {0, 1, 16383, 262143};
    const auto x = random_elements<TestType>(n * heads * d, 3);
    OpsBuffer<TestType> y(*ops, x);  // in place
    const OpsBuffer<TestType, std::int32_t> device_position(*ops, position);
    ops->rope({.n = n,
               .heads = heads,
               .head_dim = d,
               .theta = 500000.0,
               .position = device_position.data(),
               .x = y.data(),
               .y = y.data()});
    std::vector<double> want = widen_all(x);
    rope_cpu(RopeParams<double>{.n = n,
                                .heads = heads,
                                .head_dim = d,
                                .theta = 500000.0,
                                .position = position.data(),
                                .x = want.data(),
                                .y = want.data()},
             1);
    CHECK(relative_error(widen_all(y.read()), want) < kTolerance<TestType>);
  }
}

TEMPLATE_TEST_CASE("CUDA rope_append takes the joint projection's rows apart as the CPU does",
                   "[rope_append]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const auto& [heads, kv_heads, d, gate_count] : {std::array<std::int64_t, 4>{4, 2, 64, 24},
                                                       {32, 8, 64, 96},
                                                       {3, 1, 6, 9},
                                                       {0, 2, 16, 0},
                                                       {9, 3, 64, 27},
                                                       {2, 1, 128, 0},
                                                       {1, 1, 256, 3}}) {
    for (const int before : {0, 1, 2, 3}) {  // a bias, norms
      const std::int64_t n = 4, whole = ((heads + 2 * kv_heads) * d + gate_count + 7) / 8 * 8;
      const bool spaced = gate_count % 2 == 1 && before != 1;  // rows of whole words
      const std::int64_t width = spaced ? whole : (heads + 2 * kv_heads) * d + gate_count;
      const bool biased = before % 2 == 1, normed = before / 2 == 1;
      const std::vector<TestType> bias = random_elements<TestType>((heads + 2 * kv_heads) * d, 33),
                                  q_norm = random_elements<TestType>(d, 34),
                                  k_norm = random_elements<TestType>(d, 35);
      const OpsBuffer<TestType> device_bias(*ops, bias), device_q_norm(*ops, q_norm),
          device_k_norm(*ops, k_norm);
      std::vector<double> frequency;
      for (std::int64_t i = 0; i < d / 2; ++i) {
        frequency.push_back(std::pow(3.0, -static_cast<double>(i) / 4.0));
      }
      const OpsBuffer<TestType, double> device_frequency(*ops, frequency);
      const Ints position = {0, 1, 16383, 262143};
      const auto x = random_elements<TestType>(n * width, 31);
      const OpsBuffer<TestType> device_x(*ops, x);
      const OpsBuffer<TestType, std::int32_t> device_position(*ops, position);
      const OpsBuffer<TestType, float> cosine(*ops, n * d / 2), sine(*ops, n * d / 2);
      ops->embed({.angles = {.n = n,
                             .head_dim = d,
                             .theta = 500000.0,
                             .frequency = biased ? device_frequency.data() : nullptr,
                             .scale = biased ? 1.25 : 1.0,
                             .position = device_position.data(),
                             .cosine = cosine.data(),
                             .sine = sine.data()}});
      OpsBuffer<TestType> q = test::poisoned<TestType>(*ops, n * heads * d);
      OpsBuffer<TestType> gates = test::poisoned<TestType>(*ops, n * gate_count);
      OpsBuffer<TestType> kv[3];
      for (OpsBuffer<TestType>& buffer : kv) {
        buffer = test::poisoned<TestType>(*ops, n * kv_heads * d);
      }
      const Ints cache_row = {6, 0, 5, 2};
      const std::int64_t cache_size = 7 * kv_heads * d;
      const OpsBuffer<TestType, std::int32_t> device_cache_row(*ops, cache_row);
      const std::vector<TestType> cache_before = random_elements<TestType>(cache_size, 32);
      const OpsBuffer<TestType> cache[2] = {{*ops, cache_before}, {*ops, cache_before}};
      ops->rope_append({.n = n,
                        .num_heads = heads,
                        .num_kv_heads = kv_heads,
                        .head_dim = d,
                        .gate_count = gate_count,
                        .x_stride = spaced ? width : 0,
                        .x = device_x.data(),
                        .bias = biased ? device_bias.data() : nullptr,
                        .q_norm = normed ? device_q_norm.data() : nullptr,
                        .k_norm = normed ? device_k_norm.data() : nullptr,
                        .norm_eps = 1e-3,
                        .cosine = cosine.data(),
                        .sine = sine.data(),
                        .q = q.data(),
                        .k_raw = kv[0].data(),
                        .k = kv[1].data(),
                        .v = kv[2].data(),
                        .gates = gates.data(),
                        .cache_row = device_cache_row.data(),
                        .k_cache = cache[0].data(),
                        .v_cache = cache[1].data()});
      const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
      const std::vector<double> wide = widen_all(x), wide_bias = widen_all(bias),
                                wide_q_norm = widen_all(q_norm), wide_k_norm = widen_all(k_norm);
      std::vector<double> table(size(n * d)), want_q(size(n * heads * d)),
          want_gates(size(n * gate_count));
      std::vector<double> want_kv[3];
      for (std::vector<double>& want : want_kv) {
        want.resize(size(n * kv_heads * d));
      }
      rope_table_cpu(RopeTableParams<double>{.n = n,
                                             .head_dim = d,
                                             .theta = 500000.0,
                                             .frequency = biased ? frequency.data() : nullptr,
                                             .scale = biased ? 1.25 : 1.0,
                                             .position = position.data(),
                                             .cosine = table.data(),
                                             .sine = table.data() + n * d / 2},
                     1);
      rope_append_cpu(RopeAppendParams<double>{.n = n,
                                               .num_heads = heads,
                                               .num_kv_heads = kv_heads,
                                               .head_dim = d,
                                               .gate_count = gate_count,
                                               .x_stride = spaced ? width : 0,
                                               .x = wide.data(),
                                               .bias = biased ? wide_bias.data() : nullptr,
                                               .q_norm = normed ? wide_q_norm.data() : nullptr,
                                               .k_norm = normed ? wide_k_norm.data() : nullptr,
                                               .norm_eps = 1e-3,
                                               .cosine = table.data(),
                                               .sine = table.data() + n * d / 2,
                                               .q = want_q.data(),
                                               .k_raw = want_kv[0].data(),
                                               .k = want_kv[1].data(),
                                               .v = want_kv[2].data(),
                                               .gates = want_gates.data()},
                      1);
      INFO("heads " << heads << " d " << d << " bias " << biased << " norms " << normed);
      for (int i = 0; i < 2; ++i) {  // the rows written once more, and no others
        std::vector<TestType> want = cache_before;
        const std::vector<TestType> rows = kv[i + 1].read();
        for (std::int64_t row = 0; row < n; ++row) {
          std::copy_n(rows.begin() + row * kv_heads * d, kv_heads * d,
                      want.begin() + cache_row[size(row)] * kv_heads * d);
        }
        const std::vector<TestType> got = cache[i].read();
        CHECK(std::memcmp(got.data(), want.data(), want.size() * sizeof want[0]) == 0);
      }
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(relative_error(widen_all(kv[i].read()), want_kv[i]) < kTolerance<TestType>);
      }
      CHECK((heads == 0 || relative_error(widen_all(q.read()), want_q) < kTolerance<TestType>));
      CHECK((gate_count == 0 ||
             relative_error(widen_all(gates.read()), want_gates) < kTolerance<TestType>));
    }
  }
}

TEMPLATE_TEST_CASE("CUDA attention takes joint rows apart with the bits of rope_append before it",
                   "[joint][race]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  using Shape = testing::JointAttentionShape;
  const auto fill = [](std::int64_t count, std::uint64_t seed) {
    return random_elements<TestType>(count, seed);
  };
  const auto same = [](const auto& a, const auto& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
  };
  for (const Shape& s :
       {Shape{}, Shape{.heads = 8, .kv_heads = 2, .head_dim = 32, .context_len = 40, .level = 3},
        Shape{.heads = 32, .kv_heads = 2, .head_dim = 128, .context_len = 530, .level = 2},
        Shape{.heads = 12, .kv_heads = 2, .head_dim = 16, .context_len = 1, .level = 1}}) {
    CAPTURE(s.heads, s.kv_heads, s.head_dim);
    const auto apart = testing::joint_attention<TestType>(*ops, s, fill, false);
    const auto joint = testing::joint_attention<TestType>(*ops, s, fill, true);
    CHECK(same(joint.out, apart.out));
    CHECK(same(joint.k_tree, apart.k_tree));
    CHECK(same(joint.v_tree, apart.v_tree));
    CHECK(test::widen_all(joint.out)[0] != 0.0);
  }
}

TEMPLATE_TEST_CASE("CUDA embed has the bits of its parts in one launch", "[embed][race]", float,
                   Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  // 6: no 16-byte words; 320 and 128: whole ones; 4104: wider than what registers hold.
  for (const std::int64_t k : {6, 320, 4104}) {
    for (const std::int64_t n : {1, 7, 64}) {
      const std::int64_t rows = 70, d = 64, places = n * d / 2;
      const auto row = [&](std::int64_t factor) {
        Ints list(static_cast<std::size_t>(n));
        for (std::int64_t i = 0; i < n; ++i) {
          list[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((i * factor + 3) % rows);
        }
        return OpsBuffer<TestType, std::int32_t>(*ops, list);
      };
      const OpsBuffer<TestType, std::int32_t> token = row(11), feature = row(29), position = row(5);
      const OpsBuffer<TestType> table(*ops, random_elements<TestType>(rows * k, 51, 2.0));
      const OpsBuffer<TestType> output(*ops, random_elements<TestType>(rows * k, 52, 3.0));
      const OpsBuffer<TestType> weight(*ops, random_elements<TestType>(2 * k, 53));
      struct Result {
        std::vector<TestType> input, copy;
        std::vector<float> angles;
      };
      const auto run = [&](bool together) {
        const OpsBuffer<TestType> input = test::poisoned<TestType>(*ops, n * 2 * k);
        const OpsBuffer<TestType> copy = test::poisoned<TestType>(*ops, n * k);
        const OpsBuffer<TestType, float> angles(*ops, 2 * places);
        EmbedParams<TestType> p{.token = {.n = n,
                                          .k = k,
                                          .y_stride = 2 * k,
                                          .x_row = token.data(),
                                          .x = table.data(),
                                          .weight = weight.data(),
                                          .y = input.data()},
                                .feature = {.n = n,
                                            .k = k,
                                            .y_stride = 2 * k,
                                            .x_row = feature.data(),
                                            .x = output.data(),
                                            .weight = weight.data() + k,
                                            .y = input.data() + k,
                                            .copy = copy.data()},
                                .angles = {.n = n,
                                           .head_dim = d,
                                           .theta = 500000.0,
                                           .position = position.data(),
                                           .cosine = angles.data(),
                                           .sine = angles.data() + places}};
        if (together) {
          ops->embed(p);
        } else {
          ops->embed({.token = p.token});
          ops->embed({.token = p.feature});
          ops->embed({.angles = p.angles});
        }
        return Result{input.read(), copy.read(), angles.read()};
      };
      const Result all = run(true), parts = run(false);
      INFO("k " << k << " n " << n);
      const auto same = [](const auto& a, const auto& b) {
        return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
      };
      CHECK(same(all.input, parts.input));
      CHECK(same(all.copy, parts.copy));
      CHECK(same(all.angles, parts.angles));
      CHECK(all.angles[static_cast<std::size_t>(places - 1)] != 0.0F);
    }
  }
}

TEMPLATE_TEST_CASE("CUDA swiglu and sigmoid agree with the CPU", "[swiglu]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  std::vector<TestType> gate = random_elements<TestType>(1003, 4, 4.0);
  gate[0] = test::narrow<TestType>(-200.0F);
  gate[1] = test::narrow<TestType>(200.0F);
  const auto up = random_elements<TestType>(1003, 5);
  const OpsBuffer<TestType> device_gate(*ops, gate), device_up(*ops, up);
  OpsBuffer<TestType> y = test::poisoned<TestType>(*ops, 1003);
  const std::vector<double> wide_gate = widen_all(gate), wide_up = widen_all(up);
  std::vector<double> want(gate.size());
  ops->swiglu({.count = 1003, .gate = device_gate.data(), .up = device_up.data(), .y = y.data()});
  swiglu_cpu(
      SwigluParams<double>{
          .count = 1003, .gate = wide_gate.data(), .up = wide_up.data(), .y = want.data()},
      1);
  CHECK(relative_error(widen_all(y.read()), want) < kTolerance<TestType>);
  ops->sigmoid({.count = 1003, .x = device_gate.data(), .y = y.data()});
  sigmoid_cpu(SigmoidParams<double>{.count = 1003, .x = wide_gate.data(), .y = want.data()}, 1);
  CHECK(relative_error(widen_all(y.read()), want) < kTolerance<TestType>);
}

TEMPLATE_TEST_CASE("CUDA copy_rows moves the CPU form's bytes, in wide words or not", "[copy_rows]",
                   float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const std::int64_t width : {1, 7, 8, 64, 2048, 32776, 70001}) {
    const std::int64_t src_stride = width + (width % 8 == 0 ? 8 : 1), dst_stride = 2 * width;
    const Ints from = {4, 0, 2}, to = {1, 5, 0};
    const auto src = random_elements<TestType>(5 * src_stride, 6);
    std::vector<TestType> want(static_cast<std::size_t>(6 * dst_stride),
                               test::narrow<TestType>(-1.0F));
    const OpsBuffer<TestType> device_src(*ops, src), device_dst(*ops, want);
    const OpsBuffer<TestType, std::int32_t> device_from(*ops, from), device_to(*ops, to);
    CopyRowsParams<TestType> p{.rows = 3,
                               .width = width,
                               .src_stride = src_stride,
                               .dst_stride = dst_stride,
                               .src_row = device_from.data(),
                               .dst_row = device_to.data(),
                               .src = device_src.data(),
                               .dst = device_dst.data()};
    ops->copy_rows(p);
    for (std::size_t i = 0; i < 3; ++i) {
      std::copy_n(src.begin() + from[i] * src_stride, width, want.begin() + to[i] * dst_stride);
    }
    const std::vector<TestType> got = device_dst.read();
    CHECK(std::memcmp(got.data(), want.data(), want.size() * sizeof(TestType)) == 0);
  }
}

namespace {

template <class T>
void check_topk(Ops<T>& ops, std::int64_t rows, std::int64_t length, std::int64_t k,
                const std::vector<float>& values) {
  const auto scores = test::narrow_all<T>(values);
  Ints want(static_cast<std::size_t>(rows * k));
  std::vector<T> want_values(want.size());
  TopkParams<T> p{.rows = rows,
                  .length = length,
                  .k = k,
                  .scores = scores.data(),
                  .indices = want.data(),
                  .values = want_values.data()};
  topk_cpu(p, 2);
  const OpsBuffer<T> device_scores(ops, scores);
  OpsBuffer<T, std::int32_t> indices(ops, Ints(want.size(), -7));
  OpsBuffer<T> got_values = test::poisoned<T>(ops, rows * k);
  p.scores = device_scores.data();
  p.indices = indices.data();
  p.values = got_values.data();
  ops.topk(p);
  INFO("R " << rows << " Lp " << length << " k " << k);
  REQUIRE(indices.read() == want);
  const std::vector<T> got = got_values.read();
  REQUIRE(std::memcmp(got.data(), want_values.data(), got.size() * sizeof(T)) == 0);
}

}  // namespace

TEMPLATE_TEST_CASE("CUDA topk equals the CPU on random, equal and adversarial scores", "[topk]",
                   float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const float denormal = std::bit_cast<float>(std::uint32_t{0x00010000});
  const float pool[] = {nan,      -nan,      infinity,     -infinity, 0.0F, -0.0F,
                        denormal, -denormal, 2 * denormal, 1.0F,      1.0F, -1.0F};
  for (const auto& [rows, length] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 7}, {5, 100}, {4, 4097}, {2, 20000}}) {
    const std::vector<float> random = test::random_tensor<float>(rows * length, 8);
    std::vector<float> adversarial(random.size());
    for (std::size_t i = 0; i < random.size(); ++i) {
      adversarial[i] = pool[i * 7 % 11 + (i * i) % 2];
    }
    for (const std::int64_t k : {std::int64_t{1}, length / 3 + 1, length, length + 5}) {
      check_topk(*ops, rows, length, k, random);
      check_topk(*ops, rows, length, k, adversarial);
      check_topk(*ops, rows, length, k, std::vector<float>(random.size(), 0.25F));
    }
  }
}

}  // namespace versieve::kernels
