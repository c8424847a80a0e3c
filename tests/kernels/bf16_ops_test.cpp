// The CPU's ops in bf16: what the double ops give for the same numbers, each result rounded once;
// and rows whose bits do not follow the other rows of a call.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/common/rounded.h"
#include "kernels/cpu.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::kernels {
namespace {

// The same numbers in both formats.
struct Numbers {
  Numbers(std::int64_t count, std::uint32_t seed, double scale = 1.0) {
    for (const double value : test::random_tensor<double>(count, seed, scale)) {
      half.push_back(to_bf16(value));
      whole.push_back(static_cast<double>(to_float(half.back())));
    }
  }
  std::vector<Bf16> half;
  std::vector<double> whole;
};

std::vector<Bf16> poisoned(std::int64_t count) {
  return std::vector<Bf16>(static_cast<std::size_t>(count), to_bf16(-777.0));
}

// One rounding: half a unit of the last of 8 bits; and what f32 sums leave.
void check_rounded(const std::vector<Bf16>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(to_float(got[i])) - want[i]);
    if (difference > 1.01 * 0x1p-8 * std::abs(want[i]) + 2e-5) {
      INFO("element " << i);
      CHECK(to_float(got[i]) == Approx(want[i]).epsilon(0x1p-8));
    }
  }
}

bool same_bits(std::span<const Bf16> a, std::span<const Bf16> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](Bf16 x, Bf16 y) { return x.bits == y.bits; });
}

}  // namespace

TEST_CASE("linear in bf16 is the double product rounded once, whatever the other rows") {
  constexpr std::int64_t kN = 7, kK = 129, kM = 401;
  const Numbers x(kN * kK, 1), w(2 * kM * kK, 2, 0.1), residual(kN * kM, 3);
  const auto run = [&]<class T>(const std::vector<T>& rows, const std::vector<T>& weights,
                                const T* added, bool swiglu, T* y, std::int64_t first,
                                std::int64_t n) {
    linear_cpu(LinearParams<T>{.n = n,
                               .k = kK,
                               .m = kM,
                               .swiglu = swiglu,
                               .x = rows.data() + first * kK,
                               .w = weights.data(),
                               .residual = added == nullptr ? nullptr : added + first * kM,
                               .y = y},
               2);
  };
  for (const bool swiglu : {false, true}) {
    std::vector<double> want(kN * kM);
    std::vector<Bf16> got = poisoned(kN * kM), row = poisoned(kM);
    const double* const whole = swiglu ? nullptr : residual.whole.data();
    const Bf16* const half = swiglu ? nullptr : residual.half.data();
    run(x.whole, w.whole, whole, swiglu, want.data(), 0, kN);
    run(x.half, w.half, half, swiglu, got.data(), 0, kN);
    check_rounded(got, want);
    for (std::int64_t n = 0; n < kN; ++n) {
      run(x.half, w.half, half, swiglu, row.data(), n, 1);
      CHECK(same_bits(row, std::span(got).subspan(static_cast<std::size_t>(n * kM), kM)));
    }
  }
}

TEST_CASE("norms folded into linear layers see the rounded row in bf16") {
  constexpr std::int64_t kN = 3, kK = 40, kM = 50;
  const Numbers x(kN * kK, 4), w(kM * kK, 5), weight(kM, 6);
  std::vector<Bf16> y = poisoned(kN * kM), weighted = poisoned(kN * kM), copy = poisoned(kN * kM);
  std::vector<SquareSum> squares(kN, 0), scaled = {1 << 20, 1 << 24, 1 << 28}, cleared(kN, 9);
  LinearParams<Bf16> p{.n = kN,
                       .k = kK,
                       .m = kM,
                       .x = x.half.data(),
                       .w = w.half.data(),
                       .y = y.data(),
                       .y_copy = copy.data(),
                       .y_copy_stride = kM};
  p.norm = {.x_squares = scaled.data(),
            .cleared = cleared.data(),
            .y_weight = weight.half.data(),
            .y_weighted = weighted.data(),
            .y_squares = squares.data()};
  linear_cpu(p, 1);
  CHECK(cleared == std::vector<SquareSum>(kN, 0));
  CHECK(same_bits(y, copy));
  std::vector<double> want;
  for (std::size_t n = 0; n < kN; ++n) {
    double sum = 0.0;
    for (std::size_t m = 0; m < kM; ++m) {
      const double rounded = static_cast<double>(to_float(y[n * kM + m]));
      sum += rounded * rounded;
      want.push_back(rounded * weight.whole[m]);
    }
    CHECK(static_cast<double>(squares[n]) * kSquareSumUnit == Approx(sum).epsilon(1e-6));
  }
  check_rounded(weighted, want);
}

TEST_CASE("rows are turned, biased and normed in bf16 as in double") {
  constexpr std::int64_t kN = 5, kH = 4, kG = 2, kD = 16, kGates = 12;
  constexpr std::int64_t kWidth = (kH + 2 * kG) * kD + kGates;
  const Numbers x(kN * kWidth, 7), bias((kH + 2 * kG) * kD, 8), q_norm(kD, 9), k_norm(kD, 10);
  std::vector<std::int32_t> position = {3, 4, 5, 100, 101};
  const auto run = [&]<class T>(const std::vector<T>& rows, const T* added, const T* of_q,
                                const T* of_k, std::vector<T>(&out)[5]) {
    std::vector<SumOf<T>> cosine(kN * kD / 2), sine(kN * kD / 2);
    rope_table_cpu(RopeTableParams<T>{.n = kN,
                                      .head_dim = kD,
                                      .position = position.data(),
                                      .cosine = cosine.data(),
                                      .sine = sine.data()},
                   1);
    const std::int64_t sizes[5] = {kN * kH * kD, kN * kG * kD, kN * kG * kD, kN * kG * kD,
                                   kN * kGates};
    for (std::size_t i = 0; i < 5; ++i) {
      out[i].assign(static_cast<std::size_t>(sizes[i]), T{});
    }
    rope_append_cpu(RopeAppendParams<T>{.n = kN,
                                        .num_heads = kH,
                                        .num_kv_heads = kG,
                                        .head_dim = kD,
                                        .gate_count = kGates,
                                        .x = rows.data(),
                                        .bias = added,
                                        .q_norm = of_q,
                                        .k_norm = of_k,
                                        .cosine = cosine.data(),
                                        .sine = sine.data(),
                                        .q = out[0].data(),
                                        .k_raw = out[1].data(),
                                        .k = out[2].data(),
                                        .v = out[3].data(),
                                        .gates = out[4].data()},
                    2);
  };
  for (const bool prepared : {false, true}) {
    CAPTURE(prepared);
    std::vector<Bf16> got[5];
    std::vector<double> want[5];
    run(x.half, prepared ? bias.half.data() : nullptr, prepared ? q_norm.half.data() : nullptr,
        prepared ? k_norm.half.data() : nullptr, got);
    run(x.whole, prepared ? bias.whole.data() : nullptr, prepared ? q_norm.whole.data() : nullptr,
        prepared ? k_norm.whole.data() : nullptr, want);
    for (std::size_t i = 0; i < 5; ++i) {
      check_rounded(got[i], want[i]);
    }
  }
}

TEST_CASE("norms, activations and lists of logits in bf16 are those of the same doubles") {
  constexpr std::int64_t kN = 4, kK = 60;
  const Numbers x(kN * kK, 11), weight(kK, 12);
  std::vector<Bf16> normed = poisoned(kN * kK), gated = poisoned(kN * kK);
  std::vector<double> norm(kN * kK), gate(kN * kK);
  rms_norm_cpu(
      RmsNormParams<Bf16>{
          .n = kN, .k = kK, .x = x.half.data(), .weight = weight.half.data(), .y = normed.data()},
      1);
  rms_norm_cpu(
      RmsNormParams<double>{
          .n = kN, .k = kK, .x = x.whole.data(), .weight = weight.whole.data(), .y = norm.data()},
      1);
  check_rounded(normed, norm);
  swiglu_cpu(SwigluParams<Bf16>{.count = kN * kK - kK,
                                .gate = x.half.data(),
                                .up = x.half.data() + kK,
                                .y = gated.data()},
             1);
  swiglu_cpu(SwigluParams<double>{.count = kN * kK - kK,
                                  .gate = x.whole.data(),
                                  .up = x.whole.data() + kK,
                                  .y = gate.data()},
             1);
  gated.resize(static_cast<std::size_t>(kN * kK - kK));
  gate.resize(gated.size());
  check_rounded(gated, gate);

  std::vector<std::int32_t> listed(kN * 8), expected(kN * 8);
  std::vector<float> probability(kN * 8), expected_probability(kN * 8);
  top_logits_cpu(TopLogitsParams<Bf16>{.rows = kN,
                                       .vocab = kK,
                                       .k = 8,
                                       .logits = x.half.data(),
                                       .index = listed.data(),
                                       .log_probability = probability.data()},
                 1);
  top_logits_cpu(TopLogitsParams<double>{.rows = kN,
                                         .vocab = kK,
                                         .k = 8,
                                         .logits = x.whole.data(),
                                         .index = expected.data(),
                                         .log_probability = expected_probability.data()},
                 1);
  CHECK(listed == expected);
  CHECK(probability == expected_probability);
}

}  // namespace versieve::kernels
