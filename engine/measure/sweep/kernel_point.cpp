#include "engine/measure/sweep/kernel_point.h"

#include <algorithm>

#include "engine/measure/sweep/cold_sets.h"
#include "engine/measure/sweep/sweep_ops.h"
#include "engine/measure/sweep/synthetic_random.h"
#include "engine/run/model/random_block.h"
#include "engine/run/speculate/kernel_variants.h"
#include "model/words/assert.h"
#include "model/words/kernel_case.h"

namespace versieve::engine {
namespace {

constexpr double kLogitScale = 2.0;  // standard deviation of logits
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;
constexpr std::int64_t kMostSets = 2048;  // each is a launch of the recording that is timed

// What both kinds share: copies of the same random rows, and the measurement.
template <class T>
class KernelRunner : public PointRunner {
 public:
  KernelRunner(const SweepPlan& plan, Instrument& instrument, bool on_gpu, int threads)
      : plan_(plan),
        instrument_(instrument),
        on_gpu_(on_gpu),
        ops_(make_sweep_ops<T>(on_gpu, instrument.stream(), threads)) {}

 protected:
  using Ints = kernels::OpsBuffer<T, std::int32_t>;

  virtual void run_set(std::int64_t set) = 0;

  kernels::Ops<T>& ops() { return *ops_; }
  std::uint64_t seed() const { return plan_.seed; }
  const T* rows_of(std::int64_t set) const { return rows_.data() + set * elements_; }
  // `elements` normal values of that scale, of which a run reads `touched`, in as many copies as
  // make one cold.
  void make_rows(const PointKey& key, std::int64_t elements, std::int64_t touched, double scale) {
    const double bytes = static_cast<double>(touched) * static_cast<double>(sizeof(T));
    const std::int64_t sets =
        key.cache_state == CacheState::kColdRotate && on_gpu_
            ? std::min(cold_sets(static_cast<double>(instrument_.cold_bytes()), bytes, kMostSets),
                       std::max<std::int64_t>(2, kMostElements / elements))
            : 1;
    elements_ = elements;
    sets_ = sets;
    rows_ = kernels::OpsBuffer<T>();  // frees first
    rows_ = kernels::OpsBuffer<T>(*ops_, sets * elements);
    RandomBlock<T>(plan_.seed, elements).fill(*ops_, rows_.data(), elements, scale);
    for (std::int64_t set = 1; set < sets; ++set) {
      ops_->copy_rows({.rows = 1,
                       .width = elements,
                       .src = rows_.data(),
                       .dst = rows_.data() + set * elements});
    }
  }
  PointMeasurement measure(const PointKey& key) {
    PointMeasurement point{.key = key};
    instrument_.measure(work_on<T>(*ops_, sets_, [this](std::int64_t set) { run_set(set); }),
                        measure_plan(plan_, key), point);
    return point;
  }

 private:
  const SweepPlan& plan_;
  Instrument& instrument_;
  bool on_gpu_;
  std::unique_ptr<kernels::Ops<T>> ops_;
  std::int64_t elements_ = 0, sets_ = 1;
  kernels::OpsBuffer<T> rows_;  // [sets, elements]
};

template <class T>
class TopkRunner final : public KernelRunner<T> {
 public:
  using KernelRunner<T>::KernelRunner;

  PointMeasurement run(const PointKey& key) override {
    const TopkCase wanted = TopkCase::parse(key.strategy);
    const std::int64_t elements =
        wanted.index ? key.context_len * wanted.index->dim : key.num_queries * key.context_len;
    this->make_rows(key, elements, elements, 1.0);
    if (wanted.index) {
      make_queries(key, *wanted.index);
    }
    index_ = wanted.index;
    const std::int64_t count = key.num_queries * wanted.k;
    indices_ = Ints(this->ops(), count);
    values_ = kernels::OpsBuffer<T>(this->ops(), count);
    p_ = {.variant = kernels::TopkVariant::kRadix,
          .rows = key.num_queries,
          .length = key.context_len,
          .k = wanted.k,
          .indices = indices_.data(),
          .values = values_.data()};
    if (wanted.hint) {
      make_hint(*wanted.hint);
    }
    p_.variant = variant_of(wanted.algorithm);
    return this->measure(key);
  }

 private:
  using Ints = typename KernelRunner<T>::Ints;

  void run_set(std::int64_t set) override {
    p_.scores = this->rows_of(set);
    if (index_) {
      this->ops().index_scores({.rows = p_.rows,
                                .length = p_.length,
                                .num_heads = index_->heads,
                                .head_dim = index_->dim,
                                .q = queries_.data(),
                                .weights = weights_.data(),
                                .keys = this->rows_of(set),
                                .scores = scores_.data()});
      p_.scores = scores_.data();
    }
    this->ops().topk(p_);
  }
  // Of a token-level indexer, whose keys are the rows.
  void make_queries(const PointKey& key, const IndexHeads& index) {
    const std::int64_t heads = key.num_queries * index.heads;
    queries_ = kernels::OpsBuffer<T>(this->ops(), heads * index.dim);
    RandomBlock<T>(this->seed() + 2, heads * index.dim)
        .fill(this->ops(), queries_.data(), heads * index.dim, 1.0);
    SyntheticRandom random(this->seed() + 3);
    std::vector<float> weights;
    for (std::int64_t i = 0; i < heads; ++i) {
      weights.push_back(static_cast<float>(random.uniform()));
    }
    weights_ = kernels::OpsBuffer<T, float>(this->ops(), weights);
    scores_ = kernels::OpsBuffer<T>(this->ops(), key.num_queries * key.context_len);
  }
  // The true answer with that share of it kept and the rest drawn anew.
  void make_hint(double share) {
    run_set(0);
    std::vector<std::int32_t> hint = indices_.read();
    SyntheticRandom random(this->seed() + 1);
    for (std::int32_t& index : hint) {
      if (random.uniform() >= share) {
        index = static_cast<std::int32_t>(random.below(p_.length));
      }
    }
    hint_ = Ints(this->ops(), hint);
    p_.hint = hint_.data();
  }

  kernels::TopkParams<T> p_;
  Ints indices_, hint_;           // [R, k]
  kernels::OpsBuffer<T> values_;  // [R, k]
  std::optional<IndexHeads> index_;
  kernels::OpsBuffer<T> queries_, scores_;  // [R, heads, size], [R, Lp]
  kernels::OpsBuffer<T, float> weights_;    // [R, heads]
};

template <class T>
class SamplingRunner final : public KernelRunner<T> {
 public:
  using KernelRunner<T>::KernelRunner;

  PointMeasurement run(const PointKey& key) override {
    case_ = SamplingCase::parse(key.strategy);
    nodes_ = key.num_queries;
    vocab_ = key.context_len;
    if (case_.width == 0 && nodes_ < 2) {
      return refused_point(key, "a chain has a row more than drafted tokens: at least two");
    }
    const std::int64_t rows = case_.width == 0 ? case_.batch * (2 * nodes_ - 1) : nodes_;
    if (rows * vocab_ > kMostElements) {
      return refused_point(key, "more than 2^31 logits");
    }
    this->make_rows(key, rows * vocab_, touched_rows(rows) * vocab_, kLogitScale);
    make_inputs();
    return this->measure(key);
  }

 private:
  using Ints = typename KernelRunner<T>::Ints;
  using Sums = kernels::OpsBuffer<T, kernels::SumOf<T>>;

  // That any form reads: of a tree those of its inner nodes, and one where a path ends; the sigmoid
  // test looks at single logits, so that the rows left are those of the position that draws.
  std::int64_t touched_rows(std::int64_t rows) const {
    if (case_.width > 0) {
      return std::min(rows, (nodes_ - 2) / case_.width + 2);
    }
    return case_.algorithm == SamplingAlgorithm::kSigmoid && !case_.cuts() ? case_.batch : rows;
  }
  std::int64_t draws() const { return case_.batch * case_.samples; }
  void make_inputs() {
    SyntheticRandom random(this->seed() + 1);
    std::vector<std::int32_t> tokens, parents = {-1};
    std::vector<kernels::SumOf<T>> uniforms;
    for (std::int64_t i = 0; i < draws() * nodes_; ++i) {
      tokens.push_back(static_cast<std::int32_t>(random.below(vocab_)));
      uniforms.push_back(static_cast<kernels::SumOf<T>>(random.uniform()));
    }
    for (std::int64_t i = 1; i < nodes_; ++i) {
      parents.push_back(
          static_cast<std::int32_t>((i - 1) / std::max<std::int64_t>(1, case_.width)));
    }
    tokens_ = Ints(this->ops(), tokens);
    parents_ = Ints(this->ops(), parents);
    uniforms_ = Sums(this->ops(), uniforms);
    tau_ = Sums(this->ops(), draws() * nodes_);
    accepted_ = Ints(this->ops(), draws());
    emitted_ = Ints(this->ops(), draws() * nodes_);
    path_ = Ints(this->ops(), draws() * nodes_);
  }

  void run_set(std::int64_t set) override {
    const T* logits = this->rows_of(set);
    const kernels::Truncation truncation{case_.top_k, case_.top_p, case_.min_p};
    if (case_.width == 0) {
      this->ops().spec_sample({.variant = variant_of(case_.algorithm),
                               .samples = case_.samples,
                               .gamma = nodes_ - 1,
                               .vocab = vocab_,
                               .target_logits = logits,
                               .draft_logits = logits + case_.batch * nodes_ * vocab_,
                               .draft_tokens = tokens_.data(),
                               .uniforms = uniforms_.data(),
                               .accepted = accepted_.data(),
                               .tokens = emitted_.data(),
                               .tau = tau_.data(),
                               .batch = case_.batch,
                               .truncation = truncation});
      return;
    }
    const bool separate = case_.algorithm == SamplingAlgorithm::kBaseline;
    this->ops().tree_sample({.variant = separate ? kernels::TreeSampleVariant::kBaseline
                                                 : kernels::TreeSampleVariant::kExact,
                             .samples = case_.samples,
                             .num_nodes = nodes_,
                             .vocab = vocab_,
                             .target_logits = logits,
                             .parent = parents_.data(),
                             .token = tokens_.data(),
                             .uniforms = uniforms_.data(),
                             .accepted = accepted_.data(),
                             .tokens = emitted_.data(),
                             .path = path_.data(),
                             .tau = tau_.data(),
                             .truncation = truncation});
  }

  SamplingCase case_;
  std::int64_t nodes_ = 0, vocab_ = 0;  // rows of the target; V
  Ints tokens_, parents_, accepted_, emitted_, path_;
  Sums uniforms_, tau_;
};

}  // namespace

template <class T>
std::unique_ptr<PointRunner> make_topk_runner(const SweepPlan& plan, Instrument& instrument,
                                              bool on_gpu, int threads) {
  return std::make_unique<TopkRunner<T>>(plan, instrument, on_gpu, threads);
}

template <class T>
std::unique_ptr<PointRunner> make_sampling_runner(const SweepPlan& plan, Instrument& instrument,
                                                  bool on_gpu, int threads) {
  return std::make_unique<SamplingRunner<T>>(plan, instrument, on_gpu, threads);
}

#define VERSIEVE_INSTANTIATE(T)                                                                  \
  template std::unique_ptr<PointRunner> make_topk_runner<T>(const SweepPlan&, Instrument&, bool, \
                                                            int);                                \
  template std::unique_ptr<PointRunner> make_sampling_runner<T>(const SweepPlan&, Instrument&,   \
                                                                bool, int);
VERSIEVE_INSTANTIATE(float)
VERSIEVE_INSTANTIATE(Bf16)
#undef VERSIEVE_INSTANTIATE

}  // namespace versieve::engine
