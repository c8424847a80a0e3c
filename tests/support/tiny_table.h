// A planner table written by hand, of trees that a tiny pair plays in milliseconds.
#pragma once

#include <string>

#include "model/plan/planner.h"

namespace versieve::test {

inline Evaluation told(const std::string& strategy, double step_us = 100.0, double accepted = 2.0) {
  Evaluation e;
  e.strategy = Strategy::parse(strategy);
  e.cost = StepCost{.time_us = step_us};
  e.expected_accepted = accepted;
  e.throughput = 1e6 * accepted / step_us;
  e.throughput_interval = {0.9 * e.throughput, 1.1 * e.throughput};
  e.accepted_interval = {accepted, accepted};
  e.latency_interval_us = {step_us, step_us};
  return e;
}

// Buckets 0-64, 64-256 and 256-1024; in each three Strict tuples, two that reuse blocks, one with
// approximate groups, and one whose attention no NSA target has.
inline PlanTable tiny_table() {
  PlanTable table;
  table.hardware = "h100-sxm";
  table.model = "nsa-1b";
  table.provenance_note = "by hand";
  table.dtype = "bf16";
  table.launch = "graph";
  table.buckets = {{0, 64}, {64, 256}, {256, 1024}};
  table.classes = {PrecisionClass::kStrict, PrecisionClass::kReuseOnly, PrecisionClass::kApproxOnly,
                   PrecisionClass::kSparse};
  for (std::int64_t bucket = 0; bucket < 3; ++bucket) {
    const auto add = [&](PrecisionClass precision, std::int64_t rank, const char* strategy) {
      table.entries.push_back(
          {.bucket = bucket, .precision = precision, .rank = rank, .evaluation = told(strategy)});
    };
    add(PrecisionClass::kStrict, 1, "nsa/d3k2n6/dfs/c2e/F*");
    add(PrecisionClass::kStrict, 2, "nsa/d2k2n4/bfs/c1/F*");
    add(PrecisionClass::kStrict, 3, "nsa/d4k1n5/bfs/c1/F*");
    add(PrecisionClass::kReuseOnly, 1, "nsa/d3k2n6/dfs/c2e/(FR)*");
    add(PrecisionClass::kReuseOnly, 2, "nsa/d2k2n4/bfs/c1/F*");
    add(PrecisionClass::kApproxOnly, 1, "nsa/d3k3n8/bfs/c8a/F*");
    add(PrecisionClass::kSparse, 1, "specattn:p0.9/d2k1n3/bfs/c1/F*");
    table.baselines.push_back(
        {.bucket = bucket, .role = "autoregressive", .evaluation = told("nsa/ar", 50.0, 1.0)});
    table.baselines.push_back(
        {.bucket = bucket, .role = "fixed", .evaluation = told("nsa/d3k3n12/bfs/c1/F*")});
  }
  return table;
}

// tiny_table(), in which other tuples stand in the second bucket.
inline PlanTable bordered_table() {
  PlanTable table = tiny_table();
  for (PlanEntry& e : table.entries) {
    if (e.bucket == 1 && e.precision == PrecisionClass::kStrict && e.rank == 1) {
      e.evaluation = told("nsa/d2k3n7/bfs/c1/F*");
    }
  }
  return table;
}

}  // namespace versieve::test
