// The sweep of steps that are looked into launch by launch.
#pragma once

#include <string_view>

namespace versieve::engine {

// Some steps of each kind (`calibrate` in the same database draws their roofs): of nsa-1b plain
// ones, trees by context, schedule and group; over a dense cache; a vanilla one; of the trained
// pair on real text, whose nodes' choices are real ones.
inline constexpr std::string_view kTraceSweep = R"({
  "name": "traces", "trace_repetitions": 1, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.01, "min_samples": 15, "max_samples": 60, "time_limit_s": 0.1},
  "grids": [
    {"workload": "step", "model": "nsa-1b", "context_len": [4096, 16384, 65536],
     "strategy": ["nsa/d6k8n64/bfs/c8e/(FRRR)*"]},
    {"workload": "step", "model": "nsa-1b", "context_len": 16384,
     "strategy": ["nsa/ar", "nsa/d5k4n16/bfs/c8e/F*", "nsa/d6k8n64/bfs/c8e/F*",
                  "nsa/d6k8n64/dfs/c1/F*"]},
    {"workload": "step", "model": "dense-1b", "context_len": 16384,
     "strategy": ["dense/ar", "resa:b16p0.1f32/ar", "indexer:k2048/ar"]},
    {"workload": "step", "model": "demo", "context_len": 4096, "launch": "stream",
     "strategy": ["nsa/d6k8n64/bfs/c1/F*/form=vanilla"]},
    {"workload": "step", "model": "pair", "regime": "code", "split": "calibration",
     "context_len": 6144,
     "strategy": ["nsa/ar", "nsa/d5k4n32/bfs/c8e/F*", "nsa/d6k8n64/dfs/c4e/F*"]}
  ]})";

}  // namespace versieve::engine
