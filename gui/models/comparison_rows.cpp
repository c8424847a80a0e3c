#include "gui/models/comparison_rows.h"

#include <QFileInfo>
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/models/planner.h"

namespace versieve::gui {
namespace {

using engine::Change;
using engine::ComparedCell;
using engine::ComparedFigure;

QString utf8(const std::string& text) {
  return QString::fromStdString(text);
}

QString absent() {
  return QString(QChar(kAbsent));
}

QString shown_value(double value, ComparedFigure figure) {
  switch (figure) {
    case ComparedFigure::kTime:
      return nanoseconds(value);
    case ComparedFigure::kDramBytes:
      return bytes(value);
    case ComparedFigure::kTokens:
      return fixed(value, 3);
  }
  return {};
}

QString figure_title(ComparedFigure figure) {
  switch (figure) {
    case ComparedFigure::kTime:
      return QObject::tr("time");
    case ComparedFigure::kDramBytes:
      return QObject::tr("DRAM bytes");
    case ComparedFigure::kTokens:
      return QObject::tr("tokens a step");
  }
  return {};
}

ComparedRow row_of(const ComparedCell& cell, std::size_t source) {
  ComparedRow row{
      .change = Change::kSame,
      .base = cell.before != nullptr ? cell.before->evaluation.throughput : std::nan(""),
      .ratio = std::nan(""),
      .ratio_interval = {},
      .source = source};
  if (cell.before != nullptr && cell.after != nullptr) {
    row.ratio = cell.ratio();
  }
  const bool is_real =
      cell.change == engine::CellChange::kWinner || cell.change == engine::CellChange::kMoved;
  if (cell.change == engine::CellChange::kOnlyOne) {
    row.change = Change::kNotJudged;
  } else if (is_real) {
    row.change = row.ratio < 1.0 ? Change::kWorse : Change::kBetter;
  }
  return row;
}

QString winner_text(const PlanEntry* entry) {
  return entry == nullptr ? absent() : utf8(entry->evaluation.strategy.text());
}

QString rate_text(const PlanEntry* entry) {
  return entry == nullptr ? absent() : fixed(entry->evaluation.throughput, 1);
}

QString inputs_text(const ComparedCell& cell) {
  QStringList words;
  for (const engine::PlanInput input : cell.because) {
    words << engine::name_of(input);
  }
  return words.join(", ");
}

QString file_name(const QString& path) {
  return QFileInfo(path).fileName();
}

}  // namespace

struct ComparisonRows::Column {
  QString title;
  bool is_number = false;
  std::function<QString(const ComparisonRows&, int)> text;
  std::function<double(const ComparisonRows&, int)> value = {};  // that a number is sorted by
};

const std::vector<ComparisonRows::Column>& ComparisonRows::point_columns_of_comparison() {
  using Rows = const ComparisonRows&;
  const auto of_key = [](const QString& title, bool is_number, auto get) {
    return Column{title, is_number,
                  [get](Rows rows, int row) { return get(rows.basePoint(row).key); }};
  };
  static const std::vector<Column> columns = {
      {tr("Change"), false, [](Rows rows, int row) { return rows.changeText(row); }},
      {tr("Ratio"), true,
       [](Rows rows, int row) {
         return fixed(rows.rows()[static_cast<std::size_t>(row)].ratio, 3);
       },
       [](Rows rows, int row) { return rows.rows()[static_cast<std::size_t>(row)].ratio; }},
      {tr("95 % interval"), true,
       [](Rows rows, int row) {
         const auto& interval = rows.rows()[static_cast<std::size_t>(row)].ratio_interval;
         return interval
                    ? fixed(interval->low, 3) + QString::fromUtf8(" – ") + fixed(interval->high, 3)
                    : absent();
       },
       [](Rows rows, int row) {
         const auto& interval = rows.rows()[static_cast<std::size_t>(row)].ratio_interval;
         return interval ? interval->high - interval->low : std::nan("");
       }},
      {tr("First"), true,
       [](Rows rows, int row) {
         const ComparedFigure figure = rows.points()->figure;
         return shown_value(*engine::figure_of(rows.basePoint(row), figure), figure);
       },
       [](Rows rows, int row) {
         return *engine::figure_of(rows.basePoint(row), rows.points()->figure);
       }},
      {tr("Second"), true,
       [](Rows rows, int row) {
         const ComparedFigure figure = rows.points()->figure;
         return shown_value(*engine::figure_of(rows.otherPoint(row), figure), figure);
       },
       [](Rows rows, int row) {
         return *engine::figure_of(rows.otherPoint(row), rows.points()->figure);
       }},
      of_key(tr("Workload"), false, [](const PointKey& k) { return QString(name_of(k.workload)); }),
      of_key(tr("Strategy"), false, [](const PointKey& k) { return utf8(k.strategy); }),
      {tr("L"), true,
       [](Rows rows, int row) { return tokens(rows.basePoint(row).key.context_len); },
       [](Rows rows, int row) { return static_cast<double>(rows.basePoint(row).key.context_len); }},
      {tr("N"), true,
       [](Rows rows, int row) { return QString::number(rows.basePoint(row).key.num_queries); },
       [](Rows rows, int row) { return static_cast<double>(rows.basePoint(row).key.num_queries); }},
      {QString::fromUtf8("ρ"), true,
       [](Rows rows, int row) {
         const std::optional<double>& overlap = rows.basePoint(row).key.overlap;
         return overlap ? fixed(*overlap, 2) : absent();
       },
       [](Rows rows, int row) { return rows.basePoint(row).key.overlap.value_or(std::nan("")); }},
      of_key(tr("Model"), false, [](const PointKey& k) { return utf8(k.model); }),
      of_key(tr("Regime"), false, [](const PointKey& k) { return utf8(k.regime); }),
      of_key(tr("Type"), false, [](const PointKey& k) { return QString(name_of(k.dtype)); }),
      of_key(tr("Cache"), false, [](const PointKey& k) { return QString(name_of(k.cache_state)); }),
      of_key(tr("Launches"), false, [](const PointKey& k) { return QString(name_of(k.launch)); })};
  return columns;
}

const std::vector<ComparisonRows::Column>& ComparisonRows::cell_columns() {
  using Rows = const ComparisonRows&;
  static const std::vector<Column> columns = {
      {tr("Change"), false, [](Rows rows, int row) { return rows.changeText(row); }},
      {tr("Context"), true, [](Rows rows, int row) { return bucket_text(rows.cell(row).bucket); },
       [](Rows rows, int row) { return static_cast<double>(rows.cell(row).bucket.high); }},
      {tr("Class"), false,
       [](Rows rows, int row) { return QString(name_of(rows.cell(row).precision)); }},
      {tr("Ratio"), true,
       [](Rows rows, int row) {
         return fixed(rows.rows()[static_cast<std::size_t>(row)].ratio, 3);
       },
       [](Rows rows, int row) { return rows.rows()[static_cast<std::size_t>(row)].ratio; }},
      {tr("First, tokens/s"), true,
       [](Rows rows, int row) { return rate_text(rows.cell(row).before); },
       [](Rows rows, int row) { return rows.rows()[static_cast<std::size_t>(row)].base; }},
      {tr("Second, tokens/s"), true,
       [](Rows rows, int row) { return rate_text(rows.cell(row).after); },
       [](Rows rows, int row) {
         const ComparedRow& r = rows.rows()[static_cast<std::size_t>(row)];
         return r.base * r.ratio;
       }},
      {tr("What moved"), false, [](Rows rows, int row) { return inputs_text(rows.cell(row)); }},
      {tr("First winner"), false,
       [](Rows rows, int row) { return winner_text(rows.cell(row).before); }},
      {tr("Second winner"), false,
       [](Rows rows, int row) { return winner_text(rows.cell(row).after); }},
      {tr("Why"), false, [](Rows rows, int row) { return utf8(rows.cell(row).why); }}};
  return columns;
}

const std::vector<ComparisonRows::Column>& ComparisonRows::columns() const {
  return areTables() ? cell_columns() : point_columns_of_comparison();
}

void ComparisonRows::show(
    const ComparedFilesPtr& files, int against,
    std::function<bool(const ComparedPoint& base, const ComparedPoint& other)> keeps) {
  beginResetModel();
  files_ = files;
  against_ = against;
  rows_.clear();
  matched_ = 0;
  if (const engine::PointComparison* comparison = points()) {
    matched_ = comparison->tuples.size();
    const auto other_points = [&](std::size_t at) -> const ComparedPoint& {
      return files_->sides[static_cast<std::size_t>(against_) + 1].points[at];
    };
    for (std::size_t i = 0; i < comparison->tuples.size(); ++i) {
      const engine::ComparedTuple& tuple = comparison->tuples[i];
      if (!keeps || keeps(files_->sides[0].points[tuple.base], other_points(tuple.other))) {
        rows_.push_back({tuple.change, tuple.base_value, tuple.ratio(), tuple.ratio_interval, i});
      }
    }
  } else if (const engine::TableComparison* tables = cells()) {
    matched_ = tables->cells.size();
    for (std::size_t i = 0; i < tables->cells.size(); ++i) {
      rows_.push_back(row_of(tables->cells[i], i));
    }
  }
  endResetModel();
}

const engine::PointComparison* ComparisonRows::points() const {
  const std::size_t at = static_cast<std::size_t>(against_);
  return files_ && !files_->are_tables && at < files_->points.size() ? &files_->points[at]
                                                                     : nullptr;
}

const engine::TableComparison* ComparisonRows::cells() const {
  const std::size_t at = static_cast<std::size_t>(against_);
  return files_ && files_->are_tables && at < files_->cells.size() ? &files_->cells[at] : nullptr;
}

const ComparedPoint& ComparisonRows::basePoint(int row) const {
  const ComparedRow& r = rows_[static_cast<std::size_t>(row)];
  return files_->sides[0].points[points()->tuples[r.source].base];
}

const ComparedPoint& ComparisonRows::otherPoint(int row) const {
  const ComparedRow& r = rows_[static_cast<std::size_t>(row)];
  return files_->sides[static_cast<std::size_t>(against_) + 1]
      .points[points()->tuples[r.source].other];
}

const ComparedCell& ComparisonRows::cell(int row) const {
  return cells()->cells[rows_[static_cast<std::size_t>(row)].source];
}

QString ComparisonRows::changeText(int row) const {
  return areTables() ? QString(engine::name_of(cell(row).change))
                     : QString(engine::word_of(rows_[static_cast<std::size_t>(row)].change,
                                               points()->figure));
}

int ComparisonRows::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int ComparisonRows::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(columns().size());
}

QVariant ComparisonRows::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || rows_.empty()) {
    return {};
  }
  const Column& column = columns()[static_cast<std::size_t>(index.column())];
  if (role == Qt::DisplayRole) {
    return column.text(*this, index.row());
  }
  if (role == Qt::ToolTipRole) {
    const QString words = areTables() ? class_in_words(cell(index.row()).precision)
                                      : text_in_words(basePoint(index.row()).key.strategy);
    return words.isEmpty() ? line(index.row()) : line(index.row()) + "\n" + words;
  }
  if (role == Qt::TextAlignmentRole) {
    return QVariant::fromValue(Qt::AlignVCenter |
                               (column.is_number ? Qt::AlignRight : Qt::AlignLeft));
  }
  return {};
}

QVariant ComparisonRows::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical) {
    return {};
  }
  const Column& column = columns()[static_cast<std::size_t>(section)];
  if (role == Qt::DisplayRole) {
    return column.title;
  }
  if (role == Qt::TextAlignmentRole) {
    return QVariant::fromValue(Qt::AlignVCenter |
                               (column.is_number ? Qt::AlignRight : Qt::AlignLeft));
  }
  return {};
}

// By the first column in the comparison's own order: what matters most first. What is absent comes
// last either way.
void ComparisonRows::sort(int column, Qt::SortOrder order) {
  if (column < 0 || column >= columnCount() || rows_.empty()) {
    return;
  }
  const Column& by = columns()[static_cast<std::size_t>(column)];
  std::vector<int> places(rows_.size());
  std::iota(places.begin(), places.end(), 0);
  const auto sorted = [&](auto keys) {
    std::stable_sort(places.begin(), places.end(), [&](int a, int b) {
      const auto& left = keys[static_cast<std::size_t>(a)];
      const auto& right = keys[static_cast<std::size_t>(b)];
      return order == Qt::AscendingOrder ? left < right : right < left;
    });
  };
  if (column == 0) {
    std::vector<std::size_t> keys;
    for (const ComparedRow& row : rows_) {
      keys.push_back(row.source);
    }
    sorted(keys);
  } else if (by.value) {
    std::vector<double> keys;
    const double last = order == Qt::AscendingOrder ? HUGE_VAL : -HUGE_VAL;
    for (int row = 0; row < rowCount(); ++row) {
      const double value = by.value(*this, row);
      keys.push_back(std::isnan(value) ? last : value);
    }
    sorted(keys);
  } else {
    std::vector<QString> keys;
    for (int row = 0; row < rowCount(); ++row) {
      keys.push_back(by.text(*this, row));
    }
    sorted(keys);
  }
  beginResetModel();
  std::vector<ComparedRow> rows;
  for (const int place : places) {
    rows.push_back(rows_[static_cast<std::size_t>(place)]);
  }
  rows_ = std::move(rows);
  endResetModel();
}

QString ComparisonRows::line(int row) const {
  const ComparedRow& r = rows_[static_cast<std::size_t>(row)];
  if (areTables()) {
    const ComparedCell& c = cell(row);
    const QString why = utf8(c.why);
    return tr("%1 %2: %3, %4 then %5 tokens/s%6")
        .arg(bucket_text(c.bucket), QString(name_of(c.precision)), changeText(row),
             rate_text(c.before), rate_text(c.after), why.isEmpty() ? QString() : ". " + why);
  }
  const ComparedFigure figure = points()->figure;
  const engine::ComparedTuple& tuple = points()->tuples[r.source];
  QString text = tr("%1: %2, %3 then %4, ratio %5")
                     .arg(utf8(engine::tuple_text(basePoint(row).key)), changeText(row),
                          shown_value(tuple.base_value, figure),
                          shown_value(tuple.other_value, figure), fixed(r.ratio, 3));
  return r.change == Change::kNotJudged ? text + "; " + utf8(tuple.not_judged_because) : text;
}

QString ComparisonRows::html(int row) const {
  if (row < 0 || row >= rowCount()) {
    return {};
  }
  const ComparedRow& r = rows_[static_cast<std::size_t>(row)];
  QString html = "<p><b>" + changeText(row) + "</b></p>";
  if (areTables()) {
    const ComparedCell& c = cell(row);
    html += "<p>" + bucket_text(c.bucket) + ", " + name_of(c.precision) + "</p><table>";
    for (const auto& [title, entry] :
         {std::pair{tr("first"), c.before}, std::pair{tr("second"), c.after}}) {
      html += "<tr><td class='quiet' style='padding-right:12px'>" + title +
              "</td><td style='padding-right:12px'>" + winner_text(entry) +
              "</td><td align='right'>" + rate_text(entry) + " tokens/s</td></tr>";
    }
    return html + "</table><p>" + utf8(c.why).toHtmlEscaped() + "</p>";
  }
  const engine::ComparedTuple& tuple = points()->tuples[r.source];
  html += "<p>" + utf8(engine::tuple_text(basePoint(row).key)).toHtmlEscaped() +
          "<br><span class='quiet'>" + text_in_words(basePoint(row).key.strategy).toHtmlEscaped() +
          "</span></p><table>";
  const auto add = [&html](const QString& title, const QString& first, const QString& second,
                           const QString& ratio) {
    html += "<tr><td class='quiet' style='padding-right:12px'>" + title +
            "</td><td align='right' style='padding-right:12px'>" + first +
            "</td><td align='right' style='padding-right:12px'>" + second +
            "</td><td align='right'>" + ratio + "</td></tr>";
  };
  add({}, tr("first"), tr("second"), tr("ratio"));
  for (const ComparedFigure figure :
       {ComparedFigure::kTime, ComparedFigure::kDramBytes, ComparedFigure::kTokens}) {
    const std::optional<double> first = engine::figure_of(basePoint(row), figure);
    const std::optional<double> second = engine::figure_of(otherPoint(row), figure);
    if (first && second) {
      add(figure_title(figure), shown_value(*first, figure), shown_value(*second, figure),
          fixed(*second / *first, 3));
    }
  }
  html += "</table>";
  return r.change == Change::kNotJudged
             ? html + "<p>" + utf8(tuple.not_judged_because).toHtmlEscaped() + "</p>"
             : html;
}

QString ComparisonRows::summary() const {
  if (const engine::PointComparison* comparison = points()) {
    QString text;
    if (rows_.size() < matched_) {
      text = tr("The filter shows %1 of them. ").arg(rows_.size());
    }
    return utf8(engine::counts_text(*comparison)) + ". " + text +
           utf8(engine::rule_text(*comparison));
  }
  if (const engine::TableComparison* tables = cells()) {
    return utf8(engine::counts_text(*tables)) + ". " + engine::kTableRule;
  }
  return {};
}

QString ComparisonRows::surroundings() const {
  if (!files_) {
    return {};
  }
  QString html;
  const std::size_t other = static_cast<std::size_t>(against_) + 1;
  for (const std::size_t at : {std::size_t{0}, other}) {
    const QString name = file_name(files_->paths[static_cast<qsizetype>(at)]).toHtmlEscaped();
    html += "<p style='margin-bottom:2px'><span class='quiet'>" +
            (at == 0 ? tr("first") : tr("second")) + "</span> <b>" + name + "</b>";
    if (!files_->are_tables) {
      const ComparedSide& side = files_->sides[at];
      html += "<br>" + utf8(side.device).toHtmlEscaped() + ", " +
              tr("%1 points, %2 runs").arg(side.points.size()).arg(side.runs.size());
      if (!side.runs.empty()) {
        html += "<br>" + utf8(side.runs.front().started_utc.substr(0, 10)) +
                QString::fromUtf8(" – ") + utf8(side.runs.back().started_utc.substr(0, 10));
      }
      for (const std::string& device : side.other_devices) {
        html += "<br>" + tr("without the points of %1").arg(utf8(device).toHtmlEscaped());
      }
    }
    html += "</p>";
  }
  QStringList parts;
  if (const engine::PointComparison* comparison = points()) {
    for (const std::string& part : comparison->what_differs) {
      parts << utf8(part).toHtmlEscaped();
    }
  } else if (const engine::TableComparison* tables = cells()) {
    for (const engine::MovedInput& moved : tables->moved) {
      parts << "<b>" + QString(engine::name_of(moved.input)) + "</b> " +
                   utf8(moved.sentence).toHtmlEscaped();
    }
  }
  html += "<p class='quiet' style='margin-top:10px; margin-bottom:2px'>" +
          (files_->are_tables ? tr("What moved") : tr("What differs")) + "</p>";
  return html + (parts.isEmpty() ? "<p>" + tr("nothing") + "</p>"
                                 : "<p style='margin-top:0'>" + parts.join("<br>") + "</p>");
}

}  // namespace versieve::gui
