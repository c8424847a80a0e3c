#include "engine/measure/sweep/synthetic_layer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/measure/sweep/imposed_blocks.h"
#include "model/launches/nsa_shape.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// Queries of this size spread the compressed scores over a few units, as a trained layer's do:
// a mean of l unit keys is 1/sqrt(l) long.
constexpr double kQueryScale = 6.0;
constexpr int kOverlapSteps = 9;

void put(double value, float& to) {
  to = static_cast<float>(value);
}
void put(double value, Bf16& to) {
  to = to_bf16(static_cast<float>(value));
}

// Uniform numbers of mean 0 and variance 1: caches are large, and a key's sum over a head is normal
// soon enough.
template <class T>
std::vector<T> unit_uniforms(std::int64_t count, SyntheticRandom& random) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) {
    put(std::sqrt(12.0) * (random.uniform() - 0.5), value);
  }
  return values;
}

template <class T>
std::vector<T> normals(std::int64_t count, SyntheticRandom& random) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) {
    put(random.normal(), value);
  }
  return values;
}

// Copies the first `rows` rows of the buffer into every further set.
template <class T>
void fill_sets(kernels::Ops<T>& ops, kernels::OpsBuffer<T>& buffer, std::int64_t sets,
               std::int64_t rows, std::int64_t width) {
  for (std::int64_t set = 1; set < sets; ++set) {
    kernels::CopyRowsParams<T> copy;
    copy.rows = rows;
    copy.width = width;
    copy.src = buffer.data();
    copy.dst = buffer.data() + set * rows * width;
    ops.copy_rows(copy);
  }
}

}  // namespace

template <class T>
SyntheticLayer<T>::SyntheticLayer(kernels::Ops<T>& ops, const LlmShape& shape,
                                  std::int64_t context_len, std::int64_t sets, std::uint64_t seed)
    : ops_(ops),
      shape_(shape),
      context_len_(context_len),
      num_compressed_(compressed_count(shape.nsa, context_len)),
      sets_(sets),
      seed_(seed) {
  VERSIEVE_ASSERT(context_len > 0 && sets > 0, "a layer has a context and at least one copy of it");
  SyntheticRandom random(seed);
  make_cache(random);
}

template <class T>
void SyntheticLayer<T>::make_cache(SyntheticRandom& random) {
  const std::int64_t width = shape_.kv_width();
  k_ = kernels::OpsBuffer<T>(ops_, sets_ * context_len_ * width);
  v_ = kernels::OpsBuffer<T>(ops_, sets_ * context_len_ * width);
  for (kernels::OpsBuffer<T>* buffer : {&k_, &v_}) {
    const std::vector<T> values = unit_uniforms<T>(context_len_ * width, random);
    ops_.upload(buffer->data(), values.data(), values.size() * sizeof(T));
    fill_sets(ops_, *buffer, sets_, context_len_, width);
  }
  k_cmp_ = kernels::OpsBuffer<T>(ops_, sets_ * num_compressed_ * width);
  v_cmp_ = kernels::OpsBuffer<T>(ops_, sets_ * num_compressed_ * width);
  // Drawn by the law of a block's mean (l unit keys: 1/sqrt(l)) instead of being compressed from
  // the keys: neither bytes nor time depend on it.
  const double scale = 1.0 / std::sqrt(static_cast<double>(shape_.nsa.cmp_block));
  for (kernels::OpsBuffer<T>* buffer : {&k_cmp_, &v_cmp_}) {
    std::vector<T> values(static_cast<std::size_t>(num_compressed_ * width));
    for (T& value : values) {
      put(scale * random.normal(), value);
    }
    ops_.upload(buffer->data(), values.data(), values.size() * sizeof(T));
    fill_sets(ops_, *buffer, sets_, num_compressed_, width);
  }
  ops_.synchronize();
}

template <class T>
void SyntheticLayer<T>::set_tree(const DraftTree& tree) {
  if (tree.parent == tree_.parent && q_.count() > 0) {
    return;  // neighbours in a sweep mostly have the same tree
  }
  tree_ = tree;
  position_.clear();
  cmp_owner_.clear();
  for (std::int64_t node = 0; node < tree.size(); ++node) {
    const std::int64_t position = context_len_ + tree.depth[static_cast<std::size_t>(node)];
    position_.push_back(static_cast<std::int32_t>(position));
    const std::int64_t past = position + 1 - shape_.nsa.cmp_block;
    if (past >= 0 && past % shape_.nsa.cmp_stride == 0) {
      cmp_owner_.push_back(static_cast<std::int32_t>(node));
    }
  }
  SyntheticRandom random(seed_ + 1);
  const std::int64_t q_count = tree.size() * shape_.q_width();
  innovation_.resize(static_cast<std::size_t>(q_count));
  for (float& value : innovation_) {
    put(kQueryScale * random.normal(), value);
  }
  std::vector<T> gates(static_cast<std::size_t>(tree.size() * shape_.num_heads * 3));
  for (T& gate : gates) {
    put(random.uniform(), gate);
  }
  gates_ = kernels::OpsBuffer<T>(ops_, gates);
  parent_ = kernels::OpsBuffer<T, std::int32_t>(ops_, tree.parent);
  position_buffer_ = kernels::OpsBuffer<T, std::int32_t>(ops_, position_);
  owner_buffer_ = kernels::OpsBuffer<T, std::int32_t>(ops_, cmp_owner_);
  q_ = kernels::OpsBuffer<T>(ops_, q_count);
  out_ = kernels::OpsBuffer<T>(ops_, q_count);
  indices_ = kernels::OpsBuffer<T, std::int32_t>(
      ops_, tree.size() * shape_.num_kv_heads * shape_.nsa.sel_count);
  inherited_buffer_ = kernels::OpsBuffer<T, std::int32_t>(ops_, indices_.count());
  make_tree_cache();
  set_correlation(1.0);
  overlap_ = 1.0;
  inherited_.clear();
  impose_overlap();
}

template <class T>
void SyntheticLayer<T>::make_tree_cache() {
  SyntheticRandom random(seed_ + 2);
  const std::int64_t width = shape_.kv_width();
  const std::int64_t extra = static_cast<std::int64_t>(cmp_owner_.size());
  k_tree_ = kernels::OpsBuffer<T>(ops_, normals<T>(tree_.size() * width, random));
  v_tree_ = kernels::OpsBuffer<T>(ops_, normals<T>(tree_.size() * width, random));
  k_cmp_tree_ = kernels::OpsBuffer<T>(ops_, normals<T>(extra * width, random));
  v_cmp_tree_ = kernels::OpsBuffer<T>(ops_, normals<T>(extra * width, random));
}

template <class T>
void SyntheticLayer<T>::set_correlation(double correlation) {
  const std::size_t width = static_cast<std::size_t>(shape_.q_width());
  const double fresh = std::sqrt(std::max(0.0, 1.0 - correlation * correlation));
  std::vector<double> row(width);
  std::vector<T> q(innovation_.size());
  for (std::size_t i = 0; i < innovation_.size(); ++i) {
    double& value = row[i % width];
    value = i < width ? innovation_[i] : correlation * value + fresh * innovation_[i];
    put(value, q[i]);
  }
  q_.write(q);
}

template <class T>
void SyntheticLayer<T>::impose_overlap() {
  SyntheticRandom random(seed_ + 3);
  std::vector<std::int32_t> own;
  for (const std::int32_t position : position_) {
    own.push_back(position / static_cast<std::int32_t>(shape_.nsa.sel_block));
  }
  imposed_ = imposed_blocks(shape_.nsa, shape_.num_kv_heads, own, overlap_, random);
  make_inherited();
}

// What an earlier layer would have left: the queries' own blocks, or their representatives'.
template <class T>
void SyntheticLayer<T>::make_inherited() {
  std::vector<std::int32_t> blocks = imposed_;
  if (variant_.group_mode == GroupMode::kApprox && variant_.group_size > 1) {
    share_in_groups(position_, variant_.group_size, blocks);
  }
  if (blocks != inherited_) {
    inherited_ = std::move(blocks);
    inherited_buffer_.write(inherited_);
  }
}

template <class T>
void SyntheticLayer<T>::set_variant(const LayerVariant& variant) {
  if (variant == variant_) {
    return;
  }
  variant_ = variant;
  make_inherited();
}

template <class T>
void SyntheticLayer<T>::set_overlap(double overlap) {
  if (tree_.size() == 1 || overlap == overlap_) {
    return;
  }
  overlap_ = overlap;
  impose_overlap();
  const std::pair key{tree_.parent, overlap};
  if (const auto found = correlations_.find(key); found != correlations_.end()) {
    set_correlation(found->second);
    return;
  }
  const LayerVariant wanted = variant_;
  variant_ = {};  // each query routes for itself while the correlation is sought
  double low = 0.0;
  double high = 1.0;
  // Overlap grows with correlation; halving the interval finds the least that reaches it.
  for (int step = 0; step < kOverlapSteps && tree_.size() > 1; ++step) {
    const double middle = 0.5 * (low + high);
    // Near 1 the overlap changes fast: walk the angle between neighbours, not its cosine.
    correlations_[key] = std::sin(0.5 * std::numbers::pi * middle);
    set_correlation(correlations_[key]);
    run(0);
    const double measured = *measured_blocks().adjacent_overlap;
    (measured < overlap ? low : high) = middle;
  }
  variant_ = wanted;
}

template <class T>
void SyntheticLayer<T>::run(std::int64_t set) {
  ops_.nsa_verify(params(set));
}

// A reuse layer takes its blocks as given.
template <class T>
std::vector<std::int32_t> SyntheticLayer<T>::selected_blocks() {
  ops_.synchronize();
  return variant_.reuse ? inherited_ : indices_.read();
}

template <class T>
BlockStatistics SyntheticLayer<T>::measured_blocks() {
  return block_statistics(selected_blocks(), tree_.size(), shape_.num_kv_heads,
                          shape_.nsa.sel_count);
}

template <class T>
double SyntheticLayer<T>::measured_group_blocks() {
  return group_blocks(selected_blocks(), tree_.size(), shape_.num_kv_heads, shape_.nsa.sel_count,
                      variant_.group_size);
}

template <class T>
traffic::NsaVerifyShape SyntheticLayer<T>::traffic_shape() const {
  return {.nsa = shape_.nsa,
          .num_heads = shape_.num_heads,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .context_len = context_len_,
          .num_queries = tree_.size(),
          .element_bytes = static_cast<std::int64_t>(sizeof(T)),
          .routing = !variant_.reuse,
          .group_size = variant_.group_size,
          .group_mode = variant_.group_mode};
}

template <class T>
kernels::NsaVerifyParams<T> SyntheticLayer<T>::params(std::int64_t set) {
  VERSIEVE_ASSERT(set >= 0 && set < sets_, "there is no such copy of the cache");
  const std::int64_t width = shape_.kv_width();
  kernels::NsaVerifyParams<T> p;
  p.nsa = shape_.nsa;
  p.form = variant_.form;
  p.group_mode = variant_.group_mode;
  p.group_size = variant_.group_size;
  p.num_heads = shape_.num_heads;
  p.num_kv_heads = shape_.num_kv_heads;
  p.head_dim = shape_.head_dim;
  p.context_len = context_len_;
  p.num_queries = tree_.size();
  p.num_compressed = num_compressed_;
  p.num_tree_compressed = static_cast<std::int64_t>(cmp_owner_.size());
  p.num_blocks = *std::max_element(position_.begin(), position_.end()) / shape_.nsa.sel_block + 1;
  p.q = q_.data();
  p.k = k_.data() + set * context_len_ * width;
  p.v = v_.data() + set * context_len_ * width;
  p.k_cmp = k_cmp_.data() + set * num_compressed_ * width;
  p.v_cmp = v_cmp_.data() + set * num_compressed_ * width;
  p.k_tree = k_tree_.data();
  p.v_tree = v_tree_.data();
  p.k_cmp_tree = k_cmp_tree_.data();
  p.v_cmp_tree = v_cmp_tree_.data();
  p.gates = gates_.data();
  p.parent = parent_.data();
  p.position = position_buffer_.data();
  p.cmp_tree_owner = owner_buffer_.data();
  p.indices_in = variant_.reuse ? inherited_buffer_.data() : nullptr;
  p.older_lists = p.older_blocks = true;  // as in all layers of a step but the first ones
  p.out = out_.data();
  p.indices = indices_.data();
  return p;
}

template class SyntheticLayer<float>;
template class SyntheticLayer<Bf16>;

}  // namespace versieve::engine
