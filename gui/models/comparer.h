// What changed between files: databases tuple by tuple, or planner tables cell by cell, each held
// against the first (engine/analyse/compare, as `versieve compare` does). Read and compared on a
// worker; of several requests the newest is answered.
#pragma once

#include <QObject>
#include <QStringList>
#include <memory>
#include <optional>
#include <vector>

#include "engine/analyse/compare/point_comparison.h"
#include "engine/analyse/compare/table_comparison.h"
#include "gui/models/jobs.h"

namespace versieve::gui {

// Of one kind; the first is what the others are held against.
struct ComparedFiles {
  QStringList paths;
  bool are_tables = false;
  std::vector<ComparedSide> sides;              // of databases
  std::vector<engine::PointComparison> points;  // [i]: side i + 1 against side 0
  std::vector<PlanTable> tables;                // of tables
  std::vector<engine::TableComparison> cells;   // [i]: table i + 1 against table 0
};
using ComparedFilesPtr = std::shared_ptr<const ComparedFiles>;

class Comparer : public QObject {
  Q_OBJECT
 public:
  using QObject::QObject;

  // One file alone is nothing to compare yet; a file of another kind than the first takes the place
  // of all that were there.
  void setPaths(const QStringList& paths);
  void add(const QString& path);
  void remove(const QString& path);
  void swap();  // the first and the second
  void setFigure(engine::ComparedFigure figure);
  void setNoise(std::optional<double> share);  // none: what repeated measurements show
  void readAgain() { start(); }

  const QStringList& paths() const { return paths_; }
  engine::ComparedFigure figure() const { return figure_; }
  const ComparedFilesPtr& files() const { return files_; }  // may be null
  const QString& sentence() const { return sentence_; }  // why there is nothing, if there is none
  bool isBusy() const { return job_.isRunning(); }
  // The command that prints the same; empty with nothing to compare.
  QString commandLine() const;

 Q_SIGNALS:
  void changed();

 private:
  void start();
  void take(const ComparedFilesPtr& files, const QString& sentence);

  QStringList paths_;
  engine::ComparedFigure figure_ = engine::ComparedFigure::kTime;
  std::optional<double> noise_;
  ComparedFilesPtr files_;
  QString sentence_;
  Job job_;
};

}  // namespace versieve::gui
