// A draft's levels in one launch: is the tree, and are the cache rows, bit for bit those of the
// launches that it replaces, and what does it take?
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstdio>
#include <numeric>
#include <random>

#include "engine/run/model/synthetic.h"
#include "model/launches/draft_levels.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/support/draft_tree_case.h"

namespace versieve::engine {
namespace {

struct DraftCase {
  std::int64_t hidden = 320, intermediate = 1280, heads = 8, kv_heads = 2, vocab = 272;
  std::int64_t window = 512;
  std::int64_t draft_vocab = 0;  // 0: the target's
};

LlmShape target_of(const DraftCase& c) {
  LlmShape shape = named_llm_shape("demo");
  shape.hidden = c.hidden;
  shape.num_heads = c.heads;
  shape.num_kv_heads = c.kv_heads;
  shape.vocab = c.vocab;
  shape.layers = 1;
  return shape;
}

DraftShape draft_of(const DraftCase& c) {
  DraftShape shape = draft_shape_for(target_of(c));
  shape.intermediate = c.intermediate;
  shape.window = c.window;
  shape.vocab = c.draft_vocab > 0 ? c.draft_vocab : c.vocab;
  shape.capture_layers[0] = shape.capture_layers[1] = shape.capture_layers[2] = 0;
  return shape;
}

// A draft and the lists of its steps in device memory; steps launch by launch or in one.
class Runner {
 public:
  Runner(kernels::Ops<Bf16>& ops, const DraftCase& c, const DraftChoice& choice, bool one_launch)
      : ops_(&ops),
        choice_(choice),
        one_launch_(one_launch),
        levels_(choice.levels()),
        entries_(levels_ + 1),
        target_(make_synthetic_target(ops, target_of(c), draft_of(c), 3)),
        draft_(make_synthetic_draft(ops, draft_of(c), target_, 4)),
        branch_(std::min(choice.width, draft_.shape().vocab)),
        slots_(std::max(1 + (levels_ - 1) * choice.width, entries_)),
        state_(ops, 1),
        entry_(ops, 3 * entries_),
        slot_parent_(ops, slots_),
        slot_position_(ops, slots_),
        identity_(ops, counted(slots_)),
        node_token_(ops, choice.width),
        top_index_(ops, choice.width * branch_),
        top_score_(ops, choice.width * branch_),
        captured_(ops, test::random_elements<Bf16>(kCapturedRows * 3 * c.hidden, 5)) {
    if (draft_.has_own_vocabulary()) {
      std::vector<std::int32_t> tokens;
      for (std::int64_t i = 0; i < draft_.shape().vocab; ++i) {
        tokens.push_back(draft_.target_token(static_cast<std::int32_t>(i)));
      }
      target_token_ = kernels::OpsBuffer<Bf16, std::int32_t>(ops, tokens);
    }
  }

  static constexpr std::int64_t kCapturedRows = 19;

  // Entries of a step: `count` of them true, the others beyond the newest, at position L.
  void start(std::int64_t context_len, std::int64_t count, std::uint64_t seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto below = [&](std::int64_t end) {
      return static_cast<std::int32_t>(random() % static_cast<unsigned>(end));
    };
    draft_.reserve_device(context_len + 2 * entries_ + 1, std::max(choice_.width, entries_),
                          slots_);
    std::vector<std::int32_t> ints;
    for (std::int64_t i = 0; i < entries_; ++i) {
      ints.push_back(below(target_.shape().vocab));
    }
    for (std::int64_t i = 0; i < entries_; ++i) {
      ints.push_back(i < count ? below(kCapturedRows) : 0);
    }
    for (std::int64_t i = 0; i < entries_; ++i) {
      const std::int64_t past = i == 0 || i >= count ? i : i - count;
      ints.push_back(static_cast<std::int32_t>(context_len + past));
    }
    ops_->upload(entry_.data(), ints.data(), ints.size() * sizeof(std::int32_t));
    kernels::StepState state;
    state.counts.context_len = static_cast<std::int32_t>(context_len);
    ops_->upload(state_.data(), &state, sizeof state);
    std::vector<std::int32_t> roots(static_cast<std::size_t>(slots_), -1);
    ops_->upload(slot_parent_.data(), roots.data(), roots.size() * sizeof(std::int32_t));
    bound_ = context_len;
  }
  void enqueue() {
    const Draft<Bf16>::DeviceEntries entries{.rows = entries_,
                                             .token = entry_.data(),
                                             .row = entry_.data() + entries_,
                                             .position = entry_.data() + 2 * entries_};
    if (one_launch_) {
      REQUIRE(draft_.try_grow_device({.choice = choice_,
                                      .target_token = target_token_.data(),
                                      .state = state_.data(),
                                      .max_context = bound_},
                                     entries, captured_.data(), target_.shape().vocab));
      return;
    }
    const Draft<Bf16>::DeviceSlots slots{.counts = &state_.data()->counts,
                                         .max_context = bound_,
                                         .identity = identity_.data(),
                                         .parent = slot_parent_.data(),
                                         .position = slot_position_.data()};
    draft_.extend_device(slots, entries, captured_.data());
    for (std::int64_t level = 0; level < levels_; ++level) {
      if (level > 0) {
        draft_.step_device(slots, 1 + (level - 1) * choice_.width, choice_.width,
                           node_token_.data());
      }
      ops_->grow_tree_from({.rows = level == 0 ? 1 : choice_.width,
                            .vocab = draft_.shape().vocab,
                            .k = branch_,
                            .logits = draft_.logits(),
                            .index = top_index_.data(),
                            .log_probability = top_score_.data()},
                           {.choice = choice_,
                            .branch = branch_,
                            .level = level,
                            .index = top_index_.data(),
                            .log_probability = top_score_.data(),
                            .target_token = target_token_.data(),
                            .state = state_.data(),
                            .node_token = node_token_.data(),
                            .slot_parent = slot_parent_.data(),
                            .slot_position = slot_position_.data()});
    }
  }
  kernels::TreePool pool() {
    kernels::StepState state;
    ops_->download(&state, state_.data(), sizeof state);
    return state.pool;
  }
  // Rows of the draft's cache, keys and values.
  std::vector<std::uint16_t> cache(std::int64_t rows) {
    const std::size_t count =
        static_cast<std::size_t>(rows * draft_.shape().num_kv_heads * draft_.shape().head_dim);
    std::vector<std::uint16_t> bits(2 * count);
    ops_->download(bits.data(), draft_.k(), count * sizeof(Bf16));
    ops_->download(bits.data() + count, draft_.v(), count * sizeof(Bf16));
    return bits;
  }
  Draft<Bf16>& draft() { return draft_; }

 private:
  static std::vector<std::int32_t> counted(std::int64_t count) {
    std::vector<std::int32_t> list(static_cast<std::size_t>(count));
    std::iota(list.begin(), list.end(), 0);
    return list;
  }

  kernels::Ops<Bf16>* ops_;
  DraftChoice choice_;
  bool one_launch_;
  std::int64_t levels_, entries_;
  Target<Bf16> target_;
  Draft<Bf16> draft_;
  std::int64_t branch_, slots_;
  std::int64_t bound_ = 0;
  kernels::OpsBuffer<Bf16, kernels::StepState> state_;
  kernels::OpsBuffer<Bf16, std::int32_t> entry_, slot_parent_, slot_position_, identity_,
      node_token_, top_index_, target_token_;
  kernels::OpsBuffer<Bf16, float> top_score_;
  kernels::OpsBuffer<Bf16> captured_;
};

template <class E>
std::vector<E> first(const E (&values)[kernels::kMaxTreeNodes - 1], std::int32_t count) {
  return {values, values + count};
}

void check_pools(const kernels::TreePool& one, const kernels::TreePool& many) {
  REQUIRE(one.count == many.count);
  CHECK(first(one.parent, one.count) == first(many.parent, many.count));
  CHECK(first(one.depth, one.count) == first(many.depth, many.count));
  CHECK(first(one.token, one.count) == first(many.token, many.count));
  std::vector<std::uint32_t> bits[2];
  for (std::int32_t i = 0; i < one.count; ++i) {
    bits[0].push_back(std::bit_cast<std::uint32_t>(one.log_probability[i]));
    bits[1].push_back(std::bit_cast<std::uint32_t>(many.log_probability[i]));
  }
  CHECK(bits[0] == bits[1]);
}

// Three steps, led and recorded.
void check_draft(kernels::Ops<Bf16>& ops, const DraftCase& c, const DraftChoice& choice,
                 std::int64_t context_len) {
  INFO("hidden " << c.hidden << ", " << c.heads << "/" << c.kv_heads << " heads, vocabulary "
                 << c.vocab << " (draft " << draft_of(c).vocab << "), d" << choice.depth << "k"
                 << choice.width << "n" << choice.nodes << ", L " << context_len);
  REQUIRE(drafts_in_one_launch(draft_of(c), c.vocab, choice));
  Runner many(ops, c, choice, false);
  Runner one(ops, c, choice, true);
  for (Runner* runner : {&many, &one}) {
    runner->draft().reserve(context_len + 100);
    fill_context(ops, runner->draft(), context_len, 6);
  }
  const std::int64_t entries = kernels::longest_path(choice);
  std::unique_ptr<kernels::Recording> recording;
  for (std::uint64_t step = 0; step < 4; ++step) {
    const std::int64_t count =
        std::min(context_len, 1 + static_cast<std::int64_t>(step) * (entries - 1) / 3);
    for (Runner* runner : {&many, &one}) {
      runner->start(context_len, count, 10 * step + 1);
    }
    many.enqueue();
    if (step < 2) {
      one.enqueue();
    } else {
      recording = ops.record([&] { one.enqueue(); });
      recording->launch();
    }
    ops.synchronize();
    check_pools(one.pool(), many.pool());
    CHECK(one.cache(context_len + 1) == many.cache(context_len + 1));
    context_len += 1 + static_cast<std::int64_t>(step) * 37;
    // What lies between the last entries and the new ones is never read: the same on both sides.
    for (Runner* runner : {&many, &one}) {
      runner->draft().reserve(context_len + 100);
      fill_context(ops, runner->draft(), context_len, 6);
    }
  }
}

TEST_CASE("a draft's levels in one launch grow the launches' tree", "[draft_levels][long]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  for (const DraftChoice& choice :
       {DraftChoice{10, 4, 32}, DraftChoice{6, 8, 64}, DraftChoice{7, 1, 8}, DraftChoice{1, 1, 2},
        DraftChoice{1, 8, 9}, DraftChoice{15, 8, 256}, DraftChoice{4, 3, 7},
        DraftChoice{9, 7, 12}}) {
    for (const std::int64_t context_len : {1, 70, 511, 1900}) {
      check_draft(*ops, {}, choice, context_len);
    }
  }
}

TEST_CASE("other drafts' levels in one launch grow the launches' tree", "[draft_levels][long]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  for (const DraftCase& c :
       {DraftCase{.hidden = 256, .intermediate = 512, .heads = 4, .kv_heads = 4, .vocab = 100},
        DraftCase{.hidden = 384, .intermediate = 1024, .heads = 4, .kv_heads = 1, .vocab = 1000},
        DraftCase{.hidden = 384, .intermediate = 192, .heads = 6, .kv_heads = 2, .vocab = 271},
        DraftCase{.window = 64}, DraftCase{.vocab = 5}, DraftCase{.draft_vocab = 100},
        DraftCase{.vocab = 1000, .draft_vocab = 300}}) {
    for (const DraftChoice& choice : {DraftChoice{5, 4, 24}, DraftChoice{11, 6, 40}}) {
      for (const std::int64_t context_len : {33, 700}) {
        check_draft(*ops, c, choice, context_len);
      }
    }
  }
}

TEST_CASE("a draft's levels under the sanitizer", "[draft_levels][race]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  check_draft(*ops, {}, {4, 4, 20}, 600);
  check_draft(*ops, {}, {3, 8, 30}, 40);
}

TEST_CASE("what a draft's levels take in one launch", "[draft_levels][timing]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  for (const DraftChoice& choice :
       {DraftChoice{7, 1, 8}, DraftChoice{5, 4, 32}, DraftChoice{10, 4, 32}, DraftChoice{6, 8, 64},
        DraftChoice{10, 8, 64}, DraftChoice{14, 8, 64}}) {
    double us[2];
    for (const bool one_launch : {false, true}) {
      Runner runner(*ops, {}, choice, one_launch);
      runner.draft().reserve(2000);
      fill_context(*ops, runner.draft(), 1800, 6);
      runner.start(1800, 4, 1);
      us[one_launch ? 1 : 0] = test::us_each(*ops, 20, [&] { runner.enqueue(); });
    }
    std::printf("draft levels d%lldk%lldn%lld: launch by launch %.1f us, in one %.1f us\n",
                static_cast<long long>(choice.depth), static_cast<long long>(choice.width),
                static_cast<long long>(choice.nodes), us[0], us[1]);
    CHECK(us[1] < us[0]);
  }
}

}  // namespace
}  // namespace versieve::engine
