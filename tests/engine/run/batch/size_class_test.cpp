// Steps that idle requests fill up to a size class: does nobody notice?
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/run/batch/batch_memory.h"
#include "engine/run/model/idle_sequences.h"
#include "engine/run/model/kv_pool.h"
#include "tests/engine/run/batch/batch_cases.h"
#include "tests/engine/run/read_prompt_case.h"

namespace versieve::engine {
namespace {

TEST_CASE("a class adds at most a third and fewer than 64 nodes, and is its own") {
  const auto classes = [](std::int64_t nodes, std::int64_t last) {
    std::vector<std::int64_t> all;
    for (std::int64_t count = 1; count <= last; ++count) {
      if (size_class(count, nodes) == count) {
        all.push_back(count);
      }
    }
    return all;
  };
  CHECK(classes(1, 128) == std::vector<std::int64_t>{1,  2,  3,  4,  6,  8,  12, 16,  20,  24,
                                                     28, 32, 40, 48, 56, 64, 80, 96, 112, 128});
  // At 16 nodes multiples of four, above 32 every number.
  CHECK(classes(16, 24) == std::vector<std::int64_t>{1, 2, 3, 4, 6, 8, 12, 16, 20, 24});
  CHECK(classes(16, 48).size() == 10 + 6);
  CHECK(classes(64, 100).size() == 100);
  for (std::int64_t nodes = 1; nodes <= 256; ++nodes) {
    for (std::int64_t count = 1; count <= 130; ++count) {
      const std::int64_t own = size_class(count, nodes);
      CAPTURE(nodes, count, own);
      REQUIRE(own >= count);
      REQUIRE(3 * own <= 4 * count);
      REQUIRE((own - count) * nodes < 64);
      REQUIRE(size_class(own, nodes) == own);
      REQUIRE(size_class(count + 1, nodes) >= own);
      REQUIRE((count > kLeastClasses || own == count));
    }
  }
}

void say(const char* what, const tiny::BatchTally& tally) {
  std::printf("%s: %d of %d requests identical, %d steps filled up\n", what, tally.identical,
              tally.requests, static_cast<int>(tally.steps_padded));
}

TEMPLATE_TEST_CASE("a request's text is the same alone and in steps that are filled up, nsa", "",
                   float, Bf16) {
  tiny::Engine<TestType> engine;
  const tiny::BatchTally tally = tiny::compare_padded_batches(
      engine, tiny::batch_strategies(engine.target.shape()), 8, 80, 51);
  CHECK(tally.identical == tally.requests);
  CHECK(tally.steps_padded > 20);
  CHECK(tally.steps_ahead > 0);
  CHECK(tally.yielded > tally.steps);
  CHECK(tally.shared_tokens > 0);
  say("nsa", tally);
}

TEMPLATE_TEST_CASE("a request's text is the same alone and in steps that are filled up, dense", "",
                   float, Bf16) {
  const std::vector<std::string> dense = {"dense/ar", "dense/d4k3n12/bfs/c1/F*",
                                          "dense/d6k1n7/bfs/c1/F*", "dense/d3k4n16/dfs/c1/F*"};
  SECTION("a draft head") {
    tiny::Engine<TestType> engine(tiny::shape(AttentionKind::kDense));
    const tiny::BatchTally tally = tiny::compare_padded_batches(engine, dense, 6, 80, 52);
    CHECK(tally.identical == tally.requests);
    CHECK(tally.steps_padded > 20);
    CHECK(tally.steps_ahead > 0);
    CHECK(tally.yielded > tally.steps);
    say("dense, a draft head", tally);
  }
  SECTION("a draft model") {
    tiny::DenseEngine<TestType> engine(11);
    const tiny::BatchTally tally = tiny::compare_padded_batches(engine, dense, 5, 80, 53);
    CHECK(tally.identical == tally.requests);
    CHECK(tally.steps_padded > 5);
    CHECK(tally.yielded > tally.steps);
    say("dense, a draft model", tally);
  }
  SECTION("SpecAttn beside dense chains") {
    tiny::ChoosingEngine<TestType> engine(12);
    const tiny::BatchTally tally = tiny::compare_padded_batches(
        engine, {"specattn:p0.05/d4k1n5/bfs/c1/F*", "specattn:p0.1/d6k1n7/bfs/c1/F*", dense[2]}, 5,
        80, 54);
    CHECK(tally.identical == tally.requests);
    CHECK(tally.steps_padded > 10);
    CHECK(tally.choosing > 20);
    CHECK(tally.reads_saved > 0.05 * tally.choosing);
    say("SpecAttn", tally);
  }
  SECTION("who chooses tokens is left as it is") {
    tiny::Engine<TestType> engine(tiny::shape(AttentionKind::kDense));
    const tiny::BatchTally tally = tiny::compare_padded_batches(
        engine, tiny::batch_strategies(engine.target.shape()), 4, 80, 55);
    CHECK(tally.identical == tally.requests);
    say("all classes of a dense target", tally);
  }
}

// Their idle requests' contexts are 2,048 and 1,024 tokens, all in one page.
TEST_CASE("contexts beyond the first bound have the same text in steps that are filled up") {
  const auto [attention, length] =
      GENERATE(std::pair(AttentionKind::kNsa, 2050), std::pair(AttentionKind::kDense, 1030));
  tiny::Engine<float> engine(tiny::shape(attention));
  const bool dense = attention == AttentionKind::kDense;
  std::vector<BatchRequest> requests;
  for (std::int64_t i = 0; i < 6; ++i) {
    requests.push_back(
        {.prompt = tiny::prompt(length + 3 * i, static_cast<std::uint64_t>(i)),
         .options = tiny::options(dense ? "dense/d4k1n5/bfs/c1/F*" : "nsa/d4k1n5/bfs/c4e/FRR",
                                  i == 0 ? 5 : 40)});
  }
  tiny::BatchTally tally;
  tiny::compare_batch(engine, requests,
                      {.concurrency = 6,
                       .pages = 6 * pages_of(length + 100),
                       .prefill_rows = 9000,
                       .padding = Padding::kAlways},
                      6, tally);
  CHECK(tally.identical == tally.requests);
  CHECK(tally.steps_padded > 2);
}

// Five sequences with trees over contexts in a pool, without idle ones and with one.
template <class T>
struct Five {
  Five(tiny::Engine<T>& engine, std::int64_t context, bool has_idle)
      : pool(*engine.ops, engine.target.shape(), nullptr, 5 * pages_of(context + 40), 5, 3,
             has_idle) {
    std::mt19937_64 random(9);
    for (std::int64_t i = 0; i < 5; ++i) {
      caches.push_back(pool.cache_in(pool.take(pages_of(context + 40))));
      trees.push_back(tiny::random_tree(9, 5, 3, random));
    }
  }
  std::vector<SequencePart<T>> parts() {
    std::vector<SequencePart<T>> all;
    for (std::size_t i = 0; i < caches.size(); ++i) {
      all.push_back({.tree = trees[i], .options = {}, .cache = &caches[i]});
    }
    return all;
  }

  KvPool<T> pool;
  std::vector<KvCache<T>> caches;
  std::vector<DraftTree> trees;
};

template <class T>
std::vector<T> read(kernels::Ops<T>& ops, const T* from, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  ops.download(values.data(), from, values.size() * sizeof(T));
  return values;
}

// All rows of keys and values in the pool.
template <class T>
std::vector<std::vector<T>> pool_rows(kernels::Ops<T>& ops, const LlmShape& shape,
                                      const KvRows<T>& rows) {
  std::vector<std::vector<T>> all;
  for (const T* const from : {rows.k, rows.v, rows.k_raw}) {
    if (from != nullptr) {
      all.push_back(read(ops, from, shape.layers * rows.layer_rows * shape.kv_width()));
    }
  }
  for (const T* const from : {rows.k_cmp, rows.v_cmp}) {
    if (from != nullptr) {
      all.push_back(read(ops, from, shape.layers * rows.cmp_layer_rows * shape.kv_width()));
    }
  }
  return all;
}

TEMPLATE_TEST_CASE("an idle sequence leaves each row of others and of the pool as it is", "",
                   float, Bf16) {
  const auto attention = GENERATE(AttentionKind::kNsa, AttentionKind::kDense);
  tiny::Engine<TestType> engine(tiny::shape(attention));
  Target<TestType>& target = engine.target;
  const std::int64_t vocab = target.shape().vocab, wide = 3 * target.shape().hidden;
  std::vector<std::vector<TestType>> logits, captured;
  for (const bool has_idle : {false, true}) {
    Five<TestType> five(engine, 150, has_idle);
    IdleSequences<TestType> idle(
        has_idle ? five.pool.idle_cache() : five.pool.cache_in({.place = 0}), 8, true);
    std::vector<std::vector<std::int32_t>> paths;
    std::vector<SequencePart<TestType>> prompts;
    for (std::size_t i = 0; i < 5; ++i) {
      const std::vector<std::int32_t> prompt =
          tiny::prompt(100 + 9 * static_cast<std::int64_t>(i), i);
      prompts.push_back({.tree = chain_tree(prompt), .options = {}, .cache = &five.caches[i]});
      paths.push_back(path_to(prompts.back().tree, static_cast<std::int32_t>(prompt.size()) - 1));
    }
    target.verify_batch(prompts);
    target.commit_batch(paths);
    const KvRows<TestType>& rows = five.caches[0].rows();
    const auto before = pool_rows(*engine.ops, target.shape(), rows);
    target.verify_batch(five.parts(), has_idle ? &idle : nullptr);
    CHECK(idle.added() == (has_idle ? 1 : 0));
    CHECK(target.node_count() == (has_idle ? 54 : 45));
    CHECK(target.logits_rows() == 45);
    CHECK(target.logits_row(4) == 36);
    const auto after = pool_rows(*engine.ops, target.shape(), rows);
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(tiny::same_bits(before[i], after[i]));  // no node has gone to a page yet
    }
    logits.push_back(read(*engine.ops, target.logits(), 45 * vocab));
    captured.push_back(read(*engine.ops, target.captured(), 45 * wide));
    paths.assign(5, {0});
    target.commit_batch(paths);  // of five
    if (has_idle) {              // zeros to the end, of all layers
      const std::int64_t width = target.shape().kv_width();
      const std::vector<TestType> zeros(static_cast<std::size_t>(kPageTokens * width));
      for (std::int64_t layer = 0; layer < target.shape().layers; ++layer) {
        const TestType* const page = rows.k + ((layer + 1) * rows.layer_rows - kPageTokens) * width;
        CHECK(tiny::same_bits(read(*engine.ops, page, kPageTokens * width), zeros));
      }
      CHECK(five.caches[0].row_of(0) != rows.layer_rows - kPageTokens);
    }
  }
  CHECK(tiny::same_bits(logits[0], logits[1]));
  CHECK(tiny::same_bits(captured[0], captured[1]));
}

// Contexts of 1,100 tokens, all of whose rows are no numbers: an idle sequence reads none of them.
TEST_CASE("an idle sequence reads no row of others") {
  const auto attention = GENERATE(AttentionKind::kNsa, AttentionKind::kDense);
  tiny::Engine<float> engine(tiny::shape(attention));
  Target<float>& target = engine.target;
  Five<float> five(engine, 1100, true);
  IdleSequences<float> idle(five.pool.idle_cache(), 8, true);
  const KvRows<float>& rows = five.caches[0].rows();
  const std::int64_t width = target.shape().kv_width();
  const auto spoil = [&](float* from, std::int64_t layer_rows) {  // all but the idle page
    if (from != nullptr) {
      const std::vector<float> none(static_cast<std::size_t>((layer_rows - kPageTokens) * width),
                                    std::numeric_limits<float>::quiet_NaN());
      for (std::int64_t layer = 0; layer < target.shape().layers; ++layer) {
        engine.ops->upload(from + layer * layer_rows * width, none.data(),
                           none.size() * sizeof(float));
      }
    }
  };
  for (float* const from : {rows.k, rows.v, rows.k_raw}) {
    spoil(from, rows.layer_rows);
  }
  for (float* const from : {rows.k_cmp, rows.v_cmp}) {
    spoil(from, rows.cmp_layer_rows);
  }
  for (KvCache<float>& cache : five.caches) {
    cache.set_length(1100);
  }
  target.verify_batch(five.parts(), &idle);
  REQUIRE(target.node_count() == 54);
  const std::int64_t vocab = target.shape().vocab;
  const std::vector<float> logits = read(*engine.ops, target.logits(), 54 * vocab);
  const auto own = logits.begin() + 45 * vocab;
  const auto is_finite = [](float x) { return std::isfinite(x); };
  CHECK(std::all_of(own, logits.end(), is_finite));
  CHECK(std::none_of(logits.begin(), own, is_finite));
}

TEST_CASE("what steps lack is added kind by kind, into places that are free") {
  tiny::Engine<float> engine;
  KvPool<float> pool(*engine.ops, engine.target.shape(), nullptr, 100, 60, 0, true);
  std::vector<KvCache<float>> caches;
  caches.reserve(60);
  const auto cache = [&] {
    caches.push_back(pool.cache_in(pool.take(1)));
    return &caches.back();
  };
  const auto some = [&](std::size_t count, std::int64_t nodes) {
    std::vector<SequencePart<float>> parts;
    std::mt19937_64 random(2);
    while (parts.size() < count) {
      parts.push_back({.tree = tiny::random_tree(nodes, 4, 1, random),
                       .options = {},
                       .cache = caches.size() < 60 ? cache() : caches.data()});
    }
    return parts;
  };
  const auto filled = [&](std::vector<SequencePart<float>> parts, std::int64_t places) {
    IdleSequences<float> idle(pool.idle_cache(), places, true);
    const std::size_t live = parts.size();
    idle.fill(parts);
    CHECK(idle.added() == std::ssize(parts) - static_cast<std::int64_t>(live));
    CHECK(idle.filled() == (parts.size() > live ? 1 : 0));
    return parts.size();
  };
  const auto with = [](std::vector<SequencePart<float>> parts,
                       const std::vector<SequencePart<float>>& more) {
    parts.insert(parts.end(), more.begin(), more.end());
    return parts;
  };
  CHECK(filled(some(9, 8), 20) == 12);
  CHECK(filled(some(9, 8), 10) == 10);  // all places are a class, too
  CHECK(filled(some(9, 8), 9) == 9);
  CHECK(filled(some(12, 8), 20) == 12);
  CHECK(filled(some(17, 16), 40) == 20);
  CHECK(filled(some(17, 64), 40) == 17);
  CHECK(filled(with(some(9, 8), some(5, 1)), 40) == 12 + 6);
  CHECK(filled(with(some(9, 8), some(5, 1)), 15) == 9 + 6);  // no room for three more
  CHECK(filled(with(with(some(9, 8), some(5, 1)), some(5, 3)), 40) == 19);
  std::vector<SequencePart<float>> parts = some(9, 8);
  parts[3].of_prompt = true;
  CHECK(filled(parts, 20) == 9);
  parts[3].of_prompt = false;
  parts[4].options.no_logits = true;
  CHECK(filled(parts, 20) == 9);
  parts[4].options = {};
  parts[8].options.form = NsaForm::kVanilla;
  CHECK(filled(parts, 20) == 9);
  parts[8].options = {};
  parts[8].options.index = IndexSelection{};
  CHECK(filled(parts, 20) == 9);
  parts[8].options = {};
  CHECK(filled(parts, 20) == 12);

  IdleSequences<float> idle(pool.idle_cache(), 20, false);
  idle.learn(true);
  idle.fill(parts);
  CHECK(parts.size() == 12);
  idle.learn(false);  // no such step is recorded
  parts.resize(9);
  idle.fill(parts);
  CHECK(parts.size() == 9);
}

TEST_CASE("idle requests' page is counted before pages are taken") {
  tiny::Engine<float> engine;
  BatchRequest request{.prompt = tiny::prompt(50), .options = tiny::options("nsa/ar", 40)};
  const std::vector<BatchRequest> requests(6, request);
  SessionOptions options{.concurrency = 6};
  const auto plan = [&](Padding padding, std::int64_t bytes) {
    options.padding = padding;
    return plan_memory<float>(*engine.ops, false, engine.target.shape(), &engine.draft.shape(),
                              nullptr, requests, options, bytes);
  };
  const MemoryPlan never = plan(Padding::kNever, 1 << 30);
  CHECK(never.idle_bytes == 0);
  CHECK(plan(Padding::kWhereRecorded, 1 << 30).idle_bytes == 0);  // a CPU records nothing
  // Two kinds of 64 rows, raw keys, two of compressed tokens in a page and 16 that 64 tokens
  // complete, the head's entries; two lines of tables.
  const LlmShape& shape = engine.target.shape();
  const std::int64_t row = shape.layers * shape.kv_width();
  const std::int64_t head = engine.draft.shape().num_kv_heads * engine.draft.shape().head_dim;
  CHECK(plan(Padding::kAlways, 1 << 30).idle_bytes ==
        4 * (row * (3 * 64 + 2 * 16 + 2 * 64) + 2 * 64 * head) + 4 * 64);
  const std::int64_t just = never.pages * never.page_bytes + 6 * never.sequence_bytes;
  CHECK(plan(Padding::kNever, just).pages == never.pages);
  CHECK(plan(Padding::kAlways, just).pages < never.pages);
  CHECK(plan(Padding::kAlways, just + plan(Padding::kAlways, 1 << 30).idle_bytes).pages ==
        never.pages);
  // Where so few run at once that each number is a class, whatever was asked for, there is none.
  const std::int64_t each = never.pages / 6;
  const std::int64_t idle = plan(Padding::kAlways, 1 << 30).idle_bytes;
  const MemoryPlan four = plan(
      Padding::kAlways, each * never.page_bytes + 4 * never.sequence_bytes + idle);
  CHECK(four.idle_bytes == 0);
  CHECK(four.concurrency == 4);
  CHECK(four.pages > each);
  const MemoryPlan five = plan(
      Padding::kAlways, each * never.page_bytes + 5 * never.sequence_bytes + idle);
  CHECK(five.idle_bytes == idle);
  CHECK(five.concurrency == 5);
  CHECK(five.pages == each);
  const std::vector<BatchRequest> one(1, request);
  options.concurrency = 8;
  const MemoryPlan alone =
      plan_memory<float>(*engine.ops, false, engine.target.shape(), &engine.draft.shape(), nullptr,
                         one, options, each * never.page_bytes + never.sequence_bytes);
  CHECK(alone.idle_bytes == 0);
  CHECK(alone.pages == each);
}

// Nobody sees idle requests: what was counted is what was counted without them.
TEST_CASE("what a session counts is of its requests alone") {
  tiny::Engine<float> engine;
  std::vector<std::int64_t> seen[2];
  for (const std::size_t turn : {0U, 1U}) {
    BatchSession<float> session(*engine.ops, engine.target, &engine.draft,
                                {.concurrency = 11,
                                 .pages = 44,
                                 .prefill_rows = 900,
                                 .padding = turn == 0 ? Padding::kNever : Padding::kAlways});
    for (std::int64_t id = 0; id < 11; ++id) {
      session.submit(id, {.prompt = tiny::prompt(40, static_cast<std::uint64_t>(id)),
                          .options = tiny::options("nsa/d4k3n12/bfs/c1/F*", 8 + 12 * id)});
    }
    while (session.running() + session.waiting() > 0) {
      for (const FinishedRequest& finished : session.step()) {
        seen[turn].push_back(finished.id);
        seen[turn].push_back(finished.generation.steps);
        seen[turn].push_back(std::ssize(finished.gaps));
      }
    }
    CHECK((session.steps_padded() > 5) == (turn == 1));
    for (const std::int64_t count : {session.steps(), session.most_running(), session.most_pages(),
                                     session.free_pages(), session.most_saved_pages()}) {
      seen[turn].push_back(count);
    }
  }
  CHECK(seen[0] == seen[1]);
}

}  // namespace
}  // namespace versieve::engine
