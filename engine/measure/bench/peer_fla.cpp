#include "engine/measure/bench/peer_fla.h"

#include <bit>

#include "engine/io/formatted.h"
#include "engine/measure/bench/peer_script.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr const char* kOperators = "flash-linear-attention's operators";
constexpr std::int64_t kLeastGroupHeads = 16;  // parallel_nsa's own limit

PeerTime time_of(const json& cell) {
  const auto count = [&](const char* key) { return cell.at(key).get<std::int64_t>(); };
  const auto us = [&](const char* key) { return cell.at(key).get<double>(); };
  return {.name = "parallel_nsa",
          .heads = {count("heads"), count("kv_heads")},
          .queries = count("n"),
          .context_len = count("context"),
          .overlap = us("overlap"),
          .whole_us = us("whole_us"),
          .kept_us = us("kept_us"),
          .given_us = us("given_us"),
          .pooling_us = us("pooling_us"),
          .routing_us = us("routing_us"),
          .selection_us = us("selection_us"),
          .window_us = us("window_us")};
}

FlaRun run_of(const PeerAnswer& answer) {
  FlaRun run;
  run.missing_because = answer.missing_because;
  if (!run.missing_because.empty()) {
    return run;
  }
  try {
    const json& object = answer.object;
    const auto text = [&](const char* key) { return object.at(key).get<std::string>(); };
    run.package = text("package") + " (" + text("licence") + ")";
    run.versions = "torch " + text("torch") + ", triton " + text("triton");
    run.window_by = text("window_by");
    for (const json& cell : object.at("cells")) {
      run.cells.push_back(time_of(cell));
    }
  } catch (const json::exception&) {
    return {.missing_because = std::string("the script of ") + kOperators +
                               " printed another result than its own"};
  }
  return run;
}

}  // namespace

std::vector<HeadCounts> fla_heads(const LlmShape& layer) {
  const std::int64_t group = layer.num_heads / layer.num_kv_heads;
  if (group >= kLeastGroupHeads && std::has_single_bit(static_cast<std::uint64_t>(group))) {
    return {{layer.num_heads, layer.num_kv_heads}};
  }
  std::vector<HeadCounts> heads;
  if (layer.num_kv_heads > 1) {
    const std::int64_t half = layer.num_kv_heads / 2;
    heads.push_back({half * kLeastGroupHeads, half});
  }
  heads.push_back({layer.num_kv_heads * kLeastGroupHeads, layer.num_kv_heads});
  return heads;
}

FlaRun run_fla(const std::string& path, const std::string& script, const FlaRequest& request) {
  std::vector<std::string> arguments = {"--head-dim", std::to_string(request.head_dim), "--cache",
                                        request.warm ? "warm" : "cold"};
  const auto add = [&](const char* option, const std::string& value) {
    arguments.push_back(option);
    arguments.push_back(value);
  };
  for (const HeadCounts& heads : request.heads) {
    add("--heads", std::to_string(heads.query) + "/" + std::to_string(heads.kv));
  }
  for (const PeerCell& cell : request.cells) {
    add("--cell", std::to_string(cell.context_len) + "x" + std::to_string(cell.queries));
  }
  for (const double overlap : request.overlaps) {
    add("--overlap", exact_decimal(overlap));
  }
  return run_of(run_peer_script(script, path, arguments, kOperators));
}

FlaRun parse_fla(const std::string& printed, int exit_code) {
  return run_of(parse_peer_answer(printed, exit_code, kOperators));
}

}  // namespace versieve::engine
