// A plan of several requests at once is a table of contexts and requests; what is shown side by
// side is a slice of it: all context ranges at one number of requests, or all numbers of requests
// of one range.
#pragma once

#include <QString>
#include <QStringList>
#include <cstdint>

#include "model/plan/planner.h"

namespace versieve::gui {

// Of a cell's column: which of the plan's numbers of requests, from 0, and which range.
struct PlanPlace {
  int level = 0;
  int bucket = 0;

  bool operator==(const PlanPlace&) const = default;
};

struct PlanSlice {
  bool by_requests = false;
  int fixed = 0;  // the level, or the range

  bool operator==(const PlanSlice&) const = default;
};

int level_count(const PlanTable& table);
// Of that number of requests; of the nearest where it has not so many.
const PlanTable& table_of(const PlanTable& table, int level);
int column_count(const PlanTable& table, const PlanSlice& slice);
PlanPlace place_of(const PlanSlice& slice, int column);
// "4K – 8K", "16 at once"
QString column_text(const PlanTable& table, const PlanSlice& slice, int column);
// The first where the table has no such.
PlanSlice within(const PlanTable& table, const PlanSlice& slice);
// All slices of a table and what they are called: "contexts, 16 at once"; "4K – 8K by requests".
std::vector<PlanSlice> slices_of(const PlanTable& table);
QString slice_text(const PlanTable& table, const PlanSlice& slice);

}  // namespace versieve::gui
