// What a point can show: one list of columns for the table, the axes of the plot and the words of
// the filter.
#pragma once

#include <QString>
#include <span>

#include "gui/models/snapshot.h"

namespace versieve::gui {

enum class ColumnKind { kText, kNumber };
enum class Better { kNeither, kLess, kMore };  // of two values of a column

struct PointColumn {
  const char* key;    // in filters: "time<50"
  const char* title;  // "Median"
  const char* unit;   // "µs"; empty if it has none
  const char* meaning;
  ColumnKind kind;
  int width;  // in characters
  QString (*text)(const Snapshot&, const db::PointOverview&);
  // Numbers: the value in the column's unit, NaN if absent. Texts: their alphabetic place.
  double (*value)(const Snapshot&, const db::PointOverview&);
  bool counts_tokens = false;
  Better better = Better::kNeither;
  // Where text and value follow from this word of the point alone.
  std::int32_t db::PointOverview::*word = nullptr;
};

std::span<const PointColumn> point_columns();
// The index of the column with this key, or -1.
int column_index(const QString& key);

// "measured" or "simulated".
QString provenance(const Snapshot& snapshot, const db::PointOverview& point);

}  // namespace versieve::gui
