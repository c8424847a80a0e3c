#include "kernels/launch.h"

#include <string>
#include <type_traits>

#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/nsa_verify/combine.cuh"
#include "kernels/nsa_verify/compressed.cuh"
#include "kernels/nsa_verify/fused.h"
#include "kernels/nsa_verify/rank.cuh"
#include "kernels/nsa_verify/tokens.cuh"
#include "kernels/nsa_verify/traffic_shape.h"
#include "model/launches/nsa_shape.h"
#include "model/launches/nsa_vanilla.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kMaxQueries = 4096;
constexpr std::int64_t kMaxGrid = 65535;             // of a grid's second and third dimension
constexpr std::size_t kMaxSharedBytes = 227 * 1024;  // of one CTA on compute capability 9.0

// Why the separate launches do not take this shape, or an empty text.
template <class T>
std::string refusal(const NsaVerifyParams<T>& p) {
  if (p.head_dim % 16 != 0 || p.head_dim > kMaxHeadDim) {
    return "the CUDA kernels take a head size that is a multiple of 16 up to 128, not " +
           std::to_string(p.head_dim);
  }
  if (p.num_heads / p.num_kv_heads > kMaxGroupHeads) {
    return "the CUDA kernels take at most 16 query heads per KV head, not " +
           std::to_string(p.num_heads / p.num_kv_heads);
  }
  if (p.num_queries > kMaxQueries) {
    return "the CUDA kernels take at most 4096 nodes in one call, not " +
           std::to_string(p.num_queries);
  }
  if (p.num_kv_heads > kMaxGrid || plan_vanilla(p).spans > kMaxGrid) {
    return "the CUDA kernels take at most 65,535 KV heads and 33,553,920 compressed tokens, not " +
           std::to_string(p.num_kv_heads) + " and " +
           std::to_string(plan_vanilla(p).max_compressed);
  }
  if ((p.nsa.sel_block + p.nsa.cmp_block) / p.nsa.cmp_stride > kMaxOffsets) {
    return "the CUDA kernels take (sel_block + cmp_block) / cmp_stride up to 1024";
  }
  if (!ranks_apart(p) && select_shared_bytes(p.num_blocks, p.nsa.sel_count) > kMaxSharedBytes) {
    return "the CUDA kernels hold the importance of all selection blocks in shared memory, and " +
           std::to_string(p.num_blocks) + " blocks are too many";
  }
  return {};
}

template <class T>
void refuse(const NsaVerifyParams<T>& p) {
  if (const std::string reason = refusal(p); !reason.empty()) {
    throw Error(ExitCode::kAnswerNo, reason);
  }
}

template <class T>
VanillaArguments<T> arguments_of(const NsaVerifyParams<T>& p, const VanillaPlan& plan,
                                 void* scratch) {
  char* base = static_cast<char*>(scratch);
  const auto at = [&](std::size_t offset) { return reinterpret_cast<float*>(base + offset); };
  VanillaArguments<T> a;
  a.p = p;
  a.group_heads = static_cast<int>(plan.group_heads);
  a.padded_heads = static_cast<int>(plan.padded_heads);
  a.spans = static_cast<int>(plan.spans);
  a.max_compressed = plan.max_compressed;
  a.scores = p.indices_in == nullptr ? at(plan.scores_at) : nullptr;
  a.states = at(plan.states_at);
  a.partials = at(plan.partials_at);
  a.selected = at(plan.selected_at);
  a.window = at(plan.window_at);
  a.ranked = at(plan.ranked_at);
  a.values = at(plan.values_at);
  a.hints = reinterpret_cast<std::int32_t*>(base + plan.hints_at);
  return a;
}

// One launch with as much dynamic shared memory as it asks for.
template <class T>
void launch(void (*kernel)(VanillaArguments<T>), dim3 grid, int threads, std::size_t shared_bytes,
            const VanillaArguments<T>& a, cudaStream_t stream) {
  if (shared_bytes > 48 * 1024) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)));
  }
  kernel<<<grid, static_cast<unsigned>(threads), shared_bytes, stream>>>(a);
  check(cudaGetLastError());
}

// The launches of one call, in order.
template <class T>
class Vanilla {
 public:
  Vanilla(const NsaVerifyParams<T>& p, const VanillaPlan& plan, const LaunchContext& context)
      : p_(p),
        plan_(plan),
        context_(context),
        a_(arguments_of(p, plan, context.scratch)),
        shape_(traffic_shape_of(p)),
        merge_bytes_(merge_bytes(plan.group_heads, p.head_dim)),
        threads_(attention_threads(plan.group_heads)) {}

  void compressed() const {
    if (a_.spans == 0) {
      return;
    }
    const LaunchRange range("nsa_compressed", traffic::nsa_compressed(shape_), context_.observer);
    with_lanes_per_key<T>(p_.head_dim, [&]<int kLanes>() {
      launch(&nsa_compressed_kernel<T, kLanes>, grid(a_.spans), threads_, shared_bytes(3), a_,
             context_.stream);
    });
  }
  void select() const {
    const LaunchRange range("nsa_select", traffic::nsa_select(shape_), context_.observer);
    launch(&nsa_select_kernel<T>, grid(1), kNsaSelectThreads,
           select_shared_bytes(p_.num_blocks, p_.nsa.sel_count), a_, context_.stream);
  }
  // The same with kernels/topk in the middle.
  void rank() const {
    {
      const LaunchRange range("nsa_weigh", traffic::nsa_weigh(shape_), context_.observer);
      launch(&nsa_weigh_kernel<T>, grid(1), kNsaSelectThreads, select_shared_bytes(0, 0), a_,
             context_.stream);
    }
    TopkParams<float> ranking = ranking_of(p_);
    ranking.scores = a_.ranked;
    ranking.hint = p_.hint != nullptr ? a_.hints : nullptr;
    ranking.indices = p_.indices;
    ranking.values = a_.values;
    LaunchContext context = context_;
    context.scratch = static_cast<char*>(context_.scratch) + plan_.topk_at;
    context.scratch_bytes = plan_.bytes - plan_.topk_at;
    launch_topk(ranking, context);
    const LaunchRange range("nsa_trim", traffic::nsa_trim(shape_), context_.observer);
    const std::int64_t indices = ranking.rows * ranking.k;
    launch(&nsa_trim_kernel<T>,
           dim3(static_cast<unsigned>((indices + kTrimThreads - 1) / kTrimThreads)), kTrimThreads,
           0, a_, context_.stream);
  }
  void given_indices() const {
    const std::int64_t count = p_.num_queries * p_.num_kv_heads * p_.nsa.sel_count;
    check(cudaMemcpyAsync(p_.indices, p_.indices_in,
                          static_cast<std::size_t>(count) * sizeof(std::int32_t),
                          cudaMemcpyDeviceToDevice, context_.stream));
  }
  void selected() const {
    const LaunchRange range("nsa_selected", traffic::nsa_selected(shape_), context_.observer);
    tokens<TokenBranch::kSelected>();
  }
  void window() const {
    const LaunchRange range("nsa_window", traffic::nsa_window(shape_), context_.observer);
    tokens<TokenBranch::kWindow>();
  }
  void combine() const {
    const LaunchRange range("nsa_combine", traffic::nsa_combine(shape_), context_.observer);
    const std::int64_t threads = p_.num_queries * p_.num_heads * p_.head_dim / 4;
    launch(&nsa_combine_kernel<T>,
           dim3(static_cast<unsigned>((threads + kCombineThreads - 1) / kCombineThreads)),
           kCombineThreads, 0, a_, context_.stream);
  }

 private:
  dim3 grid(int depth) const {
    return {static_cast<unsigned>(p_.num_queries), static_cast<unsigned>(p_.num_kv_heads),
            static_cast<unsigned>(depth)};
  }
  // Tree arrays of N ints each at first, the states to merge in the same place at the end.
  std::size_t shared_bytes(std::size_t tree_arrays) const {
    return std::max(merge_bytes_,
                    tree_arrays * static_cast<std::size_t>(p_.num_queries + 1) * sizeof(int));
  }
  template <TokenBranch kBranch>
  void tokens() const {
    with_lanes_per_key<T>(p_.head_dim, [&]<int kLanes>() {
      launch(&nsa_tokens_kernel<T, kLanes, kBranch>, grid(1), threads_, shared_bytes(2), a_,
             context_.stream);
    });
  }

  const NsaVerifyParams<T>& p_;
  const VanillaPlan& plan_;
  const LaunchContext& context_;
  VanillaArguments<T> a_;
  traffic::NsaVerifyShape shape_;
  std::size_t merge_bytes_;
  int threads_;
};

}  // namespace

template <class T>
std::size_t nsa_verify_scratch_bytes(const NsaVerifyParams<T>& p) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (p.form == NsaForm::kFused && fused_takes(p)) {
      return fused_scratch_bytes(p);
    }
  }
  refuse(p);
  return plan_vanilla(p).bytes;
}

template <class T>
void launch_nsa_verify(const NsaVerifyParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, "G divides H");
  VERSIEVE_ASSERT(geometry_error(p.nsa).empty(), "the geometry was checked");
  if constexpr (std::is_same_v<T, Bf16>) {
    if (p.form == NsaForm::kFused && fused_takes(p)) {
      launch_fused(p, context);
      return;
    }
  }
  VERSIEVE_ASSERT(p.counts == nullptr, "only the fused form reads counts from memory");
  refuse(p);
  const VanillaPlan plan = plan_vanilla(p);
  VERSIEVE_ASSERT(context.scratch_bytes >= plan.bytes, "scratch was sized for this call");
  const Vanilla<T> vanilla(p, plan, context);
  vanilla.compressed();
  if (ranks_apart(p)) {
    vanilla.rank();
  } else if (p.indices_in == nullptr) {
    vanilla.select();
  } else {
    vanilla.given_indices();
  }
  vanilla.selected();
  vanilla.window();
  vanilla.combine();
}

template std::size_t nsa_verify_scratch_bytes<float>(const NsaVerifyParams<float>&);
template std::size_t nsa_verify_scratch_bytes<Bf16>(const NsaVerifyParams<Bf16>&);
template void launch_nsa_verify<float>(const NsaVerifyParams<float>&, const LaunchContext&);
template void launch_nsa_verify<Bf16>(const NsaVerifyParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
