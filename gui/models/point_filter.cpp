#include "gui/models/point_filter.h"

#include <QRegularExpression>
#include <QStringList>
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "gui/models/filter_terms.h"
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

// Whether each place of a text column satisfies a condition: a million points share a few hundred
// texts.
template <typename Condition>
std::vector<std::uint8_t> fitting_places(const std::vector<QString>& texts, Condition condition) {
  std::vector<std::uint8_t> fits;
  for (const QString& text : texts) {
    fits.push_back(!text.isNull() && condition(text) ? 1 : 0);
  }
  return fits;
}

void keep_places(std::span<const double> places, const std::vector<std::uint8_t>& fits,
                 std::vector<std::uint8_t>& mask) {
  for (std::size_t at = 0; at < mask.size(); ++at) {
    mask[at] &= fits[static_cast<std::size_t>(places[at])];
  }
}

// Without a branch within: a million values in two milliseconds.
template <typename Comparison>
void keep_numbers(std::span<const double> values, double number, Comparison holds,
                  std::vector<std::uint8_t>& mask) {
  for (std::size_t at = 0; at < mask.size(); ++at) {
    mask[at] &= static_cast<std::uint8_t>(holds(values[at], number));
  }
}

// Points of which some text column has the word, or none has.
void keep_words(const Snapshot& snapshot, const QString& word, bool wanted,
                std::vector<std::uint8_t>& mask) {
  std::vector<std::uint8_t> found(mask.size(), 0);
  int index = 0;
  for (const PointColumn& column : point_columns()) {
    if (column.kind == ColumnKind::kText) {
      const std::vector<std::uint8_t> fits = fitting_places(
          snapshot.values.texts(index),
          [&word](const QString& text) { return text.contains(word, Qt::CaseInsensitive); });
      const std::span<const double> places = snapshot.values.column(index);
      const bool any = std::find(fits.begin(), fits.end(), 1) != fits.end();
      for (std::size_t at = 0; any && at < found.size(); ++at) {
        found[at] |= fits[static_cast<std::size_t>(places[at])];
      }
    }
    ++index;
  }
  for (std::size_t at = 0; at < mask.size(); ++at) {
    mask[at] &= static_cast<std::uint8_t>(found[at] == static_cast<std::uint8_t>(wanted));
  }
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

void PointFilter::keep(const Snapshot& snapshot, const Term& term, Mask& mask) {
  if (term.column < 0) {
    keep_words(snapshot, term.text, term.comparison == Comparison::kContains, mask);
    return;
  }
  const std::span<const double> values = snapshot.values.column(term.column);
  const PointColumn& column = point_columns()[static_cast<std::size_t>(term.column)];
  if (column.kind == ColumnKind::kText) {
    const bool wanted = term.comparison == Comparison::kEqual;
    keep_places(values,
                fitting_places(snapshot.values.texts(term.column),
                               [&term, wanted](const QString& candidate) {
                                 return (candidate.compare(term.text, Qt::CaseInsensitive) == 0) ==
                                        wanted;
                               }),
                mask);
    return;
  }
  keep_compared(values, term.comparison, term.number, mask);
}

// NaN holds in no comparison but "!=".
void PointFilter::keep_compared(std::span<const double> values, Comparison comparison,
                                double number, Mask& mask) {
  switch (comparison) {
    case Comparison::kEqual:
      return keep_numbers(values, number, std::equal_to<>(), mask);
    case Comparison::kUnequal:
      return keep_numbers(values, number, std::not_equal_to<>(), mask);
    case Comparison::kLess:
      return keep_numbers(values, number, std::less<>(), mask);
    case Comparison::kAtMost:
      return keep_numbers(values, number, std::less_equal<>(), mask);
    case Comparison::kMore:
      return keep_numbers(values, number, std::greater<>(), mask);
    case Comparison::kAtLeast:
      return keep_numbers(values, number, std::greater_equal<>(), mask);
    case Comparison::kContains:
    case Comparison::kLacks:
      break;
  }
}

PointFilter::Bounds PointFilter::boundsOf(int column) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Bounds bounds{-kInfinity, kInfinity};
  for (const Term& term : terms_) {
    if (term.column != column) {
      continue;
    }
    const bool is_equal = term.comparison == Comparison::kEqual;
    if (is_equal || term.comparison == Comparison::kMore ||
        term.comparison == Comparison::kAtLeast) {
      bounds.low = std::max(bounds.low, term.number);
    }
    if (is_equal || term.comparison == Comparison::kLess ||
        term.comparison == Comparison::kAtMost) {
      bounds.high = std::min(bounds.high, term.number);
    }
  }
  return bounds;
}

PointFilter::Mask PointFilter::placesKept(const Snapshot& snapshot, int column) const {
  const std::vector<QString>& texts = snapshot.values.texts(column);
  Mask kept(texts.size(), 1);
  for (const Term& term : terms_) {
    if (term.column == column) {
      const Mask fits = fitting_places(texts, [&term](const QString& text) {
        return (text.compare(term.text, Qt::CaseInsensitive) == 0) ==
               (term.comparison == Comparison::kEqual);
      });
      for (std::size_t place = 0; place < kept.size(); ++place) {
        kept[place] &= fits[place];
      }
    }
  }
  return kept;
}

PointFilter::Mask PointFilter::mask(const Snapshot& snapshot) const {
  Mask mask(snapshot.overview.points.size(), 1);
  for (const Term& term : terms_) {
    keep(snapshot, term, mask);
  }
  return mask;
}

std::vector<std::int32_t> PointFilter::apply(const Snapshot& snapshot) const {
  return indices_of(mask(snapshot));
}

// Of several terms one that no point satisfies, with what there is instead; else that they exclude
// one another.
QString PointFilter::emptyBecause(const Snapshot& snapshot) const {
  for (const Term& term : terms_) {
    Mask mask(snapshot.overview.points.size(), 1);
    keep(snapshot, term, mask);
    if (std::find(mask.begin(), mask.end(), 1) != mask.end()) {
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
  QString low_text, high_text;
  QStringList texts;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  if (column.kind == ColumnKind::kText) {
    for (const QString& text : snapshot.values.texts(index)) {
      if (!text.isEmpty() && texts.size() <= kMostNamed && !texts.contains(text)) {
        texts << text;
      }
    }
  } else {
    const std::span<const double> values = snapshot.values.column(index);
    for (std::size_t at = 0; at < values.size(); ++at) {
      if (values[at] < low) {
        low = values[at];
        low_text = column.text(snapshot, snapshot.overview.points[at]);
      }
      if (values[at] > high && std::isfinite(values[at])) {
        high = values[at];
        high_text = column.text(snapshot, snapshot.overview.points[at]);
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

std::vector<std::int32_t> indices_of(const std::vector<std::uint8_t>& mask) {
  std::vector<std::int32_t> indices(mask.size());
  std::size_t count = 0;
  for (std::size_t at = 0; at < mask.size(); ++at) {
    indices[count] = static_cast<std::int32_t>(at);
    count += mask[at];
  }
  indices.resize(count);
  return indices;
}

}  // namespace versieve::gui
