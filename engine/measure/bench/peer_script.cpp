#include "engine/measure/bench/peer_script.h"

#include <filesystem>
#include <system_error>

#include "engine/io/child_program.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr int kNotFound = 127;  // of a shell and of run_child

PeerAnswer absent(const std::string& sentence) {
  return {.missing_because = sentence, .object = {}};
}

}  // namespace

PeerAnswer parse_peer_answer(const std::string& printed, int exit_code,
                             const std::string& operators) {
  if (exit_code == kNotFound) {
    return absent("python3 was not found, so " + operators + " were not run");
  }
  const std::size_t begin = printed.find_last_of('\n', printed.empty() ? 0 : printed.size() - 2);
  const std::string last = begin == std::string::npos ? printed : printed.substr(begin + 1);
  const json object = json::parse(last, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || (exit_code != 0 && !object.contains("error"))) {
    return absent("the script of " + operators + " ended with exit code " +
                  std::to_string(exit_code) + " and no result");
  }
  if (object.contains("error")) {
    const json& sentence = object["error"];
    return absent(operators + " were not run: " +
                  (sentence.is_string() ? sentence.get<std::string>() : sentence.dump()));
  }
  return {.missing_because = {}, .object = object};
}

PeerAnswer run_peer_script(const std::string& script, const std::string& path,
                           const std::vector<std::string>& arguments,
                           const std::string& operators) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    return absent("there is no folder '" + path + "' with " + operators);
  }
  if (!std::filesystem::exists(script, ignored)) {
    return absent("the script '" + script + "' is not there: run from the repository's root");
  }
  std::vector<std::string> command = {"python3", script, "--path", path};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const ChildResult result = run_child(command);
  return parse_peer_answer(result.output, result.exit_code, operators);
}

}  // namespace versieve::engine
