// One forward over several sequences' trees: has each the bits that it has alone?
#include <catch2/catch.hpp>
#include <optional>

#include "engine/run/model/kv_pool.h"
#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

// A sequence with a cache of its own and one in the pool, which hold the same tokens.
template <class T>
struct Sequence {
  std::optional<KvCache<T>> pooled;
  std::vector<DraftTree> steps;                  // trees in turn
  std::vector<std::vector<std::int32_t>> paths;  // committed of each
  std::vector<std::vector<T>> logits, captured;  // alone, of each step
  VerifyOptions options;
};

template <class T>
std::vector<T> rows(const kernels::Ops<T>& ops, const T* from, std::int64_t first,
                    std::int64_t count, std::int64_t width) {
  std::vector<T> values(static_cast<std::size_t>(count * width));
  const_cast<kernels::Ops<T>&>(ops).download(values.data(), from + first * width,
                                             values.size() * sizeof(T));
  return values;
}

std::vector<std::int32_t> random_path(const DraftTree& tree, std::mt19937_64& random) {
  return path_to(tree,
                 static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(tree.size())));
}

// Steps of the sequence alone: a chain of its first tokens, then trees.
template <class T>
void run_alone(tiny::Engine<T>& engine, Sequence<T>& sequence, int steps, std::mt19937_64& random) {
  Target<T>& target = engine.target;
  target.cache().truncate(0);
  for (int step = 0; step < steps; ++step) {
    const std::int64_t first = 1 + static_cast<std::int64_t>(random() % 90);
    sequence.steps.push_back(step == 0 ? chain_tree(tiny::prompt(first, random()))
                                       : tiny::random_tree(1 + random() % 20, 9, 3, random));
    const DraftTree& tree = sequence.steps.back();
    target.verify(tree, sequence.options);
    sequence.logits.push_back(
        rows(*engine.ops, target.logits(), 0, tree.size(), target.shape().vocab));
    sequence.captured.push_back(
        rows(*engine.ops, target.captured(), 0, tree.size(), 3 * target.shape().hidden));
    sequence.paths.push_back(step == 0 ? path_to(tree, static_cast<std::int32_t>(tree.size()) - 1)
                                       : random_path(tree, random));
    target.commit(sequence.paths.back());
  }
}

template <class T>
void check_together(tiny::Engine<T>& engine, const std::vector<VerifyOptions>& options,
                    std::mt19937_64& random) {
  constexpr int kSteps = 5;
  Target<T>& target = engine.target;
  KvPool<T> pool(*engine.ops, target.shape(), nullptr, 40);
  std::vector<Sequence<T>> sequences(options.size());
  for (std::size_t i = 0; i < options.size(); ++i) {
    sequences[i].options = options[i];
    run_alone(engine, sequences[i], kSteps, random);
    sequences[i].pooled = pool.cache_in(*pool.pages().try_take(4));
  }
  for (int step = 0; step < kSteps; ++step) {
    std::vector<SequencePart<T>> parts;
    std::vector<std::vector<std::int32_t>> paths;
    for (Sequence<T>& s : sequences) {
      parts.push_back({.tree = s.steps[static_cast<std::size_t>(step)],
                       .options = s.options,
                       .cache = &*s.pooled});
      paths.push_back(s.paths[static_cast<std::size_t>(step)]);
    }
    target.verify_batch(parts);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(step);
      const std::int64_t nodes = sequences[i].steps[at].size();
      CHECK(rows(*engine.ops, target.logits(), target.logits_row(i), nodes, target.shape().vocab) ==
            sequences[i].logits[at]);
      CHECK(rows(*engine.ops, target.captured(), target.first_row(i), nodes,
                 3 * target.shape().hidden) == sequences[i].captured[at]);
    }
    target.commit_batch(paths);
  }
}

TEMPLATE_TEST_CASE("random trees of sequences in one forward have the bits that they have alone",
                   "", float, double) {
  std::mt19937_64 random(17);
  tiny::Engine<TestType> nsa;
  for (int round = 0; round < 6; ++round) {
    check_together(nsa,
                   {{},
                    {.schedule = "FRR"},
                    {.group_size = 4},
                    {.schedule = "FFR", .group_size = 2, .group_mode = GroupMode::kApprox},
                    {.form = NsaForm::kVanilla}},
                   random);
  }
  tiny::Engine<TestType> dense(tiny::shape(AttentionKind::kDense));
  check_together(dense, {{}, {}, {}}, random);
}

TEST_CASE("pages are given lowest first, joined again, and never twice") {
  std::mt19937_64 random(3);
  PageRuns pages(50);
  std::vector<PageRun> held;
  std::vector<int> owner(50, 0);
  for (int turn = 0; turn < 5000; ++turn) {
    if (random() % 2 == 0) {
      const std::int64_t count = 1 + static_cast<std::int64_t>(random() % 12);
      if (const std::optional<PageRun> run = pages.try_take(count)) {
        CHECK(run->count == count);
        for (std::int64_t page = run->first; page < run->first + count; ++page) {
          REQUIRE(owner[static_cast<std::size_t>(page)]++ == 0);
        }
        held.push_back(*run);
      }
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      for (std::int64_t page = held.back().first; page < held.back().first + held.back().count;
           ++page) {
        --owner[static_cast<std::size_t>(page)];
      }
      pages.give_back(held.back());
      held.pop_back();
    }
    CHECK(pages.free_pages() == std::count(owner.begin(), owner.end(), 0));
  }
  for (const PageRun& run : held) {
    pages.give_back(run);
  }
  CHECK(pages.try_take(50).has_value());  // one run again
  CHECK(!pages.try_take(1).has_value());
}

TEST_CASE("of the ends of what is free the cheapest pages are given, and nothing is split") {
  PageRuns pages(12);
  const PageRun first = *pages.try_take(2);
  const auto dear_below = [](const PageRun& place) { return place.first < 8 ? 5 : 0; };
  const PageRun last = *pages.try_take(3, dear_below);
  CHECK(last.first == 9);
  CHECK(pages.try_take(3, dear_below)->first == 2);  // 6 is as dear: the lowest of those
  CHECK(pages.free_pages() == 4);
  CHECK(pages.try_take(4, dear_below)->first == 5);
  CHECK(!pages.try_take(1, dear_below).has_value());
  pages.give_back(first);
  pages.give_back(last);
  CHECK(pages.free_pages() == 5);
}

TEST_CASE("a pool's memory is what its pages are said to take") {
  tiny::Engine<float> engine;
  const DraftShape draft = tiny::draft_shape(tiny::shape());
  // 3 layers, 2 heads of 16: keys, values and raw keys of 64 tokens, 16 compressed twice
  CHECK(KvPool<float>::page_bytes(tiny::shape(), nullptr) == 4 * 3 * 32 * (3 * 64 + 2 * 16));
  CHECK(KvPool<float>::page_bytes(tiny::shape(AttentionKind::kDense), nullptr) ==
        4 * 3 * 32 * 2 * 64);
  CHECK(KvPool<float>::page_bytes(tiny::shape(), &draft) -
            KvPool<float>::page_bytes(tiny::shape(), nullptr) ==
        4 * 2 * 64 * draft.num_kv_heads * draft.head_dim);
}

}  // namespace
}  // namespace versieve::engine
