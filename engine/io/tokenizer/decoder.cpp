#include "engine/io/tokenizer/decoder.h"

#include <cctype>
#include <memory>
#include <optional>
#include <utility>

#include "engine/io/tokenizer/byte_letters.h"
#include "engine/io/tokenizer/json_fields.h"
#include "engine/io/tokenizer/json_pattern.h"
#include "engine/io/utf8.h"

namespace versieve::engine {
namespace {

using Tokens = std::vector<TokenText>;

void join_with_spaces(Tokens& tokens) {
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    tokens[i].text.insert(0, " ");
  }
}

// An added token's letters may be bytes' letters too ("é"): it is never read as them.
void read_letters(Tokens& tokens) {
  for (TokenText& token : tokens) {
    if (!token.is_added) {
      std::string bytes;
      append_bytes_of(token.text, bytes);
      token.text = std::move(bytes);
    }
  }
}

// "<0x41>".
std::optional<char> byte_token(const std::string& text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>' ||
      std::isxdigit(static_cast<unsigned char>(text[3])) == 0 ||
      std::isxdigit(static_cast<unsigned char>(text[4])) == 0) {
    return {};
  }
  return static_cast<char>(std::stoi(text.substr(3, 2), nullptr, 16));
}

// Bytes that make no character stay bytes; the package writes U+FFFD for each.
void read_byte_tokens(Tokens& tokens) {
  Tokens out;
  bool in_bytes = false;
  for (TokenText& token : tokens) {
    const std::optional<char> byte = byte_token(token.text);
    if (byte && in_bytes) {
      out.back().text += *byte;
    } else if (byte) {
      out.push_back({std::string(1, *byte), false});
    } else {
      out.push_back(std::move(token));
    }
    in_bytes = byte.has_value();
  }
  tokens = std::move(out);
}

void fuse(Tokens& tokens) {
  TokenText all;
  for (const TokenText& token : tokens) {
    all.text += token.text;
  }
  tokens = {std::move(all)};
}

Decoder read_replace(JsonFields& fields) {
  const auto pattern = std::make_shared<const Pattern>(read_pattern(fields, "pattern"));
  const std::string content = fields.text("content");
  return [pattern, content](Tokens& tokens) {
    for (TokenText& token : tokens) {
      if (is_utf8(token.text)) {  // bytes of a fallback are no text yet
        token.text = replace_all(*pattern, token.text, content);
      }
    }
  };
}

Decoder read_strip(JsonFields& fields) {
  const std::string content = fields.text("content");
  const std::int64_t from_start = fields.integer("start");
  const std::int64_t from_end = fields.integer("stop");
  if (content.empty() || character_bytes(content) != content.size()) {
    fields.refuse("content must be one character");
  }
  return [=](Tokens& tokens) {
    for (TokenText& token : tokens) {
      for (std::int64_t i = 0; i < from_start && token.text.starts_with(content); ++i) {
        token.text.erase(0, content.size());
      }
      for (std::int64_t i = 0; i < from_end && token.text.ends_with(content); ++i) {
        token.text.erase(token.text.size() - content.size());
      }
    }
  };
}

// The first token loses its marks where the encoder put one before it.
Decoder read_metaspace(JsonFields& fields) {
  const std::string mark = fields.text("replacement");
  const auto pattern =
      std::make_shared<const Pattern>(Pattern::literal(mark, fields.where("replacement")));
  fields.pass_over("str_rep");
  fields.pass_over("split");
  const bool older = fields.flag_or("add_prefix_space", true);
  const bool prefixes = fields.text_or("prepend_scheme", older ? "always" : "never") != "never";
  return [pattern, prefixes](Tokens& tokens) {
    bool is_first = true;
    for (TokenText& token : tokens) {
      if (is_utf8(token.text)) {
        token.text = replace_all(*pattern, token.text, is_first && prefixes ? "" : " ");
      }
      is_first = false;
    }
  };
}

Decoder read_sequence(JsonFields& fields) {
  std::vector<Decoder> parts;
  fields.required("decoders");
  for (const nlohmann::json& part : fields.list("decoders")) {
    const std::string where = fields.where("decoders[" + std::to_string(parts.size()) + "]");
    parts.push_back(read_decoder(&part, where));
  }
  return [parts](Tokens& tokens) {
    for (const Decoder& part : parts) {
      part(tokens);
    }
  };
}

Decoder read_known(const std::string& type, JsonFields& fields) {
  if (type == "ByteLevel") {
    for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) {
      fields.pass_over(key);  // of the way there
    }
    return read_letters;
  }
  if (type == "ByteFallback") {
    return read_byte_tokens;
  }
  if (type == "Fuse") {
    return fuse;
  }
  if (type == "Replace") {
    return read_replace(fields);
  }
  if (type == "Strip") {
    return read_strip(fields);
  }
  if (type == "Metaspace") {
    return read_metaspace(fields);
  }
  if (type == "Sequence") {
    return read_sequence(fields);
  }
  fields.refuse("the decoder '" + type +
                "' is not computed here; known are ByteLevel, ByteFallback, Fuse, Replace, Strip, "
                "Metaspace and Sequence");
}

}  // namespace

Decoder read_decoder(const nlohmann::json* description, const std::string& where) {
  if (description == nullptr) {
    return join_with_spaces;
  }
  JsonFields fields(*description, where);
  Decoder decoder = read_known(fields.text("type"), fields);
  fields.finish();
  return decoder;
}

}  // namespace versieve::engine
