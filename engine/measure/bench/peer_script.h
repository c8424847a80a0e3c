// A script that runs somebody else's operators and prints one JSON object: what it printed, or the
// sentence that says why there is nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace versieve::engine {

struct PeerAnswer {
  std::string missing_because;  // one sentence; empty: it ran
  nlohmann::json object;
};

// What a script printed and how it ended. The last line is the object; {"error": sentence} and all
// that is no object are absence. `operators`: "the public operators".
PeerAnswer parse_peer_answer(const std::string& printed, int exit_code,
                             const std::string& operators);
// Runs `script --path PATH arguments...` with python3. What is absent is a sentence, never an
// exception.
PeerAnswer run_peer_script(const std::string& script, const std::string& path,
                           const std::vector<std::string>& arguments, const std::string& operators);

}  // namespace versieve::engine
