// Which trained pair a number is of: by what its files hold, not by what it is called.
#pragma once

#include <cstddef>
#include <string>

namespace versieve {

struct PairId {
  std::string name;    // for people: says nothing of the weights
  std::string sha256;  // of its files (engine/io/pair_identity.h); empty: not known

  bool operator==(const PairId&) const = default;
};

// Enough of a hash to tell pairs apart in a sentence.
inline std::string short_hash(const std::string& sha256) {
  return sha256.substr(0, 12);
}
// "smollm2-nsa (sha256 3fa91b2c77d0)"; the name alone where no hash is known.
inline std::string text_of(const PairId& pair) {
  return pair.sha256.empty() ? pair.name : pair.name + " (sha256 " + short_hash(pair.sha256) + ")";
}

// Whether a text that somebody wrote means this pair: its name, or eight or more digits of its
// hash.
inline bool names_pair(const std::string& text, const PairId& pair) {
  constexpr std::size_t kShortest = 8;
  return text == pair.name || (text.size() >= kShortest && pair.sha256.starts_with(text));
}

// The byte pair of engine/demo, which files of measurements from before schema 4 know by this name
// alone. A pair trained anew is another one and leaves this as it is.
inline PairId byte_pair() {
  return {"demo-nsa", "b795a4c58339116459072d35b2aa498c5632ef45ab020d76fcea7c1926538e76"};
}

}  // namespace versieve
