#include "engine/measure/sweep/decode_point.h"

#include <algorithm>
#include <type_traits>

#include "engine/measure/sweep/cold_sets.h"
#include "engine/measure/sweep/point_shape.h"
#include "engine/measure/sweep/sweep_ops.h"
#include "engine/measure/sweep/synthetic_draft.h"
#include "engine/run/model/random_block.h"
#include "engine/run/model/tree_layout.h"
#include "engine/run/speculate/draft_choice.h"
#include "engine/run/speculate/kernel_variants.h"
#include "model/words/assert.h"
#include "model/words/draft_tree.h"
#include "model/words/strategy.h"

namespace versieve::engine {
namespace {

constexpr double kMostCacheBytes = 8e9;  // of all copies

template <class T>
class DecodeRunner final : public PointRunner {
 public:
  DecodeRunner(const SweepPlan& plan, Instrument& instrument, bool on_gpu, int threads,
               const PairSource* pair)
      : plan_(plan),
        pair_(pair),
        instrument_(instrument),
        on_gpu_(on_gpu),
        ops_(make_sweep_ops<T>(on_gpu, instrument.stream(), threads)) {}

  PointMeasurement run(const PointKey& key) override {
    strategy_ = Strategy::parse(key.strategy);
    const PointShape own = point_shape(key, strategy_, pair_);
    if (!own.refusal.empty()) {
      return refused_point(key, own.refusal);
    }
    if (strategy_.attention == AttentionMethod::kNsa) {
      return refused_point(key, "decode points read a dense cache; nsa has attention points");
    }
    shape_ = own.shape;
    context_len_ = key.context_len;
    if (strategy_.attention == AttentionMethod::kIndexer &&
        context_len_ <= strategy_.indexer_k + strategy_.indexer_window) {
      return refused_point(key,
                           "an indexer that reads all tokens chooses nothing: a longer context");
    }
    rewrites_ = key.workload == WorkloadKind::kRectify;
    if (rewrites_) {
      strategy_.draft.nodes = strategy_.resa_rectify_every;
      const std::vector<std::int32_t> tokens(static_cast<std::size_t>(nodes()), 0);
      make_queries(chain_tree(tokens));
      return measure(key);
    }
    const DraftTree grown = synthetic_tree(strategy_.draft);
    make_queries(reordered(grown, traversal_order(grown, strategy_.order)));
    return measure(key);
  }

 private:
  using Buffer = kernels::OpsBuffer<T>;
  using Sum = kernels::SumOf<T>;
  static_assert(std::is_same_v<Sum, float>, "weights are drawn in f32");

  std::int64_t nodes() const { return strategy_.draft.nodes; }
  T* in_set(const Buffer& buffer, std::int64_t set, std::int64_t rows) const {
    return buffer.data() + set * rows * shape_.kv_width();
  }
  void make_queries(const DraftTree& tree);
  void make_cache(const PointKey& key, double touched_bytes);
  void make_block_keys();
  void choose_tokens();
  void make_index_keys();
  kernels::IndexKeysParams<T> index_keys(std::int64_t set, std::int64_t first_token) const;
  void choose_by_index(std::int64_t set);
  kernels::SelectedTokens selected() const;
  void prepare_method(const PointKey& key, PointMeasurement& point);
  kernels::BlockKeysParams<T> block_keys(std::int64_t set) const;
  kernels::ResaDecodeParams<T> resa(std::int64_t set) const;
  void attend(std::int64_t set);
  void run_set(std::int64_t set);
  PointMeasurement measure(const PointKey& key);

  const SweepPlan& plan_;
  const PairSource* pair_;
  Instrument& instrument_;
  bool on_gpu_;
  std::unique_ptr<kernels::Ops<T>> ops_;

  // The point.
  Strategy strategy_;
  LlmShape shape_;
  std::int64_t context_len_ = 0;  // L
  std::int64_t chosen_ = 0;       // SpecAttn's tokens, or an indexer's with the newest ones
  bool rewrites_ = false;         // a rectification, not a step

  // Caches, kept for later points of their geometry and length.
  std::string cached_model_;
  std::int64_t cached_len_ = 0, sets_ = 0;
  Buffer k_, v_;        // [sets, L, G, d]
  Buffer kmin_, kmax_;  // [sets, M, G, d]

  Buffer q_, out_;                                         // [N, H, d]
  Buffer k_tree_, v_tree_;                                 // [N, G, d]
  kernels::OpsBuffer<T, std::int32_t> parent_, position_;  // [N]
  kernels::OpsBuffer<T, std::int32_t> indices_;            // ReSA's blocks
  kernels::OpsBuffer<T, Sum> weights_, mass_;              // [gamma, L], [gamma]
  kernels::OpsBuffer<T, std::int32_t> mask_, tokens_;      // [L], [chosen]
  // An indexer's: [sets, L, D], [I, D], [I] ones, [L], [k], [k], [1].
  Buffer index_keys_, index_query_;
  kernels::OpsBuffer<T, float> index_weights_;
  Buffer scores_, values_;
  kernels::OpsBuffer<T, std::int32_t> hint_, count_;
};

template <class T>
void DecodeRunner<T>::make_queries(const DraftTree& tree) {
  const std::int64_t width = nodes() * shape_.q_width();
  const std::int64_t kv = nodes() * shape_.kv_width();
  RandomBlock<T> block(plan_.seed, width);
  q_ = Buffer(*ops_, width);
  out_ = Buffer(*ops_, width);
  k_tree_ = Buffer(*ops_, kv);
  v_tree_ = Buffer(*ops_, kv);
  block.fill(*ops_, q_.data(), width, 1.0);
  block.fill(*ops_, k_tree_.data(), kv, 1.0);
  block.fill(*ops_, v_tree_.data(), kv, 1.0);
  std::vector<std::int32_t> position;
  for (const std::int32_t depth : tree.depth) {
    position.push_back(static_cast<std::int32_t>(context_len_) + depth);
  }
  parent_ = kernels::OpsBuffer<T, std::int32_t>(*ops_, tree.parent);
  position_ = kernels::OpsBuffer<T, std::int32_t>(*ops_, position);
}

// As many copies as it takes to make one cold that moves `touched_bytes`, and memory allows.
template <class T>
void DecodeRunner<T>::make_cache(const PointKey& key, double touched_bytes) {
  const std::int64_t count = context_len_ * shape_.kv_width();
  const double bytes = 2.0 * static_cast<double>(count) * static_cast<double>(sizeof(T));
  std::int64_t sets = 1;
  if (key.cache_state == CacheState::kColdRotate && on_gpu_) {
    sets = std::min(cold_sets(static_cast<double>(instrument_.cold_bytes()), touched_bytes),
                    std::max<std::int64_t>(2, static_cast<std::int64_t>(kMostCacheBytes / bytes)));
  }
  if (cached_model_ == model_of(key) && cached_len_ == context_len_ && sets_ >= sets) {
    return;
  }
  k_ = Buffer();  // frees first
  v_ = Buffer();
  k_ = Buffer(*ops_, sets * count);
  v_ = Buffer(*ops_, sets * count);
  RandomBlock<T> block(plan_.seed + 1, sets * count);
  block.fill(*ops_, k_.data(), sets * count, 1.0);
  block.fill(*ops_, v_.data(), sets * count, 1.0);
  cached_model_ = model_of(key);
  cached_len_ = context_len_;
  sets_ = sets;
}

template <class T>
kernels::BlockKeysParams<T> DecodeRunner<T>::block_keys(std::int64_t set) const {
  const std::int64_t blocks = kernels::key_block_count(context_len_ + 1, strategy_.resa_key_block);
  return {.num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .key_block = strategy_.resa_key_block,
          .first_token = context_len_ - 1,  // as a step leaves them: of the newest token's block
          .length = context_len_,
          .k_layer_rows = context_len_,
          .key_layer_rows = blocks,
          .k = in_set(k_, set, context_len_),
          .kmin = in_set(kmin_, set, blocks),
          .kmax = in_set(kmax_, set, blocks)};
}

template <class T>
kernels::ResaDecodeParams<T> DecodeRunner<T>::resa(std::int64_t set) const {
  const kernels::BlockKeysParams<T> keys = block_keys(set);
  return {.selection = resa_selection(strategy_),
          .num_heads = shape_.num_heads,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .context_len = context_len_,
          .vanilla = strategy_.form == NsaForm::kVanilla,
          .q = q_.data(),
          .k = keys.k,
          .v = in_set(v_, set, context_len_),
          .k_new = k_tree_.data(),
          .v_new = v_tree_.data(),
          .kmin = keys.kmin,
          .kmax = keys.kmax,
          .out = out_.data(),
          .indices = indices_.data()};
}

template <class T>
void DecodeRunner<T>::make_block_keys() {
  const std::int64_t blocks = kernels::key_block_count(context_len_ + 1, strategy_.resa_key_block);
  kmin_ = Buffer(*ops_, sets_ * blocks * shape_.kv_width());
  kmax_ = Buffer(*ops_, sets_ * blocks * shape_.kv_width());
  indices_ = kernels::OpsBuffer<T, std::int32_t>(*ops_, shape_.num_kv_heads * blocks);
  for (std::int64_t set = 0; set < sets_; ++set) {
    kernels::BlockKeysParams<T> all = block_keys(set);
    all.first_token = 0;
    ops_->block_keys(all);
  }
}

// The tokens that carry a share p of that attention.
template <class T>
void DecodeRunner<T>::choose_tokens() {
  const std::int64_t gamma = strategy_.draft.levels();
  weights_ =
      kernels::OpsBuffer<T, Sum>(*ops_, synthetic_draft_weights(plan_.seed, gamma, context_len_));
  mass_ = kernels::OpsBuffer<T, Sum>(*ops_, gamma);
  mask_ = kernels::OpsBuffer<T, std::int32_t>(*ops_, context_len_);
  const std::vector<TokenList> chosen =
      chosen_tokens(*ops_,
                    {.steps = gamma,
                     .context_len = context_len_,
                     .stride = context_len_,
                     .layer_stride = gamma * context_len_,
                     .weights = weights_.data()},
                    1, {.p = strategy_.specattn_p, .chunk = kTokensTogether});
  tokens_ = kernels::OpsBuffer<T, std::int32_t>(*ops_, chosen[0]);
  chosen_ = static_cast<std::int64_t>(chosen[0].size());
}

// An index key a token; the first run's hints are none, the others' the choice of the run before.
template <class T>
void DecodeRunner<T>::make_index_keys() {
  const IndexShape index = index_shape(shape_);
  index_keys_ = Buffer(*ops_, sets_ * context_len_ * index.dim);
  index_query_ = Buffer(*ops_, index.heads * index.dim);
  index_weights_ = kernels::OpsBuffer<T, float>(
      *ops_, std::vector<float>(static_cast<std::size_t>(index.heads), 1.0F));
  scores_ = Buffer(*ops_, context_len_);
  values_ = Buffer(*ops_, strategy_.indexer_k);
  hint_ = kernels::OpsBuffer<T, std::int32_t>(*ops_, strategy_.indexer_k);
  count_ = kernels::OpsBuffer<T, std::int32_t>(*ops_, 1);
  tokens_ = kernels::OpsBuffer<T, std::int32_t>(
      *ops_, std::vector<std::int32_t>(
                 static_cast<std::size_t>(strategy_.indexer_k + strategy_.indexer_window), -1));
  for (std::int64_t set = 0; set < sets_; ++set) {
    ops_->index_keys(index_keys(set, 0));
  }
}

template <class T>
kernels::IndexKeysParams<T> DecodeRunner<T>::index_keys(std::int64_t set,
                                                        std::int64_t first_token) const {
  const IndexShape index = index_shape(shape_);
  return {.num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .index = index,
          .first_token = first_token,
          .length = context_len_,
          .k_layer_rows = context_len_,
          .key_layer_rows = context_len_,
          .k = in_set(k_, set, context_len_),
          .keys = index_keys_.data() + set * context_len_ * index.dim};
}

// As engine/run/model/index_selector does it in a recorded layer, the newest token's key with it.
template <class T>
void DecodeRunner<T>::choose_by_index(std::int64_t set) {
  const kernels::IndexKeysParams<T> keys = index_keys(set, context_len_ - 1);
  const std::int64_t scored = context_len_ - strategy_.indexer_window;
  ops_->index_keys(keys);
  ops_->index_query({.context_len = context_len_,
                     .num_heads = shape_.num_heads,
                     .num_kv_heads = shape_.num_kv_heads,
                     .head_dim = shape_.head_dim,
                     .index = keys.index,
                     .chosen = strategy_.indexer_k,
                     .newest = strategy_.indexer_window,
                     .q = q_.data(),
                     .index_q = index_query_.data(),
                     .list = tokens_.data(),
                     .hint = hint_.data(),
                     .count = count_.data()});
  ops_->index_scores({.rows = 1,
                      .length = scored,
                      .num_heads = keys.index.heads,
                      .head_dim = keys.index.dim,
                      .q = index_query_.data(),
                      .weights = index_weights_.data(),
                      .keys = keys.keys,
                      .scores = scores_.data()});
  const kernels::TopkVariant topk = index_selection(strategy_)->topk;
  ops_->topk({.variant = topk,
              .rows = 1,
              .length = scored,
              .k = strategy_.indexer_k,
              .scores = scores_.data(),
              .hint = topk == kernels::TopkVariant::kGvr ? hint_.data() : nullptr,
              .indices = tokens_.data(),
              .values = values_.data()});
}

// Everything that the method needs beside queries, and what it reads of the cache.
template <class T>
void DecodeRunner<T>::prepare_method(const PointKey& key, PointMeasurement& point) {
  const double pair = 2.0 * static_cast<double>(shape_.kv_width()) * sizeof(T);
  if (strategy_.attention == AttentionMethod::kResa && !rewrites_) {
    const std::int64_t active = resa(0).active_count();
    const std::int64_t blocks =
        kernels::key_block_count(context_len_ + 1, strategy_.resa_key_block);
    make_cache(key, pair * static_cast<double>(active * strategy_.resa_key_block + blocks));
    make_block_keys();
    point.unique_blocks = static_cast<double>(active);
    return;
  }
  chosen_ = 0;
  if (strategy_.attention == AttentionMethod::kSpecAttn) {
    choose_tokens();
    point.unique_blocks = static_cast<double>((chosen_ + kTokensTogether - 1) / kTokensTogether);
  }
  if (strategy_.attention == AttentionMethod::kIndexer) {
    chosen_ = strategy_.indexer_k + strategy_.indexer_window;
    const double index_bytes =
        static_cast<double>(context_len_ * index_shape(shape_).dim) * sizeof(T);
    make_cache(key, pair * static_cast<double>(chosen_) + index_bytes);
    make_index_keys();
    return;
  }
  make_cache(key, pair * static_cast<double>(chosen_ > 0 ? chosen_ : context_len_));
}

template <class T>
kernels::SelectedTokens DecodeRunner<T>::selected() const {
  return chosen_ > 0 ? kernels::SelectedTokens{.token = tokens_.data(), .count = chosen_}
                     : kernels::SelectedTokens{};
}

template <class T>
void DecodeRunner<T>::attend(std::int64_t set) {
  ops_->tree_attention(
      {.selected = selected(),
       .num_heads = shape_.num_heads,
       .num_kv_heads = shape_.num_kv_heads,
       .head_dim = shape_.head_dim,
       .context_len = context_len_,
       .num_queries = nodes(),
       .num_nodes = nodes(),
       .parent = parent_.data(),
       .position = position_.data(),
       .q = q_.data(),
       .k = in_set(k_, set, context_len_),
       .v = in_set(v_, set, context_len_),
       .k_tree = k_tree_.data(),
       .v_tree = v_tree_.data(),
       .out = out_.data(),
       .cache_term = chosen_ > 0 ? TrafficTerm::kSelectedBlocks : TrafficTerm::kWindow,
       .splits_chain = strategy_.draft.width <= 1,
       .dense_pass = rewrites_});
}

template <class T>
void DecodeRunner<T>::run_set(std::int64_t set) {
  if (rewrites_) {
    attend(set);
    return;
  }
  switch (strategy_.attention) {
    case AttentionMethod::kResa:
      ops_->resa_decode(resa(set));
      ops_->block_keys(block_keys(set));
      return;
    case AttentionMethod::kSpecAttn:
      ops_->top_p({.rows = mass_.count(),
                   .length = context_len_,
                   .p = strategy_.specattn_p,
                   .weights = weights_.data(),
                   .mask = mask_.data(),
                   .mass = mass_.data()});
      attend(set);
      return;
    case AttentionMethod::kIndexer:
      choose_by_index(set);
      attend(set);
      return;
    case AttentionMethod::kDense:
    case AttentionMethod::kNsa:
      attend(set);
  }
}

template <class T>
PointMeasurement DecodeRunner<T>::measure(const PointKey& key) {
  PointMeasurement point{.key = key};
  prepare_method(key, point);
  instrument_.measure(work_on<T>(*ops_, sets_, [this](std::int64_t set) { run_set(set); }),
                      measure_plan(plan_, key), point);
  return point;
}

}  // namespace

template <class T>
std::unique_ptr<PointRunner> make_decode_runner(const SweepPlan& plan, Instrument& instrument,
                                                bool on_gpu, int threads, const PairSource* pair) {
  return std::make_unique<DecodeRunner<T>>(plan, instrument, on_gpu, threads, pair);
}

template std::unique_ptr<PointRunner> make_decode_runner<float>(const SweepPlan&, Instrument&, bool,
                                                                int, const PairSource*);
template std::unique_ptr<PointRunner> make_decode_runner<Bf16>(const SweepPlan&, Instrument&, bool,
                                                               int, const PairSource*);

}  // namespace versieve::engine
