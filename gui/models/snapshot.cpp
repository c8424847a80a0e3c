#include "gui/models/snapshot.h"

#include <QCoreApplication>
#include <QDir>
#include <algorithm>
#include <numeric>

namespace versieve::gui {
namespace {

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

QString first_database_in(const QDir& folder) {
  const QStringList names = folder.entryList({"*.db"}, QDir::Files, QDir::Name);
  return names.isEmpty() ? QString() : folder.absoluteFilePath(names.first());
}

}  // namespace

const db::StoredRun* Snapshot::run(std::int64_t run_id) const {
  const auto found =
      std::lower_bound(runs.begin(), runs.end(), run_id,
                       [](const db::StoredRun& run, std::int64_t id) { return run.id < id; });
  return found != runs.end() && found->id == run_id ? &*found : nullptr;
}

SnapshotPtr read_snapshot(const QString& path) {
  const db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kReadOnly);
  std::shared_ptr<Snapshot> snapshot = std::make_shared<Snapshot>();
  snapshot->path = path;
  snapshot->schema_version = store.schema_version();
  snapshot->runs = store.runs();
  for (const db::StoredRun& run : snapshot->runs) {
    snapshot->diagnostics.push_back(store.diagnostics(run.id));
  }
  snapshot->overview = store.overview({});
  for (const std::string& word : snapshot->overview.words) {
    snapshot->words.push_back(QString::fromStdString(word));
  }
  snapshot->word_order = alphabetic_order(snapshot->words);
  return snapshot;
}

PointMeasurement read_point(const QString& path, std::int64_t point_id) {
  return db::Store::open(path.toStdString(), db::OpenMode::kReadOnly).point(point_id);
}

QString shipped_database() {
  QDir folder(QCoreApplication::applicationDirPath());
  for (int level = 0; level < 6; ++level) {
    const QString found = first_database_in(QDir(folder.filePath("db/measured")));
    if (!found.isEmpty()) {
      return found;
    }
    if (!folder.cdUp()) {
      break;
    }
  }
  return first_database_in(QDir(VERSIEVE_SOURCE_DIR "/db/measured"));
}

}  // namespace versieve::gui
