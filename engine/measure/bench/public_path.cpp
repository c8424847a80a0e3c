#include "engine/measure/bench/public_path.h"

#include <algorithm>
#include <array>

#include "engine/measure/bench/peer_script.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr const char* kOperators = "the public operators";

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

PublicPathRun run_of(const PeerAnswer& answer) {
  PublicPathRun run;
  run.missing_because = answer.missing_because;
  if (!run.missing_because.empty()) {
    return run;
  }
  const json& object = answer.object;
  run.versions = "torch " + object.value("torch", "?") + ", triton " + object.value("triton", "?");
  for (const json& cell : object.value("cells", json::array())) {
    run.cells.push_back({cell.value("n", std::int64_t{0}), cell.value("context", std::int64_t{0}),
                         cell.value("busy_us", 0.0), cell.value("routing_us", 0.0),
                         cell.value("selection_us", 0.0), cell.value("window_us", 0.0)});
  }
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
  return run_of(parse_peer_answer(printed, exit_code, kOperators));
}

PublicPathRun run_public_path(const std::string& path, const std::string& script,
                              const std::vector<PeerCell>& cells) {
  std::vector<std::string> arguments;
  for (const PeerCell& cell : cells) {
    arguments.push_back("--cell");
    arguments.push_back(std::to_string(cell.context_len) + "x" + std::to_string(cell.queries));
  }
  return run_of(run_peer_script(script, path, arguments, kOperators));
}

}  // namespace versieve::engine
