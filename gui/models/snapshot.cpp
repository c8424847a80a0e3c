#include "gui/models/snapshot.h"

#include <QDir>
#include <QFileInfo>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <optional>
#include <system_error>

#include "engine/io/shipped_data.h"
#include "gui/models/step_list.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

// Not QFileInfo's, which is of the local time: every look would read the time zone's rules again.
std::int64_t changed_ms(const QFileInfo& file) {
  std::error_code gone;
  const auto time = std::filesystem::last_write_time(file.filesystemFilePath(), gone);
  return gone ? 0
              : std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch())
                    .count();
}

std::vector<std::int32_t> alphabetic_order(const std::vector<QString>& words) {
  std::vector<std::int32_t> sorted(words.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::sort(sorted.begin(), sorted.end(), [&words](std::int32_t a, std::int32_t b) {
    return words[static_cast<std::size_t>(a)] < words[static_cast<std::size_t>(b)];
  });
  std::vector<std::int32_t> order(words.size());
  for (std::size_t place = 0; place < sorted.size(); ++place) {
    order[static_cast<std::size_t>(sorted[place])] = static_cast<std::int32_t>(place);
  }
  return order;
}

// Measured points; none of a file that cannot be read.
std::int64_t point_count(const QString& path) {
  try {
    std::int64_t points = 0;
    for (const db::StoredRun& run :
         db::Store::open(path.toStdString(), db::OpenMode::kReadOnly).runs()) {
      points += run.ok_count;
    }
    return points;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

const db::StoredRun* Snapshot::run(std::int64_t run_id) const {
  const auto found =
      std::lower_bound(runs.begin(), runs.end(), run_id,
                       [](const db::StoredRun& run, std::int64_t id) { return run.id < id; });
  return found != runs.end() && found->id == run_id ? &*found : nullptr;
}

FileState file_state(const QString& path) {
  FileState state;
  if (const QFileInfo file(path); file.isFile()) {
    state.size = file.size();
    state.changed_ms = changed_ms(file);
  }
  // Readers leave an empty log behind.
  if (const QFileInfo log(path + "-wal"); log.isFile() && log.size() > 0) {
    state.log_size = log.size();
    state.log_changed_ms = changed_ms(log);
  }
  return state;
}

QString largest_database_in(const QDir& folder) {
  QString largest;
  std::int64_t most = 0;
  for (const QString& name : folder.entryList({"*.db"}, QDir::Files, QDir::Name)) {
    const QString path = folder.absoluteFilePath(name);
    if (const std::int64_t points = point_count(path); points > most) {
      largest = path;
      most = points;
    }
  }
  return largest;
}

void derive(Snapshot& snapshot) {
  for (const std::string& word : snapshot.overview.words) {
    snapshot.words.push_back(QString::fromStdString(word));
  }
  snapshot.word_order = alphabetic_order(snapshot.words);
  snapshot.values = PointValues(snapshot);
  snapshot.steps = timed_steps(snapshot);
}

SnapshotPtr read_snapshot(const QString& path) {
  const FileState state = file_state(path);
  const db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kReadOnly);
  std::shared_ptr<Snapshot> snapshot = std::make_shared<Snapshot>();
  snapshot->path = path;
  snapshot->state = state;
  snapshot->schema_version = store.schema_version();
  snapshot->runs = store.runs();
  for (const db::StoredRun& run : snapshot->runs) {
    snapshot->diagnostics.push_back(store.diagnostics(run.id));
  }
  snapshot->overview = store.overview({});
  derive(*snapshot);
  return snapshot;
}

PointMeasurement read_point(const QString& path, std::int64_t point_id) {
  return db::Store::open(path.toStdString(), db::OpenMode::kReadOnly).point(point_id);
}

QString shipped_database() {
  if (const auto first = engine::try_shipped_data("db/measured/h100.db")) {
    return QString::fromStdString(first->string());
  }
  const std::optional<std::filesystem::path> folder = engine::try_shipped_data("db/measured");
  return folder ? largest_database_in(QDir(QString::fromStdString(folder->string()))) : QString();
}

}  // namespace versieve::gui
