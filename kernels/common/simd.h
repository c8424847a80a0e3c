// The vector registers of the CPU kernels: 32 bytes of S, with explicit fused multiply-adds and one
// fixed order for sums over lanes. Without AVX2 the same operations run lane by lane.
#pragma once

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

#include <cmath>
#include <cstdint>

namespace versieve::kernels {

// Portable form; S = double or float.
template <class S>
struct Simd {
  static constexpr int kLanes = 32 / static_cast<int>(sizeof(S));
  struct Vec {
    S lane[kLanes];
  };

  static Vec broadcast(S x) {
    Vec r;
    for (S& lane : r.lane) {
      lane = x;
    }
    return r;
  }
  static Vec load(const S* x) {
    Vec r;
    for (int i = 0; i < kLanes; ++i) {
      r.lane[i] = x[i];
    }
    return r;
  }
  static void store(S* x, Vec a) {
    for (int i = 0; i < kLanes; ++i) {
      x[i] = a.lane[i];
    }
  }
  static Vec add(Vec a, Vec b) {
    for (int i = 0; i < kLanes; ++i) {
      a.lane[i] += b.lane[i];
    }
    return a;
  }
  static Vec mul(Vec a, Vec b) {
    for (int i = 0; i < kLanes; ++i) {
      a.lane[i] *= b.lane[i];
    }
    return a;
  }
  static Vec max(Vec a, Vec b) {
    for (int i = 0; i < kLanes; ++i) {
      a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    }
    return a;
  }
  // a * b + c, rounded once.
  static Vec fma(Vec a, Vec b, Vec c) {
    for (int i = 0; i < kLanes; ++i) {
      c.lane[i] = std::fma(a.lane[i], b.lane[i], c.lane[i]);
    }
    return c;
  }
  // exp(x - offset) for x <= offset, -inf included.
  static Vec exp_below(Vec x, S offset) {
    for (S& lane : x.lane) {
      lane = std::exp(lane - offset);
    }
    return x;
  }
  static S sum(Vec a) {
    S total = 0;
    for (S lane : a.lane) {
      total += lane;
    }
    return total;
  }
  // sums[i] = the sum over lanes of a[i].
  static void sums_of(const Vec (&a)[8], S* sums) {
    for (int i = 0; i < 8; ++i) {
      sums[i] = sum(a[i]);
    }
  }
};

#if defined(__AVX2__) && defined(__FMA__)
template <>
struct Simd<double> {
  static constexpr int kLanes = 4;
  using Vec = __m256d;

  static Vec broadcast(double x) { return _mm256_set1_pd(x); }
  static Vec load(const double* x) { return _mm256_loadu_pd(x); }
  static void store(double* x, Vec a) { _mm256_storeu_pd(x, a); }
  static Vec add(Vec a, Vec b) { return _mm256_add_pd(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_pd(a, b); }
  static Vec max(Vec a, Vec b) { return _mm256_max_pd(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_pd(a, b, c); }
  static Vec exp_below(Vec x, double offset) {
    alignas(32) double lane[4];
    store(lane, x);
    for (double& value : lane) {
      value = std::exp(value - offset);
    }
    return load(lane);
  }
  static double sum(Vec a) {
    alignas(32) double lane[4];
    store(lane, a);
    return ((lane[0] + lane[1]) + lane[2]) + lane[3];
  }
  static void sums_of(const Vec (&a)[8], double* sums) {
    for (int i = 0; i < 8; ++i) {
      sums[i] = sum(a[i]);
    }
  }
};

template <>
struct Simd<float> {
  static constexpr int kLanes = 8;
  using Vec = __m256;

  static Vec broadcast(float x) { return _mm256_set1_ps(x); }
  static Vec load(const float* x) { return _mm256_loadu_ps(x); }
  static void store(float* x, Vec a) { _mm256_storeu_ps(x, a); }
  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }

  // e^x = 2^n e^r with |r| <= ln2 / 2 and e^r by its Taylor polynomial of degree 7, whose rest
  // (5e-9 relative) is below a float's rounding. Below -87 the result is 0, exp(0) is exactly 1.
  static Vec exp_below(Vec x, float offset) {
    const Vec shifted = _mm256_sub_ps(x, broadcast(offset));
    const Vec in_range = _mm256_cmp_ps(shifted, broadcast(-87.0F), _CMP_GE_OQ);
    const Vec clamped = _mm256_max_ps(shifted, broadcast(-87.0F));
    const Vec n = _mm256_round_ps(_mm256_mul_ps(clamped, broadcast(1.44269504F)),
                                  _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    // ln2 in two parts: the first has 9 significant bits, so n times it is exact.
    Vec r = _mm256_fnmadd_ps(n, broadcast(0.693359375F), clamped);
    r = _mm256_fnmadd_ps(n, broadcast(-2.12194440e-4F), r);
    Vec e = broadcast(1.0F / 5040.0F);
    for (const float c :
         {1.0F / 720.0F, 1.0F / 120.0F, 1.0F / 24.0F, 1.0F / 6.0F, 0.5F, 1.0F, 1.0F}) {
      e = _mm256_fmadd_ps(e, r, broadcast(c));
    }
    const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    const Vec scaled = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(e), exponent));
    return _mm256_and_ps(scaled, in_range);
  }
  static float sum(Vec a) {
    const Vec eight[8] = {a, a, a, a, a, a, a, a};
    alignas(32) float sums[8];
    sums_of(eight, sums);
    return sums[0];
  }
  // ((0+1) + (2+3)) + ((4+5) + (6+7)) for each of eight registers at once.
  static void sums_of(const Vec (&a)[8], float* sums) {
    const Vec low = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
    const Vec high = _mm256_hadd_ps(_mm256_hadd_ps(a[4], a[5]), _mm256_hadd_ps(a[6], a[7]));
    store(sums, _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20),
                              _mm256_permute2f128_ps(low, high, 0x31)));
  }
};
#endif

}  // namespace versieve::kernels
