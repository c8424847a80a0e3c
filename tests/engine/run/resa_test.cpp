// ReSA in the engine: sparse decoding of a dense target, and the dense pass that takes its error
// back.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "engine/run/speculate/decode_loss.h"
#include "engine/run/speculate/rectify.h"
#include "kernels/cpu.h"
#include "tests/engine/run/recorded_steps.h"
#include "tests/engine/run/tiny_engine.h"

using namespace versieve;
using namespace versieve::engine;
using tiny::Engine;

namespace {

constexpr std::int64_t kPrompt = 203;
const kernels::ResaSelection kSparse{.key_block = 4, .active_ratio = 0.1, .n_min = 2, .n_local = 1};

template <class T>
void encode(Target<T>& target, const std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> path(tokens.size());
  std::iota(path.begin(), path.end(), 0);
  target.verify(chain_tree(tokens), {.last_logits_only = true});
  target.commit(path);
}

template <class T>
void decode(Target<T>& target, std::int32_t token,
            const std::optional<kernels::ResaSelection>& resa) {
  const std::int32_t root = 0;
  target.verify(chain_tree({token}), {.splits_chain = true, .resa = resa});
  target.commit({&root, 1});
}

// Rows [first, last) of a layer's keys and values.
template <class T>
std::vector<T> cache_rows(Engine<T>& engine, std::int64_t layer, std::int64_t first,
                          std::int64_t last) {
  const std::int64_t width = engine.target.shape().kv_width();
  std::vector<T> rows(static_cast<std::size_t>(2 * (last - first) * width));
  const std::size_t half = rows.size() / 2;
  engine.ops->download(rows.data(), engine.target.cache().k(layer) + first * width,
                       half * sizeof(T));
  engine.ops->download(rows.data() + half, engine.target.cache().v(layer) + first * width,
                       half * sizeof(T));
  return rows;
}

template <class T>
double largest_difference(const std::vector<T>& a, const std::vector<T>& b) {
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i] - b[i])));
  }
  return most;
}

// Dense and ReSA engines with the same weights after the same prompt.
template <class T>
struct Pair {
  Engine<T> dense{tiny::shape(AttentionKind::kDense)};
  Engine<T> sparse{tiny::shape(AttentionKind::kDense)};

  Pair() {
    for (Engine<T>* engine : {&dense, &sparse}) {
      engine->target.cache().reserve(400);
      encode(engine->target, tiny::prompt(kPrompt));
    }
    sparse.target.keep_block_keys(kSparse.key_block);
  }
};

}  // namespace

TEMPLATE_TEST_CASE("rectification gives the cache the bits of dense decoding", "", double, float) {
  constexpr std::int64_t kEvery = 8;
  Pair<TestType> pair;
  Rectifier<TestType> rectifier(pair.sparse.target, kEvery);
  const std::vector<std::int32_t> text = tiny::prompt(3 * kEvery + 5, 17);
  for (std::size_t i = 0; i < text.size(); ++i) {
    decode(pair.dense.target, text[i], std::nullopt);
    decode(pair.sparse.target, text[i], kSparse);
    const std::int64_t steps = static_cast<std::int64_t>(i) + 1;
    const std::int64_t window = kPrompt + (steps - 1) / kEvery * kEvery;
    // Before: the first layer's rows follow from the tokens alone, later ones carry the error.
    CHECK(cache_rows(pair.sparse, 0, window, kPrompt + steps) ==
          cache_rows(pair.dense, 0, window, kPrompt + steps));
    CHECK(largest_difference(cache_rows(pair.sparse, 2, window, kPrompt + steps),
                             cache_rows(pair.dense, 2, window, kPrompt + steps)) > 1e-3);
    CHECK(rectifier.committed(text[i]) == (steps % kEvery == 0));
    // After: what lies before the running window is dense, in every layer.
    const std::int64_t rectified = kPrompt + steps / kEvery * kEvery;
    for (std::int64_t layer = 0; layer < 3; ++layer) {
      CHECK(cache_rows(pair.sparse, layer, 0, rectified) ==
            cache_rows(pair.dense, layer, 0, rectified));
    }
  }
  CHECK(rectifier.passes() == 3);
  CHECK(pair.sparse.target.length() == kPrompt + 3 * kEvery + 5);
  // The tail of five steps stays as sparse attention left it.
  const std::int64_t end = pair.sparse.target.length();
  CHECK(largest_difference(cache_rows(pair.sparse, 2, end - 5, end),
                           cache_rows(pair.dense, 2, end - 5, end)) > 1e-3);
}

TEST_CASE("block keys follow every token that is appended or rewritten") {
  Pair<float> pair;
  Rectifier<float> rectifier(pair.sparse.target, 6);
  const LlmShape& shape = pair.sparse.target.shape();
  for (const std::int32_t token : tiny::prompt(40, 23)) {
    decode(pair.sparse.target, token, kSparse);
    rectifier.committed(token);
    const std::int64_t length = pair.sparse.target.length();
    const std::int64_t blocks = kernels::key_block_count(length, kSparse.key_block);
    std::vector<float> kmin(static_cast<std::size_t>(blocks * shape.kv_width()));
    std::vector<float> kmax(kmin.size());
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
      kernels::block_keys_cpu<float>({.num_kv_heads = shape.num_kv_heads,
                                      .head_dim = shape.head_dim,
                                      .key_block = kSparse.key_block,
                                      .length = length,
                                      .k = pair.sparse.target.cache().k(layer),
                                      .kmin = kmin.data(),
                                      .kmax = kmax.data()},
                                     1);
      const float* kept = pair.sparse.target.block_keys().kmin(layer);
      CHECK(std::equal(kmin.begin(), kmin.end(), kept));
      CHECK(std::equal(kmax.begin(), kmax.end(), pair.sparse.target.block_keys().kmax(layer)));
    }
  }
}

TEST_CASE("block keys survive a cache that grows") {
  Engine<float> engine(tiny::shape(AttentionKind::kDense));
  encode(engine.target, tiny::prompt(30));
  engine.target.keep_block_keys(4);
  encode(engine.target, tiny::prompt(100, 9));  // beyond the capacity
  const float* kmax = engine.target.block_keys().kmax(2);
  const float* k = engine.target.cache().k(2);
  const std::int64_t width = engine.target.shape().kv_width();
  for (std::int64_t block : {0, 7, 32}) {  // block 32: tokens 128 and 129
    float most = -INFINITY;
    for (std::int64_t token = 4 * block; token < std::min<std::int64_t>(130, 4 * block + 4);
         ++token) {
      most = std::max(most, k[token * width]);
    }
    CHECK(kmax[block * width] == most);
  }
}

TEMPLATE_TEST_CASE("generation with ReSA: recorded steps give the text of led ones", "", double,
                   float) {
  Engine<TestType> engine(tiny::shape(AttentionKind::kDense));
  engine.generator.prefill(tiny::prompt(kPrompt));
  for (const char* strategy : {"resa:b4p0.05f5/ar", "resa:b16p0.1f32/ar", "resa:b4p0.3f1/ar"}) {
    CAPTURE(strategy);
    const GenerateOptions options = tiny::options(strategy, 34);
    const auto [led, recorded] = tiny::led_and_recorded(engine.generator, options);
    CHECK(led.tokens.size() == 34);
    const std::int64_t every = options.strategy.resa_rectify_every;
    CHECK(led.rectifications == 33 / every);
    CHECK(recorded.rectifications == led.rectifications);
    CHECK(led.rectify_seconds > 0.0);
  }
}

TEST_CASE("with all blocks active ReSA writes the dense text, with few it need not") {
  Engine<float> engine(tiny::shape(AttentionKind::kDense));
  engine.generator.prefill(tiny::prompt(700));
  const std::vector<std::int32_t> dense = engine.generator.run(tiny::options("dense/ar")).tokens;
  CHECK(engine.generator.run(tiny::options("resa:b16p1f7/ar")).tokens == dense);
  CHECK(engine.generator.run(tiny::options("resa:b1p0.01f1000/ar")).tokens != dense);
  CHECK(engine.generator.run(tiny::options("dense/ar")).tokens == dense);
}

TEST_CASE("losses of a decoded text: dense and all blocks agree, and the first step knows no f") {
  Engine<float> engine(tiny::shape(AttentionKind::kDense));
  const std::vector<std::int32_t> text = tiny::prompt(260, 31);
  const auto losses = [&](const std::optional<kernels::ResaSelection>& resa, std::int64_t every) {
    return decode_losses(*engine.ops, engine.target, text, kPrompt,
                         {.resa = resa, .rectify_every = every});
  };
  const std::vector<double> dense = losses(std::nullopt, 0);
  CHECK(dense.size() == 260 - kPrompt - 1);
  kernels::ResaSelection all = kSparse;
  all.active_ratio = 1.0;
  CHECK(losses(all, 0) == dense);
  const std::vector<double> never = losses(kSparse, 0);
  const std::vector<double> often = losses(kSparse, 4);
  CHECK(never != dense);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(never[i] == often[i]);
  }
  CHECK(never[4] != often[4]);
}

TEST_CASE("after a rectification a token's loss is that after as long a dense prefix") {
  constexpr std::int64_t kEvery = 16;
  Engine<float> engine(tiny::shape(AttentionKind::kDense));
  const std::vector<std::int32_t> text = tiny::prompt(kPrompt + 5 * kEvery, 31);
  const auto losses = [&](std::int64_t prefix, std::int64_t every) {
    return decode_losses(*engine.ops, engine.target, text, prefix,
                         {.resa = kSparse, .rectify_every = every});
  };
  const std::vector<double> rectified = losses(kPrompt, kEvery);
  const std::vector<double> never = losses(kPrompt, 0);
  for (std::int64_t done = kEvery; done <= 4 * kEvery; done += kEvery) {
    CAPTURE(done);
    const std::size_t at = static_cast<std::size_t>(done);
    const double fresh = losses(kPrompt + done, 0).front();
    CHECK(rectified[at] == fresh);
    CHECK(never[at] != fresh);
  }
}
