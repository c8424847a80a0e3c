#include "tests/gpu/decode_scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>

#include "engine/run/model/load.h"
#include "engine/run/model/tree_layout.h"
#include "kernels/common/parallel_for.h"
#include "kernels/ops_cuda.h"
#include "model/launches/step_composition.h"
#include "model/words/assert.h"
#include "tests/support/paths.h"

namespace versieve::testing {
namespace {

namespace fs = std::filesystem;
using engine::Checkpoint;

constexpr std::array<std::int64_t, 3> kLayers = {1, 4, 7};
constexpr std::int64_t kChunk = engine::Target<float>::kMostTogether;
constexpr std::int32_t kBos = 256;
constexpr int kThreads = 12;

// The prompts one after another, as bytes; every one begins with BOS.
std::vector<std::int32_t> held_out_text(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::int32_t> tokens;
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    tokens.push_back(kBos);
    for (std::istreambuf_iterator<char> c(stream), end; c != end; ++c) {
      tokens.push_back(static_cast<unsigned char>(*c));
    }
  }
  return tokens;
}

struct LayerQuery {
  std::vector<float> norm;  // [hidden]
  std::vector<float> q;     // [H * d, hidden]
};

// q [H, d] after rotary of the node whose stream entering the layer is `h`.
std::vector<float> query_of(const LayerQuery& w, const LlmShape& s, const Bf16* h,
                            std::int64_t position) {
  const std::size_t hidden = static_cast<std::size_t>(s.hidden);
  double squares = 0.0;
  for (std::size_t i = 0; i < hidden; ++i) {
    squares += std::pow(static_cast<double>(to_float(h[i])), 2);
  }
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(hidden) + s.norm_eps);
  const std::size_t half = static_cast<std::size_t>(s.head_dim / 2);
  std::vector<float> q(static_cast<std::size_t>(s.q_width()));
  for (std::size_t row = 0; row < q.size(); ++row) {
    double sum = 0.0;
    for (std::size_t i = 0; i < hidden; ++i) {
      sum += static_cast<double>(w.q[row * hidden + i] * w.norm[i] * to_float(h[i]));
    }
    q[row] = static_cast<float>(sum * scale);
  }
  for (std::size_t head = 0; head < q.size(); head += 2 * half) {
    for (std::size_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(position) *
          std::pow(s.rope_theta, -static_cast<double>(i) / static_cast<double>(half));
      const double low = static_cast<double>(q[head + i]);
      const double high = static_cast<double>(q[head + half + i]);
      q[head + i] = static_cast<float>(low * std::cos(angle) - high * std::sin(angle));
      q[head + half + i] = static_cast<float>(high * std::cos(angle) + low * std::sin(angle));
    }
  }
  return q;
}

// Adds softmax(q k / sqrt(d)) of one query head to `row` [length]. k: the first key of the head's
// KV head, keys `stride` apart.
void add_attention(const float* q, const float* k, std::int64_t stride, std::int64_t dim,
                   std::vector<float>& row) {
  std::vector<float> score(row.size());
  for (std::size_t j = 0; j < row.size(); ++j) {
    const float* key = k + static_cast<std::int64_t>(j) * stride;
    float sum = 0.0F;
    for (std::int64_t i = 0; i < dim; ++i) {
      sum += q[i] * key[i];
    }
    score[j] = sum / std::sqrt(static_cast<float>(dim));
  }
  const float most = *std::max_element(score.begin(), score.end());
  double total = 0.0;
  for (float& x : score) {
    x = std::exp(x - most);
    total += static_cast<double>(x);
  }
  for (std::size_t j = 0; j < row.size(); ++j) {
    row[j] += static_cast<float>(static_cast<double>(score[j]) / total);
  }
}

class Decoder {
 public:
  explicit Decoder(const fs::path& demo)
      : ops_(kernels::make_cuda_ops<Bf16>()),
        text_(held_out_text(demo / "prompts")),
        checkpoint_(engine::load_target(demo / "nsa")) {
    engine::DraftCheckpoint draft = engine::load_draft(demo / "nsa/draft", checkpoint_.shape);
    for (std::size_t i = 0; i < kLayers.size(); ++i) {
      draft.shape.capture_layers[i] = kLayers[i];
      weights_.push_back({checkpoint_.weights.values<float>(
                              engine::layer_name(kLayers[i], "input_layernorm.weight")),
                          checkpoint_.weights.values<float>(
                              engine::layer_name(kLayers[i], "self_attn.q_proj.weight"))});
    }
    target_ =
        std::make_unique<engine::Target<Bf16>>(engine::make_target(*ops_, checkpoint_, &draft));
  }

  DecodeScores run(std::int64_t length, std::int64_t steps) {
    VERSIEVE_ASSERT(length + steps <= static_cast<std::int64_t>(text_.size()), "text is enough");
    target_->cache().reserve(length + steps + 1);
    while (target_->length() < length) {
      append(std::min(kChunk, length - target_->length()));
    }
    std::vector<std::vector<float>> queries;  // [steps * layers], each [H, d]
    for (std::int64_t step = 0; step < steps; ++step) {
      append(1);
      read_queries(queries);
    }
    return score(queries, length, steps);
  }

 private:
  // The next tokens of the text.
  void append(std::int64_t count) {
    const auto first = text_.begin() + target_->length();
    target_->verify(engine::chain_tree({first, first + count}), {.last_logits_only = true});
    std::vector<std::int32_t> path(static_cast<std::size_t>(count));
    std::iota(path.begin(), path.end(), 0);
    target_->commit(path);
  }

  void read_queries(std::vector<std::vector<float>>& queries) {
    const LlmShape& s = checkpoint_.shape;
    std::vector<Bf16> streams(kLayers.size() * static_cast<std::size_t>(s.hidden));
    ops_->download(streams.data(), target_->captured(), streams.size() * sizeof(Bf16));
    for (std::size_t i = 0; i < kLayers.size(); ++i) {
      queries.push_back(query_of(weights_[i], s,
                                 streams.data() + i * static_cast<std::size_t>(s.hidden),
                                 target_->length() - 1));
    }
  }

  DecodeScores score(const std::vector<std::vector<float>>& queries, std::int64_t length,
                     std::int64_t steps) {
    const LlmShape& s = checkpoint_.shape;
    std::vector<std::vector<float>> keys;  // a layer: [length, G, d]
    for (const std::int64_t layer : kLayers) {
      std::vector<Bf16> k(static_cast<std::size_t>(length * s.kv_width()));
      ops_->download(k.data(), target_->cache().k(layer), k.size() * sizeof(Bf16));
      keys.emplace_back(k.size());
      std::transform(k.begin(), k.end(), keys.back().begin(), [](Bf16 x) { return to_float(x); });
    }
    const std::int64_t layers = static_cast<std::int64_t>(kLayers.size());
    DecodeScores result{.length = length, .steps = steps, .heads = layers * s.num_kv_heads};
    result.scores.resize(static_cast<std::size_t>(steps * result.heads * length));
    kernels::parallel_for(steps * result.heads, kThreads, [&](std::int64_t i) {
      const std::int64_t kv = i % s.num_kv_heads;
      const std::int64_t step_layer = i / s.num_kv_heads;
      const std::int64_t share = s.num_heads / s.num_kv_heads;
      std::vector<float> row(static_cast<std::size_t>(length));
      for (std::int64_t head = kv * share; head < (kv + 1) * share; ++head) {
        add_attention(queries[static_cast<std::size_t>(step_layer)].data() + head * s.head_dim,
                      keys[static_cast<std::size_t>(step_layer % layers)].data() + kv * s.head_dim,
                      s.kv_width(), s.head_dim, row);
      }
      std::copy(row.begin(), row.end(), result.scores.begin() + i * length);
    });
    return result;
  }

  std::unique_ptr<kernels::Ops<Bf16>> ops_;
  std::vector<std::int32_t> text_;
  Checkpoint checkpoint_;
  std::vector<LayerQuery> weights_;
  std::unique_ptr<engine::Target<Bf16>> target_;
};

}  // namespace

std::vector<DecodeScores> decode_scores(const std::vector<std::int64_t>& lengths,
                                        std::int64_t steps) {
  Decoder decoder(fs::path(VERSIEVE_SOURCE_DIR) / "engine/demo");
  std::vector<DecodeScores> all;
  for (const std::int64_t length : lengths) {
    all.push_back(decoder.run(length, steps));
  }
  return all;
}

}  // namespace versieve::testing
