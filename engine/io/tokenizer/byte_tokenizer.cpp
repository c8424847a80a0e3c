#include "engine/io/tokenizer/byte_tokenizer.h"

#include "engine/io/tokenizer/json_fields.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::int32_t kBytes = 256;  // ids below are byte values

std::int32_t special_id(JsonFields& specials, const char* name, std::int64_t vocab) {
  const std::int64_t id = specials.integer(name);
  if (id < kBytes || id >= vocab) {
    specials.refuse(std::string(name) + " must be an id from 256 below vocab_size");
  }
  return static_cast<std::int32_t>(id);
}

}  // namespace

ByteTokenizer ByteTokenizer::read(const nlohmann::json& document, const std::string& source) {
  JsonFields fields(document, source);
  if (const std::string type = fields.text("type"); type != "bytes") {
    fields.refuse("the type '" + type + "' is not known; this project's own is 'bytes'");
  }
  const std::int64_t vocab = fields.integer("vocab_size");
  JsonFields specials(fields.required("specials"), fields.where("specials"));
  const bool pads = specials.optional("<pad>") != nullptr;
  const ByteTokenizer out(static_cast<std::int32_t>(vocab), special_id(specials, "<bos>", vocab),
                          special_id(specials, "<eos>", vocab),
                          pads ? special_id(specials, "<pad>", vocab) : -1);
  specials.finish();
  fields.finish();
  return out;
}

ByteTokenizer::ByteTokenizer(std::int32_t vocab, std::int32_t bos, std::int32_t eos,
                             std::int32_t pad)
    : vocab_(vocab), before_{bos}, eos_(eos), pad_(pad) {
  VERSIEVE_ASSERT(bos >= kBytes && bos < vocab, "BOS is a special id");
  VERSIEVE_ASSERT(eos >= kBytes && eos < vocab, "EOS is a special id");
}

TokenIds ByteTokenizer::encode_text(std::string_view text, SpecialsInText) const {
  TokenIds ids;
  ids.reserve(text.size());
  for (const char byte : text) {
    ids.push_back(static_cast<unsigned char>(byte));
  }
  return ids;
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> ids, SpecialsDecoded) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < kBytes) {
      text.push_back(static_cast<char>(id));
    }
  }
  return text;
}

}  // namespace versieve::engine
