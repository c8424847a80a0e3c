#include "engine/io/tokenizer/post_template.h"

#include "engine/io/tokenizer/json_fields.h"

namespace versieve::engine {
namespace {

std::int32_t id_in(const nlohmann::json& value, const JsonFields& fields) {
  constexpr std::int64_t kMost = 1LL << 31;
  if (!value.is_number_integer() || value < 0 || value >= kMost) {
    fields.refuse("a special token's id is no id");
  }
  return value.get<std::int32_t>();
}

// What the name of a special token stands for.
std::vector<std::int32_t> ids_of(const std::string& name, JsonFields& fields) {
  const nlohmann::json& all = fields.required("special_tokens");
  if (!all.is_object() || !all.contains(name)) {
    fields.refuse("special_tokens has no '" + name + "'");
  }
  JsonFields token(all[name], fields.where("special_tokens." + name));
  token.pass_over("id");
  token.pass_over("tokens");
  token.required("ids");
  std::vector<std::int32_t> ids;
  for (const nlohmann::json& id : token.list("ids")) {
    ids.push_back(id_in(id, token));
  }
  token.finish();
  return ids;
}

PostTemplate read_template(JsonFields& fields) {
  PostTemplate out;
  bool text_seen = false;
  fields.required("single");
  for (const nlohmann::json& part : fields.list("single")) {
    const bool is_token = part.is_object() && part.contains("SpecialToken");
    JsonFields outer(part, fields.where("single"));
    JsonFields inner(outer.required(is_token ? "SpecialToken" : "Sequence"),
                     fields.where("single"));
    inner.pass_over("type_id");
    const std::string id = inner.text("id");
    inner.finish();
    outer.finish();
    if (!is_token && (text_seen || id != "A")) {
      fields.refuse("single must hold the text once, as the sequence A");
    }
    text_seen = text_seen || !is_token;
    if (is_token) {
      const std::vector<std::int32_t> ids = ids_of(id, fields);
      std::vector<std::int32_t>& side = text_seen ? out.after : out.before;
      side.insert(side.end(), ids.begin(), ids.end());
    }
  }
  if (!text_seen) {
    fields.refuse("single has no place for the text");
  }
  fields.pass_over("special_tokens");
  fields.pass_over("pair");  // two texts are never encoded as one here
  return out;
}

// [CLS] text [SEP], both as ["token", id].
PostTemplate read_bert(JsonFields& fields) {
  PostTemplate out;
  for (const char* key : {"cls", "sep"}) {
    const nlohmann::json& pair = fields.required(key);
    if (!pair.is_array() || pair.size() != 2) {
      fields.refuse(std::string(key) + " must be a token and its id");
    }
    (key[0] == 'c' ? out.before : out.after).push_back(id_in(pair[1], fields));
  }
  fields.pass_over("trim_offsets");
  fields.pass_over("add_prefix_space");
  return out;
}

PostTemplate read_sequence(JsonFields& fields) {
  PostTemplate out;
  fields.required("processors");
  for (const nlohmann::json& part : fields.list("processors")) {
    const PostTemplate outer = read_post_template(&part, fields.where("processors"));
    const bool adds = !outer.before.empty() || !outer.after.empty();
    if (adds && (!out.before.empty() || !out.after.empty())) {
      fields.refuse(
          "two processors put tokens around the text, and the second would take them for "
          "a text of their own");
    }
    out.before.insert(out.before.begin(), outer.before.begin(), outer.before.end());
    out.after.insert(out.after.end(), outer.after.begin(), outer.after.end());
  }
  return out;
}

PostTemplate read_known(const std::string& type, JsonFields& fields) {
  if (type == "TemplateProcessing") {
    return read_template(fields);
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return read_bert(fields);
  }
  if (type == "Sequence") {
    return read_sequence(fields);
  }
  if (type == "ByteLevel") {  // of offsets, which are not made here
    for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) {
      fields.pass_over(key);
    }
    return {};
  }
  fields.refuse("the post-processor '" + type +
                "' is not computed here; known are TemplateProcessing, ByteLevel, BertProcessing, "
                "RobertaProcessing and Sequence");
}

}  // namespace

PostTemplate read_post_template(const nlohmann::json* description, const std::string& where) {
  if (description == nullptr) {
    return {};
  }
  JsonFields fields(*description, where);
  PostTemplate found = read_known(fields.text("type"), fields);
  fields.finish();
  return found;
}

}  // namespace versieve::engine
