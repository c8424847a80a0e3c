#include "engine/io/vocab_map.h"

#include <algorithm>
#include <set>

namespace versieve::engine {
namespace {

// Below it a table of offsets that all differ is no wonder.
constexpr std::size_t kTellingLength = 8;

std::string id_text(std::size_t id) {
  return std::to_string(id);
}

// A mark at each of `ids` and nowhere else; none if one of them lies outside or comes twice.
std::optional<std::vector<std::int64_t>> marks(const std::vector<std::int64_t>& ids,
                                               std::int64_t target_vocab) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(target_vocab), 0);
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= target_vocab || out[static_cast<std::size_t>(id)] != 0) {
      return {};
    }
    out[static_cast<std::size_t>(id)] = 1;
  }
  return out;
}

// What a table looks like that holds no offsets; empty if it looks like offsets. Real ones repeat:
// tokens that are neighbours in both vocabularies share theirs.
std::string other_convention(const VocabMap& map, std::int64_t target_vocab) {
  const std::vector<std::int64_t>& d2t = map.d2t;
  const bool smaller = static_cast<std::int64_t>(d2t.size()) < target_vocab;
  if (smaller && std::all_of(d2t.begin(), d2t.end(), [](std::int64_t x) { return x == 0; })) {
    return "d2t is all zeros, a table that nobody filled: it leads every draft id to itself";
  }
  bool counts = d2t.size() > 1;
  for (std::size_t id = 0; id < d2t.size(); ++id) {
    counts = counts && d2t[id] == static_cast<std::int64_t>(id);
  }
  if (counts) {
    return "d2t counts 0, 1, 2, ..., which look like ids and not like offsets from them";
  }
  const std::optional<std::vector<std::int64_t>> as_ids = marks(d2t, target_vocab);
  if (as_ids && (map.t2d ? map.t2d == as_ids : d2t.size() >= kTellingLength)) {
    return "d2t holds target ids themselves, as it seems (" +
           std::string(map.t2d ? "t2d marks them"
                               : "all " + std::to_string(d2t.size()) + " differ") +
           "), and not offsets, the target id less the draft id";
  }
  return {};
}

// The first id that only one half knows.
std::string difference(const std::vector<std::int64_t>& marked,
                       const std::vector<std::int64_t>& t2d) {
  for (std::size_t id = 0; id < marked.size(); ++id) {
    if (marked[id] != t2d[id]) {
      return marked[id] != 0
                 ? "d2t leads to target id " + id_text(id) + ", which t2d does not mark"
                 : "t2d marks target id " + id_text(id) + ", to which d2t does not lead";
    }
  }
  return {};
}

// Where the offsets lead, or why they lead nowhere.
std::string targets_of(const std::vector<std::int64_t>& d2t, std::int64_t target_vocab,
                       std::vector<std::int64_t>& marked) {
  std::vector<std::int64_t> draft_id_of(static_cast<std::size_t>(target_vocab), -1);
  marked.assign(static_cast<std::size_t>(target_vocab), 0);
  for (std::size_t id = 0; id < d2t.size(); ++id) {
    const std::int64_t draft_id = static_cast<std::int64_t>(id);
    if (d2t[id] < -draft_id || d2t[id] >= target_vocab - draft_id) {
      return "d2t leads draft id " + id_text(id) + " out of the vocabulary: its offset is " +
             std::to_string(d2t[id]) + ", and the target has " + std::to_string(target_vocab) +
             " tokens";
    }
    const std::size_t target = static_cast<std::size_t>(draft_id + d2t[id]);
    if (marked[target] != 0) {
      return "d2t leads draft ids " + std::to_string(draft_id_of[target]) + " and " + id_text(id) +
             " to the same target id " + id_text(target);
    }
    marked[target] = 1;
    draft_id_of[target] = draft_id;
  }
  return {};
}

}  // namespace

std::string vocab_map_error(const VocabMap& map, std::int64_t target_vocab) {
  if (map.t2d) {
    for (std::size_t id = 0; id < map.t2d->size(); ++id) {
      if ((*map.t2d)[id] != 0 && (*map.t2d)[id] != 1) {
        return "t2d holds " + std::to_string((*map.t2d)[id]) + " at target id " + id_text(id) +
               ", where it must be 0 or 1";
      }
    }
  }
  if (map.d2t.empty()) {
    return map.t2d ? "tensor 't2d' stands without 'd2t'" : "";
  }
  std::vector<std::int64_t> marked;
  const std::string astray = targets_of(map.d2t, target_vocab, marked);
  if (astray.empty() && map.t2d == marked) {
    return {};
  }
  const std::string convention = other_convention(map, target_vocab);
  if (!convention.empty()) {
    return map.t2d ? "t2d and d2t name different tokens: " + convention : convention;
  }
  if (!astray.empty() || !map.t2d) {
    return astray;
  }
  return "t2d and d2t name different tokens: " + difference(marked, *map.t2d);
}

}  // namespace versieve::engine
