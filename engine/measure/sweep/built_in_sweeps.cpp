// The sweeps that ship: the same text that a file of a user's would hold.
#include <array>

#include "engine/measure/sweep/batch_sweep.h"
#include "engine/measure/sweep/dense_sweeps.h"
#include "engine/measure/sweep/pair_sweep.h"
#include "engine/measure/sweep/sweep.h"
#include "engine/measure/sweep/trace_sweep.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// Under a minute on a GPU: a layer's attention, and the trained pair on short text.
constexpr std::string_view kQuick = R"({
  "name": "quick", "trace_repetitions": 3, "counter_repetitions": 2,
  "timing": {"warm_up_s": 0.02, "time_limit_s": 0.3},
  "grids": [
    {"workload": "attention", "context_len": [1024, 4096, 16384],
     "draft": ["ar", "d7k1n8", "d6k8n64"], "order": ["bfs", "dfs"]},
    {"workload": "attention", "context_len": [4096], "draft": ["d5k4n16"], "order": ["dfs"],
     "overlap": [0.2, 0.5, 0.95]},
    {"workload": "attention", "context_len": [4096], "draft": ["ar", "d5k4n16"], "order": ["dfs"],
     "cache_state": "warm"},
    {"workload": "acceptance", "regime": ["chat", "code"], "context_len": 600, "dtype": "f32",
     "draft": ["ar", "d7k1n8", "d5k4n16"]}
  ]})";

// The campaign that ships in db/measured.
constexpr std::string_view kH200Core = R"({
  "name": "h200-core",
  "timing": {"warm_up_s": 0.02, "time_limit_s": 0.25},
  "grids": [
    {"workload": "attention", "context_len": [1024, 2048, 4096, 8192, 16384, 32768, 65536],
     "draft": ["ar", "d3k2n4", "d4k4n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n128"],
     "order": ["bfs", "dfs"]},
    {"workload": "attention", "context_len": [4096, 16384, 65536],
     "draft": ["d4k4n8", "d5k4n16", "d6k8n64", "d8k8n128"], "order": "dfs",
     "overlap": [0.2, 0.5, 0.95]},
    {"workload": "attention", "context_len": [4096, 16384],
     "draft": ["d7k1n8", "d15k1n16", "d2k8n16", "d4k8n64", "d10k4n64"], "order": ["bfs", "dfs"]},
    {"workload": "attention", "context_len": [4096, 16384, 65536],
     "draft": ["ar", "d5k4n16", "d6k8n64"], "order": "dfs", "cache_state": "warm"},
    {"workload": "attention", "context_len": 16384, "draft": ["ar", "d5k4n16", "d6k8n64"],
     "order": "dfs", "launch": "stream"},
    {"workload": "step", "context_len": [1024, 2048, 4096, 8192, 16384, 32768],
     "draft": ["ar", "d3k2n4", "d7k1n8", "d4k4n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n128"],
     "order": "bfs"},
    {"workload": "step", "context_len": [2048, 8192, 16384],
     "draft": ["d4k4n8", "d5k4n16", "d6k8n64"], "order": "dfs"},
    {"workload": "step", "context_len": 65536, "draft": ["ar", "d7k1n8", "d5k4n16", "d6k8n64"],
     "order": "bfs"},
    {"workload": "acceptance", "context_len": [2048, 6144, 10240, 14336], "dtype": "f32",
     "draft": ["ar", "d7k1n8", "d3k4n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n64", "d10k4n64"],
     "order": "bfs"}
  ]})";

// The trained pair on held-out text: how many tokens a step emits.
constexpr std::string_view kDemoAcceptance = R"({
  "name": "demo-acceptance",
  "grids": [
    {"workload": "acceptance", "context_len": [2048, 6144, 10240, 14336], "dtype": "f32",
     "split": ["calibration", "test"],
     "draft": ["ar", "d7k1n8", "d3k4n8", "d5k4n16", "d6k6n32", "d6k8n64"], "order": "bfs"},
    {"workload": "acceptance", "context_len": [2048, 6144, 10240, 14336], "dtype": "f32",
     "draft": "d6k8n64", "order": ["bfs", "dfs"], "group": ["c4a", "c8a"]}
  ]})";

// The vanilla form, counted after warm-up.
constexpr std::string_view kH200Vanilla = R"({
  "name": "h200-vanilla", "trace_repetitions": 2, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.002, "min_samples": 20, "max_samples": 40, "time_limit_s": 0.04},
  "grids": [
    {"workload": "attention", "context_len": [1024, 4096, 16384, 65536],
     "draft": ["d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"], "overlap": [0.5, 0.8, 0.95],
     "form": "vanilla", "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [2048, 8192, 32768],
     "draft": ["d4k4n8", "d6k6n32", "d6k8n64"], "overlap": [0.5, 0.8], "form": "vanilla",
     "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [1024, 4096, 16384, 65536], "draft": "ar",
     "form": "vanilla", "layer": ["refresh", "reuse"], "cache_state": ["cold_rotate", "warm"]},
    {"workload": "attention", "context_len": [4096, 16384, 65536],
     "draft": ["d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"], "overlap": 0.8, "form": "vanilla",
     "layer": ["refresh", "reuse"], "cache_state": "warm"},
    {"workload": "attention", "context_len": 16384, "draft": ["ar", "d5k4n16", "d6k8n64"],
     "overlap": 0.8, "form": "vanilla", "launch": "stream"},
    {"workload": "attention", "context_len": [4096, 16384, 65536], "draft": ["d4k4n8", "d6k6n32"],
     "overlap": 0.8, "form": "vanilla", "layer": "refresh"}
  ]})";

// One layer's attention in the fused form over context, queries, overlap, group, refresh and reuse,
// warm and cold; and contexts, trees, orders and a geometry off that grid, for held-out points.
constexpr std::string_view kH200Fused = R"({
  "name": "h200-fused", "trace_repetitions": 1, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.002, "min_samples": 20, "max_samples": 40, "time_limit_s": 0.04},
  "grids": [
    {"workload": "attention", "context_len": [4096, 16384, 65536],
     "draft": ["d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"], "overlap": [0.2, 0.5, 0.8, 0.95],
     "group": ["c1", "c4e"], "layer": ["refresh", "reuse"], "cache_state": "cold_rotate"},
    {"workload": "attention", "context_len": [1024, 4096, 16384, 65536], "draft": "ar",
     "layer": ["refresh", "reuse"], "cache_state": ["cold_rotate", "warm"]},
    {"workload": "attention", "context_len": [4096, 16384, 65536],
     "draft": ["d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"], "overlap": [0.5, 0.8],
     "group": ["c8e", "c8a"], "layer": ["refresh", "reuse"], "cache_state": "cold_rotate"},
    {"workload": "attention", "context_len": [2048, 8192, 32768], "draft": ["d5k4n16", "d6k8n64"],
     "overlap": [0.5, 0.8], "group": ["c1", "c8e"], "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": 1024,
     "draft": ["d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"], "overlap": [0.5, 0.95],
     "group": ["c1", "c4e", "c8e", "c8a"], "layer": ["refresh", "reuse"],
     "cache_state": "cold_rotate"},
    {"workload": "attention", "context_len": [4096, 16384, 65536],
     "draft": ["d4k4n8", "d6k6n32", "d8k8n256"], "overlap": [0.5, 0.8], "group": ["c1", "c8e"],
     "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [4096, 16384, 65536], "draft": "d6k8n64",
     "overlap": [0.5, 0.8], "group": "c2e", "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [4096, 16384, 65536], "draft": "d6k8n64",
     "order": "dfs", "overlap": 0.8, "group": ["c1", "c4e", "c8e"], "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": 131072, "draft": ["d5k4n16", "d6k8n64"],
     "overlap": 0.8, "group": ["c1", "c8e"], "layer": ["refresh", "reuse"]},
    {"workload": "attention", "model": "nsa-8b", "context_len": [4096, 16384, 65536],
     "draft": ["d5k4n16", "d6k8n64"], "overlap": [0.5, 0.8], "group": ["c1", "c4e", "c8e"],
     "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [4096, 16384, 65536],
     "draft": ["d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"], "overlap": [0.5, 0.8],
     "group": ["c1", "c4e"], "layer": ["refresh", "reuse"], "cache_state": "warm"},
    {"workload": "attention", "context_len": [4096, 16384, 65536],
     "draft": ["d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"], "overlap": [0.2, 0.95],
     "group": ["c8e", "c8a"], "layer": ["refresh", "reuse"], "cache_state": "cold_rotate"},
    {"workload": "attention", "context_len": [4096, 16384, 65536],
     "draft": ["d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"], "overlap": [0.2, 0.95],
     "group": ["c1", "c4e", "c8e", "c8a"], "layer": ["refresh", "reuse"], "cache_state": "warm"}
  ]})";

// Contexts between and beyond those of the others, for the ranges that a plan tells apart; warm
// points whose layer fits L2 in part.
constexpr std::string_view kH200Contexts = R"({
  "name": "h200-contexts", "trace_repetitions": 1, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.002, "min_samples": 20, "max_samples": 40, "time_limit_s": 0.04},
  "grids": [
    {"workload": "attention", "context_len": [8192, 12288, 32768, 131072, 262144],
     "draft": ["d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"], "overlap": [0.5, 0.8, 0.95],
     "group": ["c1", "c8e"], "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [6144, 10240, 24576, 98304, 196608],
     "draft": ["d4k4n8", "d6k6n32", "d6k8n64"], "overlap": [0.5, 0.8], "group": ["c1", "c4e"],
     "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [8192, 12288, 32768, 131072, 262144], "draft": "ar",
     "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [8192, 12288, 32768, 131072, 262144],
     "draft": ["d5k4n16", "d6k8n64", "d8k8n128"], "overlap": 0.8, "layer": ["refresh", "reuse"],
     "cache_state": "warm"},
    {"workload": "attention", "context_len": [6144, 10240], "draft": ["d5k4n16", "d8k8n128"],
     "overlap": [0.2, 0.8], "group": ["c1", "c8a"], "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [12288, 32768], "draft": ["d6k8n64", "d8k8n128"],
     "overlap": [0.2, 0.5, 0.95], "layer": ["refresh", "reuse"], "cache_state": "warm"}
  ]})";

// Whole steps of nsa-1b: plain decoding and trees under schedules and groups.
constexpr std::string_view kH200SsvStep = R"({
  "name": "h200-ssv-step", "trace_repetitions": 1, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.01, "min_samples": 20, "max_samples": 200, "time_limit_s": 0.15},
  "grids": [
    {"workload": "step", "context_len": [1024, 4096, 16384, 65536], "draft": "ar",
     "schedule": ["F*", "(FR)*"]},
    {"workload": "step", "context_len": [1024, 4096, 16384, 65536],
     "draft": ["d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"],
     "schedule": ["F*", "(FR)*", "(FRRR)*"], "group": ["c1", "c8e"]},
    {"workload": "step", "context_len": [4096, 16384], "draft": ["d5k4n16", "d6k8n64"],
     "schedule": ["F*", "(FRRR)*"], "group": ["c4e", "c8a"]},
    {"workload": "step", "context_len": [4096, 16384], "draft": ["ar", "d6k8n64"],
     "form": "vanilla"}
  ]})";

// Whole steps as the shipped database has them; the last grid is the second with a draft of fewer
// tokens.
constexpr std::string_view kH200FusedStep = R"({
  "name": "h200-fused-step", "trace_repetitions": 1, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.01, "min_samples": 20, "max_samples": 100, "time_limit_s": 0.1},
  "grids": [
    {"workload": "step", "context_len": [4096, 16384], "draft": "ar", "schedule": "F*"},
    {"workload": "step", "context_len": [4096, 16384], "draft": ["d5k4n16", "d6k8n64"],
     "schedule": ["F*", "(FRRR)*"], "group": "c8e"},
    {"workload": "step", "context_len": [1024, 65536], "draft": "ar", "schedule": "F*"},
    {"workload": "step", "context_len": [1024, 65536], "draft": "d6k8n64",
     "schedule": ["F*", "(FRRR)*"], "group": "c8e"},
    {"workload": "step", "context_len": [4096, 16384], "draft": ["d3k2n4", "d8k8n128"],
     "schedule": "(FR)*", "group": "c1"},
    {"workload": "step", "model": "nsa-1b:v32000", "context_len": [4096, 16384],
     "draft": ["d5k4n16", "d6k8n64"], "schedule": ["F*", "(FRRR)*"], "group": "c8e"}
  ]})";

// Whole steps of the demo pair's geometry, whose draft runs all its levels in one launch.
constexpr std::string_view kH200DemoStep = R"({
  "name": "h200-demo-step", "trace_repetitions": 1, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.01, "min_samples": 20, "max_samples": 200, "time_limit_s": 0.1},
  "grids": [
    {"workload": "step", "model": "demo", "context_len": [1024, 4096, 12288],
     "strategy": ["nsa/ar", "nsa/d7k1n8/bfs/c1/F*", "nsa/d5k4n32/bfs/c8e/FRRRRRRF",
                  "nsa/d6k8n64/bfs/c4e/F*", "nsa/d6k8n64/bfs/c8a/FRRRRRRF",
                  "nsa/d10k4n32/bfs/c8e/F*", "nsa/d10k4n32/bfs/c8e/FRRRRRRF",
                  "nsa/d10k8n64/bfs/c8a/FRRRRRRF", "nsa/d14k8n64/bfs/c8a/FRRRRRRF",
                  "nsa/d8k2n24/bfs/c8e/F*", "nsa/d10k4n64/bfs/c8e/F*",
                  "nsa/d12k4n48/bfs/c8e/FRRRRRRF", "nsa/d10k6n96/bfs/c8e/F*",
                  "nsa/d12k8n96/bfs/c8a/FRRRRRRF", "nsa/d12k4n128/bfs/c4e/F*",
                  "nsa/d12k6n128/bfs/c8e/F*", "nsa/d12k6n128/bfs/c8e/FRRRRRRF",
                  "nsa/d14k8n128/bfs/c8a/FRRRRRRF"]}
  ]})";

// Samplers of chains by vocabulary, dtype, sequences and drafts, alone and behind cuts of the rows.
constexpr std::string_view kSamplers = R"({
  "name": "samplers", "trace_repetitions": 1, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.002, "min_samples": 10, "max_samples": 60, "time_limit_s": 0.03},
  "grids": [
    {"workload": "sampling", "length": [32000, 128256, 151936, 262144], "rows": [2, 5, 9, 17, 21],
     "dtype": ["f32", "bf16"],
     "case": ["sampling:baseline/chain/r1", "sampling:exact/chain/r1", "sampling:sigmoid/chain/r1",
              "sampling:exact/chain/r1/topk50/topp0.95"]},
    {"workload": "sampling", "length": [32000, 128256, 151936, 262144], "rows": [2, 5, 9, 17, 21],
     "dtype": ["f32", "bf16"],
     "case": ["sampling:exact/chain/r1/b4", "sampling:exact/chain/r1/b16",
              "sampling:sigmoid/chain/r1/b16"]},
    {"workload": "sampling", "length": [128256, 262144], "rows": 9, "dtype": ["f32", "bf16"],
     "case": ["sampling:baseline/chain/r1/b16", "sampling:exact/chain/r1/b16/topk50/topp0.95"]}
  ]})";

// Steps that draw their tokens beside the same that do not, recorded; and those of speculative
// sampling, which the host leads.
constexpr std::string_view kSampledSteps = R"({
  "name": "sampled-steps", "trace_repetitions": 2, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.01, "min_samples": 20, "max_samples": 200, "time_limit_s": 0.2},
  "grids": [
    {"workload": "step", "model": "nsa-1b:v32000", "context_len": [4096, 16384],
     "draft": ["ar", "d7k1n8", "d5k4n16", "d6k8n64", "d8k8n128"], "temperature": [0, 0.6, 1]},
    {"workload": "step", "model": "demo", "context_len": 4096,
     "draft": ["ar", "d7k1n8", "d5k4n16", "d6k8n64"], "temperature": [0, 0.6, 1]},
    {"workload": "step", "model": "nsa-1b:v32000", "context_len": 4096, "launch": "stream",
     "temperature": 1,
     "strategy": ["nsa/ar/bfs/c1/F*/sampling=exact", "nsa/d7k1n8/bfs/c1/F*/sampling=exact",
                  "nsa/d7k1n8/bfs/c1/F*/sampling=sigmoid",
                  "nsa/d6k8n64/bfs/c1/F*/sampling=exact"]}
  ]})";

// Figure 7 of Sparse Speculative Verification: dense against sparse verification by draft length,
// one layer's attention and whole steps whose draft is the same (engine/analyse/figures).
constexpr std::string_view kPaperFigures = R"({
  "name": "paper-figures", "trace_repetitions": 1, "counter_repetitions": 0,
  "timing": {"warm_up_s": 0.005, "min_samples": 20, "max_samples": 100, "time_limit_s": 0.1},
  "grids": [
    {"workload": "decode", "context_len": [16384, 65536],
     "strategy": ["dense/ar", "dense/d3k2n4/bfs/c1/F*", "dense/d4k4n8/bfs/c1/F*",
                  "dense/d5k4n16/bfs/c1/F*", "dense/d6k6n32/bfs/c1/F*", "dense/d6k8n64/bfs/c1/F*",
                  "dense/d8k8n128/bfs/c1/F*"]},
    {"workload": "attention", "context_len": [16384, 65536],
     "draft": ["ar", "d3k2n4", "d4k4n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n128"],
     "overlap": 0.8, "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [16384, 65536],
     "draft": ["d4k4n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n128"], "overlap": 0.8,
     "group": "c8e", "layer": ["refresh", "reuse"]},
    {"workload": "step", "model": "dense-1b", "context_len": [16384, 65536],
     "strategy": ["dense/ar", "dense/d6k8n8/bfs/c1/F*", "dense/d6k8n16/bfs/c1/F*",
                  "dense/d6k8n32/bfs/c1/F*", "dense/d6k8n64/bfs/c1/F*",
                  "dense/d6k8n128/bfs/c1/F*"]},
    {"workload": "step", "model": "nsa-1b", "context_len": [16384, 65536], "draft": "ar"},
    {"workload": "step", "model": "nsa-1b", "context_len": [16384, 65536],
     "draft": ["d6k8n8", "d6k8n16", "d6k8n32", "d6k8n64", "d6k8n128"], "group": ["c1", "c8e"],
     "schedule": ["F*", "(FR)*"]}
  ]})";

// "Add my GPU" (README.md of the repository): what its memory, L2, tensor cores and launches give.
constexpr std::string_view kCalibrate = R"({
  "name": "calibrate", "trace_repetitions": 0, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.05, "min_samples": 20, "max_samples": 400, "time_limit_s": 0.5},
  "grids": [
    {"workload": "machine", "case": "machine:copy", "length": [65536, 262144, 524288]},
    {"workload": "machine", "case": "machine:copy", "length": [4096, 8192, 16384],
     "cache_state": "warm"},
    {"workload": "machine", "case": "machine:launch/c64", "length": 1, "cache_state": "warm",
     "launch": ["graph", "stream"]},
    {"workload": "machine", "case": "machine:gemm/k8192m8192", "length": 1, "rows": [1, 16, 64]},
    {"workload": "machine", "case": "machine:gemm/k8192m32768", "length": 1, "rows": 1},
    {"workload": "machine", "case": "machine:gemm/k2048m2048", "length": 1, "rows": 1,
     "cache_state": "warm"},
    {"workload": "machine", "case": "machine:gemm/k4096m8192", "length": 1,
     "rows": [256, 1024, 4096]}
  ]})";

// Enough of a GPU to fit the cost model to it (engine/analyse/fit/MEASURED.md, "How few points will
// do"): corners of context, tree and group, two off the grid, and whole steps.
constexpr std::string_view kSurvey = R"({
  "name": "survey", "trace_repetitions": 1, "counter_repetitions": 1,
  "timing": {"warm_up_s": 0.01, "min_samples": 20, "max_samples": 100, "time_limit_s": 0.1},
  "grids": [
    {"workload": "attention", "context_len": [4096, 16384, 65536],
     "draft": ["d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"], "overlap": 0.5,
     "group": ["c1", "c8e"], "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [4096, 16384, 65536], "draft": ["d5k4n16", "d8k8n128"],
     "overlap": 0.95, "group": ["c1", "c8a"], "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": 1024, "draft": ["d3k2n4", "d6k8n64"], "overlap": 0.5,
     "group": ["c1", "c8e"], "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": 8192, "draft": ["d5k4n16", "d6k8n64"], "overlap": 0.8,
     "group": ["c1", "c8e"], "layer": ["refresh", "reuse"]},
    {"workload": "attention", "context_len": [1024, 4096, 16384, 65536], "draft": "ar",
     "layer": ["refresh", "reuse"]},
    {"workload": "step", "context_len": [4096, 16384], "draft": "ar", "schedule": "F*"},
    {"workload": "step", "context_len": [4096, 16384], "draft": ["d5k4n16", "d6k8n64"],
     "schedule": ["F*", "(FRRR)*"], "group": "c8e"},
    {"workload": "step", "context_len": [4096, 16384], "draft": ["d3k2n4", "d8k8n128"],
     "schedule": "(FR)*", "group": "c1"}
  ]})";

struct BuiltIn {
  std::string_view name;
  std::string_view text;
};
constexpr std::array<BuiltIn, 25> kBuiltIn = {{
    {"quick", kQuick},
    {"survey", kSurvey},
    {"h200-core", kH200Core},
    {"demo-acceptance", kDemoAcceptance},
    {"selections", kSelections},
    {"dense-steps", kDenseSteps},
    {"h200-vanilla", kH200Vanilla},
    {"h200-fused", kH200Fused},
    {"h200-contexts", kH200Contexts},
    {"h200-ssv-step", kH200SsvStep},
    {"h200-fused-step", kH200FusedStep},
    {"h200-demo-step", kH200DemoStep},
    {"h200-systems", kH200Systems},
    {"indexer", kIndexer},
    {"terms", kTerms},
    {"samplers", kSamplers},
    {"sampled-steps", kSampledSteps},
    {"paper-figures", kPaperFigures},
    {"batch", kBatchSweep},
    {"batch-shared", kBatchSharedSweep},
    {"batch-chosen", kBatchChosenSweep},
    {"batch-bytes", kBatchBytesSweep},
    {"traces", kTraceSweep},
    {"batch-energy", kBatchEnergySweep},
    {"calibrate", kCalibrate},
}};

// Of no pair and no texts in particular: what the sweep `pair` is without --model, and how it
// reads.
const std::string& usual_pair_sweep() {
  static const std::string text = pair_sweep({.positions = 1 << 14,
                                              .longest_text = 1 << 14,
                                              .regimes = text_regimes(),
                                              .splits = {"calibration", "test"}},
                                             Backend::kCuda);
  return text;
}

}  // namespace

std::vector<std::string> sweep_names() {
  std::vector<std::string> names;
  for (const BuiltIn& each : kBuiltIn) {
    names.emplace_back(each.name);
  }
  names.emplace_back(kPairSweep);
  return names;
}

std::string_view built_in_sweep(std::string_view name) {
  std::string known;
  for (const BuiltIn& each : kBuiltIn) {
    if (each.name == name) {
      return each.text;
    }
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  if (name == kPairSweep) {
    return usual_pair_sweep();
  }
  known += std::string(", ") + kPairSweep;
  throw Error(ExitCode::kUsage, "no sweep is called '" + std::string(name) + "'; there are " +
                                    known + ", or a path of a JSON file");
}

}  // namespace versieve::engine
