// The engine's kernels on a GPU: one stream, one scratch buffer that only grows. An op enqueues and
// never waits, except when scratch must grow; after one plain run a step can be captured in a
// graph.
#include <algorithm>
#include <bit>
#include <iterator>
#include <string>
#include <type_traits>

#include "kernels/attention_weights/together.h"
#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_context.h"
#include "kernels/context_launch.h"
#include "kernels/flash_decode/step.h"
#include "kernels/index_scores/launch.h"
#include "kernels/launch.h"
#include "kernels/memory_log.h"
#include "kernels/nsa_verify/fused.h"
#include "kernels/nsa_verify/fused_step.h"
#include "kernels/ops_instances.h"
#include "kernels/staged_upload.h"
#include "kernels/stream_work.cuh"
#include "kernels/tree_attention/together.h"
#include "model/launches/fused_cut.h"
#include "model/words/assert.h"
#include "model/words/gpu_absence.h"
#include "model/words/hardware.h"

namespace versieve::kernels {
namespace {

template <class T>
class CudaOps final : public Ops<T>, public MemoryLogOwner {
 public:
  explicit CudaOps(void* stream) : owns_stream_(stream == nullptr) {
    context_.stream = static_cast<cudaStream_t>(stream);
    if (owns_stream_) {
      check(cudaStreamCreateWithFlags(&context_.stream, cudaStreamNonBlocking));
    }
    constexpr std::size_t kBytes = kLaunchCounters * sizeof(unsigned);
    context_.counters = static_cast<unsigned*>(allocate(kBytes));
    context_.tickets = allocate(kTicketBytes);
    context_.parts = allocate(kFusedPartBytes);
    check(cudaMemsetAsync(context_.parts, 0xFF, kFusedPartBytes, context_.stream));
  }
  CudaOps(const CudaOps&) = delete;
  CudaOps& operator=(const CudaOps&) = delete;
  ~CudaOps() override {
    cudaStreamSynchronize(context_.stream);
    beside_.reset();
    step_upload_ = StagedUpload<T>();
    cudaFree(context_.scratch);
    cudaFree(context_.counters);
    cudaFree(context_.tickets);
    cudaFree(context_.parts);
    cudaFree(step_arguments_.data);
    cudaFree(step_counters_.data);
    if (owns_stream_) {
      cudaStreamDestroy(context_.stream);
    }
  }

  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // the runtime keeps it; the next check must not report it again
      throw Error(ExitCode::kEnvironment,
                  "the GPU has no " + std::to_string(bytes) + " bytes of memory left");
    }
    check(status);
    this->memory_log.allocated(memory);
    // Caches are read past their last row, at weight 0: what lies there must be finite.
    check(cudaMemsetAsync(memory, 0, bytes, context_.stream));
    return memory;
  }
  // Waits for the device: work that uses the memory has run. cudaFree does so too, and need not.
  void release(void* memory) noexcept override {
    cudaDeviceSynchronize();
    this->memory_log.released(memory);
    cudaFree(memory);
    ++this->released_;
  }
  void upload(void* destination, const void* source, std::size_t bytes) override {
    check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, context_.stream));
    synchronize();  // the source may be pinned, and may go when this returns
  }
  void download(void* destination, const void* source, std::size_t bytes) override {
    check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToHost, context_.stream));
    synchronize();
  }
  void enqueue_upload(void* destination, const void* source, std::size_t bytes) {
    check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyHostToDevice, context_.stream));
  }
  void synchronize() override { check(cudaStreamSynchronize(context_.stream)); }
  void set_observer(LaunchObserver* observer) override { context_.observer = observer; }
  void* allocate_host(std::size_t bytes) override {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocDefault));
    return memory;
  }
  void release_host(void* memory) noexcept override { cudaFreeHost(memory); }
  std::unique_ptr<Recording> record(std::function<void()> work) override {
    return std::make_unique<CudaGraph>(context_.stream, work);
  }
  std::unique_ptr<Marker> make_marker() override {
    return std::make_unique<CudaMarker>(context_.stream);
  }
  // Launches that use counters, tickets or parts stay on the one stream: the branch has none.
  void enqueue_beside(const std::function<void()>& work) override {
    VERSIEVE_ASSERT(!branches_, "what runs beside is joined before more does");
    if (beside_ == nullptr) {
      beside_ = std::make_unique<Branch>();
    }
    beside_->follow(context_.stream);
    beside_->context.observer = context_.observer;
    std::swap(context_, beside_->context);
    try {
      work();
    } catch (...) {
      std::swap(context_, beside_->context);
      throw;
    }
    std::swap(context_, beside_->context);
    beside_->end();
    branches_ = true;
  }
  void join_beside() override {
    VERSIEVE_ASSERT(branches_, "something runs beside");
    beside_->precede(context_.stream);
    branches_ = false;
  }

  void linear(const LinearParams<T>& p) override { launch_linear(p, context_); }
  void embed(const EmbedParams<T>& p) override { launch_embed(p, context_); }
  void rope(const RopeParams<T>& p) override { launch_rope(p, context_); }
  void rope_append(const RopeAppendParams<T>& p) override { launch_rope_append(p, context_); }
  void swiglu(const SwigluParams<T>& p) override { launch_swiglu(p, context_); }
  void sigmoid(const SigmoidParams<T>& p) override { launch_sigmoid(p, context_); }
  void copy_rows(const CopyRowsParams<T>& p) override { launch_copy_rows(p, context_); }
  void compress(const CompressParams<T>& p) override { launch_compress(p, context_); }
  void nsa_verify(const NsaVerifyParams<T>& p) override {
    VERSIEVE_ASSERT(p.counts == nullptr || reads_counts(p), "this form takes sizes of the host");
    reserve(nsa_verify_scratch_bytes(p));
    launch_nsa_verify(p, context_);
  }
  void launch_with_scratch(std::size_t bytes, const ContextLaunch& launch) {
    reserve(bytes);
    launch(context_);
  }
  StepShape prepare_nsa_step(const NsaStepParams<T>& step) {
    if constexpr (std::is_same_v<T, Bf16>) {
      step_.plan(step);
      reserve(step_.scratch_bytes());
      if (step_.image_bytes() > 0) {
        grow(step_arguments_, step_.argument_bytes());
        grow(step_counters_, step_.counter_count() * sizeof(unsigned));
        send_nsa_arguments();
      }
      return step_.shape();
    }
    return {};
  }
  // Calls that the fused form does not take run one after the other.
  void nsa_verify_layer(const NsaStepParams<T>& step, std::int64_t layer) {
    if constexpr (std::is_same_v<T, Bf16>) {
      if (step_.image_bytes() > 0 && nsa_scratch_ != context_.scratch) {
        send_nsa_arguments();  // another call of the step needed more
      }
      step_.launch(layer, context_);
      for (const std::size_t call : step_.others()) {
        nsa_verify(call_in_layer(step, call, layer));
      }
    } else {
      for (std::size_t i = 0; i < step.calls.size(); ++i) {
        nsa_verify(call_in_layer(step, i, layer));
      }
    }
  }
  StepShape prepare_dense_step(const DenseStepParams<T>& step) {
    if constexpr (std::is_same_v<T, Bf16>) {
      dense_step_.plan(step);
      reserve(dense_step_.scratch_bytes());
      if (const std::size_t bytes = dense_step_.argument_bytes(); bytes > 0) {
        grow(step_arguments_, bytes);
        send_dense_arguments();
      }
      return dense_step_.shape();
    }
    return {};
  }
  void dense_attention_layer(const DenseStepParams<T>& step, std::int64_t layer) {
    std::vector<TreeAttentionParams<T>> calls;
    const bool shared = std::is_same_v<T, Bf16> && step.window(layer) == 0;
    if constexpr (std::is_same_v<T, Bf16>) {
      if (shared) {
        if (dense_step_.argument_bytes() > 0 && dense_scratch_ != context_.scratch) {
          send_dense_arguments();  // another op of the step needed more
        }
        dense_step_.launch(layer, context_);
        for (const std::size_t call : dense_step_.others(layer)) {
          calls.push_back(call_in_layer(step, call, layer));
        }
      }
    }
    for (std::size_t i = 0; !shared && i < step.calls.size(); ++i) {
      calls.push_back(call_in_layer(step, i, layer));
    }
    if (!calls.empty()) {
      tree_attention_together(calls);
    }
  }
  // Calls that no shared launch takes run one after the other. Weights come behind the attention.
  void tree_attention_together(std::span<const TreeAttentionParams<T>> calls) {
    std::vector<TreeAttentionParams<T>> alike[2];  // that read all tokens, and lists
    std::vector<AttentionWeightsParams<T>> weights;
    for (TreeAttentionParams<T> p : calls) {
      if (p.counts != nullptr || flash_decode_takes(p)) {
        tree_attention(p);
        continue;
      }
      if (p.weights != nullptr) {
        weights.push_back(weights_of(p));
        p.weights = nullptr;
      }
      alike[p.selected.token == nullptr ? 0 : 1].push_back(p);
    }
    for (const std::vector<TreeAttentionParams<T>>& some : alike) {
      if (some.size() > 1) {
        launch_tree_attention_together<T>(some, context_);
      } else if (!some.empty()) {
        tree_attention(some[0]);
      }
    }
    if (!weights.empty()) {
      reserve(attention_weights_together_scratch_bytes<T>(weights));
      launch_attention_weights_together<T>(weights, context_);
    }
  }
  bool reads_counts(const NsaVerifyParams<T>& p) const override {
    if constexpr (std::is_same_v<T, Bf16>) {
      return p.form == NsaForm::kFused && fused_takes(p);
    }
    return false;  // the vanilla form takes its sizes from the host
  }
  void decode_layers(const DecodeLayersParams<T>& p) override {
    if constexpr (std::is_same_v<T, Bf16>) {
      if (!is_capturing()) {
        prepare_decode_layers(*decode_workspace_, p, context_);
      }
      launch_decode_layers(*decode_workspace_, p, context_);
    } else {
      VERSIEVE_ASSERT(false, "one launch for all layers is bf16's");
    }
  }
  bool decode_layers_takes(const DecodeLayersParams<T>& p) const override {
    if constexpr (std::is_same_v<T, Bf16>) {
      return kernels::decode_layers_takes(p);
    }
    return false;
  }
  void tree_attention(const TreeAttentionParams<T>& p) override {
    if constexpr (std::is_same_v<T, Bf16>) {
      if (kernels::dense_pass_takes(p)) {
        reserve(dense_pass_scratch_bytes(p));
        launch_dense_pass(p, context_);
        return;
      }
      if (flash_decode_takes(p)) {
        reserve(flash_decode_scratch_bytes(p));
        launch_flash_decode(p, context_);
        if (p.weights != nullptr && !flash_decode_captures(p)) {
          attention_weights(weights_of(p));
        }
        return;
      }
    }
    launch_tree_attention(p, context_);
    if (p.weights != nullptr) {
      attention_weights(weights_of(p));
    }
  }
  void attention_weights(const AttentionWeightsParams<T>& p) override {
    reserve(attention_weights_scratch_bytes(p));
    launch_attention_weights(p, context_);
  }
  void block_keys(const BlockKeysParams<T>& p) override { launch_block_keys(p, context_); }
  void resa_decode(const ResaDecodeParams<T>& p) override {
    reserve(resa_decode_scratch_bytes(p));
    launch_resa_decode(p, context_);
  }
  void top_logits(const TopLogitsParams<T>& p) override { launch_top_logits(p, context_); }
  void gumbel_top(const GumbelTopParams<T>& p) override { launch_gumbel_top(p, context_); }
  void topk(const TopkParams<T>& p) override {
    reserve(topk_scratch_bytes(p));
    launch_topk(p, context_);
  }
  void index_keys(const IndexKeysParams<T>& p) override { launch_index_keys(p, context_); }
  void index_query(const IndexQueryParams<T>& p) override { launch_index_query(p, context_); }
  void index_scores(const IndexScoresParams<T>& p) override { launch_index_scores(p, context_); }
  void layer_map(const LayerMapParams& p) override {
    reserve(layer_map_scratch_bytes(p));
    launch_layer_map(p, context_);
  }
  void top_p(const TopPParams<float>& p) override {
    reserve(top_p_scratch_bytes(p));
    launch_top_p(p, context_);
  }
  void token_list(const TokenListParams& p) override {
    reserve(token_list_scratch_bytes(p));
    launch_token_list(p, context_);
  }
  void spec_sample(const SpecSampleParams<T>& p) override { sample(p); }
  void tree_sample(const TreeSampleParams<T>& p) override { sample(p); }
  void spec_sample_f16(const SpecSampleParams<F16>& p) override { sample(p); }
  void tree_sample_f16(const TreeSampleParams<F16>& p) override { sample(p); }
  void draft_token_rows(const DraftLevelsParams<T>& p, SumOf<T>* rows) override {
    if constexpr (std::is_same_v<T, Bf16>) {
      launch_draft_token_rows(p, rows, context_);
    } else {
      VERSIEVE_ASSERT(false, "one launch for a draft's levels is bf16's");
    }
  }
  void draft_levels(const DraftLevelsParams<T>& p) override {
    if constexpr (std::is_same_v<T, Bf16>) {
      if (!is_capturing()) {
        prepare_draft_levels(*draft_workspace_, p, context_);
      }
      launch_draft_levels(*draft_workspace_, p, context_);
    } else {
      VERSIEVE_ASSERT(false, "one launch for a draft's levels is bf16's");
    }
  }
  bool draft_levels_takes(const DraftLevelsParams<T>& p) const override {
    if constexpr (std::is_same_v<T, Bf16>) {
      return kernels::draft_levels_takes(p);
    }
    return false;
  }
  void grow_tree(const GrowTreeParams& p) override { launch_grow_tree(p, context_); }
  void grow_tree_from(const TopLogitsParams<T>& logits, const GrowTreeParams& p) override {
    if (grows_from_logits(logits)) {
      launch_grow_from_logits(logits, p, context_);
    } else {
      Ops<T>::grow_tree_from(logits, p);
    }
  }
  void grow_levels(std::span<const LevelGrowth> trees) { launch_grow_levels(trees, context_); }
  void finish_tree(const FinishTreeParams& p) override { launch_finish_tree(p, context_); }
  void accept_tree(const AcceptTreeParams& p) override { launch_accept_tree(p, context_); }
  void commit_path(const CommitPathParams<T>& p) override { launch_commit_path(p, context_); }

  cudaStream_t stream() const { return context_.stream; }

 private:
  // They name the scratch memory, as those of dense steps do.
  void send_nsa_arguments() {
    const std::size_t bytes = step_.image_bytes();
    const FusedStepMemory memory{step_arguments_.data, static_cast<unsigned*>(step_counters_.data)};
    step_.write(step_upload_.block(*this, bytes), memory, context_);
    step_upload_.send(memory.arguments, bytes);
    step_.enqueue_layers(context_);
    meet(context_.stream);  // launches that start early read them before they wait
    nsa_scratch_ = context_.scratch;
  }
  void send_dense_arguments() {
    const std::size_t bytes = dense_step_.argument_bytes();
    dense_step_.write(step_upload_.block(*this, bytes), step_arguments_.data, context_);
    step_upload_.send(step_arguments_.data, bytes);
    meet(context_.stream);  // launches that start early read them before they wait
    dense_scratch_ = context_.scratch;
  }
  template <class E>
  void sample(const SpecSampleParams<E>& p) {
    reserve(spec_sample_scratch_bytes(p));
    launch_spec_sample(p, context_);
  }
  template <class E>
  void sample(const TreeSampleParams<E>& p) {
    reserve(tree_sample_scratch_bytes(p));
    launch_tree_sample(p, context_);
  }
  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  // What it held is lost.
  void grow(Block& block, std::size_t bytes) {
    if (bytes > block.bytes) {
      synchronize();
      if (block.data != nullptr) {
        release(block.data);
      }
      block = {};
      block.data = allocate(bytes);
      block.bytes = bytes;
    }
  }
  void reserve(std::size_t least) {
    if (least <= context_.scratch_bytes) {
      return;
    }
    // In powers of two, large ones in steps: recordings go with what is released, and requests of
    // about one size are to keep them.
    constexpr std::size_t kStep = std::size_t{32} << 20;
    const std::size_t bytes =
        least < kStep ? std::bit_ceil(least) : (least + kStep - 1) / kStep * kStep;
    VERSIEVE_ASSERT(!is_capturing(), "scratch is reserved before a graph is captured");
    synchronize();
    release(context_.scratch);
    context_.scratch = nullptr;
    context_.scratch_bytes = 0;
    context_.scratch = allocate(bytes);
    context_.scratch_bytes = bytes;
  }
  bool is_capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(context_.stream, &status));
    return status != cudaStreamCaptureStatusNone;
  }

  LaunchContext context_;
  std::unique_ptr<Branch> beside_;  // made when it is first used
  bool branches_ = false;           // and is not joined yet
  std::shared_ptr<DecodeWorkspace> decode_workspace_ = make_decode_workspace();
  std::shared_ptr<DraftWorkspace> draft_workspace_ = make_draft_workspace();
  FusedStep step_;                       // of several sequences
  const void* nsa_scratch_ = nullptr;    // that its arguments name
  FlashStep dense_step_;                 // likewise, of dense attention
  const void* dense_scratch_ = nullptr;  // that its arguments name
  Block step_arguments_, step_counters_;
  StagedUpload<T> step_upload_;
  bool owns_stream_;
};

void require_gpu() {
  GpuAnswer answer;
  const cudaError_t status = cudaGetDeviceCount(&answer.device_count);
  cudaGetLastError();
  answer.driver_insufficient = status == cudaErrorInsufficientDriver;
  answer.error = status == cudaSuccess ? "" : cudaGetErrorString(status);
  check(cudaDriverGetVersion(&answer.driver_version));
  check(cudaRuntimeGetVersion(&answer.runtime_version));
  if (const std::string absent = gpu_absent_because(answer); !absent.empty()) {
    throw Error(ExitCode::kEnvironment, absent);
  }
  int device = 0;
  int major = 0;
  int minor = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  const std::string unfit = kernels_cannot_run_because("the GPU", major, minor);
  if (!unfit.empty()) {
    throw Error(ExitCode::kEnvironment, unfit);
  }
}

// work(CUDA's ops) where these are; false: they are the CPU's, and it was not called.
template <class T, class Work>
bool on_cuda(Ops<T>& ops, const Work& work) {
  if constexpr (!std::is_same_v<T, double>) {
    if (auto* const cuda = dynamic_cast<CudaOps<T>*>(&ops); cuda != nullptr) {
      work(*cuda);
      return true;
    }
  }
  return false;
}

template <class T>
CudaOps<T>& cuda_ops(Ops<T>& ops) {
  CudaOps<T>* const cuda = dynamic_cast<CudaOps<T>*>(&ops);
  VERSIEVE_ASSERT(cuda != nullptr, "these ops do not run on a GPU");
  return *cuda;
}

}  // namespace

template <class T>
std::unique_ptr<Ops<T>> make_cuda_ops(void* stream) {
  require_gpu();
  return std::make_unique<CudaOps<T>>(stream);
}
template <class T>
void* stream_of(Ops<T>& ops) {
  return cuda_ops(ops).stream();
}

template <class T>
std::int64_t free_memory(Ops<T>& ops) {
  cuda_ops(ops).synchronize();
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total));
  return static_cast<std::int64_t>(free);
}

template <class T>
void enqueue_upload(Ops<T>& ops, void* destination, const void* source, std::size_t bytes) {
  if (!on_cuda(ops, [&](auto& cuda) { cuda.enqueue_upload(destination, source, bytes); })) {
    ops.upload(destination, source, bytes);
  }
}
template <class T>
bool launch_with_scratch(Ops<T>& ops, std::size_t bytes, const ContextLaunch& launch) {
  return on_cuda(ops, [&](auto& cuda) { cuda.launch_with_scratch(bytes, launch); });
}
template <class T>
bool has_step_shapes(Ops<T>& ops) {
  return std::is_same_v<T, Bf16> && on_cuda(ops, [](auto&) {});
}
template <class T>
StepShape prepare_nsa_step(Ops<T>& ops, const NsaStepParams<T>& step) {
  StepShape shape;
  on_cuda(ops, [&](auto& cuda) { shape = cuda.prepare_nsa_step(step); });
  return shape;
}
template <class T>
void nsa_verify_layer(Ops<T>& ops, const NsaStepParams<T>& step, std::int64_t layer) {
  if (!on_cuda(ops, [&](auto& cuda) { cuda.nsa_verify_layer(step, layer); })) {
    for (std::size_t i = 0; i < step.calls.size(); ++i) {
      ops.nsa_verify(call_in_layer(step, i, layer));
    }
  }
}
template <class T>
StepShape prepare_dense_step(Ops<T>& ops, const DenseStepParams<T>& step) {
  StepShape shape;
  on_cuda(ops, [&](auto& cuda) { shape = cuda.prepare_dense_step(step); });
  return shape;
}
template <class T>
void dense_attention_layer(Ops<T>& ops, const DenseStepParams<T>& step, std::int64_t layer) {
  if (!on_cuda(ops, [&](auto& cuda) { cuda.dense_attention_layer(step, layer); })) {
    for (std::size_t i = 0; i < step.calls.size(); ++i) {
      ops.tree_attention(call_in_layer(step, i, layer));
    }
  }
}
template <class T>
void grow_levels(Ops<T>& ops, std::span<const LevelGrowth> trees) {
  if (!on_cuda(ops, [&](auto& cuda) { cuda.grow_levels(trees); })) {
    std::for_each(trees.begin(), trees.end(), grow_level_cpu);
  }
}
template <class T>
void tree_attention_together(Ops<T>& ops, std::span<const TreeAttentionParams<T>> calls) {
  if (!on_cuda(ops, [&](auto& cuda) { cuda.tree_attention_together(calls); })) {
    for (const TreeAttentionParams<T>& p : calls) {
      ops.tree_attention(p);
    }
  }
}

VERSIEVE_INSTANTIATE_CUDA_OPS(float)
VERSIEVE_INSTANTIATE_CUDA_OPS(Bf16)
VERSIEVE_INSTANTIATE_OPS_TOGETHER(double)
VERSIEVE_INSTANTIATE_OPS_TOGETHER(float)
VERSIEVE_INSTANTIATE_OPS_TOGETHER(Bf16)
template bool launch_with_scratch(Ops<double>&, std::size_t, const ContextLaunch&);
template bool launch_with_scratch(Ops<float>&, std::size_t, const ContextLaunch&);
template bool launch_with_scratch(Ops<Bf16>&, std::size_t, const ContextLaunch&);

}  // namespace versieve::kernels
