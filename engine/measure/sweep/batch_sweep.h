// The sweeps of steps of many requests that ship.
#pragma once

#include <string_view>

namespace versieve::engine {

// 1 to 128 requests at once: plain, chains and trees of 8 to 32 nodes; contexts of all alike, and
// mixed ones; over a dense cache too. Times and kernels' times. Samples are few: a step of the
// largest takes a tenth of a second. What a plan of one context needs comes first, so that a part
// of it can be fitted.
inline constexpr std::string_view kBatchSweep = R"({
  "name": "batch", "trace_repetitions": 1, "counter_repetitions": 0,
  "timing": {"warm_up_s": 0.0, "min_samples": 15, "max_samples": 40, "time_limit_s": 0.25},
  "grids": [
    {"workload": "batch", "model": "nsa-1b", "context_len": [16384],
     "requests": [1, 2, 4, 8, 16, 32, 64, 128],
     "strategy": ["nsa/ar", "nsa/d3k1n4/bfs/c4e/F*", "nsa/d6k3n8/bfs/c8e/F*",
                  "nsa/d4k4n16/bfs/c8e/F*", "nsa/d6k6n32/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [4096],
     "requests": [1, 2, 4, 8, 16, 32, 64, 128],
     "strategy": ["nsa/ar", "nsa/d3k1n4/bfs/c4e/F*", "nsa/d4k4n16/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [16384], "requests": [2, 8, 32],
     "strategy": ["nsa/d4k1n5/bfs/c1/F*", "nsa/d8k8n128/bfs/c1/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": 16384, "contexts": "mixed",
     "requests": [4, 16, 32, 64], "strategy": ["nsa/ar", "nsa/d4k4n16/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [65536, 1024],
     "requests": [2, 8, 32, 128], "strategy": ["nsa/ar", "nsa/d4k4n16/bfs/c8e/F*"]},
    {"workload": "batch", "model": "dense-1b", "context_len": [4096, 16384],
     "requests": [1, 2, 4, 8, 16, 32, 64, 128],
     "strategy": ["dense/ar", "dense/d4k1n5/bfs/c1/F*"]}
  ]})";

// Trees whose neighbours share as many blocks as a trained pair's texts do, which random weights do
// not: some of those of `batch`, at the share of smollm2-nsa's trees and one between.
inline constexpr std::string_view kBatchSharedSweep = R"({
  "name": "batch-shared", "trace_repetitions": 1, "counter_repetitions": 0,
  "timing": {"warm_up_s": 0.0, "min_samples": 15, "max_samples": 40, "time_limit_s": 0.2},
  "grids": [
    {"workload": "batch", "model": "nsa-1b", "context_len": [16384], "overlap": 0.85,
     "requests": [8, 32, 64, 2, 16],
     "strategy": ["nsa/d6k3n8/bfs/c8e/F*", "nsa/d4k4n16/bfs/c8e/F*", "nsa/d6k6n32/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [4096], "overlap": 0.85,
     "requests": [8, 32, 128], "strategy": ["nsa/d6k3n8/bfs/c8e/F*", "nsa/d4k4n16/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [16384], "overlap": 0.65,
     "requests": [8, 32], "strategy": ["nsa/d6k3n8/bfs/c8e/F*", "nsa/d6k6n32/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [4096], "overlap": 0.85,
     "requests": [4, 64], "strategy": ["nsa/d6k3n8/bfs/c8e/F*", "nsa/d3k1n4/bfs/c4e/F*"]}
  ]})";

// Steps of many requests that choose the tokens that they read: ReSA, a token-level indexer.
inline constexpr std::string_view kBatchChosenSweep = R"({
  "name": "batch-chosen", "trace_repetitions": 1, "counter_repetitions": 0,
  "timing": {"warm_up_s": 0.0, "min_samples": 15, "max_samples": 40, "time_limit_s": 0.25},
  "grids": [
    {"workload": "batch", "model": "dense-1b", "context_len": [16384],
     "requests": [1, 2, 4, 8, 16, 32],
     "strategy": ["dense/ar", "resa:b16p0.1f32/ar", "indexer:k2048/ar"]},
    {"workload": "batch", "model": "dense-1b", "context_len": [65536],
     "requests": [1, 2, 4, 8],
     "strategy": ["dense/ar", "resa:b16p0.1f32/ar", "indexer:k2048/ar"]},
    {"workload": "batch", "model": "dense-1b", "context_len": [16384],
     "requests": [2, 8, 32],
     "strategy": ["resa:b64p0.05f32/ar", "indexer:k2048/d4k1n5/bfs/c1/F*"]},
    {"workload": "batch", "model": "dense-1b", "context_len": 16384, "contexts": "mixed",
     "requests": [4, 16], "strategy": ["resa:b16p0.1f32/ar", "indexer:k2048/ar"]}
  ]})";

// Counters of some of them: opening and closing a collection of a step's launches takes seconds.
inline constexpr std::string_view kBatchBytesSweep = R"({
  "name": "batch-bytes", "trace_repetitions": 0, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.0, "min_samples": 5, "max_samples": 5, "time_limit_s": 0.05},
  "grids": [
    {"workload": "batch", "model": "nsa-1b", "context_len": [16384],
     "requests": [2, 8, 32, 64], "strategy": ["nsa/ar", "nsa/d4k4n16/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [4096],
     "requests": [4, 16, 64, 128], "strategy": ["nsa/ar", "nsa/d4k4n16/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [16384], "requests": [4, 16],
     "strategy": ["nsa/ar", "nsa/d3k1n4/bfs/c4e/F*", "nsa/d4k4n16/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [65536],
     "requests": [2, 8, 16], "strategy": ["nsa/ar", "nsa/d4k4n16/bfs/c8e/F*"]},
    {"workload": "batch", "model": "dense-1b", "context_len": [4096],
     "requests": [2, 8, 32], "strategy": ["dense/ar", "dense/d4k1n5/bfs/c1/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [16384], "requests": [8, 32],
     "strategy": ["nsa/d6k3n8/bfs/c8e/F*", "nsa/d6k6n32/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [4096], "requests": [2, 8, 32],
     "strategy": ["nsa/ar", "nsa/d3k1n4/bfs/c4e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": 16384, "contexts": "mixed",
     "requests": [8, 32], "strategy": ["nsa/ar"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [16384], "requests": [2, 16],
     "strategy": ["nsa/d8k8n128/bfs/c1/F*"]},
    {"workload": "batch", "model": "dense-1b", "context_len": [16384],
     "requests": [4, 16], "strategy": ["dense/ar", "dense/d4k1n5/bfs/c1/F*"]},
    {"workload": "batch", "model": "dense-1b", "context_len": [4096], "requests": [4, 16, 64],
     "strategy": ["dense/ar"]}
  ]})";

// What some of them take of energy.
inline constexpr std::string_view kBatchEnergySweep = R"({
  "name": "batch-energy", "trace_repetitions": 0, "counter_repetitions": 0, "energy_s": 0.6,
  "timing": {"warm_up_s": 0.0, "min_samples": 7, "max_samples": 7, "time_limit_s": 0.1},
  "grids": [
    {"workload": "batch", "model": "nsa-1b", "context_len": [16384],
     "requests": [1, 4, 8, 32, 64],
     "strategy": ["nsa/ar", "nsa/d3k1n4/bfs/c4e/F*", "nsa/d6k3n8/bfs/c8e/F*",
                  "nsa/d6k6n32/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [4096],
     "requests": [2, 16, 128], "strategy": ["nsa/ar", "nsa/d4k4n16/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "context_len": [65536],
     "requests": [1, 8], "strategy": ["nsa/ar", "nsa/d4k4n16/bfs/c8e/F*"]},
    {"workload": "batch", "model": "dense-1b", "context_len": [4096],
     "requests": [1, 8, 64], "strategy": ["dense/ar", "dense/d4k1n5/bfs/c1/F*"]},
    {"workload": "batch", "model": "dense-1b", "context_len": [16384], "requests": [8],
     "strategy": ["dense/ar", "dense/d4k1n5/bfs/c1/F*"]}
  ]})";

}  // namespace versieve::engine
