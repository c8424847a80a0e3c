#include "engine/run/model/synthetic.h"

#include <algorithm>
#include <cmath>

#include "engine/run/model/random_block.h"

namespace versieve::engine {
namespace {

template <class T>
class Filler {
 public:
  using Buffer = kernels::OpsBuffer<T>;

  Filler(kernels::Ops<T>& ops, std::uint64_t seed, std::int64_t largest)
      : ops_(&ops), block_(seed, largest) {}

  Buffer matrix(std::int64_t rows, std::int64_t columns) {
    return normal(rows * columns, 1.0 / std::sqrt(static_cast<double>(columns)));
  }
  // The same with rows of zeros behind, `all` in all.
  Buffer padded(std::int64_t rows, std::int64_t all, std::int64_t columns) {
    Buffer filled = matrix(rows, columns);
    if (rows == all) {
      return filled;
    }
    Buffer buffer(*ops_, std::vector<T>(static_cast<std::size_t>(all * columns)));
    ops_->copy_rows({.rows = rows, .width = columns, .src = filled.data(), .dst = buffer.data()});
    ops_->synchronize();
    return buffer;
  }
  Buffer normal(std::int64_t count, double scale) {
    Buffer buffer(*ops_, count);
    block_.fill(*ops_, buffer.data(), count, scale);
    return buffer;
  }
  // Rows of that length of which all have a part in common; many repeat a few.
  Buffer rows_alike(std::int64_t rows, std::int64_t width, double alike, std::uint64_t seed) {
    const std::int64_t some = std::min(rows, kRowsAlike);
    const double scale = 1.0 / std::sqrt(static_cast<double>(width));
    const std::vector<float> common = random_normals(seed, width);
    const std::vector<float> own = random_normals(mix_bits(seed), some * width);
    std::vector<T> values(static_cast<std::size_t>(some * width));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double shared = common[i % static_cast<std::size_t>(width)];
      values[i] = rounded_to<T>(
          scale * (std::sqrt(alike) * shared + std::sqrt(1.0 - alike) * double{own[i]}));
    }
    Buffer buffer(*ops_, rows * width);
    for (std::int64_t at = 0; at < rows; at += some) {
      ops_->upload(buffer.data() + at * width, values.data(),
                   static_cast<std::size_t>(std::min(some, rows - at) * width) * sizeof(T));
    }
    ops_->synchronize();
    return buffer;
  }
  Buffer ones(std::int64_t count) {
    return {*ops_, std::vector<T>(static_cast<std::size_t>(count), rounded_to<T>(1.0))};
  }

 private:
  static constexpr std::int64_t kRowsAlike = 1021;  // a prime: no number of tokens repeats with it

  kernels::Ops<T>* ops_;
  RandomBlock<T> block_;
};

struct LayerSizes {
  std::int64_t input = 0, hidden = 0, intermediate = 0, q_width = 0, kv_width = 0, gates = 0;
  std::int64_t joint = 0;  // rows of the joint matrix at least
};

template <class T>
LayerWeights<T> random_layer(Filler<T>& fill, const LayerSizes& sizes) {
  LayerWeights<T> w;
  w.input_norm = fill.ones(sizes.hidden);
  const std::int64_t joint = sizes.q_width + 2 * sizes.kv_width + sizes.gates;
  w.joint = fill.padded(joint, std::max(joint, sizes.joint), sizes.input);
  w.output = fill.matrix(sizes.hidden, sizes.q_width);
  w.post_norm = fill.ones(sizes.hidden);
  w.mlp_gate_up = fill.matrix(2 * sizes.intermediate, sizes.hidden);
  w.mlp_down = fill.matrix(sizes.hidden, sizes.intermediate);
  return w;
}

template <class T>
LayerWeights<T> random_target_layer(Filler<T>& fill, const LlmShape& shape) {
  const bool sparse = shape.attention == AttentionKind::kNsa;
  LayerWeights<T> w = random_layer(fill, {.input = shape.hidden,
                                          .hidden = shape.hidden,
                                          .intermediate = shape.intermediate,
                                          .q_width = shape.q_width(),
                                          .kv_width = shape.kv_width(),
                                          .gates = joint_gates(shape),
                                          .joint = joint_rows(shape)});
  if (sparse) {
    const std::int64_t pooled = shape.num_kv_heads * shape.nsa.cmp_block;
    const double scale = 1.0 / std::sqrt(static_cast<double>(shape.nsa.cmp_block));
    w.compress_key = fill.normal(pooled, scale);
    w.compress_value = fill.normal(pooled, scale);
    w.intra_block_pe = fill.normal(pooled * shape.head_dim, 0.1);
  }
  return w;
}

}  // namespace

template <class T>
Target<T> make_synthetic_target(kernels::Ops<T>& ops, const LlmShape& shape,
                                const DraftShape& draft, std::uint64_t seed, double alike) {
  Filler<T> fill(ops, seed, shape.parameter_count());
  TargetWeights<T> weights;
  weights.embedding = alike > 0.0 ? fill.rows_alike(shape.vocab, shape.hidden, alike, seed)
                                  : fill.matrix(shape.vocab, shape.hidden);
  weights.norm = fill.ones(shape.hidden);
  if (!shape.tied_embeddings) {
    weights.head = fill.matrix(shape.vocab, shape.hidden);
  }
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    weights.layers.push_back(random_target_layer(fill, shape));
  }
  return {ops,
          shape,
          std::move(weights),
          {std::begin(draft.capture_layers), std::end(draft.capture_layers)}};
}

template <class T>
Draft<T> make_synthetic_draft(kernels::Ops<T>& ops, const DraftShape& shape,
                              const Target<T>& target, std::uint64_t seed, double logit_deviation) {
  Filler<T> fill(ops, seed, shape.parameter_count());
  DraftWeights<T> weights;
  weights.fuse = fill.matrix(shape.hidden, 3 * shape.hidden);
  weights.hidden_norm = fill.ones(shape.hidden);
  weights.layer = random_layer(fill, {.input = 2 * shape.hidden,
                                      .hidden = shape.hidden,
                                      .intermediate = shape.intermediate,
                                      .q_width = shape.num_heads * shape.head_dim,
                                      .kv_width = shape.num_kv_heads * shape.head_dim});
  weights.norm = fill.ones(shape.hidden);
  weights.head = fill.normal(shape.vocab * shape.hidden,
                             logit_deviation / std::sqrt(static_cast<double>(shape.hidden)));
  const std::int64_t tokens = target.shape().vocab;
  for (std::int64_t i = 0; shape.vocab < tokens && i < shape.vocab; ++i) {  // spread over all
    weights.target_token.push_back(static_cast<std::int32_t>(i * tokens / shape.vocab));
  }
  return {ops, shape, std::move(weights), target.embedding()};
}

template <class T>
void fill_context(kernels::Ops<T>& ops, Target<T>& target, std::int64_t context_len,
                  std::uint64_t seed) {
  target.cache().truncate(0);
  target.cache().reserve(context_len);
  fill_context(ops, target.shape(), target.cache(), context_len, seed);
}

template <class T>
void fill_context(kernels::Ops<T>& ops, const LlmShape& shape, KvCache<T>& cache,
                  std::int64_t context_len, std::uint64_t seed) {
  cache.set_length(context_len);
  const std::int64_t width = shape.kv_width();
  RandomBlock<T> block(seed, context_len * width);
  const auto fill = [&](T* rows, const PagedRows& paged, std::int64_t count) {
    for (std::int64_t at = 0; at < count;) {
      const std::int64_t run = paged.run(at, count);
      block.fill(ops, rows + paged.row(at) * width, run * width, 1.0);
      at += run;
    }
  };
  const PagedRows& tokens = cache.rows().paged;
  const PagedRows& compressed = cache.rows().cmp_paged;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    fill(cache.k(layer), tokens, context_len);
    fill(cache.v(layer), tokens, context_len);
    if (cache.keeps_raw_keys()) {
      fill(cache.k_raw(layer), tokens, context_len);
    }
    fill(cache.k_cmp(layer), compressed, cache.compressed_length());
    fill(cache.v_cmp(layer), compressed, cache.compressed_length());
  }
}

template <class T>
void fill_context(kernels::Ops<T>& ops, Draft<T>& draft, std::int64_t context_len,
                  std::uint64_t seed) {
  const std::int64_t count = context_len * draft.shape().num_kv_heads * draft.shape().head_dim;
  draft.reserve(context_len);
  draft.set_length(context_len);
  RandomBlock<T> block(seed, count);
  block.fill(ops, draft.k(), count, 1.0);
  block.fill(ops, draft.v(), count, 1.0);
}

template Target<double> make_synthetic_target(kernels::Ops<double>&, const LlmShape&,
                                              const DraftShape&, std::uint64_t, double);
template Target<float> make_synthetic_target(kernels::Ops<float>&, const LlmShape&,
                                             const DraftShape&, std::uint64_t, double);
template Target<Bf16> make_synthetic_target(kernels::Ops<Bf16>&, const LlmShape&, const DraftShape&,
                                            std::uint64_t, double);
template Draft<double> make_synthetic_draft(kernels::Ops<double>&, const DraftShape&,
                                            const Target<double>&, std::uint64_t, double);
template Draft<float> make_synthetic_draft(kernels::Ops<float>&, const DraftShape&,
                                           const Target<float>&, std::uint64_t, double);
template Draft<Bf16> make_synthetic_draft(kernels::Ops<Bf16>&, const DraftShape&,
                                          const Target<Bf16>&, std::uint64_t, double);
template void fill_context(kernels::Ops<double>&, Target<double>&, std::int64_t, std::uint64_t);
template void fill_context(kernels::Ops<double>&, const LlmShape&, KvCache<double>&, std::int64_t,
                           std::uint64_t);
template void fill_context(kernels::Ops<float>&, Target<float>&, std::int64_t, std::uint64_t);
template void fill_context(kernels::Ops<float>&, const LlmShape&, KvCache<float>&, std::int64_t,
                           std::uint64_t);
template void fill_context(kernels::Ops<Bf16>&, Target<Bf16>&, std::int64_t, std::uint64_t);
template void fill_context(kernels::Ops<Bf16>&, const LlmShape&, KvCache<Bf16>&, std::int64_t,
                           std::uint64_t);
template void fill_context(kernels::Ops<double>&, Draft<double>&, std::int64_t, std::uint64_t);
template void fill_context(kernels::Ops<float>&, Draft<float>&, std::int64_t, std::uint64_t);
template void fill_context(kernels::Ops<Bf16>&, Draft<Bf16>&, std::int64_t, std::uint64_t);

}  // namespace versieve::engine
