#include "engine/io/tokenizer/normaliser.h"

#include <memory>
#include <utility>
#include <vector>

#include "engine/io/tokenizer/json_fields.h"
#include "engine/io/tokenizer/json_pattern.h"
#include "engine/io/tokenizer/normal_forms.h"
#include "engine/io/utf8.h"

namespace versieve::engine {
namespace {

// Applies a change to what is UTF-8 and leaves the bytes between.
template <class Change>
std::string change_utf8(const std::string& text, const Change& change) {
  const std::string_view all = text;
  std::string out;
  std::size_t at = 0;
  while (at < all.size()) {
    const std::size_t whole = first_byte_not_utf8(all.substr(at));
    if (whole > 0) {
      out += change(all.substr(at, whole));
    }
    at += whole;
    if (at < all.size()) {
      const std::size_t broken = broken_bytes(all.substr(at));
      out.append(all.substr(at, broken));
      at += broken;
    }
  }
  return out;
}

Normaliser to_form(NormalForm form) {
  return [form](const std::string& text) {
    return change_utf8(text, [form](std::string_view part) { return normal_form(part, form); });
  };
}

Normaliser read_replace(JsonFields& fields) {
  const auto pattern = std::make_shared<const Pattern>(read_pattern(fields, "pattern"));
  const std::string content = fields.text("content");
  return [pattern, content](const std::string& text) {
    return change_utf8(text,
                       [&](std::string_view part) { return replace_all(*pattern, part, content); });
  };
}

Normaliser read_sequence(JsonFields& fields) {
  std::vector<Normaliser> parts;
  fields.required("normalizers");
  for (const nlohmann::json& part : fields.list("normalizers")) {
    const std::string where = fields.where("normalizers[" + std::to_string(parts.size()) + "]");
    parts.push_back(read_normaliser(&part, where));
  }
  return [parts](std::string text) {
    for (const Normaliser& part : parts) {
      text = part ? part(std::move(text)) : text;
    }
    return text;
  };
}

Normaliser read_known(const std::string& type, JsonFields& fields) {
  if (type == "NFC") {
    return to_form(NormalForm::kNfc);
  }
  if (type == "NFD") {
    return to_form(NormalForm::kNfd);
  }
  if (type == "NFKC") {
    return to_form(NormalForm::kNfkc);
  }
  if (type == "NFKD") {
    return to_form(NormalForm::kNfkd);
  }
  if (type == "Prepend") {
    return [prefix = fields.text("prepend")](const std::string& text) {
      return text.empty() ? text : prefix + text;
    };
  }
  if (type == "Replace") {
    return read_replace(fields);
  }
  if (type == "Sequence") {
    return read_sequence(fields);
  }
  fields.refuse("the normalizer '" + type +
                "' is not computed here; known are NFC, NFD, NFKC, NFKD, Prepend, Replace and "
                "Sequence");
}

}  // namespace

Normaliser read_normaliser(const nlohmann::json* description, const std::string& where) {
  if (description == nullptr) {
    return {};
  }
  JsonFields fields(*description, where);
  Normaliser normaliser = read_known(fields.text("type"), fields);
  fields.finish();
  return normaliser;
}

}  // namespace versieve::engine
