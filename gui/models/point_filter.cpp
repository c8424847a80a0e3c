#include "gui/models/point_filter.h"

#include <QRegularExpression>
#include <QStringList>

#include "gui/models/point_column.h"
#include "model/error.h"

namespace versieve::gui {
namespace {

Error usage(const QString& sentence) {
  return {ExitCode::kUsage, sentence.toStdString()};
}

QString known_keys() {
  QStringList keys;
  for (const PointColumn& column : point_columns()) {
    keys << column.key;
  }
  return keys.join(", ");
}

// "16K" -> 16384.
double parse_number(const QString& text) {
  QString digits = text;
  double factor = 1.0;
  if (digits.endsWith('K', Qt::CaseInsensitive)) {
    factor = 1024.0;
    digits.chop(1);
  }
  bool ok = false;
  const double value = digits.toDouble(&ok);
  if (!ok) {
    throw usage("\"" + text + "\" is not a number");
  }
  return value * factor;
}

bool any_text_contains(const Snapshot& snapshot, const db::PointOverview& point,
                       const QString& text) {
  for (const PointColumn& column : point_columns()) {
    if (column.kind == ColumnKind::kText &&
        column.text(snapshot, point).contains(text, Qt::CaseInsensitive)) {
      return true;
    }
  }
  return false;
}

}  // namespace

PointFilter PointFilter::parse(const QString& text) {
  PointFilter filter;
  for (const QString& word : text.split(' ', Qt::SkipEmptyParts)) {
    filter.terms_.push_back(parse_term(word));
  }
  return filter;
}

PointFilter::Term PointFilter::parse_term(const QString& word) {
  static const QRegularExpression form("^([A-Za-z]+)(!=|<=|>=|=|<|>)(.+)$");
  const QRegularExpressionMatch match = form.match(word);
  if (match.hasMatch()) {
    return comparison_term(match.captured(1), match.captured(2), match.captured(3));
  }
  if (word.size() > 1 && word.startsWith('-')) {
    return {.comparison = Comparison::kLacks, .text = word.mid(1)};
  }
  return {.comparison = Comparison::kContains, .text = word};
}

PointFilter::Term PointFilter::comparison_term(const QString& key, const QString& sign,
                                               const QString& value) {
  static const QStringList signs = {"=", "!=", "<", "<=", ">", ">="};
  static constexpr Comparison kComparisons[] = {Comparison::kEqual, Comparison::kUnequal,
                                                Comparison::kLess,  Comparison::kAtMost,
                                                Comparison::kMore,  Comparison::kAtLeast};
  Term term;
  term.column = column_index(key);
  if (term.column < 0) {
    throw usage("no column is called \"" + key + "\"; there are " + known_keys());
  }
  term.comparison = kComparisons[signs.indexOf(sign)];
  term.text = value;
  const bool is_text =
      point_columns()[static_cast<std::size_t>(term.column)].kind == ColumnKind::kText;
  if (!is_text) {
    term.number = parse_number(value);
  } else if (term.comparison != Comparison::kEqual && term.comparison != Comparison::kUnequal) {
    throw usage("\"" + key + "\" is text: compare it with = or !=");
  }
  return term;
}

bool PointFilter::holds(const Term& term, const Snapshot& snapshot,
                        const db::PointOverview& point) {
  if (term.column < 0) {
    return any_text_contains(snapshot, point, term.text) ==
           (term.comparison == Comparison::kContains);
  }
  const PointColumn& column = point_columns()[static_cast<std::size_t>(term.column)];
  if (column.kind == ColumnKind::kText) {
    const bool equal = column.text(snapshot, point).compare(term.text, Qt::CaseInsensitive) == 0;
    return equal == (term.comparison == Comparison::kEqual);
  }
  const double value = column.value(snapshot, point);  // NaN holds in no comparison but !=
  switch (term.comparison) {
    case Comparison::kEqual:
      return value == term.number;
    case Comparison::kUnequal:
      return value != term.number;
    case Comparison::kLess:
      return value < term.number;
    case Comparison::kAtMost:
      return value <= term.number;
    case Comparison::kMore:
      return value > term.number;
    case Comparison::kAtLeast:
      return value >= term.number;
    case Comparison::kContains:
    case Comparison::kLacks:
      break;
  }
  return false;
}

std::vector<std::int32_t> PointFilter::apply(const Snapshot& snapshot) const {
  std::vector<std::int32_t> shown;
  std::int32_t index = 0;
  for (const db::PointOverview& point : snapshot.overview.points) {
    bool all = true;
    for (const Term& term : terms_) {
      all = all && holds(term, snapshot, point);
    }
    if (all) {
      shown.push_back(index);
    }
    ++index;
  }
  return shown;
}

}  // namespace versieve::gui
