// The state of the window: which database is open, which points are shown, which one is selected.
// Models and views look at it and hear of changes; they never talk to each other.
#pragma once

#include <QObject>
#include <memory>
#include <vector>

#include "gui/models/jobs.h"
#include "gui/models/snapshot.h"

namespace versieve::gui {

class Document : public QObject {
  Q_OBJECT
 public:
  explicit Document(QObject* parent = nullptr);

  // Reads the file on a worker; loaded or failed follows. The old snapshot stays until then.
  void open(const QString& path);
  void close();
  // Shows the points for which the filter holds; a filter that cannot be read changes nothing but
  // filterError().
  void setFilter(const QString& text);
  // An index into the overview's points, or -1. Reads the whole point on a worker.
  void select(int index);
  // The point that the others are compared with, or -1.
  void setBaseline(int index);

  const SnapshotPtr& snapshot() const { return snapshot_; }  // may be null
  const std::vector<std::int32_t>& shown() const { return shown_; }
  const QString& filterText() const { return filter_text_; }
  const QString& filterError() const { return filter_error_; }
  int selected() const { return selected_; }
  int baseline() const { return baseline_; }

 Q_SIGNALS:
  void loading(const QString& path);
  void loaded();
  void failed(const QString& path, const QString& sentence);
  void shownChanged();
  void filterChanged();
  void selectionChanged(int index);
  void baselineChanged(int index);
  // The selected point with all its ranges, or null and why it could not be read.
  void pointRead(std::shared_ptr<const versieve::PointMeasurement> point, const QString& sentence);

 private:
  void accept(const SnapshotPtr& snapshot);
  void read_selected();

  SnapshotPtr snapshot_;
  std::vector<std::int32_t> shown_;
  QString filter_text_;
  QString filter_error_;
  int selected_ = -1;
  int baseline_ = -1;
  Job open_job_;
  Job point_job_;
};

}  // namespace versieve::gui
