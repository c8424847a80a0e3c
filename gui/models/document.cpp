#include "gui/models/document.h"

#include <QFileInfo>

#include "gui/models/point_filter.h"
#include "model/words/error.h"

namespace versieve::gui {

Document::Document(QObject* parent) : QObject(parent) {}

void Document::open(const QString& path) {
  Q_EMIT loading(path);
  open_job_.start<SnapshotPtr>([path] { return read_snapshot(path); },
                               [this](const SnapshotPtr& snapshot) { accept(snapshot); },
                               [this, path](const QString& sentence) {
                                 close();
                                 Q_EMIT failed(path, sentence);
                               });
}

void Document::close() {
  snapshot_.reset();
  shown_.clear();
  selected_ = -1;
  setBaseline(-1);
  Q_EMIT shownChanged();
  Q_EMIT selectionChanged(-1);
}

void Document::accept(const SnapshotPtr& snapshot) {
  setBaseline(-1);
  snapshot_ = snapshot;
  selected_ = -1;
  shown_ = PointFilter::parse({}).apply(*snapshot_);  // all, should the filter be unreadable
  Q_EMIT shownChanged();
  setFilter(filter_text_);
  Q_EMIT selectionChanged(-1);
  Q_EMIT loaded();
}

void Document::setFilter(const QString& text) {
  filter_text_ = text;
  filter_error_.clear();
  try {
    const PointFilter filter = PointFilter::parse(text);
    if (snapshot_) {
      shown_ = filter.apply(*snapshot_);
      Q_EMIT shownChanged();
    }
  } catch (const Error& error) {
    filter_error_ = QString::fromUtf8(error.what());
  }
  Q_EMIT filterChanged();
}

void Document::select(int index) {
  if (index == selected_) {
    return;
  }
  selected_ = index;
  Q_EMIT selectionChanged(index);
  if (snapshot_ && index >= 0) {
    read_selected();
  }
}

void Document::setBaseline(int index) {
  if (index != baseline_) {
    baseline_ = index;
    Q_EMIT baselineChanged(index);
  }
}

// What is read is dropped if another point, or none, is selected by then.
void Document::read_selected() {
  using PointPtr = std::shared_ptr<const PointMeasurement>;
  const SnapshotPtr snapshot = snapshot_;
  const int index = selected_;
  const QString path = snapshot->path;
  const std::int64_t id = snapshot->overview.points[static_cast<std::size_t>(index)].id;
  point_job_.start<PointPtr>(
      [path, id] { return std::make_shared<const PointMeasurement>(read_point(path, id)); },
      [=, this](const PointPtr& point) {
        if (snapshot == snapshot_ && index == selected_) {
          Q_EMIT pointRead(point, {});
        }
      },
      [=, this](const QString& sentence) {
        if (snapshot == snapshot_ && index == selected_) {
          Q_EMIT pointRead(nullptr, sentence);
        }
      });
}

}  // namespace versieve::gui
