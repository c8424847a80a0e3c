#include "engine/measure/bench/public_path.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/io/child_program.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr int kNotFound = 127;  // of a shell and of run_child

// Sum of kernel times in us; one set of buffers used again and again (warm L2), the figure most
// favourable to it.
constexpr std::array<PublicPathTime, 12> kRecorded = {{
    {4, 4096, 132, 88, 14, 21},
    {16, 4096, 223, 106, 15, 93},
    {64, 4096, 331, 179, 26, 95},
    {128, 4096, 469, 277, 48, 116},
    {4, 16384, 167, 124, 14, 21},
    {16, 16384, 346, 201, 15, 94},
    {64, 16384, 675, 527, 26, 95},
    {128, 16384, 1163, 974, 49, 111},
    {4, 65536, 309, 260, 14, 21},
    {16, 65536, 786, 631, 15, 94},
    {64, 65536, 2029, 1878, 27, 95},
    {128, 65536, 3870, 3675, 49, 110},
}};

PublicPathRun absent(const std::string& sentence) {
  PublicPathRun run;
  run.missing_because = sentence;
  return run;
}

}  // namespace

std::optional<PublicPathTime> recorded_public_path(std::int64_t context_len, std::int64_t queries) {
  const auto found = std::find_if(kRecorded.begin(), kRecorded.end(), [&](const auto& cell) {
    return cell.context_len == context_len && cell.queries == queries;
  });
  return found != kRecorded.end() ? std::optional<PublicPathTime>(*found) : std::nullopt;
}

const char* recorded_public_path_source() {
  return "XunhaoLai/native-sparse-attention-triton@9bea856, Triton 3.6, one NVIDIA H200, "
         "2026-11-20, sum of kernel times, warm";
}

PublicPathRun parse_public_path(const std::string& printed, int exit_code) {
  if (exit_code == kNotFound) {
    return absent("python3 was not found, so the public operators were not run");
  }
  const std::size_t begin = printed.find_last_of('\n', printed.empty() ? 0 : printed.size() - 2);
  const std::string last = begin == std::string::npos ? printed : printed.substr(begin + 1);
  const json object = json::parse(last, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || (exit_code != 0 && !object.contains("error"))) {
    return absent("the script of the public operators ended with exit code " +
                  std::to_string(exit_code) + " and no result");
  }
  if (object.contains("error")) {
    return absent("the public operators were not run: " + object["error"].get<std::string>());
  }
  PublicPathRun run;
  run.versions = "torch " + object.value("torch", "?") + ", triton " + object.value("triton", "?");
  for (const json& cell : object.value("cells", json::array())) {
    run.cells.push_back({cell.value("n", std::int64_t{0}), cell.value("context", std::int64_t{0}),
                         cell.value("busy_us", 0.0), cell.value("routing_us", 0.0),
                         cell.value("selection_us", 0.0), cell.value("window_us", 0.0)});
  }
  return run;
}

PublicPathRun run_public_path(const std::string& path, const std::string& script,
                              const std::vector<PublicPathCell>& cells) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    return absent("there is no folder '" + path + "' with the public operators");
  }
  if (!std::filesystem::exists(script, ignored)) {
    return absent("the script '" + script + "' is not there: run from the repository's root");
  }
  std::vector<std::string> arguments = {"python3", script, "--path", path};
  for (const PublicPathCell& cell : cells) {
    arguments.push_back("--cell");
    arguments.push_back(std::to_string(cell.context_len) + "x" + std::to_string(cell.queries));
  }
  const ChildResult result = run_child(arguments);
  return parse_public_path(result.output, result.exit_code);
}

}  // namespace versieve::engine
