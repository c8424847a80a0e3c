// Sequences that fill a step up to a size class, so that one recording of it serves while others
// join and leave: their rows run and nobody reads them. Such a sequence repeats a live one's tree
// and options over tokens that are nobody's (KvPool::idle_cache), reads no live sequence's rows and
// commits nothing.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/run/model/kv_cache.h"

namespace versieve::engine {

template <class T>
struct SequencePart;

// Of how many sequences with trees of `nodes` nodes a step has room that has so many: 1, 2, 3, 4,
// 6, 8, 12, 16, then four numbers to the double, or the next multiple of as many sequences as have
// 64 nodes, where that is less. So a class adds at most a third, and fewer than 64 nodes: up to
// some 64 rows weights bound a step, and a class of few costs little but saves much.
std::int64_t size_class(std::int64_t sequences, std::int64_t nodes);
// Up to so many sequences each number is a class.
inline constexpr std::int64_t kLeastClasses = 4;

template <class T>
class IdleSequences {
 public:
  // `cache`: the pool's idle one. `places`: sequences that a step may have, idle ones among them,
  // which only take what others leave free. `always`: steps that are not recorded, too.
  IdleSequences(KvCache<T> cache, std::int64_t places, bool always)
      : cache_(std::move(cache)), places_(places), always_(always) {}

  // Appends what the step lacks to its class, kind by kind where its trees are of two. Nothing
  // where it has pieces of prompts, sequences that choose tokens or keep weights, or trees of more
  // kinds: such steps are not recorded, or have too many classes to come again.
  void fill(std::vector<SequencePart<T>>& parts);
  // Whether the step that was filled has a shape; if not, none is filled from now on.
  void learn(bool is_recorded) { stopped_ |= !is_recorded && !always_; }
  std::int64_t filled() const { return filled_; }  // steps
  std::int64_t added() const { return added_; }    // sequences, in all of them

 private:
  SequencePart<T> idle_of(const SequencePart<T>& live);

  KvCache<T> cache_;
  std::int64_t places_;
  bool always_, stopped_ = false;
  std::int64_t filled_ = 0, added_ = 0;
};

}  // namespace versieve::engine
