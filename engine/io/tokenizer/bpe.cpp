#include "engine/io/tokenizer/bpe.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "engine/io/tokenizer/json_fields.h"
#include "engine/io/tokenizer/pair_table.h"
#include "engine/io/utf8.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kKeptPieces = 1 << 16;     // slots of the memory of pieces
constexpr std::size_t kShortCharacters = 0x800;  // code points of at most two bytes
constexpr std::size_t kMostKeptBytes = 128;      // of a piece that is kept
constexpr std::int64_t kMostIds = 16 << 20;      // far beyond any vocabulary

struct TextHash {
  using is_transparent = void;
  // Eight bytes at a time; the last step brings the high bits down, where tables look.
  std::size_t operator()(std::string_view text) const {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
    std::uint64_t hash = text.size();
    while (!text.empty()) {
      std::uint64_t word = 0;
      const std::size_t bytes = std::min(text.size(), sizeof word);
      std::memcpy(&word, text.data(), bytes);
      hash = (hash ^ word) * kGolden;
      hash ^= hash >> 32;
      text.remove_prefix(bytes);
    }
    return static_cast<std::size_t>(hash * kGolden >> 20);
  }
};
using Vocabulary = std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>>;

// A piece as a chain of tokens. A token that was merged into its left neighbour is dead.
struct Symbol {
  std::int32_t id = 0;  // -1: dead
  std::int32_t before = -1;
  std::int32_t after = -1;
};

struct Candidate {
  std::int32_t rank = 0;
  std::int32_t at = 0;  // of the left symbol
  std::int32_t left = 0, right = 0, merged = 0;

  // The heap's top is the lowest rank, leftmost.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

struct KeptPiece {
  std::string text;
  std::vector<std::int32_t> ids;
};

// "a b" or ["a", "b"].
std::pair<std::string, std::string> halves_of(const nlohmann::json& merge, const JsonFields& fields,
                                              std::size_t index) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const std::string text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  fields.refuse("merges[" + std::to_string(index) +
                "] is neither two texts with a space between nor a pair of texts");
}

}  // namespace

struct Bpe::State {
  Vocabulary vocabulary;
  std::vector<std::string> tokens;
  PairTable merges;
  std::string prefix, suffix;  // of symbols that do not begin, that end a piece
  std::int32_t unknown = -1;
  bool fuses_unknown = false;
  bool falls_back_to_bytes = false;
  bool ignores_merges = false;
  std::array<std::int32_t, 256> byte_tokens{};  // "<0x41>"; -1: none
  // Of single characters of one or two bytes, all letters of bytes among them; -1: none.
  std::array<std::int32_t, kShortCharacters> short_characters{};

  mutable std::vector<Symbol> symbols;
  mutable std::vector<Candidate> heap;
  mutable std::vector<KeptPiece> kept{kKeptPieces};

  std::int32_t id_of(std::string_view token) const {
    const auto found = vocabulary.find(token);
    return found == vocabulary.end() ? -1 : found->second;
  }

  void read_vocabulary(JsonFields& fields);
  void read_merges(JsonFields& fields);
  void read_byte_tokens();
  void read_short_characters();
  std::int32_t id_of_character(std::string_view character) const;

  void push(std::int32_t id) const;
  void push_unknown(std::int32_t& waiting) const;
  bool push_bytes(std::string_view text) const;
  void split_into_symbols(std::string_view piece) const;
  void consider(std::int32_t at) const;
  void merge(const Candidate& best) const;
  void merge_all() const;
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;
};

void Bpe::State::read_vocabulary(JsonFields& fields) {
  const nlohmann::json& entries = fields.required("vocab");
  if (!entries.is_object() || entries.empty()) {
    fields.refuse("vocab must be an object of tokens and their ids");
  }
  vocabulary.reserve(entries.size());
  for (const auto& [token, id] : entries.items()) {
    if (!id.is_number_integer() || id < 0 || id >= kMostIds) {
      fields.refuse("vocab['" + token + "'] is no id");
    }
    const std::size_t place = id.get<std::size_t>();
    tokens.resize(std::max(tokens.size(), place + 1));
    if (!tokens[place].empty()) {
      fields.refuse("vocab gives the id " + std::to_string(place) + " to '" + tokens[place] +
                    "' and to '" + token + "'");
    }
    tokens[place] = token;
    vocabulary.emplace(token, static_cast<std::int32_t>(place));
  }
}

// Of a pair that stands twice the later place counts.
void Bpe::State::read_merges(JsonFields& fields) {
  fields.required("merges");
  const nlohmann::json& list = fields.list("merges");
  merges = PairTable(list.size());
  std::int32_t rank = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_string() && list[i].get_ref<const std::string&>().starts_with("#version")) {
      continue;
    }
    const auto [left, right] = halves_of(list[i], fields, i);
    const std::string joined =
        left + (right.starts_with(prefix) ? right.substr(prefix.size()) : right);
    const std::int32_t ids[] = {id_of(left), id_of(right), id_of(joined)};
    if (std::min({ids[0], ids[1], ids[2]}) < 0) {
      fields.refuse("merges[" + std::to_string(i) + "] makes '" + joined + "' of '" + left +
                    "' and '" + right + "', and not all of them are in vocab");
    }
    merges.set(ids[0], ids[1], {rank++, ids[2]});
  }
}

void Bpe::State::read_byte_tokens() {
  for (std::size_t byte = 0; byte < byte_tokens.size(); ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    byte_tokens[byte] = id_of(name);
  }
}

void Bpe::State::read_short_characters() {
  for (std::uint32_t code = 0; code < kShortCharacters; ++code) {
    const std::string character = code < 0x80
                                      ? std::string(1, static_cast<char>(code))
                                      : std::string{static_cast<char>(0xc0 | (code >> 6)),
                                                    static_cast<char>(0x80 | (code & 0x3f))};
    short_characters[code] = id_of(character);
  }
}

// The same as id_of, without hashing where a table has the answer.
std::int32_t Bpe::State::id_of_character(std::string_view character) const {
  const std::uint32_t first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1 && first < 0x80) {
    return short_characters[first];
  }
  if (character.size() == 2) {
    return short_characters[(first & 0x1f) << 6 |
                            (static_cast<unsigned char>(character[1]) & 0x3fU)];
  }
  return id_of(character);
}

void Bpe::State::push(std::int32_t id) const {
  symbols.push_back({.id = id});
}

void Bpe::State::push_unknown(std::int32_t& waiting) const {
  if (waiting >= 0) {
    push(waiting);
  }
  waiting = -1;
}

bool Bpe::State::push_bytes(std::string_view text) const {
  const auto token_of = [&](char c) { return byte_tokens[static_cast<unsigned char>(c)]; };
  if (std::any_of(text.begin(), text.end(), [&](char c) { return token_of(c) < 0; })) {
    return false;
  }
  for (const char c : text) {
    push(token_of(c));
  }
  return true;
}

// An unknown token waits for the next known symbol, so that a row of them may become one; bytes of
// a fallback do not end the row.
void Bpe::State::split_into_symbols(std::string_view piece) const {
  symbols.clear();
  std::int32_t waiting = -1;
  std::string spelling;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t whole = character_bytes(piece.substr(at));
    const std::string_view character = piece.substr(at, whole == 0 ? 1 : whole);
    const bool is_last = at + character.size() == piece.size();
    std::string_view symbol = character;
    std::int32_t id = -1;
    if ((at > 0 && !prefix.empty()) || (is_last && !suffix.empty())) {
      spelling = (at > 0 ? prefix : "") + std::string(character) + (is_last ? suffix : "");
      symbol = spelling;
      id = id_of(symbol);
    } else {
      id = id_of_character(character);
    }
    at += character.size();
    if (id >= 0) {
      push_unknown(waiting);
      push(id);
    } else if (!(falls_back_to_bytes && push_bytes(symbol)) && unknown >= 0) {
      if (!fuses_unknown) {
        push_unknown(waiting);
      }
      waiting = unknown;
    }
  }
  push_unknown(waiting);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].before = static_cast<std::int32_t>(i) - 1;
    symbols[i].after = i + 1 < symbols.size() ? static_cast<std::int32_t>(i) + 1 : -1;
  }
}

// Puts the pair that begins at a symbol on the heap if it merges.
void Bpe::State::consider(std::int32_t at) const {
  const Symbol& left = symbols[static_cast<std::size_t>(at)];
  if (left.after < 0) {
    return;
  }
  const std::int32_t right = symbols[static_cast<std::size_t>(left.after)].id;
  if (const PairTable::Value* const found = merges.find(left.id, right)) {
    heap.push_back({found->rank, at, left.id, right, found->merged});
    std::push_heap(heap.begin(), heap.end());
  }
}

void Bpe::State::merge(const Candidate& best) const {
  Symbol& left = symbols[static_cast<std::size_t>(best.at)];
  if (left.id != best.left || left.after < 0 ||
      symbols[static_cast<std::size_t>(left.after)].id != best.right) {
    return;  // one of the two was merged meanwhile
  }
  Symbol& right = symbols[static_cast<std::size_t>(left.after)];
  left.id = best.merged;
  left.after = right.after;
  right.id = -1;
  if (left.after >= 0) {
    symbols[static_cast<std::size_t>(left.after)].before = best.at;
  }
  if (left.before >= 0) {
    consider(left.before);
  }
  consider(best.at);
}

void Bpe::State::merge_all() const {
  heap.clear();
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    consider(static_cast<std::int32_t>(i));
  }
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate best = heap.back();
    heap.pop_back();
    merge(best);
  }
}

void Bpe::State::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (ignores_merges) {
    if (const std::int32_t id = id_of(piece); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  split_into_symbols(piece);
  merge_all();
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) {
      ids.push_back(symbol.id);
    }
  }
}

Bpe::Bpe(std::unique_ptr<State> state) : state_(std::move(state)) {}
Bpe::Bpe(Bpe&&) noexcept = default;
Bpe::~Bpe() = default;

Bpe Bpe::read(const nlohmann::json& model, const std::string& where) {
  JsonFields fields(model, where);
  if (const std::string type = fields.text_or("type", "BPE"); type != "BPE") {
    fields.refuse("the model '" + type + "' is not computed here; known is BPE");
  }
  const nlohmann::json* const dropout = fields.optional("dropout");
  if (dropout != nullptr && (!dropout->is_number() || *dropout != 0.0)) {
    fields.refuse("dropout other than 0 would make tokens random");
  }
  auto state = std::make_unique<State>();
  state->prefix = fields.text_or("continuing_subword_prefix", "");
  state->suffix = fields.text_or("end_of_word_suffix", "");
  state->fuses_unknown = fields.flag_or("fuse_unk", false);
  state->falls_back_to_bytes = fields.flag_or("byte_fallback", false);
  state->ignores_merges = fields.flag_or("ignore_merges", false);
  state->read_vocabulary(fields);
  state->read_merges(fields);
  state->read_byte_tokens();
  state->read_short_characters();
  if (fields.optional("unk_token") != nullptr) {
    const std::string unknown = fields.text("unk_token");
    state->unknown = state->id_of(unknown);
    if (state->unknown < 0) {
      fields.refuse("the unk_token '" + unknown + "' is not in vocab");
    }
  }
  fields.finish();
  return Bpe(std::move(state));
}

std::int32_t Bpe::id_of(std::string_view token) const {
  return state_->id_of(token);
}

std::int32_t Bpe::id_count() const {
  return static_cast<std::int32_t>(state_->tokens.size());
}

const std::vector<std::string>& Bpe::tokens() const {
  return state_->tokens;
}

void Bpe::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (piece.size() > kMostKeptBytes) {
    state_->encode(piece, ids);
    return;
  }
  KeptPiece& kept = state_->kept[TextHash()(piece) % kKeptPieces];
  if (kept.text != piece) {
    kept.ids.clear();
    state_->encode(piece, kept.ids);
    kept.text = piece;
  }
  ids.insert(ids.end(), kept.ids.begin(), kept.ids.end());
}

}  // namespace versieve::engine
