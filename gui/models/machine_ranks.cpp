#include "gui/models/machine_ranks.h"

#include <QFont>
#include <algorithm>
#include <limits>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"

namespace versieve::gui {
namespace {

constexpr int kOwnColumns = 2;  // strategy, class
constexpr int kPartsEach = 3;   // of a machine

using Tables = std::vector<std::shared_ptr<const PlanTable>>;

}  // namespace

MachineRanks::MachineRanks(Planner& planner, QObject* parent)
    : QAbstractTableModel(parent), planner_(planner) {
  connect(&planner, &Planner::changed, this, &MachineRanks::follow_planner);
}

void MachineRanks::setBeside(std::vector<HardwareSpec> machines) {
  beside_ = std::move(machines);
  plan_.reset();
  follow_planner();
}

void MachineRanks::show(const PlanPlace& place, const std::vector<PrecisionClass>& classes) {
  place_ = place;
  classes_ = classes;
  fill_rows();
}

void MachineRanks::follow_planner() {
  const PlanPtr& plan = planner_.plan();
  if (plan == plan_ && plan) {
    return;
  }
  if (!plan || beside_.empty()) {
    plan_.reset();
    tables_.clear();
    fill_rows();
  } else if (!planner_.isBusy()) {
    start();
  }
}

void MachineRanks::start() {
  plan_ = planner_.plan();
  const auto work = [plan = plan_, beside = beside_] {
    Tables tables = {std::shared_ptr<const PlanTable>(plan, &plan->chosen)};
    for (const HardwareSpec& machine : beside) {
      tables.push_back(std::make_shared<const PlanTable>(table_on(*plan, machine)));
    }
    return tables;
  };
  job_.start<Tables>(
      work,
      [this](const Tables& tables) {
        tables_ = tables;
        fill_rows();
      },
      [this](const QString& sentence) {
        tables_.clear();
        fill_rows();
        Q_EMIT refused(sentence);
      });
}

// By the best place on any machine, of equal ones the earlier machine's first.
void MachineRanks::fill_rows() {
  beginResetModel();
  rows_.clear();
  entries_.clear();
  for (std::size_t machine = 0; machine < tables_.size(); ++machine) {
    entries_.push_back(entries_of(tableOf(static_cast<int>(machine)), place_.bucket, classes_));
    for (std::size_t place = 0; place < entries_.back().size(); ++place) {
      const PlanEntry& entry = *entries_.back()[place];
      const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) {
        return row.strategy == entry.evaluation.strategy &&
               (row.precision == entry.precision || !entry.baseline.empty());
      });
      Row& row = found != rows_.end()
                     ? *found
                     : rows_.emplace_back(Row{entry.evaluation.strategy, entry.precision,
                                              std::vector<int>(tables_.size(), -1)});
      row.places[machine] = static_cast<int>(place);
    }
  }
  const auto best = [](const Row& row) {
    int first = std::numeric_limits<int>::max();
    for (const int place : row.places) {
      first = place < 0 ? first : std::min(first, place);
    }
    return first;
  };
  std::stable_sort(rows_.begin(), rows_.end(),
                   [&](const Row& a, const Row& b) { return best(a) < best(b); });
  endResetModel();
}

QString MachineRanks::strategyAt(int row) const {
  return row < 0 || row >= rowCount()
             ? QString()
             : QString::fromStdString(rows_[static_cast<std::size_t>(row)].strategy.text());
}

const PlanEntry* MachineRanks::entryAt(int row, int machine) const {
  const int place = rows_[static_cast<std::size_t>(row)].places[static_cast<std::size_t>(machine)];
  return place < 0 ? nullptr
                   : entries_[static_cast<std::size_t>(machine)][static_cast<std::size_t>(place)];
}

QString MachineRanks::rankText(int row, int machine) const {
  const PlanEntry* const entry = entryAt(row, machine);
  if (entry == nullptr) {
    return QString(QChar(kAbsent));
  }
  const PlanEntry& first = *entries_[static_cast<std::size_t>(machine)].front();
  const int place = rows_[static_cast<std::size_t>(row)].places[static_cast<std::size_t>(machine)];
  return QString::number(place + 1) + (place > 0 && overlaps(first, *entry) ? tr(" ≈") : QString());
}

int MachineRanks::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int MachineRanks::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kOwnColumns + kPartsEach * machineCount();
}

MachineRanks::Part MachineRanks::part_of(int column) const {
  return {(column - kOwnColumns) / kPartsEach, (column - kOwnColumns) % kPartsEach};
}

QString MachineRanks::cell_text(int row, const Part& part) const {
  if (part.part == 0) {
    return rankText(row, part.machine);
  }
  const PlanEntry* const entry = entryAt(row, part.machine);
  if (entry == nullptr) {
    return QString(QChar(kAbsent));
  }
  const Evaluation& e = entry->evaluation;
  return part.part == 1
             ? fixed(e.throughput, 0)
             : fixed(e.throughput_interval.low, 0) + " – " + fixed(e.throughput_interval.high, 0);
}

QVariant MachineRanks::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) {
    return {};
  }
  const int row = index.row(), column = index.column();
  const Row& of = rows_[static_cast<std::size_t>(row)];
  const bool is_own = column < kOwnColumns;
  switch (role) {
    case Qt::DisplayRole:
      return column == 0   ? compact(strategyAt(row))
             : column == 1 ? QString(name_of(of.precision))
                           : cell_text(row, part_of(column));
    case kCopyRole:
      return column == 0 ? QVariant(strategyAt(row)) : QVariant();
    case Qt::TextAlignmentRole:
      return QVariant::fromValue(Qt::AlignVCenter | (is_own ? Qt::AlignLeft : Qt::AlignRight));
    case Qt::ToolTipRole:
      if (column == 1) {
        return class_in_words(of.precision);
      }
      return is_own || entryAt(row, part_of(column).machine) != nullptr
                 ? strategyAt(row) + "\n" + text_in_words(of.strategy.text())
                 : tr("Not among the first ones of this machine");
    case Qt::FontRole:
      if (!is_own && of.places[static_cast<std::size_t>(part_of(column).machine)] == 0) {
        QFont bold;
        bold.setBold(true);
        return bold;
      }
      return {};
    default:
      return {};
  }
}

QVariant MachineRanks::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical || section >= columnCount()) {
    return {};
  }
  const Part part = part_of(section);
  const bool is_own = section < kOwnColumns;
  if (role == Qt::DisplayRole) {
    if (is_own) {
      return section == 0 ? tr("Strategy") : tr("Class");
    }
    const QString machine = QString::fromStdString(tableOf(part.machine).hardware);
    return part.part == 0   ? tr("Rank, %1").arg(machine)
           : part.part == 1 ? tr("tokens/s")
                            : tr("90 % interval");
  }
  if (role == Qt::ToolTipRole && !is_own) {
    return QString::fromStdString(tableOf(part.machine).provenance_note) +
           tr("\n≈: its 90 % interval overlaps the first one's there, so that which is faster is "
              "not decided");
  }
  return role == Qt::TextAlignmentRole
             ? QVariant::fromValue(Qt::AlignVCenter | (is_own ? Qt::AlignLeft : Qt::AlignRight))
             : QVariant();
}

}  // namespace versieve::gui
