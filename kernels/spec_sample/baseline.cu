// spec_sample, variant `baseline`: as the reference library runs it, one launch a step - softmax of
// target and draft, ratio, difference, sum, sample - with f32 laws in memory between them. Bound by
// those passes over the vocabulary; README.md counts them. Takes any shape, so it also serves the
// other variants where the fused launch does not: the difference is then theirs.
#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "kernels/spec_sample/chain_law.cuh"
#include "model/launches/row_ops.h"
#include "model/launches/spec_sample.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kLawThreads = 1024;

// The call's tensors in scratch.
struct Laws {
  float* target = nullptr;          // [gamma + 1, V]: p
  float* draft = nullptr;           // [gamma, V]: q
  float* residual = nullptr;        // [gamma, V]: max(0, p - q)
  float* residual_sum = nullptr;    // [gamma]
  LawStat* target_row = nullptr;    // [gamma + 1]
  LawStat* draft_row = nullptr;     // [gamma]
  std::int32_t* verdict = nullptr;  // [R, gamma]: 1 where the draft passes its test
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
  const std::int64_t stat_bytes = sizeof(LawStat);
  Laws laws;
  laws.target = reinterpret_cast<float*>(take((p.gamma + 1) * row_bytes));
  laws.draft = reinterpret_cast<float*>(take(p.gamma * row_bytes));
  laws.residual = reinterpret_cast<float*>(take(p.gamma * row_bytes));
  laws.residual_sum = reinterpret_cast<float*>(take(p.gamma * 4));
  laws.target_row = reinterpret_cast<LawStat*>(take((p.gamma + 1) * stat_bytes));
  laws.draft_row = reinterpret_cast<LawStat*>(take(p.gamma * stat_bytes));
  laws.verdict = reinterpret_cast<std::int32_t*>(take(p.samples * p.gamma * 4));
  laws.bytes = static_cast<std::size_t>(next - static_cast<char*>(scratch));
  return laws;
}

// A lane's elements of an f32 row in the places that T's words have.
template <class T>
__device__ void load_law(const float* row, int first, int vocab, float (&w)[kLaneElements]) {
#pragma unroll
  for (int j = 0; j < kLaneElements; ++j) {
    const int x = element_index<T>(first, j);
    w[j] = x < vocab ? row[x] : 0.0F;
  }
}

// One block a row.
template <class T>
__global__ void __launch_bounds__(kLawThreads, 1)
    spec_softmax_kernel(const T* logits, const __grid_constant__ LawCut cut, bool words,
                        const __grid_constant__ LawScale scale, float* law, LawStat* stat) {
  __shared__ BlockLawShared shared;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * cut.vocab;
  const auto load = [&](int first, float(&z)[kLaneElements]) {
    load_round(logits + begin, first, cut.vocab, words, z);
  };
  const LawStat row = block_law<T>(load, cut, scale, shared);
  for (int first = static_cast<int>(threadIdx.x) / 32 * kRoundElements; first < cut.vocab;
       first += kLawThreads / 32 * kRoundElements) {
    float z[kLaneElements];
    load(first, z);
    const LawStat chunk = shared.chunk[first / cut.chunk];
    const float factor = chunk_factor(chunk, row, scale);
    if (!scale.one_hot) {
      weigh(z, chunk.largest, scale.per_logit);
    }
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      const int x = element_index<T>(first, j);
      if (x < cut.vocab) {
        law[begin + x] =
            scale.one_hot ? (x == row.argmax() ? 1.0F : 0.0F) : __fmul_rn(z[j], factor);
      }
    }
  }
  if (threadIdx.x == 0) {
    stat[blockIdx.x] = row;
  }
}

// tau of every sample and position, and whether the draft passes.
template <class T>
__global__ void __launch_bounds__(kThreads)
    spec_ratio_kernel(const __grid_constant__ ChainSetting<T> a,
                      const __grid_constant__ Laws laws) {
  const SpecSampleParams<T>& s = a.s;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= s.samples * s.gamma) {
    return;
  }
  const std::int64_t c = i % s.gamma;
  const int token = s.draft_tokens[i];
  const float p = load_f32(s.target_logits + c * s.vocab + token);
  const float q = load_f32(s.draft_logits + c * s.vocab + token);
  const TokenTest test =
      a.by_sigmoid() ? sigmoid_test(p, q, a.sigmoid)
                     : softmax_test(token, p, laws.target_row[c], q, laws.draft_row[c], a.scale);
  s.tau[i] = test.tau;
  laws.verdict[i] = test.accepts(s.uniforms[i / s.gamma * (s.gamma + 1) + c]) ? 1 : 0;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    spec_difference_kernel(const __grid_constant__ ChainSetting<T> a,
                           const __grid_constant__ Laws laws) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.s.gamma * a.s.vocab) {
    return;
  }
  laws.residual[i] = a.by_sigmoid() ? sigmoid_residual(load_f32(a.s.target_logits + i),
                                                       load_f32(a.s.draft_logits + i),
                                                       static_cast<float>(a.sigmoid.slope),
                                                       static_cast<float>(a.sigmoid.offset))
                                    : residual(laws.target[i], laws.draft[i]);
}

template <class T>
__global__ void __launch_bounds__(kLawThreads, 1)
    spec_sum_kernel(const __grid_constant__ Laws laws, const __grid_constant__ LawCut cut) {
  __shared__ float sums[kMaxLawChunks];
  const float* row = laws.residual + static_cast<std::int64_t>(blockIdx.x) * cut.vocab;
  block_chunk_sums<T>(
      [&](int first, float(&w)[kLaneElements]) { load_law<T>(row, first, cut.vocab, w); }, cut,
      sums);
  const float sum = walk_total(cut, sums);
  if (threadIdx.x == 0) {
    laws.residual_sum[blockIdx.x] = sum;
  }
}

// One block a sample: how many drafts are accepted, then the draw.
template <class T>
__global__ void __launch_bounds__(kLawThreads, 1)
    spec_draw_kernel(const __grid_constant__ ChainSetting<T> a, const __grid_constant__ Laws laws) {
  __shared__ double sums[kMaxLawChunks];
  const SpecSampleParams<T>& s = a.s;
  const std::int64_t sample = blockIdx.x;
  const int gamma = static_cast<int>(s.gamma);
  const std::int32_t* drafted = s.draft_tokens + sample * gamma;
  const std::int32_t* verdict = laws.verdict + sample * gamma;
  int accepted = 0;
  while (accepted < gamma && verdict[accepted] != 0) {
    ++accepted;
  }
  const float u = s.uniforms[sample * (gamma + 1) + gamma];
  const auto draw_from = [&](const float* rows) {
    const float* row = rows + static_cast<std::int64_t>(accepted) * a.cut.vocab;
    return block_draw<T, float>(
        [&](int first, float(&w)[kLaneElements]) { load_law<T>(row, first, a.cut.vocab, w); },
        a.cut, u, reinterpret_cast<float*>(sums));
  };
  int token = -1;
  if (accepted < gamma) {
    const bool fine =
        laws.residual_sum[accepted] < kFineMass && !a.scale.one_hot && !a.by_sigmoid();
    token =
        fine ? block_draw_fine(a, PositionLogits<T>(a, accepted), laws.target_row[accepted].largest,
                               laws.draft_row[accepted].largest, u, sums)
             : draw_from(laws.residual);
  }
  if (token < 0) {  // all accepted, or nothing left of p - q
    token = draw_from(laws.target);
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
void launch_softmax(const ChainSetting<T>& a, const T* logits, std::int64_t rows, float* law,
                    LawStat* stat, const LaunchContext& context) {
  const LaunchRange range("spec_softmax", traffic::softmax_rows(rows, a.s.vocab, sizeof(T)),
                          context.observer);
  spec_softmax_kernel<T><<<static_cast<unsigned>(rows), kLawThreads, 0, context.stream>>>(
      logits, a.cut, a.words, a.scale, law, stat);
  check(cudaGetLastError());
}

template <class T>
void launch_ratio(const ChainSetting<T>& a, const Laws& laws, const LaunchContext& context) {
  const std::int64_t count = a.s.samples * a.s.gamma;
  const LaunchRange range("spec_ratio", traffic::elementwise(count, 2, 4, 4.0), context.observer);
  spec_ratio_kernel<T><<<blocks_for(count), kThreads, 0, context.stream>>>(a, laws);
  check(cudaGetLastError());
}

// Difference and sum: the residual laws of all positions.
template <class T>
void launch_residual(const ChainSetting<T>& a, const Laws& laws, const LaunchContext& context) {
  {
    const LaunchRange range("spec_difference", traffic::sample_difference(a.s.gamma, a.s.vocab),
                            context.observer);
    spec_difference_kernel<T>
        <<<blocks_for(a.s.gamma * a.s.vocab), kThreads, 0, context.stream>>>(a, laws);
    check(cudaGetLastError());
  }
  const LaunchRange range("spec_sum", traffic::sample_rows_read(a.s.gamma, a.s.vocab),
                          context.observer);
  spec_sum_kernel<T>
      <<<static_cast<unsigned>(a.s.gamma), kLawThreads, 0, context.stream>>>(laws, a.cut);
  check(cudaGetLastError());
}

}  // namespace

template <class T>
std::size_t spec_baseline_scratch_bytes(const SpecSampleParams<T>& p) {
  return laws_in(nullptr, p).bytes;
}

template <class T>
void launch_spec_baseline(const SpecSampleParams<T>& p, const LaunchContext& context) {
  const ChainSetting<T> a = chain_setting(p);
  const Laws laws = laws_in(context.scratch, p);
  VERSIEVE_ASSERT(context.scratch_bytes >= laws.bytes, "spec_sample's scratch is reserved before");
  launch_softmax(a, p.target_logits, p.gamma + 1, laws.target, laws.target_row, context);
  if (p.gamma > 0) {
    if (!a.by_sigmoid()) {
      launch_softmax(a, p.draft_logits, p.gamma, laws.draft, laws.draft_row, context);
    }
    launch_ratio(a, laws, context);
    launch_residual(a, laws, context);
  }
  const LaunchRange range("spec_draw", traffic::sample_rows_read(p.samples, p.vocab),
                          context.observer);
  spec_draw_kernel<T>
      <<<static_cast<unsigned>(p.samples), kLawThreads, 0, context.stream>>>(a, laws);
  check(cudaGetLastError());
}

template std::size_t spec_baseline_scratch_bytes<float>(const SpecSampleParams<float>&);
template std::size_t spec_baseline_scratch_bytes<Bf16>(const SpecSampleParams<Bf16>&);
template void launch_spec_baseline<float>(const SpecSampleParams<float>&, const LaunchContext&);
template void launch_spec_baseline<Bf16>(const SpecSampleParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
