// Peers of a verification bench as JSON and as text: their parts, the stronger one, the goals.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/measure/bench/verify_bench.h"

namespace versieve::engine {

// {"peers": [...], "stronger_peer": {"refresh": ..., "reuse": ...}}, put into a cell's own object.
void add_peers_json(const VerifyCell& cell, nlohmann::ordered_json& out);
// What ran, or why not. REQUIRES: bench.fla.
nlohmann::ordered_json fla_json(const VerifyBench& bench);
// Empty where no peer of this run was asked for.
std::string peers_text(const VerifyBench& bench);

}  // namespace versieve::engine
