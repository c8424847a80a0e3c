// The state of the window: which database is open, which points are shown, which one is selected.
// Models and views look at it and hear of changes; they never talk to each other.
#pragma once

#include <QObject>
#include <QTimer>
#include <memory>
#include <vector>

#include "gui/models/jobs.h"
#include "gui/models/snapshot.h"

namespace versieve::gui {

class Document : public QObject {
  Q_OBJECT
 public:
  static constexpr int kMostPins = 8;

  explicit Document(QObject* parent = nullptr);

  // Reads the file on a worker; loaded or failed follows. The old snapshot stays until then, and
  // where the file cannot be read for good. Of the same file selection and baseline stay too.
  void open(const QString& path);
  // As open does with what it read.
  void accept(const SnapshotPtr& snapshot);
  // Whether a file that changes is read again by itself.
  void follow(bool follows) { follows_ = follows; }
  bool follows() const { return follows_; }
  // Whether the snapshot was read by itself, as the file had changed.
  bool wasFollowed() const { return was_followed_; }
  // How often the open file is looked at for changes.
  void setWatchInterval(int milliseconds) { watch_.setInterval(milliseconds); }
  // Shows the points for which the filter holds; with one that cannot be read all, and
  // filterError() says why.
  void setFilter(const QString& text);
  // An index into the overview's points, or -1. Reads the whole point on a worker.
  void select(int index);
  // The point that the others are compared with, or -1.
  void setBaseline(int index);
  // Of the selected point; of the baseline itself, no baseline any more.
  void toggleBaseline() { setBaseline(selected_ == baseline_ ? -1 : selected_); }
  // The index of a stored point, or -1; the id of one, or -1.
  int indexOf(qint64 id) const;
  qint64 idOf(int index) const;
  // The point under the pointer in any view, or -1.
  void hover(int index);
  // Pinned points keep their numbers in all views; at most kMostPins.
  void togglePin(int index);
  void setPins(const std::vector<int>& pins);

  const SnapshotPtr& snapshot() const { return snapshot_; }  // may be null
  const std::vector<std::int32_t>& shown() const { return shown_; }
  // [point] = 1 if it is shown.
  const std::vector<std::uint8_t>& mask() const { return mask_; }
  const QString& filterText() const { return filter_text_; }
  const QString& filterError() const { return filter_error_; }
  int selected() const { return selected_; }
  int baseline() const { return baseline_; }
  int hovered() const { return hovered_; }
  const std::vector<int>& pins() const { return pins_; }

 Q_SIGNALS:
  void loading(const QString& path);
  void loaded();
  void failed(const QString& path, const QString& sentence);
  // The open file is another than was read; once for each state of it. `exists`: it is there.
  void changedOnDisk(bool exists);
  void shownChanged();
  void filterChanged();
  void selectionChanged(int index);
  void baselineChanged(int index);
  void hoverChanged(int index);
  void pinsChanged();
  // The selected point with all its ranges, or null and why it could not be read.
  void pointRead(std::shared_ptr<const versieve::PointMeasurement> point, const QString& sentence);

 private:
  void show(std::vector<std::uint8_t> mask);
  void look_at_file();
  void read_selected();

  SnapshotPtr snapshot_;
  std::vector<std::int32_t> shown_;
  std::vector<std::uint8_t> mask_;
  QString filter_text_;
  QString filter_error_;
  int selected_ = -1;
  int baseline_ = -1;
  int hovered_ = -1;
  std::vector<int> pins_;
  bool follows_ = false;
  bool follows_now_ = false;  // of the reading under way
  bool was_followed_ = false;
  FileState seen_;  // that changedOnDisk was emitted for
  QTimer watch_;
  Job watch_job_;
  Job open_job_;
  Job point_job_;
};

}  // namespace versieve::gui
