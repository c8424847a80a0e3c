// Sweeps that ship, of what reads a dense cache: ReSA, SpecAttn and an indexer beside dense
// decoding.
#pragma once

#include <string_view>

namespace versieve::engine {

// A dense pair on held-out text: what ReSA's queries and the steps of SpecAttn's draft share of
// what they choose, and the tokens a step of chains that SpecAttn verifies or the target drafts for
// itself.
inline constexpr std::string_view kSelections = R"({
  "name": "selections", "prompts": 1, "new_tokens": 64,
  "grids": [
    {"workload": "acceptance", "regime": "prose", "context_len": [1024, 2048], "dtype": "f32",
     "strategy": ["resa:b16p0.1f32/ar", "resa:b64p0.1f32/ar",
                  "specattn:p0.9/d7k1n8/bfs/c1/F*", "specattn:p0.97/d7k1n8/bfs/c1/F*",
                  "dense/d15k1n16/bfs/c1/F*/draft=resa:b16p0.1",
                  "dense/d15k1n16/bfs/c1/F*/draft=resa:b64p0.1"]},
    {"workload": "acceptance", "regime": "code", "context_len": [1024, 2048], "dtype": "f32",
     "strategy": ["resa:b16p0.1f32/ar", "resa:b64p0.1f32/ar",
                  "specattn:p0.9/d7k1n8/bfs/c1/F*", "specattn:p0.97/d7k1n8/bfs/c1/F*",
                  "dense/d15k1n16/bfs/c1/F*/draft=resa:b16p0.1",
                  "dense/d15k1n16/bfs/c1/F*/draft=resa:b64p0.1"]},
    {"workload": "acceptance", "regime": "plan", "context_len": [1024, 2048], "dtype": "f32",
     "strategy": ["resa:b16p0.1f32/ar", "resa:b64p0.1f32/ar",
                  "specattn:p0.9/d7k1n8/bfs/c1/F*", "specattn:p0.97/d7k1n8/bfs/c1/F*",
                  "dense/d15k1n16/bfs/c1/F*/draft=resa:b16p0.1",
                  "dense/d15k1n16/bfs/c1/F*/draft=resa:b64p0.1"]}
  ]})";

// Whole steps of a dense pair's own weights that ask for no draft head.
inline constexpr std::string_view kDenseSteps = R"({
  "name": "dense-steps", "trace_repetitions": 1, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.01, "min_samples": 20, "max_samples": 100, "time_limit_s": 0.1},
  "grids": [
    {"workload": "step", "model": "pair", "regime": "prose", "split": "calibration",
     "context_len": [1024, 2048],
     "strategy": ["dense/ar", "resa:b16p0.1f32/ar", "resa:b32p0.05f64/ar", "resa:b64p0.1f32/ar",
                  "dense/d7k1n8/bfs/c1/F*/draft=resa:b16p0.1",
                  "dense/d15k1n16/bfs/c1/F*/draft=resa:b16p0.1",
                  "dense/d15k1n16/bfs/c1/F*/draft=resa:b64p0.1"]}
  ]})";

// The other systems: a layer's decoding over a dense cache and whole steps of it (dense, ReSA,
// SpecAttn), top-k and samplers alone.
inline constexpr std::string_view kH200Systems = R"({
  "name": "h200-systems", "trace_repetitions": 2, "counter_repetitions": 2,
  "timing": {"warm_up_s": 0.004, "min_samples": 10, "max_samples": 120, "time_limit_s": 0.1},
  "grids": [
    {"workload": "decode", "context_len": [4096, 16384, 65536, 262144],
     "strategy": ["dense/ar", "resa:b16p0.1f32/ar", "resa:b32p0.05f64/ar", "resa:b64p0.02f128/ar",
                  "dense/d7k1n8/bfs/c1/F*", "dense/d31k1n32/bfs/c1/F*",
                  "specattn:p0.97/d7k1n8/bfs/c1/F*", "specattn:p0.9/d7k1n8/bfs/c1/F*",
                  "specattn:p0.5/d7k1n8/bfs/c1/F*"]},
    {"workload": "step", "context_len": [4096, 16384, 65536, 262144],
     "strategy": ["dense/ar", "resa:b16p0.1f32/ar", "resa:b64p0.02f128/ar"]},
    {"workload": "topk", "length": [8192, 32768, 131072, 262144], "rows": [1, 32, 128],
     "case": ["topk:radix/k256", "topk:gvr/k256/hint0.75", "topk:gvr/k256/hint0",
              "topk:radix/k2048", "topk:gvr/k2048/hint0.75"], "dtype": "f32"},
    {"workload": "topk", "length": [8192, 131072], "rows": [1, 32], "case": "topk:sort/k256",
     "dtype": "f32"},
    {"workload": "sampling", "length": [32000, 128256], "rows": [2, 5, 9, 17],
     "case": ["sampling:baseline/chain/r1", "sampling:exact/chain/r1", "sampling:sigmoid/chain/r1"]},
    {"workload": "sampling", "length": [32000, 128256], "rows": [8, 16, 32, 64, 128],
     "case": ["sampling:baseline/k4/r1", "sampling:exact/k4/r1"]},
    {"workload": "sampling", "length": 128256, "rows": [5, 17], "dtype": "f32",
     "case": ["sampling:exact/chain/r1", "sampling:exact/chain/r8"]}
  ]})";

// A token-level indexer: its steps beside dense ones, a layer of it at two geometries, its
// selection with hints and an indexer's own scores before it.
inline constexpr std::string_view kIndexer = R"({
  "name": "indexer", "trace_repetitions": 2, "counter_repetitions": 2,
  "timing": {"warm_up_s": 0.003, "min_samples": 8, "max_samples": 60, "time_limit_s": 0.05},
  "grids": [
    {"workload": "step", "model": "dense-1b", "context_len": [16384, 65536, 131072],
     "strategy": ["dense/ar", "indexer:k2048/ar", "indexer:k512/ar", "indexer:k4096/ar"]},
    {"workload": "decode", "model": ["dense-1b", "dense-8b"],
     "context_len": [8192, 16384, 65536, 131072, 262144],
     "strategy": ["indexer:k512/ar", "indexer:k2048/ar", "indexer:k4096/ar"]},
    {"workload": "topk", "length": [8192, 16384, 32768, 131072, 262144, 524288],
     "rows": [1, 32, 128],
     "case": ["topk:radix/k2048", "topk:gvr/k2048/hint0", "topk:gvr/k2048/hint0.75",
              "topk:gvr/k2048/hint1"], "dtype": "f32"},
    {"workload": "topk", "length": [8192, 16384, 32768, 131072, 262144], "rows": [1, 32, 128],
     "case": ["topk:radix/k256", "topk:gvr/k256/hint0", "topk:gvr/k256/hint0.75",
              "topk:gvr/k1024/hint0.75"], "dtype": "f32"},
    {"workload": "topk", "length": [16384, 65536, 131072, 262144, 524288], "rows": [1, 8],
     "case": "topk:gvr/k2048/hint0.75/index64x128"}
  ]})";

// The terms of a sparse step apart, KV (1/b + p + 1/f): block sizes, ratios and periods against
// each other at two geometries. Sparser ratios first: they touch less, so that their copies of a
// cache serve the others too.
inline constexpr std::string_view kTerms = R"({
  "name": "terms", "trace_repetitions": 2, "counter_repetitions": 2,
  "timing": {"warm_up_s": 0.003, "min_samples": 8, "max_samples": 60, "time_limit_s": 0.05},
  "grids": [
    {"workload": "decode", "model": ["dense-1b", "dense-8b"],
     "context_len": [4096, 16384, 65536, 131072, 262144],
     "strategy": ["resa:b64p0.02f0/ar", "resa:b32p0.02f0/ar", "resa:b16p0.02f0/ar",
                  "resa:b64p0.05f0/ar", "resa:b32p0.05f0/ar", "resa:b16p0.05f0/ar",
                  "resa:b64p0.1f0/ar", "resa:b32p0.1f0/ar", "resa:b16p0.1f0/ar",
                  "resa:b64p0.2f0/ar", "resa:b32p0.2f0/ar", "resa:b16p0.2f0/ar", "dense/ar",
                  "dense/d7k1n8/bfs/c1/F*", "dense/d31k1n32/bfs/c1/F*"]},
    {"workload": "decode", "model": ["dense-1b", "dense-8b"],
     "context_len": [4096, 16384, 65536, 262144],
     "strategy": ["resa:b64p0.02f0/ar/bfs/c1/F*/form=vanilla",
                  "resa:b32p0.02f0/ar/bfs/c1/F*/form=vanilla",
                  "resa:b16p0.02f0/ar/bfs/c1/F*/form=vanilla",
                  "resa:b64p0.05f0/ar/bfs/c1/F*/form=vanilla",
                  "resa:b32p0.05f0/ar/bfs/c1/F*/form=vanilla",
                  "resa:b16p0.05f0/ar/bfs/c1/F*/form=vanilla",
                  "resa:b64p0.1f0/ar/bfs/c1/F*/form=vanilla",
                  "resa:b32p0.1f0/ar/bfs/c1/F*/form=vanilla",
                  "resa:b16p0.1f0/ar/bfs/c1/F*/form=vanilla",
                  "resa:b64p0.2f0/ar/bfs/c1/F*/form=vanilla",
                  "resa:b32p0.2f0/ar/bfs/c1/F*/form=vanilla",
                  "resa:b16p0.2f0/ar/bfs/c1/F*/form=vanilla"]},
    {"workload": "rectify", "model": ["dense-1b", "dense-8b"],
     "context_len": [4096, 16384, 65536, 131072, 262144],
     "strategy": ["resa:b16p0.1f16/ar", "resa:b16p0.1f32/ar", "resa:b16p0.1f64/ar",
                  "resa:b16p0.1f128/ar", "resa:b16p0.1f256/ar"]},
    {"workload": "step", "model": "dense-1b",
     "context_len": [4096, 16384, 65536, 131072, 262144],
     "strategy": ["dense/ar", "resa:b16p0.1f32/ar", "resa:b32p0.05f64/ar", "resa:b64p0.02f128/ar"]},
    {"workload": "rectified_step", "model": "dense-1b",
     "context_len": [4096, 16384, 65536, 131072, 262144],
     "strategy": ["resa:b16p0.1f32/ar", "resa:b32p0.05f64/ar", "resa:b64p0.02f128/ar"]},
    {"workload": "rectified_step", "model": "dense-1b", "context_len": [4096, 65536, 262144],
     "strategy": ["resa:b32p0.05f16/ar", "resa:b32p0.05f32/ar", "resa:b32p0.05f128/ar",
                  "resa:b32p0.05f256/ar"]},
    {"workload": "step", "model": "dense-8b", "context_len": [16384, 65536],
     "strategy": ["dense/ar", "resa:b32p0.05f64/ar"]},
    {"workload": "step", "model": "dense-1b", "context_len": [4096, 16384, 65536, 262144],
     "strategy": ["dense/d7k1n8/bfs/c1/F*/draft=resa:b16p0.1",
                  "dense/d15k1n16/bfs/c1/F*/draft=resa:b16p0.1",
                  "dense/d15k1n16/bfs/c1/F*/draft=resa:b32p0.05"]},
    {"workload": "rectified_step", "model": "dense-8b", "context_len": [16384, 65536],
     "strategy": "resa:b32p0.05f64/ar"}
  ]})";

}  // namespace versieve::engine
