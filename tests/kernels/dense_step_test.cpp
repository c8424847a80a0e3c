// Which list a call of a step of several sequences reads in each layer, and where its weights go.
#include <algorithm>
#include <catch2/catch.hpp>

#include "kernels/choose_together.h"
#include "kernels/ops_together.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::kernels {
namespace {

using Ints = std::vector<std::int32_t>;

constexpr std::int64_t kLayers = 3, kHeads = 4, kKvHeads = 2, kWidth = 16, kRow = kKvHeads * kWidth;
constexpr std::int64_t kLength = 150, kNodes = 3, kCalls = 3;
constexpr std::int64_t kOut = kNodes * kHeads * kWidth;

// Lists of different lengths, `stride` apart.
struct Lists {
  std::int64_t stride = kLength + 3;
  Ints token = Ints(static_cast<std::size_t>(kLayers * stride), -1), count;

  Lists() {
    for (std::int64_t list = 0; list < kLayers; ++list) {
      std::int32_t own = 0;
      for (std::int32_t t = static_cast<std::int32_t>(list); t < kLength; t += 3 + own % 4) {
        token[static_cast<std::size_t>(list * stride + own++)] = t;
      }
      count.push_back(own);
    }
  }
};

class DenseStep {
 public:
  DenseStep() : ops_(make_cpu_ops<float>(2)) {
    for (std::int64_t i = 0; i < kCalls; ++i) {
      step_.calls.push_back({.num_heads = kHeads,
                             .num_kv_heads = kKvHeads,
                             .head_dim = kWidth,
                             .context_len = kLength,
                             .num_queries = kNodes,
                             .num_nodes = kNodes,
                             .parent = parent_.data(),
                             .position = position_.data(),
                             .q = q_.data() + i * kOut,
                             .k = k_.data(),
                             .v = v_.data(),
                             .k_tree = k_tree_.data() + i * kNodes * kRow,
                             .v_tree = v_tree_.data() + i * kNodes * kRow,
                             .out = out_.data() + i * kOut});
    }
    step_.call_layers.resize(kCalls);
  }

  // What the call that is alone in reading these tokens of that layer gives.
  std::vector<float> expected(std::int64_t call, std::int64_t layer, const SelectedTokens& read,
                              float* weights = nullptr) {
    std::vector<float> out(static_cast<std::size_t>(kOut));
    TreeAttentionParams<float> p = step_.calls[static_cast<std::size_t>(call)];
    p.k += layer * kLength * kRow;
    p.v += layer * kLength * kRow;
    p.k_tree += layer * kCalls * kNodes * kRow;
    p.v_tree += layer * kCalls * kNodes * kRow;
    p.selected = read;
    p.weights = weights;
    p.out = out.data();
    ops_->tree_attention(p);
    return out;
  }
  std::vector<float> out(std::int64_t call) const {
    return {out_.begin() + call * kOut, out_.begin() + (call + 1) * kOut};
  }
  void run(std::int64_t layer) { dense_attention_layer<float>(*ops_, step_, layer); }

  DenseStepParams<float>& step() { return step_; }
  Ops<float>& ops() { return *ops_; }

 private:
  static std::vector<float> random(std::int64_t count, std::uint32_t seed) {
    return test::random_tensor<float>(count, seed);
  }

  std::unique_ptr<Ops<float>> ops_;
  std::vector<float> q_ = random(kCalls * kOut, 1);
  std::vector<float> k_ = random(kLayers * kLength * kRow, 2);
  std::vector<float> v_ = random(kLayers * kLength * kRow, 3);
  std::vector<float> k_tree_ = random(kLayers * kCalls * kNodes * kRow, 4);
  std::vector<float> v_tree_ = random(kLayers * kCalls * kNodes * kRow, 5);
  std::vector<float> out_ = std::vector<float>(kCalls * kOut);
  Ints parent_ = {-1, 0, 1};
  Ints position_ = {kLength, kLength + 1, kLength + 2};
  DenseStepParams<float> step_{.layers = kLayers,
                               .cache_rows = kLength,
                               .tree_rows = kCalls * kNodes,
                               .k = k_.data(),
                               .v = v_.data(),
                               .windows = {},
                               .calls = {}};
};

}  // namespace

TEST_CASE("a map names the list that each layer of a step reads, or none") {
  DenseStep step;
  const Lists lists;
  const Ints map = {-1, 2, 0};
  const auto list = [&](std::int64_t i) {
    return SelectedTokens{.token = lists.token.data() + i * lists.stride,
                          .count = lists.count[static_cast<std::size_t>(i)]};
  };
  // Mapped with counts in memory; a list a layer whose count is that of the first; all tokens.
  step.step().calls[0].selected = {
      .token = lists.token.data(), .count = kLength, .known_count = lists.count.data()};
  step.step().call_layers[0] = {.list_stride = lists.stride, .list_of_layer = map};
  const std::int64_t shared = *std::min_element(lists.count.begin(), lists.count.end());
  step.step().calls[1].selected = {.token = lists.token.data(), .count = shared};
  step.step().call_layers[1] = {.list_stride = lists.stride};
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    step.run(layer);
    CAPTURE(layer);
    const std::int32_t mapped = map[static_cast<std::size_t>(layer)];
    CHECK(step.out(0) == step.expected(0, layer, mapped < 0 ? SelectedTokens{} : list(mapped)));
    SelectedTokens own = list(layer);
    own.count = shared;
    CHECK(step.out(1) == step.expected(1, layer, own));
    CHECK(step.out(2) == step.expected(2, layer, {}));
    CHECK(step.out(2) != step.expected(2, layer, own));
  }
}

TEST_CASE("a call of a step keeps its newest query's weights from the layer on that is asked for") {
  DenseStep step;
  constexpr std::int64_t kStride = kLength + kNodes + 2;
  std::vector<float> kept(kLayers * kStride, -3.0F), alone = kept;
  step.step().calls[1].weights = kept.data();
  step.step().call_layers[1] = {.weights_stride = kStride, .first_weights = 1};
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    step.run(layer);
    float* const own = layer < 1 ? nullptr : alone.data() + layer * kStride;
    CHECK(step.out(1) == step.expected(1, layer, {}, own));
  }
  CHECK(kept == alone);
  CHECK(kept[kStride - 1] == -3.0F);
  CHECK(kept[kStride] > 0.0F);
}

TEST_CASE("shares and lists of several choices on the CPU are those of each") {
  DenseStep step;
  constexpr std::int64_t kLong = 40;
  const std::vector<float> random = test::random_tensor<float>(3 * kLong, 9);
  std::vector<float> weights;
  for (const float w : random) {
    weights.push_back(w * w);
  }
  std::vector<TopPParams<float>> shares;
  std::vector<TokenListParams> listed;
  Ints mask(2 * kLong, -1), token(2 * kLong, -1), count(2, -1);
  std::vector<float> mass(3);
  for (std::int64_t i = 0; i < 2; ++i) {
    shares.push_back({.rows = 1 + i,
                      .length = kLong - i,
                      .p = 0.6,
                      .weights = weights.data() + i * kLong,
                      .mask = mask.data() + i * kLong,
                      .mass = mass.data() + i});
    listed.push_back({.lists = 1,
                      .length = kLong - i,
                      .chunk = 4,
                      .mask = mask.data() + i * kLong,
                      .token = token.data() + i * kLong,
                      .count = count.data() + i});
  }
  top_p_together<float>(step.ops(), shares);
  token_list_together<float>(step.ops(), listed);
  const Ints masks = mask, tokens = token, counts = count;
  const std::vector<float> masses = mass;
  mask.assign(mask.size(), -1);
  token.assign(token.size(), -1);
  for (std::size_t i = 0; i < 2; ++i) {
    step.ops().top_p(shares[i]);
    step.ops().token_list(listed[i]);
  }
  CHECK(mask == masks);
  CHECK(mass == masses);
  CHECK(token == tokens);
  CHECK(count == counts);
  CHECK(counts[1] > 0);
}

}  // namespace versieve::kernels
