// spec_sample, variant `baseline`: as the reference library runs it, one launch a step - softmax of
// target and draft, ratio, difference, sum, normalise, sample - with f32 laws in memory between
// them. Bound by those passes over the vocabulary; README.md counts them.
#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/spec_sample/launch.h"
#include "kernels/spec_sample/row_law.cuh"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;
// Below this mass of max(0, p - q), f32 differences are too coarse to draw from (each is off by up
// to 1e-7 of p): the draw recomputes them in double. Reached with at most this probability a
// position.
constexpr float kFineMass = 1e-2F;

// Of one row's softmax.
struct RowStatistics {
  float largest = 0.0F;
  float sum = 0.0F;
  int argmax = 0;  // the lowest
};

// The call's tensors in scratch.
struct Laws {
  float* target = nullptr;              // [gamma + 1, V]: p
  float* draft = nullptr;               // [gamma, V]: q
  float* residual = nullptr;            // [gamma, V]: max(0, p - q), normalised in place
  float* residual_sum = nullptr;        // [gamma]
  RowStatistics* target_row = nullptr;  // [gamma + 1]
  RowStatistics* draft_row = nullptr;   // [gamma]
  std::size_t bytes = 0;
};

template <class T>
Laws laws_in(void* scratch, const SpecSampleParams<T>& p) {
  char* next = static_cast<char*>(scratch);
  const auto take = [&next](std::int64_t bytes) {
    char* const taken = next;
    next += (bytes + 255) / 256 * 256;
    return taken;
  };
  const std::int64_t row_bytes = p.vocab * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t statistics_bytes = sizeof(RowStatistics);
  Laws laws;
  laws.target = reinterpret_cast<float*>(take((p.gamma + 1) * row_bytes));
  laws.draft = reinterpret_cast<float*>(take(p.gamma * row_bytes));
  laws.residual = reinterpret_cast<float*>(take(p.gamma * row_bytes));
  laws.residual_sum = reinterpret_cast<float*>(take(p.gamma * 4));
  laws.target_row = reinterpret_cast<RowStatistics*>(take((p.gamma + 1) * statistics_bytes));
  laws.draft_row = reinterpret_cast<RowStatistics*>(take(p.gamma * statistics_bytes));
  laws.bytes = static_cast<std::size_t>(next - static_cast<char*>(scratch));
  return laws;
}

// One block a row. Temperature 0: one-hot at the lowest argmax.
template <class T>
__global__ void __launch_bounds__(kLawThreads, 1)
    spec_softmax_kernel(const T* logits, int vocab, bool one_hot, float temperature, float* law,
                        RowStatistics* statistics) {
  __shared__ LawShared shared;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * vocab;
  const T* row = logits + first;
  const int argmax = index_of(row_max(row, vocab, shared, [](int) { return true; }));
  const float largest = device_float(row[argmax]);
  const auto weight = [&](int x) { return expf((device_float(row[x]) - largest) / temperature); };
  const float sum = one_hot ? 1.0F : row_sum(vocab, shared, weight);
  for (int x = static_cast<int>(threadIdx.x); x < vocab; x += kLawThreads) {
    law[first + x] = one_hot ? (x == argmax ? 1.0F : 0.0F) : weight(x) / sum;
  }
  if (threadIdx.x == 0) {
    statistics[blockIdx.x] = {largest, sum, argmax};
  }
}

// Probability of one token in double: a quotient of two that are below f32's range stays right.
template <class T>
__device__ double probability(const T* logits, int token, const RowStatistics& row, double t) {
  if (t == 0.0) {
    return token == row.argmax ? 1.0 : 0.0;
  }
  const double z =
      static_cast<double>(device_float(logits[token])) - static_cast<double>(row.largest);
  return exp(z / t) / static_cast<double>(row.sum);
}

// tau of every sample and position; 0 where the target cannot say the token.
template <class T>
__global__ void __launch_bounds__(kThreads)
    spec_ratio_kernel(const __grid_constant__ SpecSampleParams<T> s,
                      const __grid_constant__ Laws laws) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= s.samples * s.gamma) {
    return;
  }
  const std::int64_t c = i % s.gamma;
  const int token = s.draft_tokens[i];
  const double p =
      probability(s.target_logits + c * s.vocab, token, laws.target_row[c], s.temperature);
  const double q =
      probability(s.draft_logits + c * s.vocab, token, laws.draft_row[c], s.temperature);
  const double tau = q > 0.0 ? fmin(1.0, p / q) : (p > 0.0 ? 1.0 : 0.0);
  s.tau[i] = static_cast<float>(tau);
}

__global__ void __launch_bounds__(kThreads)
    spec_difference_kernel(const __grid_constant__ Laws laws, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) {
    laws.residual[i] = fmaxf(0.0F, laws.target[i] - laws.draft[i]);
  }
}

__global__ void __launch_bounds__(kLawThreads, 1)
    spec_sum_kernel(const __grid_constant__ Laws laws, int vocab) {
  __shared__ LawShared shared;
  const float* row = laws.residual + static_cast<std::int64_t>(blockIdx.x) * vocab;
  const float sum = row_sum(vocab, shared, [&](int x) { return row[x]; });
  if (threadIdx.x == 0) {
    laws.residual_sum[blockIdx.x] = sum;
  }
}

__global__ void __launch_bounds__(kThreads)
    spec_normalise_kernel(const __grid_constant__ Laws laws, std::int64_t count, int vocab) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) {
    const float sum = laws.residual_sum[i / vocab];
    laws.residual[i] = sum > 0.0F ? laws.residual[i] / sum : 0.0F;
  }
}

// A draw from max(0, p - q) of position c with laws and differences in double, as the reference has
// them; -1 where nothing is left.
template <class T>
__device__ int draw_fine_residual(const SpecSampleParams<T>& s, const Laws& laws, int c, float u,
                                  LawShared& shared) {
  const int vocab = static_cast<int>(s.vocab);
  const T* target = s.target_logits + c * s.vocab;
  const T* draft = s.draft_logits + c * s.vocab;
  const auto exponential = [&s](const T* row, int x, float largest) {
    const double z = static_cast<double>(device_float(row[x])) - static_cast<double>(largest);
    return exp(z / s.temperature);
  };
  const float p_largest = laws.target_row[c].largest;
  const float q_largest = laws.draft_row[c].largest;
  const double p_sum =
      row_sum(vocab, shared, [&](int x) { return exponential(target, x, p_largest); });
  const double q_sum =
      row_sum(vocab, shared, [&](int x) { return exponential(draft, x, q_largest); });
  return row_draw(vocab, u, shared, [&](int x) {
    return fmax(
        0.0, exponential(target, x, p_largest) / p_sum - exponential(draft, x, q_largest) / q_sum);
  });
}

// One block a sample: how many drafts are accepted, then the draw.
template <class T>
__global__ void __launch_bounds__(kLawThreads, 1)
    spec_draw_kernel(const __grid_constant__ SpecSampleParams<T> s,
                     const __grid_constant__ Laws laws) {
  __shared__ LawShared shared;
  const std::int64_t sample = blockIdx.x;
  const int gamma = static_cast<int>(s.gamma);
  const int vocab = static_cast<int>(s.vocab);
  const std::int32_t* drafted = s.draft_tokens + sample * gamma;
  const float* uniforms = s.uniforms + sample * (gamma + 1);
  const float* tau = s.tau + sample * gamma;
  int accepted = 0;
  while (accepted < gamma && tau[accepted] > 0.0F && uniforms[accepted] <= tau[accepted]) {
    ++accepted;
  }
  const float u = uniforms[gamma];
  int token = -1;
  if (accepted < gamma) {
    const float* residual = laws.residual + static_cast<std::int64_t>(accepted) * vocab;
    const bool fine = laws.residual_sum[accepted] < kFineMass && s.temperature > 0.0;
    token = fine ? draw_fine_residual(s, laws, accepted, u, shared)
                 : row_draw(vocab, u, shared, [&](int x) { return residual[x]; });
  }
  if (token < 0) {  // all accepted, or nothing left of p - q
    const float* target = laws.target + static_cast<std::int64_t>(accepted) * vocab;
    token = row_draw(vocab, u, shared, [&](int x) { return target[x]; });
  }
  std::int32_t* tokens = s.tokens + sample * (gamma + 1);
  for (int c = static_cast<int>(threadIdx.x); c <= gamma; c += kLawThreads) {
    tokens[c] = c < accepted ? drafted[c] : (c == accepted ? token : -1);
  }
  if (threadIdx.x == 0) {
    s.accepted[sample] = accepted;
  }
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

template <class T>
void launch_softmax(const SpecSampleParams<T>& p, const T* logits, std::int64_t rows, float* law,
                    RowStatistics* statistics, const LaunchContext& context) {
  const LaunchRange range("spec_softmax", traffic::softmax_rows(rows, p.vocab, sizeof(T)),
                          context.observer);
  spec_softmax_kernel<T><<<static_cast<unsigned>(rows), kLawThreads, 0, context.stream>>>(
      logits, static_cast<int>(p.vocab), p.temperature == 0.0, law_temperature(p.temperature), law,
      statistics);
  check(cudaGetLastError());
}

template <class T>
void launch_ratio(const SpecSampleParams<T>& p, const Laws& laws, const LaunchContext& context) {
  const LaunchRange range("spec_ratio", traffic::elementwise(p.samples * p.gamma, 2, 4, 4.0),
                          context.observer);
  spec_ratio_kernel<T><<<blocks_for(p.samples * p.gamma), kThreads, 0, context.stream>>>(p, laws);
  check(cudaGetLastError());
}

// Difference, sum, normalise: the residual laws of all positions.
void launch_residual(const Laws& laws, std::int64_t gamma, std::int64_t vocab,
                     const LaunchContext& context) {
  const std::int64_t count = gamma * vocab;
  {
    const LaunchRange range("spec_difference", traffic::sample_difference(gamma, vocab),
                            context.observer);
    spec_difference_kernel<<<blocks_for(count), kThreads, 0, context.stream>>>(laws, count);
    check(cudaGetLastError());
  }
  {
    const LaunchRange range("spec_sum", traffic::sample_rows_read(gamma, vocab), context.observer);
    spec_sum_kernel<<<static_cast<unsigned>(gamma), kLawThreads, 0, context.stream>>>(
        laws, static_cast<int>(vocab));
    check(cudaGetLastError());
  }
  const LaunchRange range("spec_normalise", traffic::elementwise(count, 1, 4, 1.0),
                          context.observer);
  spec_normalise_kernel<<<blocks_for(count), kThreads, 0, context.stream>>>(
      laws, count, static_cast<int>(vocab));
  check(cudaGetLastError());
}

}  // namespace

template <class T>
std::size_t spec_sample_scratch_bytes(const SpecSampleParams<T>& p) {
  return laws_in(nullptr, p).bytes;
}

template <class T>
void launch_spec_sample(const SpecSampleParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.samples >= 1 && p.gamma >= 0 && p.vocab >= 1, "spec_sample needs a vocabulary");
  VERSIEVE_ASSERT(p.vocab < (1 << 30) && p.gamma < (1 << 20), "device indices are 32-bit");
  const Laws laws = laws_in(context.scratch, p);
  VERSIEVE_ASSERT(context.scratch_bytes >= laws.bytes, "spec_sample's scratch is reserved before");
  launch_softmax(p, p.target_logits, p.gamma + 1, laws.target, laws.target_row, context);
  if (p.gamma > 0) {
    launch_softmax(p, p.draft_logits, p.gamma, laws.draft, laws.draft_row, context);
    launch_ratio(p, laws, context);
    launch_residual(laws, p.gamma, p.vocab, context);
  }
  const LaunchRange range("spec_draw", traffic::sample_rows_read(p.samples, p.vocab),
                          context.observer);
  spec_draw_kernel<T>
      <<<static_cast<unsigned>(p.samples), kLawThreads, 0, context.stream>>>(p, laws);
  check(cudaGetLastError());
}

template std::size_t spec_sample_scratch_bytes<float>(const SpecSampleParams<float>&);
template std::size_t spec_sample_scratch_bytes<Bf16>(const SpecSampleParams<Bf16>&);
template void launch_spec_sample<float>(const SpecSampleParams<float>&, const LaunchContext&);
template void launch_spec_sample<Bf16>(const SpecSampleParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
