#include "gui/models/document.h"

#include <algorithm>

#include "gui/models/point_filter.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

constexpr int kWatchMs = 2000;

// Of a place in the overview; -1: none.
std::int64_t id_of(const Snapshot& snapshot, int index) {
  return index < 0 ? -1 : snapshot.overview.points[static_cast<std::size_t>(index)].id;
}

int index_of(const Snapshot& snapshot, std::int64_t id) {
  const std::vector<db::PointOverview>& points = snapshot.overview.points;
  const auto found = std::lower_bound(
      points.begin(), points.end(), id,
      [](const db::PointOverview& point, std::int64_t wanted) { return point.id < wanted; });
  return found != points.end() && found->id == id ? static_cast<int>(found - points.begin()) : -1;
}

}  // namespace

Document::Document(QObject* parent) : QObject(parent) {
  watch_.setInterval(kWatchMs);
  connect(&watch_, &QTimer::timeout, this, &Document::look_at_file);
}

void Document::open(const QString& path) {
  follows_now_ = false;
  Q_EMIT loading(path);
  const auto state = std::make_shared<FileState>();  // the worker's, until it has ended
  open_job_.start<SnapshotPtr>(
      [path, state] {
        *state = file_state(path);
        return read_snapshot(path);
      },
      [this](const SnapshotPtr& snapshot) { accept(snapshot); },
      [this, path, state](const QString& sentence) {
        if (snapshot_ && snapshot_->path == path) {
          seen_ = *state;  // said with the failure
        }
        Q_EMIT failed(path, sentence);
      });
}

void Document::accept(const SnapshotPtr& snapshot) {
  const bool is_same = snapshot_ && snapshot_->path == snapshot->path;
  const int selected = is_same ? index_of(*snapshot, id_of(*snapshot_, selected_)) : -1;
  const int baseline = is_same ? index_of(*snapshot, id_of(*snapshot_, baseline_)) : -1;
  setBaseline(-1);
  snapshot_ = snapshot;
  was_followed_ = follows_now_;
  seen_ = snapshot->state;
  selected_ = selected;
  shown_ = PointFilter::parse({}).apply(*snapshot_);  // all, should the filter be unreadable
  Q_EMIT shownChanged();
  setFilter(filter_text_);
  setBaseline(baseline);
  Q_EMIT selectionChanged(selected);
  if (selected >= 0) {
    read_selected();
  }
  watch_.start();
  Q_EMIT loaded();
}

// Files are looked at on a worker too: a share that hangs must not hang the window.
void Document::look_at_file() {
  if (!snapshot_ || watch_job_.isRunning() || open_job_.isRunning()) {
    return;
  }
  const QString path = snapshot_->path;
  watch_job_.start<FileState>(
      [path] { return file_state(path); },
      [this, path](const FileState& state) {
        if (!snapshot_ || snapshot_->path != path || open_job_.isRunning() || state == seen_) {
          return;
        }
        seen_ = state;
        if (follows_ && state.exists()) {
          open(path);
          follows_now_ = true;
        } else {
          Q_EMIT changedOnDisk(state.exists());
        }
      },
      [](const QString&) {});
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
    if (snapshot_) {
      shown_ = PointFilter::parse({}).apply(*snapshot_);
      Q_EMIT shownChanged();
    }
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
