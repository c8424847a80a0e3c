// The planner table as files: JSON (everything, read back by the app, the runtime guard and
// export), CSV (a header and one line an entry; table_csv.cpp), a C++ header (constexpr arrays and
// a look-up; table_cpp.cpp), and text for people. Every form says where its numbers come from.
#pragma once

#include <string>

#include "model/plan/planner.h"

namespace versieve::engine {

// Of the JSON form.
inline constexpr const char* kTableFormat = "versieve planner table";
// Of every form's tokens a step.
inline constexpr const char* kBonusToken = "counted";

std::string plan_table_json(const PlanTable& table);
// Throws Error(kBadInput) for a file that is not a table or of another schema.
PlanTable read_plan_table(const std::string& path);

std::string plan_table_csv(const PlanTable& table);
// `name`: of its namespace within versieve_plan; empty: of its machine and geometry.
std::string plan_table_cpp(const PlanTable& table, const std::string& name = "");
// Throws Error(kUsage): it cannot be a namespace's name.
void check_cpp_name(const std::string& name);
// Top `ranks` of each cell with intervals, what bounds them, and where the numbers come from.
std::string plan_table_text(const PlanTable& table, std::int64_t ranks);
// By bucket and class a line a number of requests at a time, memory, and where kinds of draft
// switch. REQUIRES: has_concurrency(table).
std::string concurrency_text(const PlanTable& table);

// `format`: json, csv, cpp, or a serving engine's (deployment.h), which gets class Strict in the
// last bucket. Throws Error(kUsage) for an unknown one. `name`: of cpp alone.
std::string exported_table(const PlanTable& table, const std::string& format,
                           const std::string& name = "");

}  // namespace versieve::engine
