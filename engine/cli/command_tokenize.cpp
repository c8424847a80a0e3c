// versieve tokenize: a text's tokens, by the tokenizer of a model directory.
#include <CLI/CLI.hpp>
#include <memory>

#include "engine/cli/commands.h"
#include "engine/cli/output.h"
#include "engine/io/prompt/chat_template.h"
#include "engine/io/strict_json.h"
#include "engine/io/tokenizer/tokenizer.h"

namespace versieve::cli {
namespace {

constexpr std::int64_t kMaxTextBytes = 1LL << 30;

struct Options {
  std::filesystem::path model, in, messages;
  bool no_special = false;
  std::string each;  // "line", "zero"; empty: the file is one text
};

struct Tokenized {
  engine::TokenIds ids;
  std::string text;  // of the ids again, without what stands around the text
};

// A chat template writes BOS and its like itself.
Tokenized tokenized(const engine::Tokenizer& tokenizer, std::string_view text,
                    const Options& options) {
  const engine::TokenIds inner =
      tokenizer.encode_text(text, options.no_special ? engine::SpecialsInText::kLetters
                                                     : engine::SpecialsInText::kTokens);
  Tokenized out{.ids = inner, .text = tokenizer.decode(inner, engine::SpecialsDecoded::kWritten)};
  if (!options.no_special && options.messages.empty()) {
    out.ids.insert(out.ids.begin(), tokenizer.before().begin(), tokenizer.before().end());
    out.ids.insert(out.ids.end(), tokenizer.after().begin(), tokenizer.after().end());
  }
  return out;
}

std::string ids_text(const engine::TokenIds& ids) {
  std::string out;
  for (const std::int32_t id : ids) {
    out += (out.empty() ? "" : " ") + std::to_string(id);
  }
  return out + "\n";
}

// JSON holds whole UTF-8 alone: what is none becomes U+FFFD.
nlohmann::json json_of(const Tokenized& done, std::string_view text) {
  const nlohmann::json raw = done.text;
  const std::string whole = raw.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return {
      {"ids", done.ids}, {"text", nlohmann::json::parse(whole)}, {"same_bytes", done.text == text}};
}

// Many texts of one file: a line of the answer for each, as they come.
Answer tokenize_each(const engine::Tokenizer& tokenizer, std::string_view text,
                     const Options& options, bool json) {
  const char separator = options.each == "line" ? '\n' : '\0';
  nlohmann::json texts = nlohmann::json::array();
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view one = text.substr(0, end);
    const Tokenized done = tokenized(tokenizer, one, options);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (json) {
      texts.push_back(json_of(done, one));
    } else {
      out += ids_text(done.ids);
    }
    if (out.size() > (1 << 16)) {
      write_output(out);
      out.clear();
    }
  }
  return {.json = {{"texts", std::move(texts)}}, .text = std::move(out)};
}

void check_options(const Options& options) {
  if (options.in.empty() == options.messages.empty()) {
    throw Error(ExitCode::kUsage, "tokenize needs one text: --in or --messages");
  }
  if (!options.each.empty() && options.in.empty()) {
    throw Error(ExitCode::kUsage, "--each divides the file of --in");
  }
}

Answer run_tokenize(const Options& options, const CommandContext& context) {
  check_options(options);
  const std::unique_ptr<const engine::Tokenizer> tokenizer = engine::load_tokenizer(options.model);
  for (const std::string& remark : tokenizer->remarks()) {
    write_progress(context.json ? "" : "note: " + remark + "\n");
  }
  const bool is_chat = options.in.empty();
  const std::string text = is_chat ? engine::apply_chat_template(options.model, options.messages)
                                   : engine::read_text_file(options.in, kMaxTextBytes);
  if (!options.each.empty()) {
    return tokenize_each(*tokenizer, text, options, context.json);
  }
  const Tokenized done = tokenized(*tokenizer, text, options);
  return {.json = context.json ? json_of(done, text) : nlohmann::json(),
          .text = ids_text(done.ids)};
}

}  // namespace

Run declare_tokenize(CLI::App& app, const CommandContext& context) {
  const auto options = std::make_shared<Options>();
  app.add_option("--model", options->model,
                 "directory with tokenizer.json or tokenizer.model; no weights are needed")
      ->required();
  app.add_option("--in", options->in, "file whose bytes are the text");
  app.add_option("--messages", options->messages,
                 "instead: JSON list of {role, content}, made a text by the checkpoint's chat "
                 "template");
  app.add_flag("--no-special", options->no_special,
               "special tokens in the text are letters, and none stand around it");
  app.add_option("--each", options->each,
                 "the file holds many texts, divided by line breaks (line) or zero bytes (zero)")
      ->check(CLI::IsMember({"line", "zero"}));
  return [options, &context] { return run_tokenize(*options, context); };
}

}  // namespace versieve::cli
