#include "gui/models/plan_entries.h"

#include <algorithm>
#include <array>

#include "gui/models/batch_text.h"
#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"

namespace versieve::gui {
namespace {

struct Column {
  const char* title;
  const char* meaning;
  bool is_number;
  QString (*text)(const PlanTable&, const PlanEntry&);
};

QString interval_text(const PlanTable&, const PlanEntry& entry) {
  const Interval& interval = entry.evaluation.throughput_interval;
  return fixed(interval.low, 0) + " – " + fixed(interval.high, 0);
}

// The two baselines, candidates of every class, are told apart from what the class adds.
QString strategy_text(const PlanTable&, const PlanEntry& e) {
  return compact(QString::fromStdString(e.evaluation.strategy.text())) +
         (e.baseline.empty() ? "" : "  – baseline");
}

QString bound_text(const PlanTable&, const PlanEntry& e) {
  const StepCost& cost = *e.evaluation.cost;
  const Bound bound = bottleneck_of(cost);
  return QString("%1 % %2").arg(
      fixed(100.0 * cost.bound_us[static_cast<std::size_t>(bound)] / cost.time_us, 0),
      name_of(bound));
}

constexpr int kClass = 1;
constexpr int kStrategy = 2;
constexpr int kInterval = 4;

const std::array<Column, 18> kColumns = {{
    {"Rank",
     "Place in this list; where a knob was turned also the place before it was.\n≈: the 90 % "
     "interval "
     "overlaps the first one's, so that which of them is faster is not decided",
     true, [](const PlanTable&, const PlanEntry&) { return QString(); }},
    {"Class", "What it promises against plain decoding", false,
     [](const PlanTable&, const PlanEntry& e) { return QString(name_of(e.precision)); }},
    {"Strategy", "attention / draft tree / traversal / group / schedule", false, strategy_text},
    {"Tokens/s", "Accepted tokens a second, expected", true,
     [](const PlanTable&, const PlanEntry& e) { return fixed(e.evaluation.throughput, 0); }},
    {"90 % interval",
     "Of tokens a second, the mean of as many requests as the plan says; the line is the fixed "
     "baseline",
     true, interval_text},
    {"Tokens / step", "Accepted tokens a step, bonus counted", true,
     [](const PlanTable&, const PlanEntry& e) { return fixed(e.evaluation.expected_accepted, 2); }},
    {"Even at, tokens",
     "Tokens a step from which on it yields more than plain decoding of as many requests", true,
     [](const PlanTable& t, const PlanEntry& e) {
       const std::optional<Speculation> s = speculation_of_entry(t, e);
       return s ? fixed(s->break_even, 2) : QString(QChar(kAbsent));
     }},
    {"p loses", "Probability that plain decoding yields more", true,
     [](const PlanTable& t, const PlanEntry& e) {
       const std::optional<Speculation> s = speculation_of_entry(t, e);
       return s ? probability_text(s->loses) : QString(QChar(kAbsent));
     }},
    {"Token, ms", "Between two tokens of a request, in the mean", true,
     [](const PlanTable& t, const PlanEntry& e) {
       return fixed(inter_token_ms(e.evaluation, t.concurrency), 3);
     }},
    {"Step, µs", "Time of a step", true,
     [](const PlanTable&, const PlanEntry& e) { return fixed(e.evaluation.cost->time_us, 1); }},
    {"Bound by", "What most of the step's time waits for", true, bound_text},
    {"× autoregr.", "Over plain decoding of the same target", true,
     [](const PlanTable&, const PlanEntry& e) { return fixed(e.gain_over_ar, 2); }},
    {"× baseline", "Over the fixed baseline", true,
     [](const PlanTable&, const PlanEntry& e) { return fixed(e.gain_over_baseline, 2); }},
    {"p better", "Probability of more tokens a second than the fixed baseline", true,
     [](const PlanTable&, const PlanEntry& e) {
       return e.baseline == "fixed" ? QString(QChar(kAbsent)) : probability_text(e.beats_baseline);
     }},
    {"Loss",
     "Against the exact run of the same target, a token: KL, share of the same likeliest token",
     false, [](const PlanTable&, const PlanEntry& e) { return price_text(e); }},
    {"DRAM, MB", "Bytes a step moves", true,
     [](const PlanTable&, const PlanEntry& e) {
       return fixed(e.evaluation.cost->dram_bytes * 1e-6, 1);
     }},
    {"Source", "Measured, or predicted by the fit", false,
     [](const PlanTable&, const PlanEntry& e) { return QString(name_of(e.evaluation.source)); }},
    {"Note", "What a reader must know", false,
     [](const PlanTable&, const PlanEntry& e) { return QString::fromStdString(e.note); }},
}};

QVariant alignment(bool is_number) {
  return QVariant::fromValue(Qt::AlignVCenter | (is_number ? Qt::AlignRight : Qt::AlignLeft));
}

}  // namespace

void PlanEntries::show(const PlanPtr& plan, const PlanPlace& place,
                       const std::vector<PrecisionClass>& classes) {
  beginResetModel();
  plan_ = plan;
  level_ = place.level;
  entries_.clear();
  ranks_before_.clear();
  if (plan && plan->isTurned()) {
    for (const PlanEntry* entry : entries_of(table_of(plan->own, level_), place.bucket, classes)) {
      const int rank = static_cast<int>(ranks_before_.size()) + 1;
      ranks_before_.emplace(entry->evaluation.strategy.text(), rank);
    }
  }
  if (plan) {
    entries_ = entries_of(table_of(plan->chosen, level_), place.bucket, classes);
    for (const PlanEntry* entry : entries_) {
      const Interval& interval = entry->evaluation.throughput_interval;
      baseline_ = entry->evaluation.throughput / entry->gain_over_baseline;
      const bool is_first = entry == entries_.front();
      scale_.low = std::min({is_first ? baseline_ : scale_.low, baseline_, interval.low});
      scale_.high = std::max({is_first ? baseline_ : scale_.high, baseline_, interval.high});
    }
  }
  endResetModel();
}

int PlanEntries::intervalColumn() {
  return kInterval;
}

int PlanEntries::rowOf(const QString& strategy) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const PlanEntry* entry) {
    return QString::fromStdString(entry->evaluation.strategy.text()) == strategy;
  });
  return found == entries_.end() ? -1 : static_cast<int>(found - entries_.begin());
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

bool PlanEntries::isTied(int row) const {
  return row > 0 && overlaps(*entryAt(0), *entryAt(row));
}

// "3", "3 ≈", or on another machine "3 ≈ (was 7)".
QString PlanEntries::rank_text(int row) const {
  const QString rank = QString::number(row + 1) + (isTied(row) ? tr(" ≈") : QString());
  if (ranks_before_.empty()) {
    return rank;
  }
  const auto before = ranks_before_.find(entryAt(row)->evaluation.strategy.text());
  return before == ranks_before_.end() ? tr("%1 (new)").arg(rank)
         : before->second == row + 1   ? rank
                                       : tr("%1 (was %2)").arg(rank).arg(before->second);
}

QVariant PlanEntries::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) {
    return {};
  }
  const Column& column = kColumns[static_cast<std::size_t>(index.column())];
  const PlanEntry& entry = *entryAt(index.row());
  const Interval& interval = entry.evaluation.throughput_interval;
  switch (role) {
    case Qt::DisplayRole:
      return index.column() == 0 ? rank_text(index.row())
                                 : column.text(table_of(plan_->chosen, level_), entry);
    case Qt::TextAlignmentRole:
      return alignment(column.is_number);
    case Qt::ToolTipRole:
      if (index.column() == kClass) {
        return class_in_words(entry.precision);
      }
      return QString::fromStdString(entry.evaluation.strategy.text()) + "\n" +
             text_in_words(entry.evaluation.strategy.text()) +
             (index.column() == 0 && isTied(index.row())
                  ? tr("\n≈: its interval overlaps the first one's")
                  : QString());
    case kCopyRole:
      return index.column() == kStrategy
                 ? QVariant(QString::fromStdString(entry.evaluation.strategy.text()))
                 : QVariant();
    case kLowRole:
      return interval.low;
    case kMiddleRole:
      return entry.evaluation.throughput;
    case kHighRole:
      return interval.high;
    case kBaselineRole:
      return baseline_;
    case kScaleLowRole:
      return scale_.low;
    case kScaleHighRole:
      return scale_.high;
    default:
      return {};
  }
}

QVariant PlanEntries::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical) {
    return {};
  }
  const Column& column = kColumns[static_cast<std::size_t>(section)];
  if (role == Qt::DisplayRole) {
    return QString(column.title);
  }
  if (role == Qt::ToolTipRole) {
    return QString::fromUtf8(column.meaning);
  }
  return role == Qt::TextAlignmentRole ? alignment(column.is_number) : QVariant();
}

}  // namespace versieve::gui
