#include "gui/models/point_filter.h"

#include <QRegularExpression>
#include <QStringList>
#include <cmath>
#include <limits>
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

struct Unit {
  const char* of;    // PointColumn::unit
  const char* name;  // as it is typed behind a number
  double factor;     // to the column's own
};
constexpr double kKibi = 1024.0;
constexpr Unit kUnits[] = {{"µs", "ns", 1e-3},
                           {"µs", "us", 1.0},
                           {"µs", "µs", 1.0},
                           {"µs", "\u03bcs", 1.0},
                           {"µs", "ms", 1e3},
                           {"µs", "s", 1e6},
                           {"MB", "B", 1e-6},
                           {"MB", "kB", 1e-3},
                           {"MB", "KB", 1e-3},
                           {"MB", "MB", 1.0},
                           {"MB", "GB", 1e3},
                           {"MB", "KiB", kKibi * 1e-6},
                           {"MB", "MiB", kKibi* kKibi * 1e-6},
                           {"MB", "GiB", kKibi* kKibi* kKibi * 1e-6},
                           {"%", "%", 1.0},
                           {"tokens", "tokens", 1.0}};

// "50us" behind a column in µs; "16K" of what is counted.
double parse_number(const QString& text, const PointColumn& column) {
  static const QRegularExpression form("^([-+]?[0-9.,]+(?:[eE][-+]?[0-9]+)?)\\s*(\\S*)$");
  const QRegularExpressionMatch match = form.match(text);
  const QString unit = match.captured(2);
  const bool counts = column.counts_tokens || *column.unit == '\0';
  double factor = 0.0;
  if (unit.isEmpty()) {
    factor = 1.0;
  } else if (counts && (unit == QLatin1String("K") || unit == QLatin1String("k"))) {
    factor = kKibi;
  } else if (counts && unit == QLatin1String("M")) {
    factor = kKibi * kKibi;
  }
  for (const Unit& known : kUnits) {
    if (QString::fromUtf8(known.of) == QString::fromUtf8(column.unit) &&
        QString::fromUtf8(known.name) == unit) {
      factor = known.factor;
    }
  }
  if (match.hasMatch() && match.captured(1).contains(',')) {
    throw usage("\"" + text + "\": a number has a point, as " +
                QString(match.captured(1)).replace(',', '.'));
  }
  bool ok = false;
  const double value = match.captured(1).toDouble(&ok);
  if (!match.hasMatch() || !ok) {
    throw usage("\"" + text + "\" is not a number, and " + column.key + " is compared with one");
  }
  if (factor == 0.0) {
    const QString own = QString::fromUtf8(column.unit);
    throw usage("\"" + unit + "\" is no unit of " + column.key + ", which is " +
                (own.isEmpty() ? QString("a plain number") : "in " + own));
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

// As people used to queries write it, with the titles and signs that the table shows: L ≥ 16K,
// Median time, µs < 50.
QString without_dressing(QString text) {
  static const QRegularExpression blanks("\\s*(!=|<=|>=|==|=>|=<|=|<|>)\\s*");
  for (const auto& [sign, plain] :
       {std::pair{"≤", "<="}, std::pair{"≥", ">="}, std::pair{"≠", "!="}}) {
    text.replace(QString::fromUtf8(sign), QString(plain));
  }
  for (const PointColumn& column : point_columns()) {
    const QString title = QString::fromUtf8(column.title);
    if (title != QLatin1String(column.key)) {
      const QRegularExpression named(
          "(?<![^\\s])" + QRegularExpression::escape(title) + "(?:,\\s*" +
              QRegularExpression::escape(QString::fromUtf8(column.unit)) + ")?\\s*(?=[=<>!])",
          QRegularExpression::CaseInsensitiveOption);
      text.replace(named, column.key);
    }
  }
  text.replace(blanks, "\\1");
  for (const auto& [twin, plain] :
       {std::pair{"==", "="}, std::pair{"=>", ">="}, std::pair{"=<", "<="}}) {
    text.replace(QString(twin), QString(plain));
  }
  return text;
}

struct Word {
  QString text;         // without its quotes
  bool quoted = false;  // from its beginning: words, whatever stands in them
};

// Apart by blanks, but for those within quotes.
std::vector<Word> words_of(const QString& text) {
  std::vector<Word> words;
  Word word;
  QChar quote;
  qsizetype opened = 0;
  bool is_open = false;
  for (qsizetype at = 0; at < text.size(); ++at) {
    const QChar letter = text[at];
    if (!quote.isNull()) {
      if (letter == quote) {
        quote = QChar();
      } else {
        word.text += letter;
      }
    } else if (letter == '\'' || letter == '"') {
      word.quoted = word.quoted || !is_open;
      quote = letter;
      opened = at;
      is_open = true;
    } else if (!letter.isSpace()) {
      word.text += letter;
      is_open = true;
    } else if (is_open) {
      words.push_back(std::exchange(word, {}));
      is_open = false;
    }
  }
  if (!quote.isNull()) {
    throw usage("the quote before \"" + text.mid(opened + 1) + "\" is not closed");
  }
  if (is_open) {
    words.push_back(word);
  }
  return words;
}

}  // namespace

PointFilter PointFilter::parse(const QString& text) {
  PointFilter filter;
  for (const Word& word : words_of(without_dressing(text))) {
    if (word.quoted) {
      filter.terms_.push_back({.comparison = Comparison::kContains, .text = word.text});
    } else if (!word.text.isEmpty()) {
      filter.terms_.push_back(parse_term(word.text));
    }
  }
  return filter;
}

PointFilter::Term PointFilter::parse_term(const QString& word) {
  static const QRegularExpression form("^([^=<>!]*)(!=|<=|>=|=|<|>)(.*)$");
  static const QRegularExpression other_sign("^([A-Za-z]+)[:~](.+)$");
  const QRegularExpressionMatch match = form.match(word);
  if (match.hasMatch()) {
    if (match.captured(1).isEmpty()) {
      throw usage("before \"" + word + "\" stands no column; there are " + known_keys());
    }
    return comparison_term(match.captured(1), match.captured(2), match.captured(3));
  }
  if (const QRegularExpressionMatch other = other_sign.match(word);
      other.hasMatch() && column_index(other.captured(1)) >= 0) {
    throw usage("\"" + word + "\": a column is compared with a sign, as " + other.captured(1) +
                "=" + other.captured(2));
  }
  if (column_index(word) >= 0) {
    throw usage(
        "\"" + word + "\" is a column and says nothing alone: compare it, as " + word +
        (point_columns()[static_cast<std::size_t>(column_index(word))].kind == ColumnKind::kText
             ? "=…"
             : ">=…") +
        ", or quote it to look for the word");
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
  for (std::size_t at = 0; term.column < 0 && at < point_columns().size(); ++at) {
    if (key.compare(QLatin1String(point_columns()[at].key), Qt::CaseInsensitive) == 0) {
      term.column = static_cast<int>(at);
    }
  }
  if (term.column < 0) {
    throw usage("no column is called \"" + key + "\"; there are " + known_keys());
  }
  term.comparison = kComparisons[signs.indexOf(sign)];
  term.text = value;
  term.word = key + sign + value;
  if (value.isEmpty()) {
    throw usage("after \"" + key + sign + "\" a value is missing");
  }
  const PointColumn& column = point_columns()[static_cast<std::size_t>(term.column)];
  const bool is_text = column.kind == ColumnKind::kText;
  if (!is_text) {
    term.number = parse_number(value, column);
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

QStringList terms_of(const QString& filter) {
  static const QRegularExpression term("(?:[^\\s'\"]|'[^']*'|\"[^\"]*\"|['\"].*$)+");
  QStringList terms;
  for (QRegularExpressionMatchIterator at = term.globalMatch(filter); at.hasNext();) {
    terms << at.next().captured(0);
  }
  return terms;
}

QString with_range(const QString& filter, const QString& key, double low, double high) {
  static const QRegularExpression bound("^([A-Za-z]+)(<=|>=|=|<|>)");
  const auto written = [](double value) {
    return std::fabs(value) >= 1e3 ? QString::number(value, 'f', 0)
                                   : QString::number(value, 'g', 4);
  };
  QStringList terms = terms_of(without_dressing(filter));
  terms.removeIf([&key](const QString& term) { return bound.match(term).captured(1) == key; });
  terms << key + ">=" + written(low) << key + "<=" + written(high);
  return terms.join(' ');
}

std::vector<std::int32_t> PointFilter::apply(const Snapshot& snapshot) const {
  std::vector<PointTest> tests;
  for (const Term& term : terms_) {
    tests.push_back(test_of(term));
  }
  return those_of(snapshot, tests);
}

// Of several terms one that no point satisfies, with what there is instead; else that they exclude
// one another.
QString PointFilter::emptyBecause(const Snapshot& snapshot) const {
  for (const Term& term : terms_) {
    if (!those_of(snapshot, {test_of(term)}).empty()) {
      continue;
    }
    if (term.column < 0) {
      return term.comparison == Comparison::kContains
                 ? "no point has the word \"" + term.text + "\""
                 : "every point has the word \"" + term.text + "\"";
    }
    return "no point has " + term.word + "; " + what_there_is(snapshot, term.column);
  }
  return "each part of the filter holds for some points, all of it for none";
}

QString PointFilter::what_there_is(const Snapshot& snapshot, int index) {
  constexpr qsizetype kMostNamed = 8;
  const PointColumn& column = point_columns()[static_cast<std::size_t>(index)];
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  QString low_text, high_text;
  QStringList texts;
  for (const db::PointOverview& point : snapshot.overview.points) {
    const double value = column.value(snapshot, point);
    if (column.kind == ColumnKind::kText) {
      const QString text = column.text(snapshot, point);
      if (!text.isEmpty() && texts.size() <= kMostNamed && !texts.contains(text)) {
        texts << text;
      }
    } else if (std::isfinite(value)) {
      if (value < low) {
        low = value;
        low_text = column.text(snapshot, point);
      }
      if (value > high) {
        high = value;
        high_text = column.text(snapshot, point);
      }
    }
  }
  const QString key = column.key;
  if (column.kind == ColumnKind::kText) {
    texts.sort();
    return texts.isEmpty() ? key + " stands nowhere"
                           : key + " is " + texts.mid(0, kMostNamed).join(", ") +
                                 (texts.size() > kMostNamed ? ", …" : "");
  }
  const QString unit = *column.unit == '\0' || column.counts_tokens
                           ? QString()
                           : " " + QString::fromUtf8(column.unit);
  return low > high ? key + " stands nowhere"
                    : key + " is from " + low_text + " to " + high_text + unit;
}

std::vector<std::int32_t> PointFilter::those_of(const Snapshot& snapshot,
                                                const std::vector<PointTest>& tests) {
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
