// What was read from a database, all at once and never changed after: the worker makes it, every
// model and view shares it.
#pragma once

#include <QString>
#include <memory>
#include <vector>

#include "db/store.h"

namespace versieve::gui {

struct Snapshot {
  QString path;
  int schema_version = 0;
  std::vector<db::StoredRun> runs;
  std::vector<std::vector<db::Diagnostic>> diagnostics;  // [run]
  db::Overview overview;
  std::vector<QString> words;            // of overview.words
  std::vector<std::int32_t> word_order;  // [word] = its place in alphabetic order

  const db::StoredRun* run(std::int64_t run_id) const;
  const QString& word(std::int32_t index) const { return words[static_cast<std::size_t>(index)]; }
};
using SnapshotPtr = std::shared_ptr<const Snapshot>;

// Throws Error.
SnapshotPtr read_snapshot(const QString& path);
PointMeasurement read_point(const QString& path, std::int64_t point_id);

// The measurements that ship with the program (db/measured/*.db above the executable or in the
// source tree); empty if there are none.
QString shipped_database();

}  // namespace versieve::gui
