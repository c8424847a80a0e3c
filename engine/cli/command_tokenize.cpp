// versieve tokenize: a text's tokens, by the tokenizer of a model directory.
#include <CLI/CLI.hpp>
#include <memory>

#include "engine/cli/commands.h"
#include "engine/cli/output.h"
#include "engine/io/strict_json.h"
#include "engine/io/tokenizer/tokenizer.h"

namespace versieve::cli {
namespace {

constexpr std::int64_t kMaxTextBytes = 1LL << 30;

struct Options {
  std::filesystem::path model, in;
  bool no_special = false;
  bool lines = false;
};

struct Tokenized {
  engine::TokenIds ids;
  std::string text;  // of the ids again, without what stands around the text
};

Tokenized tokenized(const engine::Tokenizer& tokenizer, std::string_view text, bool no_special) {
  const engine::TokenIds inner = tokenizer.encode_text(
      text, no_special ? engine::SpecialsInText::kLetters : engine::SpecialsInText::kTokens);
  Tokenized out{.ids = {}, .text = tokenizer.decode(inner, engine::SpecialsDecoded::kWritten)};
  if (!no_special) {
    out.ids = tokenizer.before();
  }
  out.ids.insert(out.ids.end(), inner.begin(), inner.end());
  if (!no_special) {
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

// A line of the answer for each line of the file, as they come.
Answer tokenize_lines(const engine::Tokenizer& tokenizer, std::string_view text,
                      const Options& options, bool json) {
  Answer answer;
  nlohmann::json lines = nlohmann::json::array();
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const Tokenized done = tokenized(tokenizer, line, options.no_special);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (json) {
      lines.push_back(json_of(done, line));
    } else {
      out += ids_text(done.ids);
    }
    if (out.size() > (1 << 16)) {
      write_output(out);
      out.clear();
    }
  }
  return {.json = {{"lines", std::move(lines)}}, .text = std::move(out)};
}

Answer run_tokenize(const Options& options, const CommandContext& context) {
  const std::unique_ptr<const engine::Tokenizer> tokenizer = engine::load_tokenizer(options.model);
  const std::string text = engine::read_text_file(options.in, kMaxTextBytes);
  for (const std::string& remark : tokenizer->remarks()) {
    write_progress(context.json ? "" : "note: " + remark + "\n");
  }
  if (options.lines) {
    return tokenize_lines(*tokenizer, text, options, context.json);
  }
  const Tokenized done = tokenized(*tokenizer, text, options.no_special);
  if (!context.json) {
    return {.json = {}, .text = ids_text(done.ids)};
  }
  return {.json = json_of(done, text), .text = {}};
}

}  // namespace

Run declare_tokenize(CLI::App& app, const CommandContext& context) {
  const auto options = std::make_shared<Options>();
  app.add_option("--model", options->model,
                 "directory with tokenizer.json or tokenizer.model; no weights are needed")
      ->required();
  app.add_option("--in", options->in, "file whose bytes are the text")->required();
  app.add_flag("--no-special", options->no_special,
               "special tokens in the text are letters, and none stand around it");
  app.add_flag("--lines", options->lines,
               "each line of the file is a text, without its line break");
  return [options, &context] { return run_tokenize(*options, context); };
}

}  // namespace versieve::cli
