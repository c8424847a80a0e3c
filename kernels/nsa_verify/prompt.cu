// nsa_prompt: NSA attention of a prompt's tokens in one launch, bf16 (README.md, "Prompts").
// Grid: thread blocks that stay, one an SM, and take (64 tokens, or fewer where there are few; KV
// head) after one another, those of the longest contexts first. Per block: compressed tokens with
// softmax weights kept, the choice of blocks, selected blocks of any of its tokens under masks,
// window, gates and the one write. Traffic: traffic::nsa_prompt. Bound by what the second-level
// cache delivers where neighbours choose other blocks, else by the warps' instructions.
#include "kernels/nsa_verify/prompt.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/common/tensor_map.h"
#include "kernels/context_launch.h"
#include "kernels/nsa_verify/prompt_work.cuh"
#include "kernels/nsa_verify/traffic_shape.h"
#include "model/launches/nsa_prompt.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

template <int kD>
__global__ void __launch_bounds__(PromptPlan<kD>::kThreads, 1)
    nsa_prompt_kernel(const __grid_constant__ PromptArguments p) {
  using Plan = PromptPlan<kD>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const Plan plan{shared, shared_address(shared), p.a.num_blocks};
  release_successors();
  const bool feeds = threadIdx.x >= Plan::kWorkers;
  if (threadIdx.x == Plan::kWorkers) {
    for (const CUtensorMap& map : p.maps) {
      prefetch_map(&map);
    }
    plan.init();
    publish_barriers();
  }
  meet<0, Plan::kThreads>();
  wait_for_predecessors();
  const int items = p.groups * p.a.kv_heads;
  if (feeds) {
    give_registers<Plan::kIdleRegisters>();
    if (threadIdx.x != Plan::kWorkers) {
      return;
    }
    PromptFeeder<kD> feeder(p, plan);
    int parity = 0;
#pragma unroll 1
    for (int item = static_cast<int>(blockIdx.x); item < items;
         item += static_cast<int>(gridDim.x), parity ^= 1) {
      const PromptQueries t = prompt_queries<kD>(p, item);
      feeder.feed_compressed(t);
      // A list has a block at least, of whose tile the next item's waits: no phase is missed.
      barrier_wait(plan.listed(), parity);
      feeder.feed_tokens(t);
    }
    return;
  }
  take_registers<Plan::kRegisters>();
  PromptWorker<kD> worker(p, plan);
#pragma unroll 1
  for (int item = static_cast<int>(blockIdx.x); item < items; item += static_cast<int>(gridDim.x)) {
    const PromptQueries t = prompt_queries<kD>(p, item);
    worker.attend_compressed(t);
    worker.choose(t);
    worker.attend_tokens(t);
  }
}

constexpr std::size_t kMaxScratchBytes = std::size_t{1} << 30;

// What a launch is made of beside pointers.
struct PromptLayout {
  int per_tile, groups, blocks;  // of a launch
  std::int64_t max_compressed;   // that a token sees
  std::int64_t slices;           // of a row's softmax weights
  std::size_t weights, slice_states, branches, bytes;
};

// every_sm: of as many thread blocks as there are ever, whatever the rows.
template <int kD>
PromptLayout layout_for(const NsaVerifyParams<Bf16>& p, bool every_sm = false) {
  using Plan = PromptPlan<kD>;
  const std::int64_t heads = p.num_heads / p.num_kv_heads;
  const auto padded_heads = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(heads)));
  PromptLayout l{};
  l.per_tile = std::clamp(kTileRows / padded_heads, 1, kPromptTileQueries);
  const auto groups = [&] {
    const int of_block = Plan::kWarps * l.per_tile;
    return static_cast<int>((p.num_queries + of_block - 1) / of_block);
  };
  while (l.per_tile > 1 && 2 * groups() * p.num_kv_heads <= kFusedSms) {
    l.per_tile /= 2;  // few tokens: a block each for fewer of them
  }
  l.groups = groups();
  l.blocks =
      every_sm ? kFusedSms : std::min(l.groups * static_cast<int>(p.num_kv_heads), kFusedSms);
  l.max_compressed = compressed_count(p.nsa, p.context_len + p.num_queries);
  l.slices = std::max((l.max_compressed + kTileKeys - 1) / kTileKeys,
                      (p.num_blocks + 4 * kSlots - 1) / (4 * kSlots)) *
             kSlots;
  const auto place = [&l](std::int64_t floats) {
    const std::size_t at = l.bytes;
    l.bytes += (static_cast<std::size_t>(floats) * sizeof(float) + 255) / 256 * 256;
    return at;
  };
  const std::int64_t rows = std::int64_t{l.blocks} * Plan::kQueries * heads;
  l.weights = place(rows * l.slices * 4);
  l.slice_states = place(rows * l.slices * 2);
  l.branches = place(std::int64_t{l.blocks} * Plan::kWorkers * kD / 2);
  return l;
}

template <int kD>
bool takes(const NsaVerifyParams<Bf16>& p) {
  using Plan = PromptPlan<kD>;
  const PromptLayout l = layout_for<kD>(p);
  const std::int64_t rows =
      std::int64_t{l.blocks} * Plan::kQueries * (p.num_heads / p.num_kv_heads);
  return fused_select_words(p.num_blocks, p.nsa.sel_count) <= Plan::kChoiceWords &&
         Plan::shared_bytes(static_cast<int>(p.num_blocks)) <= 227 * 1024 &&
         rows * l.slices * 4 < INT32_MAX && l.bytes <= kMaxScratchBytes;
}

template <int kD>
PromptArguments prompt_arguments(const NsaVerifyParams<Bf16>& p, const PromptLayout& l,
                                 char* scratch) {
  PromptArguments out{};
  FusedArguments& a = out.a;
  a.nodes = static_cast<int>(p.num_queries);
  a.heads = static_cast<int>(p.num_heads);
  a.kv_heads = static_cast<int>(p.num_kv_heads);
  a.head_dim = static_cast<int>(p.head_dim);
  a.group_heads = a.heads / a.kv_heads;
  a.head_bits = std::countr_zero(std::bit_ceil(static_cast<unsigned>(a.group_heads)));
  a.context_len = static_cast<int>(p.context_len);
  a.cmp_block = static_cast<int>(p.nsa.cmp_block);
  a.stride_bits = std::countr_zero(static_cast<unsigned>(p.nsa.cmp_stride));
  a.block_bits = std::countr_zero(static_cast<unsigned>(p.nsa.sel_block));
  a.sel_count = static_cast<int>(p.nsa.sel_count);
  a.init_blocks = static_cast<int>(p.nsa.init_blocks);
  a.local_blocks = static_cast<int>(p.nsa.local_blocks);
  a.window = static_cast<int>(p.nsa.window);
  a.num_blocks = static_cast<int>(p.num_blocks);
  a.group_size = 1;
  a.four = true;
  a.max_slices = static_cast<int>(l.slices);
  a.max_blocks = 4 * a.max_slices;
  a.q = p.q;
  a.gates = p.gates;
  a.out = p.out;
  a.indices = p.indices;
  a.pages[0] = p.pages.page;
  a.pages[1] = p.compressed_pages.page;
  out.own = a;
  out.own.heads = a.group_heads;
  out.own.kv_heads = 1;
  out.own.weights = reinterpret_cast<float*>(scratch + l.weights);
  out.own.slices = reinterpret_cast<float2*>(scratch + l.slice_states);
  out.branches = reinterpret_cast<float*>(scratch + l.branches);
  out.per_tile = l.per_tile;
  out.groups = l.groups;
  // Up to the prompt's last row: what lies behind reads as 0. A cache without rows is never read.
  // Of pages all: what lies behind are others' rows, at weight 0.
  const auto map = [&p](const Bf16* rows, std::int64_t count) {
    return cache_map(count > 0 ? rows : p.q, std::max<std::int64_t>(count, 1), p.num_kv_heads,
                     p.head_dim, kTileKeys);
  };
  const std::int64_t rows = p.pages.rows(p.context_len + p.num_queries);
  const std::int64_t compressed = p.compressed_pages.rows(l.max_compressed);
  out.maps[0] = map(p.k, rows);
  out.maps[1] = map(p.v, rows);
  out.maps[2] = map(p.k_cmp, compressed);
  out.maps[3] = map(p.v_cmp, compressed);
  return out;
}

template <int kD>
void launch(const NsaVerifyParams<Bf16>& p, const LaunchContext& context) {
  using Plan = PromptPlan<kD>;
  const PromptLayout l = layout_for<kD>(p);
  VERSIEVE_ASSERT(context.scratch_bytes >= l.bytes, "scratch was sized for this call");
  const LaunchRange range("nsa_prompt", traffic::nsa_prompt(traffic_shape_of(p)), context.observer);
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(l.blocks)),
       .threads = Plan::kThreads,
       .shared_bytes = static_cast<std::size_t>(Plan::shared_bytes(static_cast<int>(p.num_blocks))),
       .stream = context.stream},
      nsa_prompt_kernel<kD>, prompt_arguments<kD>(p, l, static_cast<char*>(context.scratch)));
  check(cudaGetLastError());
}

// A slice of 16 compressed tokens is four blocks, in which the softmax weights are kept.
bool is_four(const NsaGeometry& nsa) {
  return nsa.sel_block == 4 * nsa.cmp_stride && nsa.cmp_block == 2 * nsa.cmp_stride;
}

bool is_narrow(const NsaVerifyParams<Bf16>& p) {
  return p.head_dim <= 64;
}

// What no length decides.
bool takes_shape(const NsaVerifyParams<Bf16>& p) {
  const auto power_of_two = [](std::int64_t x) { return (x & (x - 1)) == 0; };
  return p.form == NsaForm::kFused && p.counts == nullptr && p.indices_in == nullptr &&
         p.imposed_indices == nullptr && p.importance == nullptr &&
         p.group_mode == GroupMode::kExact && p.head_dim % 16 == 0 && p.head_dim <= 128 &&
         p.num_heads / p.num_kv_heads <= kTileRows && is_four(p.nsa) &&
         power_of_two(p.nsa.sel_block) && p.nsa.sel_block >= kSliceKeys &&
         p.nsa.sel_block <= 4096 && p.nsa.window <= (1 << 22);
}

bool lies_in_cache(const NsaVerifyParams<Bf16>& p) {
  if (p.pages.page != nullptr && p.compressed_pages.page != nullptr) {
    return true;  // by the caller's word
  }
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  const bool compressed =
      p.num_tree_compressed == 0 || (p.k_cmp_tree == p.k_cmp + p.num_compressed * width &&
                                     p.v_cmp_tree == p.v_cmp + p.num_compressed * width);
  return compressed && p.k_tree == p.k + p.context_len * width &&
         p.v_tree == p.v + p.context_len * width;
}

}  // namespace

bool prompt_takes(const NsaVerifyParams<Bf16>& p) {
  return takes_shape(p) && p.num_queries * p.num_heads * p.head_dim < INT32_MAX &&
         p.context_len + p.num_queries <= (1 << 20) &&
         (is_narrow(p) ? takes<64>(p) : takes<128>(p));
}

std::size_t prompt_scratch_bytes(const NsaVerifyParams<Bf16>& p) {
  return is_narrow(p) ? layout_for<64>(p).bytes : layout_for<128>(p).bytes;
}

std::size_t most_prompt_scratch_bytes(const NsaVerifyParams<Bf16>& p) {
  if (!takes_shape(p)) {
    return 0;
  }
  const PromptLayout most = is_narrow(p) ? layout_for<64>(p, true) : layout_for<128>(p, true);
  return std::min(most.bytes, kMaxScratchBytes);
}

void launch_nsa_prompt(const NsaVerifyParams<Bf16>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(prompt_takes(p) && lies_in_cache(p), "a prompt's rows lie in the caches");
  is_narrow(p) ? launch<64>(p, context) : launch<128>(p, context);
}

template <class T>
bool has_nsa_prompt(Ops<T>& ops, const NsaVerifyParams<T>& p) {
  if (!launch_with_scratch<T>(ops, 0, [](const LaunchContext&) {})) {
    return true;  // a CPU's
  }
  if constexpr (std::is_same_v<T, Bf16>) {
    return prompt_takes(p);
  }
  return false;
}
template <class T>
void nsa_prompt(Ops<T>& ops, const NsaVerifyParams<T>& p) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (launch_with_scratch<T>(ops, prompt_scratch_bytes(p), [&p](const LaunchContext& context) {
          launch_nsa_prompt(p, context);
        })) {
      return;
    }
  }
  ops.nsa_verify(p);
}

template <class T>
std::int64_t nsa_prompt_bytes(Ops<T>& ops, const NsaVerifyParams<T>& p) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return has_launches(ops) ? static_cast<std::int64_t>(most_prompt_scratch_bytes(p)) : 0;
  }
  return 0;
}
template <class T>
void reserve_nsa_prompt(Ops<T>& ops, const NsaVerifyParams<T>& p) {
  if constexpr (std::is_same_v<T, Bf16>) {
    launch_with_scratch<T>(ops, prompt_scratch_bytes(p), [](const LaunchContext&) {});
  }
}

template bool has_nsa_prompt(Ops<double>&, const NsaVerifyParams<double>&);
template void nsa_prompt(Ops<double>&, const NsaVerifyParams<double>&);
template std::int64_t nsa_prompt_bytes(Ops<double>&, const NsaVerifyParams<double>&);
template void reserve_nsa_prompt(Ops<double>&, const NsaVerifyParams<double>&);
template bool has_nsa_prompt(Ops<float>&, const NsaVerifyParams<float>&);
template void nsa_prompt(Ops<float>&, const NsaVerifyParams<float>&);
template std::int64_t nsa_prompt_bytes(Ops<float>&, const NsaVerifyParams<float>&);
template void reserve_nsa_prompt(Ops<float>&, const NsaVerifyParams<float>&);
template bool has_nsa_prompt(Ops<Bf16>&, const NsaVerifyParams<Bf16>&);
template void nsa_prompt(Ops<Bf16>&, const NsaVerifyParams<Bf16>&);
template std::int64_t nsa_prompt_bytes(Ops<Bf16>&, const NsaVerifyParams<Bf16>&);
template void reserve_nsa_prompt(Ops<Bf16>&, const NsaVerifyParams<Bf16>&);

}  // namespace versieve::kernels
