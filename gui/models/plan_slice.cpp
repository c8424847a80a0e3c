#include "gui/models/plan_slice.h"

#include <QObject>
#include <algorithm>

#include "gui/models/planner.h"
#include "model/plan/concurrency.h"

namespace versieve::gui {

int level_count(const PlanTable& table) {
  return 1 + static_cast<int>(table.batched.size());
}

const PlanTable& table_of(const PlanTable& table, int level) {
  const int found = std::clamp(level, 0, level_count(table) - 1);
  return found == 0 ? table : table.batched[static_cast<std::size_t>(found - 1)];
}

int column_count(const PlanTable& table, const PlanSlice& slice) {
  return slice.by_requests ? level_count(table) : static_cast<int>(table.buckets.size());
}

PlanPlace place_of(const PlanSlice& slice, int column) {
  return slice.by_requests ? PlanPlace{column, slice.fixed} : PlanPlace{slice.fixed, column};
}

QString column_text(const PlanTable& table, const PlanSlice& slice, int column) {
  return slice.by_requests ? QObject::tr("%1 at once").arg(table_of(table, column).concurrency)
                           : bucket_text(table.buckets[static_cast<std::size_t>(column)]);
}

PlanSlice within(const PlanTable& table, const PlanSlice& slice) {
  const int most = slice.by_requests ? static_cast<int>(table.buckets.size()) : level_count(table);
  const bool is_there = slice.fixed < most && (!slice.by_requests || level_count(table) > 1);
  return is_there ? slice : PlanSlice();
}

std::vector<PlanSlice> slices_of(const PlanTable& table) {
  std::vector<PlanSlice> slices;
  for (int level = 0; level < level_count(table); ++level) {
    slices.push_back({.by_requests = false, .fixed = level});
  }
  for (int bucket = 0; level_count(table) > 1 && bucket < static_cast<int>(table.buckets.size());
       ++bucket) {
    slices.push_back({.by_requests = true, .fixed = bucket});
  }
  return slices;
}

QString slice_text(const PlanTable& table, const PlanSlice& slice) {
  return slice.by_requests
             ? QObject::tr("%1 by requests")
                   .arg(bucket_text(table.buckets[static_cast<std::size_t>(slice.fixed)]))
             : QObject::tr("contexts, %1 at once").arg(table_of(table, slice.fixed).concurrency);
}

}  // namespace versieve::gui
