// Lines of an SGLang server's log, for tests of what is read from them.
#pragma once

#include <string>

namespace versieve::test {

inline const std::string kArguments =
    "[2026-01-02 10:00:00] server_args=ServerArgs(model_path='m', speculative_num_steps=3, "
    "speculative_eagle_topk=1, speculative_num_draft_tokens=4, decode_log_interval=10)\n";

inline std::string decode(int requests, const std::string& length, int tokens = 4000) {
  return "[2026-01-02 10:00:01 TP0] Decode batch, #running-req: " + std::to_string(requests) +
         ", #token: " + std::to_string(tokens) + ", token usage: 0.01, accept len: " + length +
         ", accept rate: 0.50, cuda graph: True, gen throughput (token/s): 100.00, #queue-req: 0\n";
}

}  // namespace versieve::test
