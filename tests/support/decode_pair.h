// Two targets of equal weights over equal contexts: one runs a token's layers in one launch, the
// other launch by launch, and every number that a step leaves must have the same bits. The first
// never runs the launches of the second, so nothing of theirs can lie in its buffers.
#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "engine/run/model/random_block.h"
#include "engine/run/speculate/device_step.h"
#include "kernels/ops.h"

namespace versieve::test {

inline constexpr std::int64_t kDecodeBlock = (1 << 18) - 6;  // random numbers that are repeated

// Norm weights around 1, unlike each other; matrices of variance 1 / inputs.
template <class T>
engine::TargetWeights<T> decode_weights(kernels::Ops<T>& ops, const LlmShape& shape,
                                        bool learned_positions = true) {
  engine::RandomBlock<T> block(17, kDecodeBlock);
  const auto normal = [&](std::int64_t count, double scale) {
    kernels::OpsBuffer<T> buffer(ops, count);
    block.fill(ops, buffer.data(), count, scale);
    return buffer;
  };
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return normal(rows * columns, 1.0 / std::sqrt(static_cast<double>(columns)));
  };
  double turn = 0.0;
  const auto norm = [&] {
    std::vector<T> values;
    for (std::int64_t i = 0; i < shape.hidden; ++i) {
      turn += 0.7;
      values.push_back(engine::rounded_to<T>(1.0 + 0.25 * std::sin(turn)));
    }
    return kernels::OpsBuffer<T>(ops, values);
  };
  engine::TargetWeights<T> weights{.embedding = matrix(shape.vocab, shape.hidden),
                                   .norm = norm(),
                                   .head = matrix(shape.vocab, shape.hidden)};
  const std::int64_t joint = joint_rows(shape);
  const std::int64_t pooled = shape.num_kv_heads * shape.nsa.cmp_block;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    engine::LayerWeights<T> w;
    w.input_norm = norm();
    w.joint = matrix(joint, shape.hidden);
    w.output = matrix(shape.hidden, shape.q_width());
    w.compress_key = normal(pooled, 0.2);
    w.compress_value = normal(pooled, 0.2);
    if (learned_positions) {
      w.intra_block_pe = normal(pooled * shape.head_dim, 0.3);
    }
    w.post_norm = norm();
    w.mlp_gate_up = matrix(2 * shape.intermediate, shape.hidden);
    w.mlp_down = matrix(shape.hidden, shape.intermediate);
    weights.layers.push_back(std::move(w));
  }
  return weights;
}

// Random rows of every kind for that many tokens; the length stays. With compressed keys of 0 most
// blocks are equally important.
template <class T>
void fill_caches(kernels::Ops<T>& ops, engine::Target<T>& target, std::int64_t tokens,
                 double compressed_keys = 1.0) {
  engine::KvCache<T>& cache = target.cache();
  cache.reserve(tokens);
  engine::RandomBlock<T> block(23, kDecodeBlock);
  const std::int64_t width = target.shape().kv_width();
  for (std::int64_t layer = 0; layer < target.shape().layers; ++layer) {
    block.fill(ops, cache.k(layer), tokens * width, 1.0);
    block.fill(ops, cache.v(layer), tokens * width, 1.0);
    if (cache.keeps_raw_keys()) {
      block.fill(ops, cache.k_raw(layer), tokens * width, 1.0);
    }
    const std::int64_t compressed = compressed_count(target.shape().nsa, tokens) * width;
    if (compressed > 0) {
      block.fill(ops, cache.k_cmp(layer), compressed, compressed_keys);
      block.fill(ops, cache.v_cmp(layer), compressed, 1.0);
    }
  }
}

class DecodeLaunches final : public kernels::LaunchObserver {
 public:
  void launch_begins(const char* name, const Traffic&) override {
    count_ += std::string(name) == "decode_layers" ? 1 : 0;
  }
  void launch_ends(const char*) override {}
  int count() const { return count_; }

 private:
  int count_ = 0;
};

struct DecodeShape {
  LlmShape llm;
  std::vector<std::int64_t> capture_layers;
  bool learned_positions = true;
};

template <class T>
class DecodePair {
 public:
  // Contexts and steps up to `max_tokens`.
  DecodePair(kernels::Ops<T>& ops, const DecodeShape& shape, std::int64_t max_tokens,
             double compressed_keys = 1.0)
      : ops_(&ops), one_(make(shape)), many_(make(shape)), max_tokens_(max_tokens) {
    fill_caches(ops, one_, max_tokens, compressed_keys);
    fill_caches(ops, many_, max_tokens, compressed_keys);
  }

  engine::Target<T>& one() { return one_; }

  // Steps after the context's first `context_len` tokens, with sizes of the host. Returns how often
  // the one launch ran. Shorter contexts after longer ones: steps overwrite rows.
  int led(std::int64_t context_len, const std::string& schedule, int steps) {
    INFO("context " << context_len << ", schedule " << schedule << ", led by the host");
    begin(context_len, steps);
    int launches = 0;
    for (int step = 0; step < steps; ++step) {
      INFO("step " << step);
      const std::int32_t token =
          static_cast<std::int32_t>((7 * context_len + 13 * step + 3) % one_.shape().vocab);
      CHECK(observed([&] { verify(many_, token, {.schedule = schedule, .one_launch = false}); }) ==
            0);
      launches += observed([&] { verify(one_, token, {.schedule = schedule}); });
      check_step();
      commit(one_);
      commit(many_);
    }
    check_caches(context_len);
    return launches;
  }

  // The same in recordings, each step's token the one before's choice; what steps leave is compared
  // at every `every`-th. Returns how often the one launch was enqueued, which is once plainly and
  // once into each recording.
  int recorded(std::int64_t context_len, const std::string& schedule, int steps, int every = 1) {
    INFO("context " << context_len << ", schedule " << schedule << ", recorded");
    begin(context_len, steps);
    engine::DeviceStepRunner<T> one = runner(one_, schedule, true);
    engine::DeviceStepRunner<T> many = runner(many_, schedule, false);
    one.begin(start(context_len, steps));
    many.begin(start(context_len, steps));
    int launches = 0;
    for (int step = 0; step < steps; ++step) {
      INFO("step " << step);
      CHECK(observed([&] { many.launch(); }) == 0);
      launches += observed([&] { one.launch(); });
      const kernels::StepYield chosen = many.wait();
      REQUIRE(one.wait().token[0] == chosen.token[0]);
      if (step % every == 0) {
        check_step();
      }
    }
    one_.cache().set_length(one.length());
    many_.cache().set_length(many.length());
    check_caches(context_len);
    return launches;
  }

  // Recordings of two schedules, replayed in turn with led steps between them: each keeps what it
  // was made with.
  void check_turns(std::int64_t context_len, const std::string& first, const std::string& second) {
    constexpr int kSteps = 12;
    begin(context_len, kSteps);
    const std::string schedules[] = {first, second};
    engine::DeviceStepRunner<T> one[] = {runner(one_, first, true), runner(one_, second, true)};
    engine::DeviceStepRunner<T> many[] = {runner(many_, first, false),
                                          runner(many_, second, false)};
    for (int i = 0; i < 2; ++i) {
      one[i].begin(start(context_len, kSteps));
      many[i].begin(start(context_len, kSteps));
    }
    for (int step = 0; step < kSteps; ++step) {
      const int turn = step / 2 % 2;
      INFO("step " << step << ", schedule " << schedules[turn]);
      one[turn].launch();
      many[turn].launch();
      REQUIRE(one[turn].wait().token[0] == many[turn].wait().token[0]);
      check_step();
      verify(one_, 1, {.schedule = schedules[1 - turn]});
      verify(many_, 1, {.schedule = schedules[1 - turn], .one_launch = false});
      check_step();
    }
    one_.cache().set_length(context_len + kSteps / 2);  // what either schedule appended
    many_.cache().set_length(context_len + kSteps / 2);
    check_caches(context_len);
  }

 private:
  engine::Target<T> make(const DecodeShape& shape) {
    return {*ops_, shape.llm, decode_weights(*ops_, shape.llm, shape.learned_positions),
            shape.capture_layers};
  }
  engine::DeviceStepRunner<T> runner(engine::Target<T>& target, const std::string& schedule,
                                     bool one_launch) {
    return {*ops_, target, nullptr, {.verify = {.schedule = schedule, .one_launch = one_launch}}};
  }
  typename engine::DeviceStepRunner<T>::Start start(std::int64_t context_len, int steps) const {
    return {.context_len = context_len, .token = 1, .max_context = context_len + steps + 1};
  }

  void begin(std::int64_t context_len, int steps) {
    REQUIRE(context_len + steps + 8 <= max_tokens_);
    one_.cache().set_length(context_len);
    many_.cache().set_length(context_len);
  }
  static void verify(engine::Target<T>& target, std::int32_t token,
                     const engine::VerifyOptions& options) {
    target.verify(engine::chain_tree({token}), options);
  }
  static void commit(engine::Target<T>& target) {
    const std::int32_t root = 0;
    target.commit({&root, 1});
  }
  template <class Work>
  int observed(const Work& work) {
    DecodeLaunches launches;
    ops_->set_observer(&launches);
    work();
    ops_->set_observer(nullptr);
    return launches.count();
  }

  std::vector<T> rows(const T* from, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    ops_->download(values.data(), from, values.size() * sizeof(T));
    return values;
  }
  bool same(const T* a, const T* b, std::int64_t count) const {
    if (count == 0) {  // of a cache that keeps no such rows
      return true;
    }
    const std::vector<T> left = rows(a, count), right = rows(b, count);
    return std::memcmp(left.data(), right.data(), left.size() * sizeof(T)) == 0;
  }

  void check_step() {
    const LlmShape& shape = one_.shape();
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
      INFO("layer " << layer);
      CHECK(one_.selected_blocks(layer) == many_.selected_blocks(layer));
    }
    const std::vector<T> one = one_.hidden_states(), many = many_.hidden_states();
    CHECK(std::memcmp(one.data(), many.data(), many.size() * sizeof(T)) == 0);
    CHECK(same(one_.captured(), many_.captured(), 3 * shape.hidden));
    REQUIRE(same(one_.logits(), many_.logits(), shape.vocab));
  }

  // What the steps appended, and some rows before it.
  void check_caches(std::int64_t first) {
    engine::KvCache<T>& a = one_.cache();
    engine::KvCache<T>& b = many_.cache();
    REQUIRE(a.length() == b.length());
    const LlmShape& shape = one_.shape();
    const std::int64_t width = shape.kv_width();
    const std::int64_t from = std::max<std::int64_t>(first - 64, 0);
    const std::int64_t compressed = compressed_count(shape.nsa, from);
    const std::int64_t count = (a.length() - from) * width;
    const std::int64_t cmp_count = (a.compressed_length() - compressed) * width;
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
      INFO("cache of layer " << layer);
      const auto equal = [&](const T* x, const T* y, std::int64_t row, std::int64_t values) {
        return same(x + row * width, y + row * width, values);
      };
      CHECK(equal(a.k(layer), b.k(layer), from, count));
      CHECK(equal(a.v(layer), b.v(layer), from, count));
      CHECK((!a.keeps_raw_keys() || equal(a.k_raw(layer), b.k_raw(layer), from, count)));
      CHECK(equal(a.k_cmp(layer), b.k_cmp(layer), compressed, cmp_count));
      CHECK(equal(a.v_cmp(layer), b.v_cmp(layer), compressed, cmp_count));
    }
  }

  kernels::Ops<T>* ops_;
  engine::Target<T> one_, many_;
  std::int64_t max_tokens_;
};

}  // namespace versieve::test
