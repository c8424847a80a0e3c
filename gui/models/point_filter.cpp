#include "gui/models/point_filter.h"

#include <QRegularExpression>
#include <QStringList>
#include <cmath>
#include <utility>

#include "gui/models/point_column.h"
#include "model/words/error.h"

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

// Whether a text column's text satisfies a term, found once for each distinct text: a million
// points share a few hundred of them.
class TextTest {
 public:
  using Condition = std::function<bool(const QString&)>;
  TextTest(const PointColumn& column, Condition condition)
      : column_(column), condition_(std::move(condition)) {}

  bool operator()(const Snapshot& snapshot, const db::PointOverview& point) {
    const std::size_t place = static_cast<std::size_t>(column_.value(snapshot, point));
    if (place >= known_.size()) {
      known_.resize(place + 1, Answer::kUnknown);
    }
    if (known_[place] == Answer::kUnknown) {
      known_[place] = condition_(column_.text(snapshot, point)) ? Answer::kYes : Answer::kNo;
    }
    return known_[place] == Answer::kYes;
  }

 private:
  enum class Answer : char { kUnknown, kYes, kNo };
  const PointColumn& column_;
  Condition condition_;
  std::vector<Answer> known_;
};

std::function<bool(const Snapshot&, const db::PointOverview&)> contains_test(const QString& text,
                                                                             bool wanted) {
  std::vector<TextTest> tests;
  for (const PointColumn& column : point_columns()) {
    if (column.kind == ColumnKind::kText) {
      tests.emplace_back(column, [text](const QString& candidate) {
        return candidate.contains(text, Qt::CaseInsensitive);
      });
    }
  }
  return [tests, wanted](const Snapshot& snapshot, const db::PointOverview& point) mutable {
    bool any = false;
    for (TextTest& test : tests) {
      any = any || test(snapshot, point);
    }
    return any == wanted;
  };
}

// As people used to queries write it: L >= 16K, workload = 'step'.
QString without_dressing(QString text) {
  static const QRegularExpression blanks("\\s*(!=|<=|>=|=|<|>)\\s*");
  static const QRegularExpression quotes("(!=|=)(['\"])([^'\"]*)\\2");
  return text.replace(blanks, "\\1").replace(quotes, "\\1\\3");
}

}  // namespace

PointFilter PointFilter::parse(const QString& text) {
  PointFilter filter;
  for (const QString& word : without_dressing(text).split(' ', Qt::SkipEmptyParts)) {
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

PointFilter::PointTest PointFilter::test_of(const Term& term) {
  if (term.column < 0) {
    return contains_test(term.text, term.comparison == Comparison::kContains);
  }
  const PointColumn& column = point_columns()[static_cast<std::size_t>(term.column)];
  if (column.kind == ColumnKind::kText) {
    const bool wanted = term.comparison == Comparison::kEqual;
    return TextTest(column, [text = term.text, wanted](const QString& candidate) {
      return (candidate.compare(text, Qt::CaseInsensitive) == 0) == wanted;
    });
  }
  return [&column, term](const Snapshot& snapshot, const db::PointOverview& point) {
    return compare(column.value(snapshot, point), term.comparison, term.number);
  };
}

// NaN holds in no comparison but "!=".
bool PointFilter::compare(double value, Comparison comparison, double number) {
  switch (comparison) {
    case Comparison::kEqual:
      return value == number;
    case Comparison::kUnequal:
      return value != number;
    case Comparison::kLess:
      return value < number;
    case Comparison::kAtMost:
      return value <= number;
    case Comparison::kMore:
      return value > number;
    case Comparison::kAtLeast:
      return value >= number;
    case Comparison::kContains:
    case Comparison::kLacks:
      break;
  }
  return false;
}

QString with_range(const QString& filter, const QString& key, double low, double high) {
  static const QRegularExpression bound("^([A-Za-z]+)(<=|>=|=|<|>)");
  const auto written = [](double value) {
    return std::fabs(value) >= 1e3 ? QString::number(value, 'f', 0)
                                   : QString::number(value, 'g', 4);
  };
  QStringList terms = without_dressing(filter).split(' ', Qt::SkipEmptyParts);
  terms.removeIf([&key](const QString& term) { return bound.match(term).captured(1) == key; });
  terms << key + ">=" + written(low) << key + "<=" + written(high);
  return terms.join(' ');
}

std::vector<std::int32_t> PointFilter::apply(const Snapshot& snapshot) const {
  std::vector<PointTest> tests;
  for (const Term& term : terms_) {
    tests.push_back(test_of(term));
  }
  std::vector<std::int32_t> shown;
  std::int32_t index = 0;
  for (const db::PointOverview& point : snapshot.overview.points) {
    bool all = true;
    for (const PointTest& test : tests) {
      all = all && test(snapshot, point);
    }
    if (all) {
      shown.push_back(index);
    }
    ++index;
  }
  return shown;
}

}  // namespace versieve::gui
