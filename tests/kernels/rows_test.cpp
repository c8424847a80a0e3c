// rms_norm, rope, swiglu, sigmoid and copy_rows against their equations written out.
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "kernels/cpu.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::kernels {

using test::random_tensor;
using test::relative_error;

TEMPLATE_TEST_CASE("rms_norm divides by the root of the mean square", "[rms_norm]", float, double) {
  const std::int64_t n = 5, k = 67, stride = 70;
  const auto x = random_tensor<TestType>(n * stride, 1, 3.0);
  const auto weight = random_tensor<TestType>(k, 2);
  std::vector<TestType> y(static_cast<std::size_t>(n * k));
  rms_norm_cpu(RmsNormParams<TestType>{.n = n,
                                       .k = k,
                                       .x_stride = stride,
                                       .eps = 1e-5,
                                       .x = x.data(),
                                       .weight = weight.data(),
                                       .y = y.data()},
               1);
  std::vector<double> want(y.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::size_t row = i / 67, column = i % 67;
    double square = 0.0;
    for (std::size_t j = 0; j < 67; ++j) {
      square += std::pow(static_cast<double>(x[row * 70 + j]), 2);
    }
    want[i] = static_cast<double>(x[row * 70 + column]) / std::sqrt(square / 67.0 + 1e-5) *
              static_cast<double>(weight[column]);
  }
  CHECK(relative_error(y, want) < (sizeof(TestType) == 4 ? 1e-6 : 1e-14));
}

TEST_CASE("a row of rms_norm has the same bits whatever rows stand beside it", "[rms_norm]") {
  const std::int64_t n = 2000, k = 96;  // enough to be shared between threads
  const auto x = random_tensor<float>(n * k, 3);
  const auto weight = random_tensor<float>(k, 4);
  std::vector<float> all(x.size());
  RmsNormParams<float> p{.n = n, .k = k, .x = x.data(), .weight = weight.data(), .y = all.data()};
  rms_norm_cpu(p, 2);
  std::vector<float> one(static_cast<std::size_t>(k));
  for (const std::int64_t row : {0, 7, 999, 1999}) {
    p.n = 1;
    p.x = x.data() + row * k;
    p.y = one.data();
    rms_norm_cpu(p, 1);
    CHECK(std::memcmp(one.data(), all.data() + row * k, one.size() * sizeof(float)) == 0);
  }
}

TEMPLATE_TEST_CASE("rms_norm's first half gathers, keeps and weighs rows and adds their squares",
                   "[rms_norm]", float, double) {
  const std::int64_t n = 4, k = 33, rows = 9;
  const std::vector<std::int32_t> row = {7, 0, 7, 3};
  const auto x = random_tensor<TestType>(rows * k, 5, 2.0);
  const auto weight = random_tensor<TestType>(k, 6);
  std::vector<TestType> y(static_cast<std::size_t>(n * k)), copy(y.size());
  std::vector<SquareSum> squares(static_cast<std::size_t>(n), 5);
  rms_norm_cpu(RmsNormParams<TestType>{.n = n,
                                       .k = k,
                                       .x_row = row.data(),
                                       .x = x.data(),
                                       .weight = weight.data(),
                                       .y = y.data(),
                                       .copy = copy.data(),
                                       .squares = squares.data()},
               1);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t column = i % 33;
    const TestType value = x[static_cast<std::size_t>(row[i / 33]) * 33 + column];
    CHECK(copy[i] == value);
    CHECK(y[i] == Approx(value * weight[column]));
  }
  for (std::size_t i = 0; i < squares.size(); ++i) {
    double square = 0.0;
    for (std::size_t j = 0; j < 33; ++j) {
      square += std::pow(static_cast<double>(copy[i * 33 + j]), 2);
    }
    CHECK(static_cast<double>(squares[i]) * kSquareSumUnit == Approx(square));
  }
}

TEMPLATE_TEST_CASE("rope turns pairs (i, i + d/2) by position * theta^(-2i/d)", "[rope]", float,
                   double) {
  const std::int64_t n = 3, heads = 2, d = 6;
  const std::vector<std::int32_t> position = {0, 5, 16383};
  const auto x = random_tensor<TestType>(n * heads * d, 5);
  std::vector<TestType> y = x;  // in place
  rope_cpu(RopeParams<TestType>{.n = n,
                                .heads = heads,
                                .head_dim = d,
                                .theta = 10000.0,
                                .position = position.data(),
                                .x = y.data(),
                                .y = y.data()},
           1);
  std::vector<double> want(x.size());
  for (std::size_t at = 0; at < want.size(); ++at) {
    const std::size_t i = at % 6, pair = i % 3, row = at / 12;
    const double angle = position[row] * std::pow(10000.0, -2.0 * static_cast<double>(pair) / 6.0);
    const double partner = i < 3 ? -static_cast<double>(x[at + 3]) : static_cast<double>(x[at - 3]);
    want[at] = static_cast<double>(x[at]) * std::cos(angle) + partner * std::sin(angle);
  }
  CHECK(relative_error(y, want) < (sizeof(TestType) == 4 ? 1e-6 : 1e-14));
  CHECK(std::equal(x.begin(), x.begin() + heads * d, y.begin()));  // position 0 turns nothing
}

TEMPLATE_TEST_CASE("rope_append is rope, copies and the sigmoid on the parts of a joint row",
                   "[rope_append]", float, double) {
  const std::int64_t n = 3, heads = 3, kv_heads = 2, d = 6, gates = 5;
  const std::int64_t q_width = heads * d, kv_width = kv_heads * d;
  const std::int64_t width = q_width + 2 * kv_width + gates;
  const std::vector<std::int32_t> position = {0, 5, 16383};
  const auto x = random_tensor<TestType>(n * width, 21);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    std::vector<TestType> rows;
    for (std::int64_t row = 0; row < n; ++row) {
      const auto begin = x.begin() + row * width + first;
      rows.insert(rows.end(), begin, begin + count);
    }
    return rows;
  };
  const auto turned = [&](std::vector<TestType> rows, std::int64_t row_heads) {
    rope_cpu(RopeParams<TestType>{.n = n,
                                  .heads = row_heads,
                                  .head_dim = d,
                                  .position = position.data(),
                                  .x = rows.data(),
                                  .y = rows.data()},
             1);
    return rows;
  };
  std::vector<TestType> want_gates = part(q_width + 2 * kv_width, gates);
  sigmoid_cpu(
      SigmoidParams<TestType>{.count = n * gates, .x = want_gates.data(), .y = want_gates.data()},
      1);
  std::vector<TestType> cosine(static_cast<std::size_t>(n * d / 2)), sine(cosine);
  rope_table_cpu(RopeTableParams<TestType>{.n = n,
                                           .head_dim = d,
                                           .position = position.data(),
                                           .cosine = cosine.data(),
                                           .sine = sine.data()},
                 1);
  const std::vector<TestType> poison(x.size(), TestType(-777));
  std::vector<TestType> q = poison, k_raw = poison, k = poison, v = poison, gate = poison;
  // Keys and values also go to the cache's rows 2 i, but for one whose row is none.
  std::vector<std::int32_t> cache_row(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < cache_row.size(); ++i) {
    cache_row[i] = i == 1 ? -1 : static_cast<std::int32_t>(2 * i);
  }
  std::vector<TestType> k_cache(static_cast<std::size_t>(2 * n * kv_width), TestType(-777));
  std::vector<TestType> v_cache = k_cache;
  rope_append_cpu(RopeAppendParams<TestType>{.n = n,
                                             .num_heads = heads,
                                             .num_kv_heads = kv_heads,
                                             .head_dim = d,
                                             .gate_count = gates,
                                             .x = x.data(),
                                             .cosine = cosine.data(),
                                             .sine = sine.data(),
                                             .q = q.data(),
                                             .k_raw = k_raw.data(),
                                             .k = k.data(),
                                             .v = v.data(),
                                             .gates = gate.data(),
                                             .cache_row = cache_row.data(),
                                             .k_cache = k_cache.data(),
                                             .v_cache = v_cache.data()},
                  2);
  const auto is = [&](std::vector<TestType>& got, const std::vector<TestType>& want) {
    const bool untouched = got[want.size()] == TestType(-777);
    got.resize(want.size());
    return untouched && got == want;
  };
  CHECK(is(q, turned(part(0, q_width), heads)));
  CHECK(is(k_raw, part(q_width, kv_width)));
  CHECK(is(k, turned(part(q_width, kv_width), kv_heads)));
  CHECK(is(v, part(q_width + kv_width, kv_width)));
  CHECK(is(gate, want_gates));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto doubled = [&](const std::vector<TestType>& rows, const std::vector<TestType>& all) {
      const bool kept = std::equal(rows.begin() + i * kv_width, rows.begin() + (i + 1) * kv_width,
                                   all.begin() + 2 * i * kv_width);
      return kept == (i != 1) &&
             all[static_cast<std::size_t>((2 * i + 1) * kv_width)] == TestType(-777);
    };
    CHECK(doubled(k, k_cache));
    CHECK(doubled(v, v_cache));
  }
}

// What comes before rotary, worked out beside, then rope_append without it.
TEMPLATE_TEST_CASE("rope_append adds a bias and norms heads before it turns them", "[rope_append]",
                   float, double) {
  const std::int64_t n = 2, heads = 3, kv_heads = 1, d = 8, gates = 2;
  const std::int64_t parts = heads + 2 * kv_heads, width = parts * d + gates;
  const auto x = random_tensor<TestType>(n * width, 51);
  const auto bias = random_tensor<TestType>(parts * d, 52);
  const auto q_norm = random_tensor<TestType>(d, 53), k_norm = random_tensor<TestType>(d, 54);
  const auto cosine = random_tensor<TestType>(n * d / 2, 55);
  const auto sine = random_tensor<TestType>(n * d / 2, 56);
  using Rows = std::vector<TestType>;
  struct Parts {
    Rows q = Rows(48), k_raw = Rows(16), k = Rows(16), v = Rows(16), gate = Rows(4);
  };
  const auto run = [&](const Rows& rows, bool biased, bool normed) {
    Parts out;
    rope_append_cpu(RopeAppendParams<TestType>{.n = n,
                                               .num_heads = heads,
                                               .num_kv_heads = kv_heads,
                                               .head_dim = d,
                                               .gate_count = gates,
                                               .x = rows.data(),
                                               .bias = biased ? bias.data() : nullptr,
                                               .q_norm = normed ? q_norm.data() : nullptr,
                                               .k_norm = normed ? k_norm.data() : nullptr,
                                               .norm_eps = 1e-3,
                                               .cosine = cosine.data(),
                                               .sine = sine.data(),
                                               .q = out.q.data(),
                                               .k_raw = out.k_raw.data(),
                                               .k = out.k.data(),
                                               .v = out.v.data(),
                                               .gates = out.gate.data()},
                    1);
    return out;
  };
  const auto prepared = [&](bool biased, bool normed) {
    Rows rows = x;
    for (std::int64_t head = 0; head < n * parts; ++head) {
      const std::int64_t h = head % parts;
      TestType* const at = rows.data() + head / parts * width + h * d;
      double squares = 0.0;
      for (std::int64_t e = 0; e < d; ++e) {
        at[e] += biased ? bias[static_cast<std::size_t>(h * d + e)] : TestType(0);
        squares += static_cast<double>(at[e]) * static_cast<double>(at[e]);
      }
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(d) + 1e-3);
      const Rows& weight = h < heads ? q_norm : k_norm;
      for (std::int64_t e = 0; e < d && normed && h < heads + kv_heads; ++e) {
        at[e] = static_cast<TestType>(static_cast<double>(at[e]) * scale *
                                      static_cast<double>(weight[static_cast<std::size_t>(e)]));
      }
    }
    return rows;
  };
  for (const bool biased : {false, true}) {
    for (const bool normed : {false, true}) {
      CAPTURE(biased, normed);
      const Parts got = run(x, biased, normed);
      const Parts want = run(prepared(biased, normed), false, false);
      const double bound = sizeof(TestType) == 4 ? 1e-6 : 1e-14;
      const auto wide = [](const Rows& rows) {
        return std::vector<double>(rows.begin(), rows.end());
      };
      CHECK(relative_error(got.q, wide(want.q)) < bound);
      CHECK(relative_error(got.k_raw, wide(want.k_raw)) < bound);
      CHECK(relative_error(got.k, wide(want.k)) < bound);
      CHECK(relative_error(got.v, wide(want.v)) < bound);
      CHECK(got.gate == want.gate);
    }
  }
}

TEST_CASE("rope_append passes over what lies between the rows", "[rope_append]") {
  const std::int64_t n = 2, d = 4, gates = 3, width = 3 * d + gates, stride = 16;
  const auto x = random_tensor<double>(n * width, 61);
  std::vector<double> spaced(static_cast<std::size_t>(n * stride), -777.0);
  for (std::int64_t i = 0; i < n * width; ++i) {
    spaced[static_cast<std::size_t>(i / width * stride + i % width)] =
        x[static_cast<std::size_t>(i)];
  }
  const auto cosine = random_tensor<double>(n * d / 2, 62), sine = random_tensor<double>(4, 63);
  const auto run = [&](const std::vector<double>& rows, std::int64_t x_stride) {
    std::vector<double> out(static_cast<std::size_t>(n * width));
    double* const q = out.data();
    rope_append_cpu(RopeAppendParams<double>{.n = n,
                                             .num_heads = 1,
                                             .num_kv_heads = 1,
                                             .head_dim = d,
                                             .gate_count = gates,
                                             .x_stride = x_stride,
                                             .x = rows.data(),
                                             .cosine = cosine.data(),
                                             .sine = sine.data(),
                                             .q = q,
                                             .k = q + n * d,
                                             .v = q + 2 * n * d,
                                             .gates = q + 3 * n * d},
                    1);
    return out;
  };
  CHECK(run(spaced, stride) == run(x, 0));
}

TEST_CASE("rotary tables take frequencies and a scale", "[rope_append]") {
  const std::int32_t position[] = {0, 3, 1000};
  const double frequency[] = {1.0, 0.25, 0.001};
  double cosine[9], sine[9];
  rope_table_cpu(RopeTableParams<double>{.n = 3,
                                         .head_dim = 6,
                                         .frequency = frequency,
                                         .scale = 1.5,
                                         .position = position,
                                         .cosine = cosine,
                                         .sine = sine},
                 1);
  for (std::size_t i = 0; i < 9; ++i) {
    const double angle = position[i / 3] * frequency[i % 3];
    CHECK(cosine[i] == Approx(1.5 * std::cos(angle)));
    CHECK(sine[i] == Approx(1.5 * std::sin(angle)));
  }
}

TEST_CASE("swiglu and sigmoid follow their equations to the ends of the range", "[swiglu]") {
  std::vector<float> gate = random_tensor<float>(5000, 6, 4.0);
  gate[0] = -200.0F;  // exp overflows
  gate[1] = 200.0F;
  gate[2] = -0.0F;
  const auto up = random_tensor<float>(5000, 7);
  std::vector<float> y(gate.size()), s(gate.size());
  swiglu_cpu(
      SwigluParams<float>{.count = 5000, .gate = gate.data(), .up = up.data(), .y = y.data()}, 2);
  sigmoid_cpu(SigmoidParams<float>{.count = 5000, .x = gate.data(), .y = s.data()}, 2);
  std::vector<double> want_y(y.size()), want_s(s.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double g = static_cast<double>(gate[i]);
    want_s[i] = 1.0 / (1.0 + std::exp(-g));
    want_y[i] = g * want_s[i] * static_cast<double>(up[i]);
  }
  CHECK(relative_error(y, want_y) < 1e-6);
  CHECK(relative_error(s, want_s) < 1e-6);
  CHECK(s[0] == 0.0F);
  CHECK(s[1] == 1.0F);
  CHECK(s[2] == 0.5F);
}

TEST_CASE("embed runs the parts that it is given and no others", "[embed]") {
  const std::int64_t n = 3, k = 8, d = 4;
  const std::vector<float> x = test::random_tensor<float>(n * k, 31);
  const std::vector<float> weight = test::random_tensor<float>(2 * k, 32);
  const std::vector<std::int32_t> position = {4, 0, 9}, row = {2, 2, 0};
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  std::vector<float> input(size(n * 2 * k), -7.0F), copy(size(n * k)), angles(size(n * d));
  EmbedParams<float> p{.token = {.n = n,
                                 .k = k,
                                 .y_stride = 2 * k,
                                 .x = x.data(),
                                 .weight = weight.data(),
                                 .y = input.data()}};
  embed_cpu(p, 1);
  CHECK(input[size(k)] == -7.0F);  // no second half
  CHECK(input[0] != -7.0F);
  p.token.n = 0;
  p.feature = {.n = n,
               .k = k,
               .y_stride = 2 * k,
               .x_row = row.data(),
               .x = x.data(),
               .weight = weight.data() + k,
               .y = input.data() + k,
               .copy = copy.data()};
  p.angles = {.n = n,
              .head_dim = d,
              .position = position.data(),
              .cosine = angles.data(),
              .sine = angles.data() + n * d / 2};
  const std::vector<float> before = input;
  embed_cpu(p, 1);
  for (std::int64_t i = 0; i < n; ++i) {
    CHECK(std::equal(input.begin() + i * 2 * k, input.begin() + i * 2 * k + k,
                     before.begin() + i * 2 * k));
    CHECK(
        std::equal(copy.begin() + i * k, copy.begin() + (i + 1) * k, x.begin() + row[size(i)] * k));
    CHECK(input[size(i * 2 * k + k)] != -7.0F);
    CHECK(angles[size(i * d / 2)] == Approx(std::cos(static_cast<double>(position[size(i)]))));
    CHECK(angles[size((n + i) * d / 2)] ==
          Approx(std::sin(static_cast<double>(position[size(i)]))));
  }
}

TEST_CASE("copy_rows gathers and scatters rows with strides and touches nothing else",
          "[copy_rows]") {
  std::vector<float> src(5 * 4);
  std::iota(src.begin(), src.end(), 0.0F);
  std::vector<float> dst(6 * 7, -1.0F);
  const std::vector<std::int32_t> from = {4, 0, 2}, to = {1, 5, 0};
  copy_rows_cpu(CopyRowsParams<float>{.rows = 3,
                                      .width = 3,
                                      .src_stride = 4,
                                      .dst_stride = 7,
                                      .src_row = from.data(),
                                      .dst_row = to.data(),
                                      .src = src.data(),
                                      .dst = dst.data()},
                1);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t column = 0; column < 7; ++column) {
      const std::size_t source = row == 1 ? 4 : row == 5 ? 0 : 2;
      const bool copied = column < 3 && (row == 0 || row == 1 || row == 5);
      CHECK(dst[row * 7 + column] == (copied ? src[source * 4 + column] : -1.0F));
    }
  }
  std::vector<float> whole(20, -1.0F);
  copy_rows_cpu(
      CopyRowsParams<float>{.rows = 5, .width = 4, .src = src.data(), .dst = whole.data()}, 1);
  CHECK(whole == src);
}

}  // namespace versieve::kernels
