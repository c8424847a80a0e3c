// One forward over several sequences' trees: has each the bits that it has alone?
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "engine/run/model/kv_pool.h"
#include "tests/engine/run/batch/long_piece_case.h"
#include "tests/engine/run/read_prompt_case.h"
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
  KvPool<T> pool(*engine.ops, target.shape(), nullptr, 40, 8, 1 + random() % 1000);
  std::vector<Sequence<T>> sequences(options.size());
  for (std::size_t i = 0; i < options.size(); ++i) {
    sequences[i].options = options[i];
    run_alone(engine, sequences[i], kSteps, random);
    sequences[i].pooled = pool.cache_in(pool.take(4));
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
      CHECK(tiny::same_bits(
          rows(*engine.ops, target.logits(), target.logits_row(i), nodes, target.shape().vocab),
          sequences[i].logits[at]));
      CHECK(tiny::same_bits(rows(*engine.ops, target.captured(), target.first_row(i), nodes,
                                 3 * target.shape().hidden),
                            sequences[i].captured[at]));
    }
    target.commit_batch(paths);
  }
}

TEMPLATE_TEST_CASE("random trees of sequences in one forward have the bits that they have alone",
                   "", float, double, Bf16) {
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
  check_together(dense, {{}, {}, {}, {}}, random);
}

TEMPLATE_TEST_CASE("long pieces of a prompt beside a tree have the bits of short ones", "", float,
                   double, Bf16) {
  LlmShape shape = tiny::shape();
  for (const CompressStage stage : {CompressStage::kBeforeRope, CompressStage::kAfterRope}) {
    shape.compress_stage = stage;
    tiny::LongPieces<TestType> pieces(kernels::make_cpu_ops<TestType>(1), shape, {530, 257});
    CHECK(pieces.check() == 0);  // a CPU has no launch for them, but the same rows
    pieces.check_shared_rows();
  }
}

TEST_CASE("pages are given while there are enough, held by many, and free when nobody holds them") {
  for (const std::uint64_t shuffled : {std::uint64_t{0}, std::uint64_t{5}}) {
    std::mt19937_64 random(3);
    PageAllocator pages(50, shuffled);
    std::vector<std::vector<std::int32_t>> held;  // of each sequence
    std::vector<std::int64_t> holders(50, 0);
    for (int turn = 0; turn < 5000; ++turn) {
      if (random() % 2 == 0) {
        const std::int64_t count = 1 + static_cast<std::int64_t>(random() % 12);
        std::vector<std::int32_t> own;
        if (!held.empty() && random() % 2 == 0) {  // begins with another's
          const std::vector<std::int32_t>& other = held[random() % held.size()];
          own.assign(other.begin(), other.begin() + static_cast<std::ptrdiff_t>(other.size() / 2));
          pages.hold(own);
        }
        const bool fits = count <= pages.free_pages();
        const std::vector<std::int32_t> more = fits ? pages.take(count) : own;
        if (fits) {
          CHECK(std::ssize(more) == count);
          for (const std::int32_t page : more) {
            REQUIRE(holders[static_cast<std::size_t>(page)] == 0);
          }
          own.insert(own.end(), more.begin(), more.end());
        }
        for (const std::int32_t page : own) {
          ++holders[static_cast<std::size_t>(page)];
        }
        held.push_back(own);
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        for (const std::int32_t page : held.back()) {
          --holders[static_cast<std::size_t>(page)];
        }
        pages.release(held.back(), static_cast<std::int64_t>(random() % 4));
        held.pop_back();
      }
      std::int64_t all = 0;
      for (std::int32_t page = 0; page < 50; ++page) {
        all += holders[static_cast<std::size_t>(page)];
        CHECK(pages.holders(page) == holders[static_cast<std::size_t>(page)]);
      }
      CHECK(pages.free_pages() == std::count(holders.begin(), holders.end(), 0));
      CHECK(pages.saved_pages() == all - pages.used_pages());
    }
    for (const std::vector<std::int32_t>& own : held) {
      pages.release(own);
    }
    CHECK(pages.free_pages() == 50);
    std::vector<std::int32_t> all = pages.take(50);
    std::sort(all.begin(), all.end());
    CHECK(std::unique(all.begin(), all.end()) == all.end());
  }
}

TEST_CASE("pages that are remembered are given last, and of a sequence the first ones after all") {
  PageAllocator pages(8);
  const std::vector<std::int32_t> first = pages.take(3), second = pages.take(3);
  CHECK(first == std::vector<std::int32_t>{0, 1, 2});
  pages.release(first, 2);  // 2 is not asked for again
  pages.release(second, 3);
  CHECK(pages.take(8) == std::vector<std::int32_t>{2, 6, 7, 1, 0, 5, 4, 3});
}

TEST_CASE("a pool has room as long as so many pages are free, those that are shared counted once") {
  tiny::Engine<float> engine;
  const LlmShape& shape = engine.target.shape();  // 16 compressed tokens a page
  KvPool<float> pool(*engine.ops, shape, nullptr, 12, 3);
  const SequencePages first = pool.take(6);
  CHECK(first.compressed.size() == 2);  // 95 of 384 tokens
  CHECK(pool.has_room(6));
  CHECK(!pool.has_room(7));
  // Of five pages' 79 compressed tokens 64 are whole pages, whatever follows.
  const PageLists prefix = pool.prefix_of(first, 5);
  CHECK(prefix.tokens.size() == 5);
  CHECK(prefix.compressed.size() == 1);
  CHECK(pool.has_room(11, prefix));
  CHECK(!pool.has_room(12, prefix));
  const SequencePages other = pool.take(11, prefix);
  CHECK(other.shared == 5);
  CHECK(std::equal(other.tokens.begin(), other.tokens.begin() + 5, first.tokens.begin()));
  CHECK(other.tokens[5] != first.tokens[5]);
  CHECK(other.compressed[0] == first.compressed[0]);
  CHECK(other.compressed[1] != first.compressed[1]);
  CHECK(pool.pages().used_pages() == 12);
  CHECK(pool.pages().saved_pages() == 5);
  pool.give_back(first, 5 * 64);
  CHECK(pool.pages().used_pages() == 11);
  CHECK(pool.has_room(1));
  pool.give_back(other);
  CHECK(pool.pages().used_pages() == 0);
  // The prefix of a sequence that has ended is free, and counts as such.
  CHECK(pool.has_room(12, prefix));
  CHECK(!pool.has_room(13, prefix));
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
