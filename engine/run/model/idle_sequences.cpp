#include "engine/run/model/idle_sequences.h"

#include <algorithm>
#include <bit>

#include "engine/run/model/target.h"
#include "kernels/ops_together.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kMostIdleNodes = 64;
constexpr std::size_t kMostKinds = 2;
constexpr std::int64_t kMostNodes = 128;  // of a tree whose step every attention can record

std::int64_t round_up(std::int64_t x, std::int64_t unit) {
  return (x + unit - 1) / unit * unit;
}

// Two numbers to the double up to 16, then four.
std::int64_t next_in_ladder(std::int64_t sequences) {
  const auto octave = static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(sequences, 1))));
  const std::int64_t unit = octave < 16 ? octave / 2 : octave / 4;
  return round_up(sequences, std::max<std::int64_t>(unit, 1));
}

template <class T>
bool is_whole_tree(const SequencePart<T>& part) {
  const VerifyOptions& options = part.options;
  return !part.of_prompt && !options.last_logits_only && !options.no_logits && !options.resa &&
         !options.index && !options.dense_pass && options.form == NsaForm::kFused &&
         part.capture.weights == nullptr && part.tree.size() <= kMostNodes;
}

bool is_chain(const DraftTree& tree) {
  return tree.depth.back() + 1 == tree.size();
}

// Whose attention calls are launched alike: as far as launches tell them apart.
template <class T>
bool are_alike(const SequencePart<T>& a, const SequencePart<T>& b) {
  const VerifyOptions &x = a.options, &y = b.options;
  return a.tree.size() == b.tree.size() && is_chain(a.tree) == is_chain(b.tree) &&
         x.schedule == y.schedule && x.group_size == y.group_size && x.group_mode == y.group_mode &&
         x.splits_chain == y.splits_chain &&
         (a.lists.first.token == nullptr) == (b.lists.first.token == nullptr) &&
         std::equal(a.lists.of_layer.begin(), a.lists.of_layer.end(), b.lists.of_layer.begin(),
                    b.lists.of_layer.end());
}

struct Kind {
  std::size_t first = 0, shortest = 0;  // of the step's sequences
  std::int64_t count = 0;
};

template <class T>
std::vector<Kind> kinds_of(const std::vector<SequencePart<T>>& parts) {
  std::vector<Kind> kinds;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& known) {
      return are_alike(parts[known.first], parts[i]);
    });
    if (kind == kinds.end()) {
      kind = kinds.insert(kinds.end(), {.first = i, .shortest = i});
    }
    ++kind->count;
    if (parts[i].cache->length() < parts[kind->shortest].cache->length()) {
      kind->shortest = i;
    }
  }
  return kinds;
}

}  // namespace

std::int64_t size_class(std::int64_t sequences, std::int64_t nodes) {
  const std::int64_t unit = std::max<std::int64_t>(kMostIdleNodes / nodes, 1);
  return std::min(next_in_ladder(sequences), round_up(sequences, unit));
}

// The launches are those of a live one as long as its context has the same bound: it has as few
// tokens as that allows. Lists of chosen tokens are read as they are, and name none beyond the
// context that they were made for.
template <class T>
SequencePart<T> IdleSequences<T>::idle_of(const SequencePart<T>& live) {
  const std::int64_t context = live.cache->length();
  SequencePart<T> idle = live;
  idle.cache = &cache_;
  idle.choice = nullptr;
  idle.idle_context = live.lists.first.token != nullptr
                          ? context
                          : kernels::bound_of_context(context) - kernels::kBoundTokens;
  return idle;
}

template <class T>
void IdleSequences<T>::fill(std::vector<SequencePart<T>>& parts) {
  if (stopped_ || !std::all_of(parts.begin(), parts.end(), is_whole_tree<T>)) {
    return;
  }
  const std::vector<Kind> kinds = kinds_of(parts);
  if (kinds.size() > kMostKinds) {
    return;
  }
  const std::int64_t live = std::ssize(parts);
  std::int64_t left = places_ - live;
  for (const Kind& kind : kinds) {
    const std::int64_t lacks = size_class(kind.count, parts[kind.first].tree.size()) - kind.count;
    // A step in which all places are taken is a class, too.
    const std::int64_t more = kinds.size() == 1 ? std::min(lacks, left) : lacks;
    if (more > 0 && more <= left) {
      const SequencePart<T> idle = idle_of(parts[kind.shortest]);
      parts.insert(parts.end(), static_cast<std::size_t>(more), idle);
      left -= more;
    }
  }
  added_ += std::ssize(parts) - live;
  filled_ += std::ssize(parts) > live ? 1 : 0;
}

template class IdleSequences<double>;
template class IdleSequences<float>;
template class IdleSequences<Bf16>;

}  // namespace versieve::engine
