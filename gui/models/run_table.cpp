#include "gui/models/run_table.h"

#include <array>

namespace versieve::gui {
namespace {

struct Column {
  const char* title;
  bool is_number;
  QString (*text)(const db::StoredRun&);
};

QString utf8(const std::string& text) {
  return QString::fromStdString(text);
}

// "2026-11-20T21:04:05Z" -> "2026-11-20 21:04"
QString started(const db::StoredRun& run) {
  return utf8(run.record.started_utc).left(16).replace('T', ' ');
}

QString counters(const db::StoredRun& run) {
  return run.record.counter_access == CounterState::kUnstated
             ? QStringLiteral("not stated")
             : QString(name_of(run.record.counter_access));
}

const std::array<Column, 10> kColumns = {{
    {"Run", true, [](const db::StoredRun& run) { return QString::number(run.id); }},
    {"Sweep", false, [](const db::StoredRun& run) { return utf8(run.record.kind); }},
    {"Device", false, [](const db::StoredRun& run) { return utf8(run.record.device); }},
    {"Started, UTC", false, started},
    {"Status", false, [](const db::StoredRun& run) { return QString(name_of(run.record.status)); }},
    {"Counters", false, counters},
    {"Points", true, [](const db::StoredRun& run) { return QString::number(run.ok_count); }},
    {"Refused", true, [](const db::StoredRun& run) { return QString::number(run.refused_count); }},
    {"Failed", true, [](const db::StoredRun& run) { return QString::number(run.failed_count); }},
    {"Code", false, [](const db::StoredRun& run) { return utf8(run.record.revision).left(16); }},
}};

}  // namespace

RunTable::RunTable(Document& document, QObject* parent)
    : QAbstractTableModel(parent), document_(document) {
  connect(&document, &Document::shownChanged, this, [this] {
    beginResetModel();
    endResetModel();
  });
}

int RunTable::rowCount(const QModelIndex& parent) const {
  return parent.isValid() || !document_.snapshot()
             ? 0
             : static_cast<int>(document_.snapshot()->runs.size());
}

int RunTable::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(kColumns.size());
}

const db::StoredRun& RunTable::runAt(int row) const {
  const std::vector<db::StoredRun>& runs = document_.snapshot()->runs;
  return runs[runs.size() - 1 - static_cast<std::size_t>(row)];
}

QVariant RunTable::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) {
    return {};
  }
  const Column& column = kColumns[static_cast<std::size_t>(index.column())];
  if (role == Qt::DisplayRole) {
    return column.text(runAt(index.row()));
  }
  if (role == Qt::TextAlignmentRole) {
    return QVariant::fromValue(Qt::AlignVCenter |
                               (column.is_number ? Qt::AlignRight : Qt::AlignLeft));
  }
  return {};
}

QVariant RunTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical) {
    return {};
  }
  const Column& column = kColumns[static_cast<std::size_t>(section)];
  if (role == Qt::DisplayRole) {
    return QString(column.title);
  }
  if (role == Qt::TextAlignmentRole) {
    return QVariant::fromValue(Qt::AlignVCenter |
                               (column.is_number ? Qt::AlignRight : Qt::AlignLeft));
  }
  return {};
}

}  // namespace versieve::gui
