// spec_sample, variant `baseline`: as the reference library runs it, one launch a step - softmax of
// target and draft, ratio, difference, sum, sample - with f32 laws in memory between them. Bound by
// those passes over the vocabulary; README.md counts them. Takes any shape, so it also serves the
// other variants where the fused launch does not: the difference is then theirs. Two lanes of
// 16-bit logits, 8 a word, write their 16 probabilities side by side: one after the other would
// touch each 32 bytes of memory eight times.
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
  float* target = nullptr;          // [B, gamma + 1, V]: p
  float* draft = nullptr;           // [B, gamma, V]: q
  float* residual = nullptr;        // [B, gamma, V]: max(0, p - q)
  float* residual_sum = nullptr;    // [B, gamma]
  LawStat* target_row = nullptr;    // [B, gamma + 1]
  LawStat* draft_row = nullptr;     // [B, gamma]
  std::int32_t* verdict = nullptr;  // [B, R, gamma]: 1 where the draft passes its test
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
  const std::int64_t targets = p.batch * (p.gamma + 1);
  const std::int64_t drafts = p.batch * p.gamma;
  Laws laws;
  laws.target = reinterpret_cast<float*>(take(targets * row_bytes));
  laws.draft = reinterpret_cast<float*>(take(drafts * row_bytes));
  laws.residual = reinterpret_cast<float*>(take(drafts * row_bytes));
  laws.residual_sum = reinterpret_cast<float*>(take(drafts * 4));
  laws.target_row = reinterpret_cast<LawStat*>(take(targets * stat_bytes));
  laws.draft_row = reinterpret_cast<LawStat*>(take(drafts * stat_bytes));
  laws.verdict = reinterpret_cast<std::int32_t*>(take(p.samples * drafts * 4));
  laws.bytes = static_cast<std::size_t>(next - static_cast<char*>(scratch));
  return laws;
}

// Halves of two neighbouring lanes' words of 8 elements change places: `low` is then the even
// lane's word, a half a lane, and `high` the odd lane's; once more, and they are as before.
__device__ inline void swap_halves(float4& low, float4& high) {
  const bool odd = threadIdx.x % 2 != 0;
  const float4 give = odd ? low : high;
  const float4 got = {
      __shfl_xor_sync(0xFFFFFFFFU, give.x, 1), __shfl_xor_sync(0xFFFFFFFFU, give.y, 1),
      __shfl_xor_sync(0xFFFFFFFFU, give.z, 1), __shfl_xor_sync(0xFFFFFFFFU, give.w, 1)};
  low = odd ? got : low;
  high = odd ? high : got;
}

// Calls at(j, x) for the lane's pieces of four elements in the order that memory has them: element
// j is in place of the row's x. After swap_halves where a word of T has 8 elements.
template <class T, class At>
__device__ inline void for_pieces(int first, const At& at) {
  constexpr int kWord = kWordElements<T>;
#pragma unroll
  for (int j = 0; j < kLaneElements; j += kWord) {
    if constexpr (kWord == 4) {
      at(j, element_index<T>(first, j));
    } else {
      const int half = static_cast<int>(threadIdx.x) % 2;
      const int even = element_index<T>(first, j) - half * kWord;
      at(j, even + half * 4);
      at(j + 4, even + kWord + half * 4);
    }
  }
}
template <class T>
__device__ inline void swap_words(float (&w)[kLaneElements]) {
  if constexpr (kWordElements<T> == 8) {
#pragma unroll
    for (int j = 0; j < kLaneElements; j += 8) {
      float4 low = {w[j], w[j + 1], w[j + 2], w[j + 3]};
      float4 high = {w[j + 4], w[j + 5], w[j + 6], w[j + 7]};
      swap_halves(low, high);
      w[j] = low.x, w[j + 1] = low.y, w[j + 2] = low.z, w[j + 3] = low.w;
      w[j + 4] = high.x, w[j + 5] = high.y, w[j + 6] = high.z, w[j + 7] = high.w;
    }
  }
}

// A lane's elements of an f32 row in the places that T's words have. By whole warps.
template <class T>
__device__ void load_law(const float* row, int first, int vocab, float (&w)[kLaneElements]) {
  if (vocab % 4 != 0) {
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      const int x = element_index<T>(first, j);
      w[j] = x < vocab ? row[x] : 0.0F;
    }
    return;
  }
  for_pieces<T>(first, [&](int j, int x) {
    const float4 piece =
        x < vocab ? *reinterpret_cast<const float4*>(row + x) : float4{0.0F, 0.0F, 0.0F, 0.0F};
    w[j] = piece.x, w[j + 1] = piece.y, w[j + 2] = piece.z, w[j + 3] = piece.w;
  });
  swap_words<T>(w);
}
template <class T>
__device__ void store_law(float* row, int first, int vocab, float (&w)[kLaneElements]) {
  if (vocab % 4 != 0) {
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      const int x = element_index<T>(first, j);
      if (x < vocab) {
        row[x] = w[j];
      }
    }
    return;
  }
  swap_words<T>(w);
  for_pieces<T>(first, [&](int j, int x) {
    if (x < vocab) {
      *reinterpret_cast<float4*>(row + x) = {w[j], w[j + 1], w[j + 2], w[j + 3]};
    }
  });
}

// One block a row.
template <class T>
__global__ void __launch_bounds__(kLawThreads, 1)
    spec_softmax_kernel(const T* logits, const __grid_constant__ LawCut cut, bool words,
                        const __grid_constant__ LawScale scale, const float* cuts, float* law,
                        LawStat* stat) {
  __shared__ BlockLawShared shared;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * cut.vocab;
  const float least = cuts == nullptr ? -INFINITY : cuts[blockIdx.x];
  const auto load = [&](int first, float(&z)[kLaneElements]) {
    load_round(logits + begin, first, cut.vocab, words, z);
    keep_from(least, z);
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
      const bool best = element_index<T>(first, j) == row.argmax();
      z[j] = scale.one_hot ? (best ? 1.0F : 0.0F) : __fmul_rn(z[j], factor);
    }
    store_law<T>(law + begin, first, cut.vocab, z);
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
  if (i >= s.batch * s.samples * s.gamma) {
    return;
  }
  const std::int64_t c = i % s.gamma;
  const std::int64_t sequence = i / (s.samples * s.gamma);
  const int token = s.draft_tokens[i];
  const float2 z =
      PositionLogits<T>(a, static_cast<int>(sequence), static_cast<int>(c)).both(token);
  const TokenTest test =
      a.by_sigmoid() ? sigmoid_test(z.x, z.y, a.sigmoid)
                     : softmax_test(token, z.x, laws.target_row[sequence * (s.gamma + 1) + c], z.y,
                                    laws.draft_row[sequence * s.gamma + c], a.scale);
  s.tau[i] = test.tau;
  laws.verdict[i] = test.accepts(s.uniforms[i / s.gamma * (s.gamma + 1) + c]) ? 1 : 0;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    spec_difference_kernel(const __grid_constant__ ChainSetting<T> a,
                           const __grid_constant__ Laws laws) {
  const SpecSampleParams<T>& s = a.s;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= s.batch * s.gamma * s.vocab) {
    return;
  }
  const std::int64_t row = i / s.vocab;
  const std::int64_t sequence = row / s.gamma;
  if (a.by_sigmoid()) {
    const float2 z =
        PositionLogits<T>(a, static_cast<int>(sequence), static_cast<int>(row % s.gamma))
            .both(static_cast<int>(i % s.vocab));
    laws.residual[i] = sigmoid_residual(z.x, z.y, static_cast<float>(a.sigmoid.slope),
                                        static_cast<float>(a.sigmoid.offset));
  } else {
    // A target row more than draft rows for each sequence before.
    laws.residual[i] = residual(laws.target[i + sequence * s.vocab], laws.draft[i]);
  }
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
  const std::int64_t sequence = sample / s.samples;
  const int gamma = static_cast<int>(s.gamma);
  const std::int32_t* drafted = s.draft_tokens + sample * gamma;
  const std::int32_t* verdict = laws.verdict + sample * gamma;
  int accepted = 0;
  while (accepted < gamma && verdict[accepted] != 0) {
    ++accepted;
  }
  const float u = s.uniforms[sample * (gamma + 1) + gamma];
  const std::int64_t target_row = sequence * (gamma + 1) + accepted;
  const std::int64_t draft_row = sequence * gamma + accepted;
  const auto draw_from = [&](const float* rows, std::int64_t index) {
    const float* row = rows + index * a.cut.vocab;
    return block_draw<T, float>(
        [&](int first, float(&w)[kLaneElements]) { load_law<T>(row, first, a.cut.vocab, w); },
        a.cut, u, reinterpret_cast<float*>(sums));
  };
  int token = -1;
  if (accepted < gamma) {
    const bool fine =
        laws.residual_sum[draft_row] < kFineMass && !a.scale.one_hot && !a.by_sigmoid();
    token = fine ? block_draw_fine(a, PositionLogits<T>(a, static_cast<int>(sequence), accepted),
                                   laws.target_row[target_row].largest,
                                   laws.draft_row[draft_row].largest, u, sums)
                 : draw_from(laws.residual, draft_row);
  }
  if (token < 0) {  // all accepted, or nothing left of p - q
    token = draw_from(laws.target, target_row);
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
void launch_softmax(const ChainSetting<T>& a, const T* logits, std::int64_t rows, const float* cuts,
                    float* law, LawStat* stat, const LaunchContext& context) {
  const LaunchRange range("spec_softmax", traffic::softmax_rows(rows, a.s.vocab, sizeof(T)),
                          context.observer);
  spec_softmax_kernel<T><<<static_cast<unsigned>(rows), kLawThreads, 0, context.stream>>>(
      logits, a.cut, a.words, a.scale, cuts, law, stat);
  check(cudaGetLastError());
}

template <class T>
void launch_ratio(const ChainSetting<T>& a, const Laws& laws, const LaunchContext& context) {
  const std::int64_t count = a.s.batch * a.s.samples * a.s.gamma;
  const LaunchRange range("spec_ratio", traffic::elementwise(count, 2, 4, 4.0), context.observer);
  spec_ratio_kernel<T><<<blocks_for(count), kThreads, 0, context.stream>>>(a, laws);
  check(cudaGetLastError());
}

// Difference and sum: the residual laws of all positions.
template <class T>
void launch_residual(const ChainSetting<T>& a, const Laws& laws, const LaunchContext& context) {
  const std::int64_t rows = a.s.batch * a.s.gamma;
  {
    const LaunchRange range("spec_difference", traffic::sample_difference(rows, a.s.vocab),
                            context.observer);
    spec_difference_kernel<T>
        <<<blocks_for(rows * a.s.vocab), kThreads, 0, context.stream>>>(a, laws);
    check(cudaGetLastError());
  }
  const LaunchRange range("spec_sum", traffic::sample_rows_read(rows, a.s.vocab), context.observer);
  spec_sum_kernel<T><<<static_cast<unsigned>(rows), kLawThreads, 0, context.stream>>>(laws, a.cut);
  check(cudaGetLastError());
}

}  // namespace

template <class T>
std::size_t spec_baseline_scratch_bytes(const SpecSampleParams<T>& p) {
  return laws_in(nullptr, p).bytes;
}

template <class T>
void launch_spec_baseline(const SpecSampleParams<T>& p, const float* cuts,
                          const LaunchContext& context) {
  const ChainSetting<T> a = chain_setting(p, cuts);
  const Laws laws = laws_in(context.scratch, p);
  VERSIEVE_ASSERT(context.scratch_bytes >= laws.bytes, "spec_sample's scratch is reserved before");
  const std::int64_t targets = p.batch * (p.gamma + 1);
  launch_softmax(a, p.target_logits, targets, cuts, laws.target, laws.target_row, context);
  if (p.gamma > 0) {
    if (!a.by_sigmoid()) {
      launch_softmax(a, p.draft_logits, p.batch * p.gamma,
                     cuts == nullptr ? nullptr : cuts + targets, laws.draft, laws.draft_row,
                     context);
    }
    launch_ratio(a, laws, context);
    launch_residual(a, laws, context);
  }
  const std::int64_t samples = p.batch * p.samples;
  const LaunchRange range("spec_draw", traffic::sample_rows_read(samples, p.vocab),
                          context.observer);
  spec_draw_kernel<T><<<static_cast<unsigned>(samples), kLawThreads, 0, context.stream>>>(a, laws);
  check(cudaGetLastError());
}

template std::size_t spec_baseline_scratch_bytes<float>(const SpecSampleParams<float>&);
template std::size_t spec_baseline_scratch_bytes<Bf16>(const SpecSampleParams<Bf16>&);
template std::size_t spec_baseline_scratch_bytes<F16>(const SpecSampleParams<F16>&);
template void launch_spec_baseline<float>(const SpecSampleParams<float>&, const float*,
                                          const LaunchContext&);
template void launch_spec_baseline<Bf16>(const SpecSampleParams<Bf16>&, const float*,
                                         const LaunchContext&);
template void launch_spec_baseline<F16>(const SpecSampleParams<F16>&, const float*,
                                        const LaunchContext&);

}  // namespace versieve::kernels
