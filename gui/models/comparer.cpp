#include "gui/models/comparer.h"

#include "db/compared.h"
#include "db/schema.h"
#include "engine/analyse/plan/table_file.h"
#include "gui/models/command_words.h"

namespace versieve::gui {
namespace {

ComparedFilesPtr compare(const QStringList& paths, engine::ComparedFigure figure,
                         std::optional<double> noise) {
  std::shared_ptr<ComparedFiles> result = std::make_shared<ComparedFiles>();
  result->paths = paths;
  result->are_tables = !db::is_database(paths.first().toStdString());
  for (const QString& path : paths) {
    if (result->are_tables) {
      result->tables.push_back(engine::read_plan_table(path.toStdString()));
    } else {
      result->sides.push_back(db::compared_side(path.toStdString(), ""));
    }
  }
  for (std::size_t i = 1; i < result->tables.size(); ++i) {
    result->cells.push_back(engine::compare_tables(result->tables[0], result->tables[i]));
  }
  for (std::size_t i = 1; i < result->sides.size(); ++i) {
    result->points.push_back(
        engine::compare_points(result->sides[0], result->sides[i], figure, noise));
  }
  return result;
}

}  // namespace

void Comparer::setPaths(const QStringList& paths) {
  paths_ = paths;
  start();
}

void Comparer::add(const QString& path) {
  if (paths_.contains(path)) {
    return;
  }
  if (!paths_.isEmpty() &&
      db::is_database(path.toStdString()) != db::is_database(paths_.first().toStdString())) {
    paths_.clear();
  }
  setPaths(paths_ + QStringList{path});
}

void Comparer::remove(const QString& path) {
  QStringList left = paths_;
  left.removeAll(path);
  setPaths(left);
}

void Comparer::swap() {
  if (paths_.size() > 1) {
    QStringList swapped = paths_;
    swapped.swapItemsAt(0, 1);
    setPaths(swapped);
  }
}

void Comparer::setFigure(engine::ComparedFigure figure) {
  if (figure != figure_) {
    figure_ = figure;
    start();
  }
}

void Comparer::setNoise(std::optional<double> share) {
  if (share != noise_) {
    noise_ = share;
    start();
  }
}

void Comparer::start() {
  if (paths_.size() < 2) {
    files_.reset();
    sentence_.clear();
    Q_EMIT changed();
    return;
  }
  job_.start<ComparedFilesPtr>(
      [paths = paths_, figure = figure_, noise = noise_] { return compare(paths, figure, noise); },
      [this](const ComparedFilesPtr& files) { take(files, {}); },
      [this](const QString& sentence) { take(nullptr, sentence); });
  Q_EMIT changed();
}

// Of files that were all taken away meanwhile nothing is shown.
void Comparer::take(const ComparedFilesPtr& files, const QString& sentence) {
  if (paths_.size() > 1) {
    files_ = files;
    sentence_ = sentence;
  }
  Q_EMIT changed();
}

QString Comparer::commandLine() const {
  if (!files_) {
    return {};
  }
  QStringList words = {"versieve", "compare"};
  words << files_->paths;
  if (!files_->are_tables && figure_ != engine::ComparedFigure::kTime) {
    words << "--figure" << engine::name_of(figure_);
  }
  if (!files_->are_tables && noise_) {
    words << "--noise" << QString::number(100.0 * *noise_);
  }
  return command_line(words);
}

}  // namespace versieve::gui
