// What was read from a database, all at once and never changed after: the worker makes it, every
// model and view shares it.
#pragma once

#include <QDir>
#include <QString>
#include <memory>
#include <vector>

#include "db/store.h"
#include "gui/models/point_values.h"

namespace versieve::gui {

// What tells one state of a database from another without reading it: sizes and times of the file
// and of its write-ahead log. Nothing of a file that is not there.
struct FileState {
  qint64 size = -1, changed_ms = 0;
  qint64 log_size = 0, log_changed_ms = 0;

  bool operator==(const FileState&) const = default;
  bool exists() const { return size >= 0; }
};
FileState file_state(const QString& path);

struct Snapshot {
  QString path;
  FileState state;  // when its reading began
  int schema_version = 0;
  std::vector<db::StoredRun> runs;
  std::vector<std::vector<db::Diagnostic>> diagnostics;  // [run]
  db::Overview overview;
  std::vector<QString> words;            // of overview.words
  std::vector<std::int32_t> word_order;  // [word] = its place in alphabetic order
  PointValues values;                    // of overview.points
  std::vector<std::int32_t> steps;       // timed_steps

  const db::StoredRun* run(std::int64_t run_id) const;
  const QString& word(std::int32_t index) const { return words[static_cast<std::size_t>(index)]; }
};
using SnapshotPtr = std::shared_ptr<const Snapshot>;

// Fills in what follows from the overview: words, their order, values, steps.
void derive(Snapshot& snapshot);
// Throws Error.
SnapshotPtr read_snapshot(const QString& path);
PointMeasurement read_point(const QString& path, std::int64_t point_id);

// Of the databases in it that with the most measured points; empty if none has any.
QString largest_database_in(const QDir& folder);
// That of the measurements that ship with the program (engine/io/shipped_data.h): the H100's, else
// the one with most points.
QString shipped_database();

}  // namespace versieve::gui
