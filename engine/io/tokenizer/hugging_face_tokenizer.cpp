#include "engine/io/tokenizer/hugging_face_tokenizer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/io/tokenizer/added_tokens.h"
#include "engine/io/tokenizer/bpe.h"
#include "engine/io/tokenizer/decoder.h"
#include "engine/io/tokenizer/json_fields.h"
#include "engine/io/tokenizer/normaliser.h"
#include "engine/io/tokenizer/post_template.h"
#include "engine/io/tokenizer/splitter.h"
#include "engine/io/utf8.h"

namespace versieve::engine {
namespace {

// What stands in the file, besides the tokens.
struct Parts {
  Bpe bpe;
  Normaliser normaliser;  // may be empty
  Splitter splitter;
  PostTemplate around;
  Decoder decoder;
  std::vector<std::string> remarks;
};

// Special tokens are looked for first, as in the package; where two are spelt alike the first
// counts.
void special_first(std::vector<AddedToken>& tokens) {
  std::stable_partition(tokens.begin(), tokens.end(),
                        [](const AddedToken& token) { return token.special; });
}

class HuggingFaceTokenizer final : public Tokenizer {
 public:
  HuggingFaceTokenizer(Parts parts, std::vector<AddedToken> added) : parts_(std::move(parts)) {
    for (const std::string& token : parts_.bpe.tokens()) {
      texts_.push_back({token, false});
    }
    special_first(added);
    for (const AddedToken& token : added) {
      const std::size_t id = static_cast<std::size_t>(token.id);
      texts_.resize(std::max(texts_.size(), id + 1));
      const bool changes = token.normalised && static_cast<bool>(parts_.normaliser);
      const std::string spelling = changes ? parts_.normaliser(token.content) : token.content;
      texts_[id] = {spelling, true};
      if (token.special) {
        specials_.insert(token.id);
      }
      (token.normalised ? in_normalised_ : in_text_).add(spelling, token);
    }
  }

  TokenIds encode_text(std::string_view text, SpecialsInText specials) const override {
    TokenIds ids;
    const bool finds = specials == SpecialsInText::kTokens;
    for (const AddedTokenFinder::Part& part : in_text_.cut(text, finds)) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      std::string stretch(text.substr(part.begin, part.end - part.begin));
      if (parts_.normaliser) {
        stretch = parts_.normaliser(std::move(stretch));
      }
      encode_normalised(stretch, part.begin == 0, finds, ids);
    }
    return ids;
  }

  const TokenIds& before() const override { return parts_.around.before; }
  const TokenIds& after() const override { return parts_.around.after; }

  std::string decode(std::span<const std::int32_t> ids, SpecialsDecoded specials) const override {
    std::vector<TokenText> tokens;
    tokens.reserve(ids.size());
    for (const std::int32_t id : ids) {
      const bool is_known = id >= 0 && id < id_count();
      const bool is_out = specials == SpecialsDecoded::kLeftOut && specials_.count(id) != 0;
      if (is_known && !is_out) {
        tokens.push_back(texts_[static_cast<std::size_t>(id)]);
      }
    }
    parts_.decoder(tokens);
    std::string text;
    for (const TokenText& token : tokens) {
      text += token.text;
    }
    return text;
  }

  std::int32_t id_count() const override { return static_cast<std::int32_t>(texts_.size()); }
  std::vector<std::string> remarks() const override { return parts_.remarks; }

 private:
  void encode_normalised(std::string_view text, bool opens, bool finds, TokenIds& ids) const {
    for (const AddedTokenFinder::Part& part : in_normalised_.cut(text, finds)) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      const std::size_t size = part.end - part.begin;
      Pieces pieces{.text = std::string(text.substr(part.begin, size)),
                    .pieces = {{0, size, opens && part.begin == 0}}};
      pieces.is_utf8 = is_utf8(pieces.text);
      parts_.splitter(pieces);
      for (const Pieces::Piece& piece : pieces.pieces) {
        parts_.bpe.encode(pieces.view(piece), ids);
      }
    }
  }

  Parts parts_;
  std::vector<TokenText> texts_;  // by id
  std::set<std::int32_t> specials_;
  AddedTokenFinder in_text_, in_normalised_;
};

AddedToken read_added_token(const nlohmann::json& entry, const std::string& where) {
  JsonFields fields(entry, where);
  AddedToken token{.id = static_cast<std::int32_t>(fields.integer("id")),
                   .content = fields.text("content"),
                   .special = fields.flag("special"),
                   .single_word = fields.flag_or("single_word", false),
                   .takes_left = fields.flag_or("lstrip", false),
                   .takes_right = fields.flag_or("rstrip", false),
                   .normalised = false};
  token.normalised = fields.flag_or("normalized", !token.special);
  fields.finish();
  return token;
}

// The package gives an added token the id that the vocabulary has for it, or the next free one,
// whatever the file says: where the two differ the ids of the file are not those of the model.
std::vector<AddedToken> read_added_tokens(JsonFields& fields, const Bpe& bpe) {
  std::vector<AddedToken> tokens;
  std::set<std::string> seen;
  std::int32_t next = 0;
  for (const std::string& token : bpe.tokens()) {
    next += token.empty() ? 0 : 1;
  }
  for (const nlohmann::json& entry : fields.list("added_tokens")) {
    const std::string where =
        fields.where() + ": added_tokens[" + std::to_string(tokens.size()) + "]";
    AddedToken token = read_added_token(entry, where);
    if (token.content.empty() || !seen.insert(token.content).second) {
      fields.refuse("an added token is empty or stands twice: '" + token.content + "'");
    }
    const std::int32_t known = bpe.id_of(token.content);
    const std::int32_t expected = known >= 0 ? known : next;
    if (token.id != expected) {
      fields.refuse("the added token '" + token.content + "' has the id " +
                    std::to_string(token.id) + ", but " +
                    (known >= 0 ? "vocab has it as " : "the next free one is ") +
                    std::to_string(expected));
    }
    next = std::max(next, token.id + 1);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void remark_on_length(JsonFields& fields, std::vector<std::string>& remarks) {
  for (const char* key : {"truncation", "padding"}) {
    if (fields.optional(key) != nullptr) {
      remarks.push_back(fields.where() + ": " + key +
                        " is what training or serving asks for call by call; no text is cut or "
                        "filled up here");
    }
  }
}

}  // namespace

std::unique_ptr<Tokenizer> read_hugging_face_tokenizer(const nlohmann::json& document,
                                                       const std::string& source) {
  JsonFields fields(document, source);
  fields.pass_over("version");
  const std::string in = source + ": ";
  Parts parts{
      .bpe = Bpe::read(fields.required("model"), in + "model"),
      .normaliser = read_normaliser(fields.optional("normalizer"), in + "normalizer"),
      .splitter = read_splitter(fields.optional("pre_tokenizer"), in + "pre_tokenizer"),
      .around = read_post_template(fields.optional("post_processor"), in + "post_processor"),
      .decoder = read_decoder(fields.optional("decoder"), in + "decoder"),
      .remarks = {}};
  remark_on_length(fields, parts.remarks);
  std::vector<AddedToken> added = read_added_tokens(fields, parts.bpe);
  fields.finish();
  return std::make_unique<HuggingFaceTokenizer>(std::move(parts), std::move(added));
}

}  // namespace versieve::engine
