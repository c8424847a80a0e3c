// The engine's kernels on the CPU: plain calls, in order, on the caller's memory.
#include <cstdlib>
#include <cstring>

#include "kernels/block_keys/traffic_shape.h"
#include "kernels/common/launch_range.h"
#include "kernels/compress/traffic.h"
#include "kernels/cpu.h"
#include "kernels/decode_layers/parts.h"
#include "kernels/embed/traffic.h"
#include "kernels/index_scores/cpu.h"
#include "kernels/linear/traffic.h"
#include "kernels/memory_log.h"
#include "kernels/ops.h"
#include "kernels/resa_decode/traffic_shape.h"
#include "kernels/rope_append/traffic.h"
#include "kernels/tree_attention/joint.h"
#include "kernels/tree_attention/traffic.h"
#include "model/launches/draft_tree.h"
#include "model/launches/index_scores.h"
#include "model/launches/rope_append.h"
#include "model/launches/row_ops.h"
#include "model/launches/spec_sample.h"
#include "model/launches/specattn.h"
#include "model/launches/top_logits.h"
#include "model/launches/topk.h"
#include "model/words/assert.h"
#include "model/words/error.h"
#include "model/words/traffic.h"

namespace versieve::kernels {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line

class CpuRecording final : public Recording {
 public:
  explicit CpuRecording(std::function<void()> work) : work_(std::move(work)) {}
  void launch() override { work_(); }

 private:
  std::function<void()> work_;
};

// Nothing is ever pending.
class CpuMarker final : public Marker {
 public:
  void mark() override {}
  void wait() override {}
};

template <class T>
class CpuOps final : public Ops<T>, public MemoryLogOwner {
 public:
  explicit CpuOps(int threads) : threads_(threads) {
    VERSIEVE_ASSERT(threads >= 1, "the CPU engine needs a thread");
  }

  void* allocate(std::size_t bytes) override {
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
    if (memory == nullptr) {
      throw Error(ExitCode::kEnvironment,
                  "out of memory: could not allocate " + std::to_string(bytes) + " bytes");
    }
    this->memory_log.allocated(memory);
    return memory;
  }
  void release(void* memory) noexcept override {
    this->memory_log.released(memory);
    std::free(memory);
    ++this->released_;
  }
  void upload(void* destination, const void* source, std::size_t bytes) override {
    copy(destination, source, bytes);
  }
  void download(void* destination, const void* source, std::size_t bytes) override {
    copy(destination, source, bytes);
  }
  void synchronize() override {}
  void set_observer(LaunchObserver* observer) override { observer_ = observer; }
  void* allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void release_host(void* memory) noexcept override { release(memory); }
  std::unique_ptr<Recording> record(std::function<void()> work) override {
    return std::make_unique<CpuRecording>(std::move(work));
  }
  std::unique_ptr<Marker> make_marker() override { return std::make_unique<CpuMarker>(); }

  void linear(const LinearParams<T>& p) override {
    observed("linear", linear_traffic(p), [&] { linear_cpu(p, threads_); });
  }
  void embed(const EmbedParams<T>& p) override {
    observed("rms_norm", embed_traffic(p), [&] { embed_cpu(p, threads_); });
  }
  void rope(const RopeParams<T>& p) override {
    observed("rope", traffic::rope(p.n, p.heads, p.head_dim, kBytes),
             [&] { rope_cpu(p, threads_); });
  }
  void rope_append(const RopeAppendParams<T>& p) override {
    observed("rope", rope_append_traffic(p), [&] { rope_append_cpu(p, threads_); });
    if (p.compress.rows > 0) {
      compress(p.compress);
    }
  }
  void swiglu(const SwigluParams<T>& p) override {
    observed("swiglu", traffic::elementwise(p.count, 2, kBytes, 5.0),
             [&] { swiglu_cpu(p, threads_); });
  }
  void sigmoid(const SigmoidParams<T>& p) override {
    observed("sigmoid", traffic::elementwise(p.count, 1, kBytes, 3.0),
             [&] { sigmoid_cpu(p, threads_); });
  }
  void copy_rows(const CopyRowsParams<T>& p) override {
    observed("copy_rows", traffic::copy_rows(p.rows, p.width, kBytes, p.term),
             [&] { copy_rows_cpu(p, threads_); });
  }
  void compress(const CompressParams<T>& p) override {
    observed("compress", compress_traffic(p), [&] { compress_cpu(p, threads_); });
  }
  void nsa_verify(const NsaVerifyParams<T>& p) override { nsa_verify_cpu(p, threads_); }
  bool reads_counts(const NsaVerifyParams<T>&) const override { return true; }
  void decode_layers(const DecodeLayersParams<T>& p) override { decode_layers_in_parts(*this, p); }
  bool decode_layers_takes(const DecodeLayersParams<T>& p) const override {
    return p.shape.is_plain();
  }
  void tree_attention(const TreeAttentionParams<T>& p) override {
    observed("tree_attention", tree_attention_traffic(p), [&] {
      p.joint.x == nullptr ? tree_attention_cpu(p, threads_) : joint_attention_cpu(p, threads_);
    });
    if (p.weights != nullptr) {
      attention_weights(weights_of(p));
    }
  }
  void attention_weights(const AttentionWeightsParams<T>& p) override {
    observed(
        "attention_weights",
        traffic::attention_weights(p.num_heads, p.num_kv_heads, p.head_dim, p.context_len, kBytes),
        [&] { attention_weights_cpu(p, threads_); });
  }
  void block_keys(const BlockKeysParams<T>& p) override {
    observed("block_keys", block_keys_traffic(p), [&] { block_keys_cpu(p, threads_); });
  }
  void resa_decode(const ResaDecodeParams<T>& p) override {
    observed("resa_decode", resa_decode_traffic(p), [&] { resa_decode_cpu(p, threads_); });
  }
  void top_logits(const TopLogitsParams<T>& p) override {
    observed("top_logits", traffic::top_logits(p.rows, p.vocab, p.k, kBytes),
             [&] { top_logits_cpu(p, threads_); });
  }
  void gumbel_top(const GumbelTopParams<T>& p) override {
    Traffic traffic = traffic::gumbel_noise(p.rows, p.vocab, kBytes);
    traffic += traffic::top_logits(p.rows, p.vocab, p.k, kBytes);
    observed("gumbel_top", traffic, [&] { gumbel_top_cpu(p, threads_); });
  }
  void topk(const TopkParams<T>& p) override {
    const std::int64_t hints = p.variant == TopkVariant::kGvr && p.hint != nullptr ? p.k : 0;
    observed("topk", traffic::topk(p.rows, p.length, p.k, kBytes, hints),
             [&] { topk_cpu(p, threads_); });
  }
  void index_keys(const IndexKeysParams<T>& p) override {
    observed(
        "index_keys",
        traffic::index_keys(p.layers, p.length - p.first_token, p.num_kv_heads, p.index, kBytes),
        [&] { index_keys_cpu(p, threads_); });
  }
  void index_query(const IndexQueryParams<T>& p) override {
    observed("index_query", traffic::index_query(p.num_heads, p.index, p.chosen, p.newest, kBytes),
             [&] { index_query_cpu(p); });
  }
  void index_scores(const IndexScoresParams<T>& p) override {
    observed("index_scores",
             traffic::index_scores(p.rows, p.length, {p.num_heads, p.head_dim}, kBytes),
             [&] { index_scores_cpu(p, threads_); });
  }
  void layer_map(const LayerMapParams& p) override {
    observed("layer_map", traffic::layer_map(p.draft_layers, p.verifier_layers),
             [&] { layer_map_cpu(p); });
  }
  void top_p(const TopPParams<SumOf<T>>& p) override {
    observed("top_p", traffic::top_p(p.lists * p.rows, p.length), [&] { top_p_cpu(p, threads_); });
  }
  void token_list(const TokenListParams& p) override {
    observed("token_list", traffic::token_list(p.lists, p.length),
             [&] { token_list_cpu(p, threads_); });
  }
  void spec_sample(const SpecSampleParams<T>& p) override { sample(p); }
  void tree_sample(const TreeSampleParams<T>& p) override { sample(p); }
  void spec_sample_f16(const SpecSampleParams<F16>& p) override { sample(p); }
  void tree_sample_f16(const TreeSampleParams<F16>& p) override { sample(p); }
  void draft_token_rows(const DraftLevelsParams<T>&, SumOf<T>*) override {
    VERSIEVE_ASSERT(false, "the CPU runs a draft's levels op by op");
  }
  void draft_levels(const DraftLevelsParams<T>&) override {
    VERSIEVE_ASSERT(false, "the CPU runs a draft's levels op by op");
  }
  bool draft_levels_takes(const DraftLevelsParams<T>&) const override { return false; }
  void grow_tree(const GrowTreeParams& p) override {
    const std::int64_t expanded = p.level == 0 ? 1 : p.choice.width;
    observed("grow_tree", traffic::grow_tree(p.choice.nodes, expanded * p.branch),
             [&] { grow_tree_cpu(p); });
  }
  void finish_tree(const FinishTreeParams& p) override {
    observed("finish_tree", traffic::finish_tree(p.nodes), [&] { finish_tree_cpu(p); });
  }
  void accept_tree(const AcceptTreeParams& p) override {
    observed("accept_tree", traffic::accept_tree(p.nodes), [&] { accept_tree_cpu(p); });
  }
  void commit_path(const CommitPathParams<T>& p) override {
    observed("commit_path", traffic::commit_path(p.layers, p.max_path, p.width, kBytes),
             [&] { commit_path_cpu(p); });
  }

 private:
  template <class E>
  void sample(const SpecSampleParams<E>& p) {
    observed("spec_sample", traffic::softmax_rows(p.batch * (2 * p.gamma + 1), p.vocab, sizeof(E)),
             [&] { spec_sample_cpu(p, threads_); });
  }
  template <class E>
  void sample(const TreeSampleParams<E>& p) {
    observed("tree_sample", traffic::softmax_rows(p.num_nodes, p.vocab, sizeof(E)),
             [&] { tree_sample_cpu(p, threads_); });
  }
  static constexpr std::int64_t kBytes = sizeof(T);

  template <class Call>
  void observed(const char* name, const Traffic& traffic, const Call& call) {
    const LaunchRange range(name, traffic, observer_);
    call();
  }

  static void copy(void* destination, const void* source, std::size_t bytes) {
    if (bytes > 0) {
      std::memcpy(destination, source, bytes);
    }
  }

  int threads_;
  LaunchObserver* observer_ = nullptr;
};

}  // namespace

template <class T>
std::unique_ptr<Ops<T>> make_cpu_ops(int threads) {
  return std::make_unique<CpuOps<T>>(threads);
}

template std::unique_ptr<Ops<double>> make_cpu_ops<double>(int);
template std::unique_ptr<Ops<float>> make_cpu_ops<float>(int);
template std::unique_ptr<Ops<Bf16>> make_cpu_ops<Bf16>(int);

}  // namespace versieve::kernels
