#include "engine/run/batch/batch_prompts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/io/folder_files.h"
#include "engine/io/input_file.h"
#include "engine/io/strict_json.h"
#include "engine/io/utf8.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
constexpr int kMostDepth = 3;

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw Error(ExitCode::kBadInput, source + ": " + what);
}

TokenIds encoded(const std::string& text, const Tokenizer* tokenizer, const std::string& source) {
  if (tokenizer == nullptr) {
    refuse(source, "a text needs the model's tokenizer, which cannot be read; give tokens");
  }
  TokenIds tokens = text.empty() ? TokenIds() : tokenizer->encode(text);  // not BOS alone
  if (tokens.empty()) {
    refuse(source, "the prompt has no tokens");
  }
  return tokens;
}

TokenIds ids_of(const json& list, std::int64_t vocab, const std::string& source) {
  if (!list.is_array() || list.empty()) {
    refuse(source, "\"tokens\" is a list of token ids that is not empty");
  }
  TokenIds ids;
  for (const json& value : list) {
    if (!value.is_number_unsigned() || value >= vocab) {
      refuse(source, "'" + one_line(value.dump(-1, ' ', true).substr(0, 40)) +
                         "' is no token id from 0 to " + std::to_string(vocab - 1));
    }
    ids.push_back(value.get<std::int32_t>());
  }
  return ids;
}

std::string id_of(const json& value, const std::string& source) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (!value.is_number_integer()) {
    refuse(source, "\"id\" is a text or a whole number");
  }
  return value.dump();
}

void take_choice(BatchPrompt& prompt, const std::string& key, const json& value,
                 const std::string& source) {
  if (key == "id") {
    prompt.id = id_of(value, source);
  } else if (key == "max_new_tokens") {
    if (!value.is_number_unsigned() || value < 1 || value > INT32_MAX) {
      refuse(source, "\"max_new_tokens\" is a whole number from 1 to " + std::to_string(INT32_MAX));
    }
    prompt.max_new_tokens = value.get<std::int64_t>();
  } else if (key == "seed") {
    if (!value.is_number_unsigned()) {
      refuse(source, "\"seed\" is a whole number from 0 to " + std::to_string(UINT64_MAX));
    }
    prompt.seed = value.get<std::uint64_t>();
  } else if (key == "temperature") {
    const double least = 1e-6;  // check_temperature
    const double temperature = value.is_number() ? value.get<double>() : -1.0;
    if (!std::isfinite(temperature) || (temperature != 0.0 && temperature < least)) {
      refuse(source, "\"temperature\" is 0 or a number from 1e-6 up");
    }
    prompt.temperature = temperature;
  } else {
    refuse(source, "\"" + one_line(key.substr(0, 40)) +
                       "\" is no key of a request: prompt, tokens, id, max_new_tokens, seed, "
                       "temperature");
  }
}

BatchPrompt prompt_of_line(const std::string& line, const std::string& number,
                           const std::string& source, const Tokenizer* tokenizer,
                           std::int64_t vocab) {
  const json object = parse_strict_json(line, kMostDepth, source);
  if (!object.is_object()) {
    refuse(source, "a request is a JSON object");
  }
  BatchPrompt prompt{.id = number, .text = {}, .tokens = {}};
  if (object.contains("prompt") == object.contains("tokens")) {
    refuse(source, "a request has a \"prompt\" or \"tokens\"");
  }
  for (const auto& [key, value] : object.items()) {
    if (key == "tokens") {
      prompt.tokens = ids_of(value, vocab, source);
    } else if (key != "prompt") {
      take_choice(prompt, key, value, source);
    } else if (value.is_string()) {
      prompt.text = value.get<std::string>();
      prompt.tokens = encoded(*prompt.text, tokenizer, source);
    } else {
      refuse(source, "\"prompt\" is a text");
    }
  }
  return prompt;
}

std::vector<BatchPrompt> read_lines(const std::filesystem::path& path, const Tokenizer* tokenizer,
                                    std::int64_t vocab) {
  const std::string text = read_text_file(path, kMostBytes);
  std::vector<BatchPrompt> prompts;
  std::map<std::string, std::int64_t> line_of;  // [id]
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      const std::string source = path.string() + ", line " + std::to_string(number);
      prompts.push_back(prompt_of_line(line, std::to_string(number), source, tokenizer, vocab));
      const auto [known, is_new] = line_of.try_emplace(prompts.back().id, number);
      if (!is_new) {
        refuse(source, "two requests have the id '" + one_line(known->first) +
                           "', this one and that of line " + std::to_string(known->second));
      }
    }
  }
  return prompts;
}

std::vector<BatchPrompt> read_files(const std::vector<std::filesystem::path>& files,
                                    const Tokenizer* tokenizer) {
  std::vector<BatchPrompt> prompts;
  for (const std::filesystem::path& file : files) {
    BatchPrompt prompt{.id = file.filename().string(), .text = read_prompt(file), .tokens = {}};
    prompt.tokens = encoded(*prompt.text, tokenizer, file.string());
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace

std::vector<BatchPrompt> read_batch_prompts(const std::filesystem::path& path,
                                            const Tokenizer* tokenizer, std::int64_t vocab,
                                            std::vector<std::string>& remarks) {
  const bool is_a_folder = is_folder(path);
  const FolderFiles files = is_a_folder ? folder_files(path) : FolderFiles{};
  const std::string passed_over =
      files.passed_over.empty() ? "" : "passed over are " + files.passed_over;
  std::vector<BatchPrompt> prompts =
      is_a_folder ? read_files(files.taken, tokenizer) : read_lines(path, tokenizer, vocab);
  if (prompts.empty()) {
    refuse(path.string(), is_a_folder ? "the folder holds no file, and a prompt is a file" +
                                            (passed_over.empty() ? "" : "; " + passed_over)
                                      : "the file holds no request, and a request is a line");
  }
  if (!passed_over.empty()) {
    remarks.push_back(path.string() + ": " + passed_over + ": a prompt is a file of the folder");
  }
  return prompts;
}

}  // namespace versieve::engine
