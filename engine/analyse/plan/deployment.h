// What a serving engine can take of a planner table: one draft shape, for one context bucket and
// class, as a YAML file in the engine's own words. What it cannot take, and where the numbers come
// from, stands in the comments of that file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/plan/planner.h"

namespace versieve::engine {

struct DeploymentWish {
  PrecisionClass precision = PrecisionClass::kStrict;
  std::optional<std::int64_t> context;  // tokens: the bucket that holds it; none: the last bucket
  std::string draft_model;  // path or name; empty: the file holds a name that no engine can load
};

// What an engine's file is made of.
struct DeploymentFacts {
  DraftChoice draft;
  std::string draft_model;
  bool draft_is_model = false;  // of its own; else a head on the target's streams
  bool tests_by_sigmoids = false;
  ContextBucket bucket;
  // Requests at once up to which the draft's nodes cost no time of their own (model/cost/
  // crossover.h); none: the table's machine is not in the catalogue.
  std::optional<std::int64_t> batch_limit;
  bool is_hopper = false;  // the table's machine, as far as its key says
};

// In serving_engines.cpp: one row an engine.
struct ServingEngine {
  const char* format;    // of `versieve export`
  const char* name;      // as its users write it
  const char* versions;  // whose words these are
  const char* command;   // how the file reaches it
  const char* limit;     // what `carried` cuts to
  bool counts_root;      // in its budget of nodes
  // The draft itself, or the nearest that the engine takes.
  DraftChoice (*carried)(const DraftChoice& draft);
  // YAML. REQUIRES: the draft speculates and is carried.
  std::string (*settings)(const DeploymentFacts& facts);
  // What its users must know of this draft, as sentences; empty if nothing.
  std::string (*caution)(const DeploymentFacts& facts);
  // The setting by which sampled requests keep what the draft proposed, YAML, and what it does;
  // null: it has none. What it has in the place of that, and of ReSA's and SpecAttn's attention.
  const char* keeps_drafted;
  const char* keeping;
  const char* other_acceptance;
  const char* other_attention;
};
// Null: no serving engine's format.
const ServingEngine* serving_engine(const std::string& format);

// Points into the table that it was chosen from.
struct DeploymentChoice {
  const ContextBucket* bucket = nullptr;
  const PlanEntry* best = nullptr;  // of the bucket and class
  const PlanEntry* last = nullptr;  // the lowest that is listed
  // The best entry that the engine takes whole. None: the faster of the bucket's plain chain and
  // plain decoding stands in where only chains are taken or the target drafts for itself, or `best`
  // is cut, and `evaluation` is of the uncut one.
  const PlanEntry* entry = nullptr;
  const Evaluation* evaluation = nullptr;
  DraftChoice draft;  // what the file sets

  bool is_cut() const { return entry == nullptr && evaluation == &best->evaluation; }
};
// Throws Error(kAnswerNo): a class of which the engine has nothing, a context in no bucket, a cell
// without entries.
DeploymentChoice chosen_deployment(const PlanTable& table, const ServingEngine& engine,
                                   const DeploymentWish& wish);

DeploymentFacts facts_of(const PlanTable& table, const DeploymentChoice& choice,
                         const DeploymentWish& wish);

std::string deployment_file(const PlanTable& table, const ServingEngine& engine,
                            const DeploymentWish& wish);

}  // namespace versieve::engine
