// A prompt's long pieces beside a tree of another sequence, behind a prefix whose pages are shared:
// have they the bits of short ones, which are attended in the trees' launches? On any device.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string_view>

#include "engine/run/model/kv_pool.h"
#include "tests/engine/run/read_prompt_case.h"

namespace versieve::engine::tiny {

// How often a prompt's rows were attended by a launch of their own.
struct PromptLaunches : kernels::LaunchObserver {
  int count = 0;

  void launch_begins(const char* name, const Traffic&) override {
    count += std::string_view(name) == "nsa_prompt" ? 1 : 0;
  }
  void launch_ends(const char*) override {}
};

template <class T>
class LongPieces {
 public:
  static constexpr std::int64_t kPrefix = 5 * kPageTokens;
  static constexpr std::int64_t kShort = 101;

  // `pieces`: of the prompt behind all but the last token of the prefix.
  LongPieces(std::unique_ptr<kernels::Ops<T>> ops, const LlmShape& shape,
             const std::vector<std::int64_t>& pieces)
      : engine_(std::move(ops), shape),
        pieces_(pieces),
        tokens_(std::accumulate(pieces.begin(), pieces.end(), kPrefix - 1)),
        prompt_(prompt(tokens_, 21)),
        pool_(*engine_.ops, shape, nullptr, 3 * pages_of(tokens_) + 8, 4, 5),  // shuffled pages
        first_pages_(pool_.take(pages_of(tokens_))),
        first_(pool_.cache_in(first_pages_)),
        beside_(pool_.cache_in(pool_.take(2))) {
    std::mt19937_64 random(3);
    tree_ = random_tree(7, 4, 3, random);
    step(nullptr, 0, 0, chain_tree(prompt(90, 4)));
    tree_logits_.clear();
  }

  // The number of a prompt's launches.
  int check() {
    std::vector<T> captured, logits;
    for (std::int64_t at = 0; at < kPrefix - 1; at += kShort) {
      read(first_, at, std::min(at + kShort, kPrefix - 1), captured, logits);
    }
    std::vector<std::vector<T>> ends;
    for (std::int64_t at = kPrefix - 1; const std::int64_t piece : pieces_) {
      for (const std::int64_t end = at + piece; at < end; at = std::min(at + kShort, end)) {
        read(first_, at, std::min(at + kShort, end), captured, logits);
      }
      ends.push_back(logits);
    }
    KvCache<T> second = sharing(kPrefix - 1);
    PromptLaunches launches;
    engine_.ops->set_observer(&launches);
    std::vector<T> long_captured;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const std::int64_t at = second.length();
      read(second, at, at + pieces_[i], long_captured, logits);
      CHECK(same_bits(logits, ends[i]));
    }
    engine_.ops->set_observer(nullptr);
    captured.erase(captured.begin(), captured.end() - std::ssize(long_captured));
    CHECK(same_bits(long_captured, captured));
    CHECK(second.length() == tokens_);
    CHECK(same_bits(kept(second, tokens_), kept(first_, tokens_)));
    return launches.count;
  }

  // A sequence that goes on otherwise within the shared pages: they stay as they are.
  void check_shared_rows() {
    const std::vector<T> before = kept(first_, kPrefix);
    KvCache<T> other = sharing(kPrefix - 70);
    prompt_ = prompt(tokens_, 22);
    std::vector<T> captured, logits;
    read(other, kPrefix - 70, kPrefix + 230, captured, logits);
    CHECK(same_bits(kept(first_, kPrefix), before));
  }

 private:
  // Of the first sequence's prefix so many tokens, in its pages.
  KvCache<T> sharing(std::int64_t tokens) {
    const SequencePages pages =
        pool_.take(pages_of(tokens_), pool_.prefix_of(first_pages_, kPrefix / kPageTokens));
    KvCache<T> cache = pool_.cache_in(pages);
    pool_.copy_compressed(first_pages_, pages, tokens);
    cache.set_length(tokens);
    return cache;
  }

  // A piece of the prompt in a step with the tree, whose bits are always the same.
  void read(KvCache<T>& cache, std::int64_t from, std::int64_t to, std::vector<T>& captured,
            std::vector<T>& logits) {
    Target<T>& target = engine_.target;
    const std::vector<T> of_tree = step(&cache, from, to, tree_);
    if (tree_logits_.empty()) {
      tree_logits_ = of_tree;
    }
    CHECK(same_bits(of_tree, tree_logits_));
    const std::int64_t width = 3 * target.shape().hidden;
    const std::vector<T> rows = rows_of(*engine_.ops, target.captured(), (to - from) * width);
    captured.insert(captured.end(), rows.begin(), rows.end());
    const std::int64_t vocab = target.shape().vocab;
    logits = rows_of(*engine_.ops, target.logits() + target.logits_row(0) * vocab, vocab);
  }

  // Logits of the sequence beside: of a tree, or of a chain that is committed where no piece is.
  std::vector<T> step(KvCache<T>* cache, std::int64_t from, std::int64_t to,
                      const DraftTree& tree) {
    Target<T>& target = engine_.target;
    std::vector<SequencePart<T>> parts;
    std::vector<std::vector<std::int32_t>> paths;
    if (cache != nullptr) {
      const auto begin = prompt_.begin();
      parts.push_back({.tree = chain_tree({begin + from, begin + to}),
                       .options = {.last_logits_only = true},
                       .cache = cache,
                       .of_prompt = true});
      paths.push_back(path_to(parts[0].tree, static_cast<std::int32_t>(to - from) - 1));
    }
    parts.push_back({.tree = tree, .options = {}, .cache = &beside_});
    paths.push_back(cache != nullptr ? std::vector<std::int32_t>()
                                     : path_to(tree, static_cast<std::int32_t>(tree.size()) - 1));
    target.verify_batch(parts);
    const std::int64_t vocab = target.shape().vocab;
    std::vector<T> logits =
        rows_of(*engine_.ops, target.logits() + target.logits_row(parts.size() - 1) * vocab,
                tree.size() * vocab);
    target.commit_batch(paths);
    return logits;
  }

  // All rows of a sequence's first `tokens` tokens, and of what they complete.
  std::vector<T> kept(const KvCache<T>& cache, std::int64_t tokens) {
    const LlmShape& shape = engine_.target.shape();
    const KvRows<T>& rows = cache.rows();
    const std::int64_t width = shape.kv_width();
    std::vector<T> out;
    const auto take = [&](const T* buffer, std::int64_t layer_rows, const PagedRows& paged,
                          std::int64_t count) {
      if (buffer == nullptr) {
        return;
      }
      const std::vector<T> all = rows_of(*engine_.ops, buffer, shape.layers * layer_rows * width);
      for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
        for (std::int64_t i = 0; i < count; ++i) {
          const auto at = all.begin() + (layer * layer_rows + paged.row(i)) * width;
          out.insert(out.end(), at, at + width);
        }
      }
    };
    for (const T* const buffer : {rows.k, rows.v, rows.k_raw}) {
      take(buffer, rows.layer_rows, rows.paged, tokens);
    }
    for (const T* const buffer : {rows.k_cmp, rows.v_cmp}) {
      take(buffer, rows.cmp_layer_rows, rows.cmp_paged, compressed_count(shape.nsa, tokens));
    }
    return out;
  }

  Engine<T> engine_;
  std::vector<std::int64_t> pieces_;
  std::int64_t tokens_;
  std::vector<std::int32_t> prompt_;
  KvPool<T> pool_;
  SequencePages first_pages_;
  KvCache<T> first_, beside_;
  DraftTree tree_;
  std::vector<T> tree_logits_;
};

}  // namespace versieve::engine::tiny
