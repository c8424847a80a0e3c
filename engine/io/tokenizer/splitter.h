// The pre-tokenizer of a tokenizer.json: cuts a text into the pieces within which bytes are merged.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace versieve::engine {

// Cuts of one text, in order; none is empty.
struct Pieces {
  struct Piece {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool opens_text = false;  // nothing of the whole text stands before it
  };
  std::string text;
  std::vector<Piece> pieces;
  bool is_utf8 = true;  // whether `text` is whole UTF-8

  std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

using Splitter = std::function<void(Pieces& pieces)>;

// Null: nothing is cut. Throws Error(kBadInput) with `where` for what is not computed here.
Splitter read_splitter(const nlohmann::json* description, const std::string& where);

}  // namespace versieve::engine
