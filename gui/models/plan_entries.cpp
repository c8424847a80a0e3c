#include "gui/models/plan_entries.h"

#include <algorithm>
#include <array>

#include "gui/models/numbers.h"

namespace versieve::gui {
namespace {

struct Column {
  const char* title;
  bool is_number;
  QString (*text)(const PlanEntry&);
};

QString interval_text(const PlanEntry& entry) {
  const Interval& interval = entry.evaluation.throughput_interval;
  return fixed(interval.low, 0) + " – " + fixed(interval.high, 0);
}

const std::array<Column, 11> kColumns = {{
    {"Rank", true, [](const PlanEntry& e) { return QString::number(e.rank); }},
    {"Strategy", false,
     [](const PlanEntry& e) { return QString::fromStdString(e.evaluation.strategy.text()); }},
    {"Tokens/s", true, [](const PlanEntry& e) { return fixed(e.evaluation.throughput, 0); }},
    {"90 % interval", true, interval_text},
    {"Tokens / step", true,
     [](const PlanEntry& e) { return fixed(e.evaluation.expected_accepted, 2); }},
    {"Step, µs", true, [](const PlanEntry& e) { return fixed(e.evaluation.cost->time_us, 1); }},
    {"DRAM, MB", true,
     [](const PlanEntry& e) { return fixed(e.evaluation.cost->dram_bytes * 1e-6, 1); }},
    {"× autoregr.", true, [](const PlanEntry& e) { return fixed(e.gain_over_ar, 2); }},
    {"× baseline", true, [](const PlanEntry& e) { return fixed(e.gain_over_baseline, 2); }},
    {"Source", false, [](const PlanEntry& e) { return QString(name_of(e.evaluation.source)); }},
    {"Note", false, [](const PlanEntry& e) { return QString::fromStdString(e.note); }},
}};

QVariant alignment(bool is_number) {
  return QVariant::fromValue(Qt::AlignVCenter | (is_number ? Qt::AlignRight : Qt::AlignLeft));
}

}  // namespace

void PlanEntries::show(const PlanPtr& plan, std::int64_t bucket, PrecisionClass precision) {
  beginResetModel();
  plan_ = plan;
  entries_.clear();
  if (plan) {
    entries_ = entries_of(plan->chosen, bucket, precision);
  }
  endResetModel();
}

const PlanEntry* PlanEntries::entryAt(int row) const {
  return row < 0 || row >= rowCount() ? nullptr : entries_[static_cast<std::size_t>(row)];
}

int PlanEntries::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(entries_.size());
}

int PlanEntries::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(kColumns.size());
}

QVariant PlanEntries::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) {
    return {};
  }
  const Column& column = kColumns[static_cast<std::size_t>(index.column())];
  if (role == Qt::DisplayRole) {
    return column.text(*entryAt(index.row()));
  }
  return role == Qt::TextAlignmentRole ? alignment(column.is_number) : QVariant();
}

QVariant PlanEntries::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical) {
    return {};
  }
  const Column& column = kColumns[static_cast<std::size_t>(section)];
  if (role == Qt::DisplayRole) {
    return QString(column.title);
  }
  return role == Qt::TextAlignmentRole ? alignment(column.is_number) : QVariant();
}

}  // namespace versieve::gui
