#include "engine/io/task_file.h"

#include <algorithm>

#include "engine/io/config_fields.h"
#include "engine/io/sha256.h"
#include "engine/io/strict_json.h"

namespace versieve::engine {
namespace {

// A list that holds something. `where`: of the object, for sentences.
const nlohmann::json& list_of(const ConfigFields& fields, const char* key) {
  const nlohmann::json& list = fields.value(key);
  if (!list.is_array() || list.empty()) {
    fields.refuse(std::string(key) + " must be a list that holds something");
  }
  return list;
}

ConfigFields fields_of(const nlohmann::json& entry, const std::string& where) {
  static const nlohmann::json none = nlohmann::json::object();
  if (!entry.is_object()) {
    ConfigFields(none, where).refuse("must be an object");
  }
  return {entry, where};
}

// A place in the text: no further than its end and not within a character.
void check_place(const ConfigFields& fields, const char* key, std::int64_t place,
                 const std::string& text) {
  const std::size_t at = static_cast<std::size_t>(place);
  if (at > text.size()) {
    fields.refuse(std::string(key) + " is " + std::to_string(place) +
                  ", beyond the text's end at " + std::to_string(text.size()));
  }
  constexpr unsigned kContinues = 0x80;  // the two high bits of a character's later bytes
  if (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == kContinues) {
    fields.refuse(std::string(key) + " is " + std::to_string(place) +
                  ", which is within a character of the text");
  }
}

std::vector<std::string> choices_of(const ConfigFields& fields) {
  std::vector<std::string> choices;
  for (const nlohmann::json& choice : list_of(fields, "choices")) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty()) {
      fields.refuse("choices must be texts that are not empty");
    }
    choices.push_back(choice.get<std::string>());
    if (std::count(choices.begin(), choices.end(), choices.back()) > 1) {
      fields.refuse("two choices are the same");
    }
  }
  if (choices.size() < 2) {
    fields.refuse("a question needs two choices or more");
  }
  return choices;
}

TaskQuestion question_of(const ConfigFields& fields, const std::string& text) {
  TaskQuestion question;
  question.at = fields.integer_or("at", 1, static_cast<std::int64_t>(text.size()));
  check_place(fields, "at", question.at, text);
  question.ask = fields.text_or("ask", "");
  question.choices = choices_of(fields);
  question.answer = static_cast<std::size_t>(fields.integer("answer", 0));
  if (question.answer >= question.choices.size()) {
    fields.refuse("answer is " + std::to_string(question.answer) + ", and there are " +
                  std::to_string(question.choices.size()) + " choices, counted from 0");
  }
  if (fields.has("evidence")) {
    question.evidence = fields.integer("evidence", 0);
    if (*question.evidence >= question.at) {
      fields.refuse("evidence must stand before the question");
    }
  }
  return question;
}

TaskContext context_of(const ConfigFields& fields, const std::string& where) {
  TaskContext context{.source = fields.text_or("source", ""),
                      .licence = fields.text_or("licence", ""),
                      .text = fields.text("text"),
                      .questions = {}};
  if (context.text.empty()) {
    fields.refuse("text is empty");
  }
  for (const nlohmann::json& entry : list_of(fields, "questions")) {
    const std::string place = where + ", question " + std::to_string(context.questions.size() + 1);
    context.questions.push_back(question_of(fields_of(entry, place), context.text));
  }
  return context;
}

}  // namespace

std::int64_t TaskSet::question_count() const {
  std::size_t count = 0;
  for (const TaskContext& context : contexts) {
    count += context.questions.size();
  }
  return static_cast<std::int64_t>(count);
}

TaskSet read_task_set(const std::filesystem::path& path) {
  const nlohmann::json document = read_json_object(path);
  const ConfigFields file(document, path.string());
  if (file.text_or("format", "") != kTaskFormat || file.integer_or("schema", 1, 0) != kTaskSchema) {
    file.refuse("this is no task set of schema " + std::to_string(kTaskSchema) +
                ", as engine/demo/tasks.py writes it");
  }
  TaskSet set{.name = file.text("name"),
              .question = file.text_or("question", ""),
              .sha256 = sha256_of_file(path),
              .contexts = {}};
  if (set.name.empty()) {
    file.refuse("name is empty");
  }
  for (const nlohmann::json& entry : list_of(file, "contexts")) {
    const std::string where =
        path.string() + ": context " + std::to_string(set.contexts.size() + 1);
    set.contexts.push_back(context_of(fields_of(entry, where), where));
  }
  return set;
}

}  // namespace versieve::engine
