// The two halves of a draft's smaller vocabulary: d2t [draft vocabulary], the target id of draft id
// i less i, and t2d [target vocabulary], which marks those target ids. A wrong map costs no
// exactness, only every gain, so it must be noticed when it is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace versieve::engine {

struct VocabMap {
  std::vector<std::int64_t> d2t;  // empty: none was stored
  std::optional<std::vector<std::int64_t>> t2d;
};

// One sentence, or empty: offsets that leave the vocabulary or meet, halves that contradict each
// other, and tables of another convention or of none (target ids themselves, 0, 1, 2, ..., zeros),
// which t2d may prove right.
std::string vocab_map_error(const VocabMap& map, std::int64_t target_vocab);

}  // namespace versieve::engine
