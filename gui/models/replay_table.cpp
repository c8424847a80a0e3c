#include "gui/models/replay_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"

namespace versieve::gui {
namespace {

using engine::ReplayRow;

struct Column {
  const char* title;
  const char* meaning;
  bool is_number;
  QString (*text)(const ReplayRow&);
};

QString with_gain(double throughput, double baseline) {
  return fixed(throughput, 0) + "  " + gain_text(throughput, baseline);
}

QString moved_text(const engine::Refined& refined, std::int64_t requests) {
  return QString("%1 of %2").arg(refined.moved).arg(requests);
}

QString gains_text(const ReplayRow& row) {
  return gain_text(row.static_best, row.base) + ", " + gain_text(row.best_r.throughput, row.base) +
         ", " + gain_text(row.best_p.throughput, row.base);
}

constexpr int kContext = 0, kClass = 1, kGain = 4;

const std::array<Column, 11> kColumns = {{
    {"Context", "Tokens before the text", false, nullptr},
    {"Class", "What it promises against plain decoding", false, nullptr},
    {"Rank", "Of the cell's best tuple whose walks are recorded, which is played as its first",
     true, [](const ReplayRow& r) { return QString::number(r.rank); }},
    {"Texts", "Recorded requests that were played", true,
     [](const ReplayRow& r) { return QString::number(r.requests); }},
    {"Gain",
     "Over the fixed baseline, which is the line at 0 %: best recorded tuple (disc), guard to the "
     "next ranked (ring), guard by promise (diamond)",
     false, gains_text},
    {"Baseline, tokens/s", "Tokens a second of the fixed baseline", true,
     [](const ReplayRow& r) { return fixed(r.base, 0); }},
    {"Best, tokens/s",
     "Tokens a second of the cell's best recorded tuple, and its gain over the baseline", true,
     [](const ReplayRow& r) { return with_gain(r.static_best, r.base); }},
    {"Next, tokens/s", "The same with the paper's guard, which moves to the next ranked tuple",
     true, [](const ReplayRow& r) { return with_gain(r.best_r.throughput, r.base); }},
    {"Promise, tokens/s", "The same with the guard that moves to what promises most", true,
     [](const ReplayRow& r) { return with_gain(r.best_p.throughput, r.base); }},
    {"Moved", "Texts whose tuple the guard changed: to the next ranked; by promise", true,
     [](const ReplayRow& r) {
       return moved_text(r.best_r, r.requests) + "; " + moved_text(r.best_p, r.requests);
     }},
    {"Plain, tokens/s", "Tokens a second without speculation", true,
     [](const ReplayRow& r) { return fixed(r.no_speculation, 0); }},
}};

QVariant alignment(bool is_number) {
  return QVariant::fromValue(Qt::AlignVCenter | (is_number ? Qt::AlignRight : Qt::AlignLeft));
}

double gain(double throughput, double baseline) {
  return throughput / baseline - 1.0;
}

std::pair<std::int64_t, PrecisionClass> cell_of(const ReplayTable::Line& line) {
  return line.played != nullptr ? std::pair{line.played->bucket, line.played->precision}
                                : std::pair{line.gap->bucket, line.gap->precision};
}

}  // namespace

void ReplayTable::show(const ReplayedPtr& replayed) {
  constexpr double kStep = 0.1;
  beginResetModel();
  replayed_ = replayed;
  lines_.clear();
  low_ = 0.0;
  high_ = kStep;
  for (const ReplayRow& row : replayed ? replayed->replay.rows : std::vector<ReplayRow>()) {
    for (const double throughput :
         {row.static_best, row.best_r.throughput, row.best_p.throughput}) {
      low_ = std::min(low_, std::floor(gain(throughput, row.base) / kStep) * kStep);
      high_ = std::max(high_, std::ceil(gain(throughput, row.base) / kStep) * kStep);
    }
  }
  arrange();
  endResetModel();
}

void ReplayTable::arrange() {
  if (!replayed_) {
    return;
  }
  for (const ReplayRow& row : replayed_->replay.rows) {
    lines_.push_back({.played = &row});
  }
  for (const engine::ReplayGap& gap : replayed_->replay.gaps) {
    if (!is_of_whole_class(*replayed_, gap)) {
      lines_.push_back({.gap = &gap});
    }
  }
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return cell_of(a) < cell_of(b); });
}

ReplayTable::Line ReplayTable::lineAt(int row) const {
  return row < 0 || row >= rowCount() ? Line{} : lines_[static_cast<std::size_t>(row)];
}

std::pair<std::int64_t, PrecisionClass> ReplayTable::cellAt(int row) const {
  return cell_of(lineAt(row));
}

int ReplayTable::gainColumn() {
  return kGain;
}

int ReplayTable::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(lines_.size());
}

int ReplayTable::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(kColumns.size());
}

QString ReplayTable::text(const Line& line, int column) const {
  const auto [bucket, precision] = cell_of(line);
  if (column == kContext) {
    return bucket_text(replayed_->plan->chosen.buckets[static_cast<std::size_t>(bucket)]);
  }
  if (column == kClass) {
    return name_of(precision);
  }
  if (line.played == nullptr) {
    return column == kGain ? QString::fromStdString(line.gap->reason) : QString(QChar(kAbsent));
  }
  return kColumns[static_cast<std::size_t>(column)].text(*line.played);
}

QVariant ReplayTable::painted(const ReplayRow& row, int role) const {
  switch (role) {
    case kFirstRole:
      return gain(row.static_best, row.base);
    case kNextRankedRole:
      return gain(row.best_r.throughput, row.base);
    case kPromiseRole:
      return gain(row.best_p.throughput, row.base);
    case kScaleLowRole:
      return low_;
    case kScaleHighRole:
      return high_;
    default:
      return {};
  }
}

QVariant ReplayTable::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) {
    return {};
  }
  const Line line = lineAt(index.row());
  switch (role) {
    case Qt::DisplayRole:
      return text(line, index.column());
    case Qt::ToolTipRole:
      return index.column() == kClass ? class_in_words(cell_of(line).second)
             : line.played == nullptr ? QString::fromStdString(line.gap->reason)
                                      : QString();
    case Qt::TextAlignmentRole:
      return alignment(kColumns[static_cast<std::size_t>(index.column())].is_number);
    case kIsPlayedRole:
      return line.played != nullptr;
    default:
      return line.played == nullptr ? QVariant() : painted(*line.played, role);
  }
}

QVariant ReplayTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical) {
    return {};
  }
  const Column& column = kColumns[static_cast<std::size_t>(section)];
  switch (role) {
    case Qt::DisplayRole:
      return section == kGain
                 ? tr("Gain, %1 to %2 %").arg(fixed(100.0 * low_, 0), fixed(100.0 * high_, 0))
                 : QString(column.title);
    case Qt::ToolTipRole:
      return QString::fromUtf8(column.meaning);
    case Qt::TextAlignmentRole:
      return alignment(column.is_number);
    default:
      return {};
  }
}

}  // namespace versieve::gui
