// Plans of several requests at a time: when speculation breaks even, from how many requests on a
// tree yields to a chain and a chain to plain decoding, and which number of requests serves best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/plan/planner.h"

namespace versieve {

inline constexpr std::int64_t kMostConcurrency = 256;
// "1,4,16,64", ascending, with 1 where it is left out; throws Error(kUsage).
std::vector<std::int64_t> parse_concurrency(const std::string& text);

// A tuple's step against plain decoding's of as many requests and contexts.
struct Speculation {
  double break_even = 1.0;  // tokens a step: its time over a plain one's
  // 90 %; of class Strict from 1 on, as such a step does all that a plain one does.
  Interval break_even_interval{1.0, 1.0};
  double loses = 0.0;  // probability that plain decoding yields more; 0 of itself
};
Speculation speculation_of(const Evaluation& tuple, const Evaluation& plain);
// Tokens a second of one request, and ms between two tokens of it, with its 90 % interval.
double request_throughput(const Evaluation& tuple, std::int64_t concurrency);
double inter_token_ms(const Evaluation& tuple, std::int64_t concurrency);
Interval inter_token_interval_ms(const Evaluation& tuple, std::int64_t concurrency);

// Do 90 % of such requests see what the aims bound? `tokens` of a prompt.
bool keeps_bounds(const PlanAims& aims, const Evaluation& tuple, std::int64_t concurrency,
                  std::int64_t tokens);

// A table and those of more requests at a time that it holds, ascending.
std::vector<const PlanTable*> by_concurrency(const PlanTable& table);
// That of so many requests; throws Error(kUsage) naming those that there are.
const PlanTable& table_of(const PlanTable& table, std::int64_t requests);
// Does it say anything of several requests at a time, or is it after more than tokens a second?
bool has_concurrency(const PlanTable& table);
// Why a plan has no tuple at all, where nothing keeps what its aims bound: no table then, but an
// answer; empty if something does.
std::string kept_by_none_text(const PlanTable& table);
// Of its file's form: one request at a time without a bound has the older one.
std::int64_t schema_of(const PlanTable& table);
// Plain decoding of a bucket; null where the bucket was not planned.
const Evaluation* plain_of(const PlanTable& table, std::int64_t bucket);
// First of its class in a bucket, or null.
const PlanEntry* best_of(const PlanTable& table, std::int64_t bucket, PrecisionClass precision);

// Of a bucket and class: the number of requests at a time that the table's objective puts first, by
// the most tokens a second in all or the most a joule; of a table with bounds (PlanAims) its
// entries keep them. Null entry: none is there.
struct OperatingPoint {
  const PlanTable* table = nullptr;
  const PlanEntry* entry = nullptr;
};
OperatingPoint operating_point(const PlanTable& table, std::int64_t bucket,
                               PrecisionClass precision);

// REQUIRES: tables of one plan by concurrency. Switches of all its buckets and classes, by the best
// of the tuples that these tables list, priced between their numbers of requests.
std::vector<SwitchPoint> switch_points(const FittedModel& fit, const HardwareSpec& hardware,
                                       const LlmShape& target, const PlanOptions& options,
                                       const PlanTable& table);
// "tree d7k6n64 to chain d4k1n5 at 23 requests [9, more than 64]".
std::string text_of(const SwitchPoint& point, const PlanTable& table);
// What times of several requests and their intervals rest on, sentences: of a fit for such a
// target, and of a table; empty of a plan of one.
std::string batch_text(const FittedModel& fit, AttentionKind target, const HardwareSpec& hardware);
std::string batch_text(const PlanTable& table);

}  // namespace versieve
