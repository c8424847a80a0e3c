#include "gui/models/document.h"

#include <algorithm>
#include <utility>

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
  std::vector<int> pins;
  for (const int pin : is_same ? pins_ : std::vector<int>()) {
    if (const int there = index_of(*snapshot, id_of(*snapshot_, pin)); there >= 0) {
      pins.push_back(there);
    }
  }
  setBaseline(-1);
  setPins({});
  hover(-1);
  snapshot_ = snapshot;
  was_followed_ = follows_now_;
  seen_ = snapshot->state;
  selected_ = selected;
  setFilter(filter_text_);
  setBaseline(baseline);
  setPins(pins);
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
      show(filter.mask(*snapshot_));
    }
  } catch (const Error& error) {
    filter_error_ = QString::fromUtf8(error.what());
    if (snapshot_) {
      show(PointFilter::parse({}).mask(*snapshot_));
    }
  }
  Q_EMIT filterChanged();
}

void Document::show(std::vector<std::uint8_t> mask) {
  mask_ = std::move(mask);
  shown_ = indices_of(mask_);
  Q_EMIT shownChanged();
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

int Document::indexOf(qint64 id) const {
  return snapshot_ ? index_of(*snapshot_, id) : -1;
}

qint64 Document::idOf(int index) const {
  return snapshot_ ? id_of(*snapshot_, index) : -1;
}

void Document::hover(int index) {
  if (index != hovered_) {
    hovered_ = index;
    Q_EMIT hoverChanged(index);
  }
}

// A pin more than there may be takes the oldest one's place.
void Document::togglePin(int index) {
  std::vector<int> pins = pins_;
  if (const auto there = std::find(pins.begin(), pins.end(), index); there != pins.end()) {
    pins.erase(there);
  } else if (index >= 0) {
    if (pins.size() == static_cast<std::size_t>(kMostPins)) {
      pins.erase(pins.begin());
    }
    pins.push_back(index);
  }
  setPins(pins);
}

void Document::setPins(const std::vector<int>& pins) {
  if (pins != pins_) {
    pins_ = pins;
    Q_EMIT pinsChanged();
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
