#include "gui/models/filter_terms.h"

#include <QRegularExpression>
#include <cmath>
#include <utility>
#include <vector>

#include "gui/models/point_column.h"

namespace versieve::gui {

namespace {

// A column's title, with its unit or without, before a comparison.
struct NamedColumn {
  QRegularExpression title;
  QString key;
};

std::vector<NamedColumn> named_columns() {
  std::vector<NamedColumn> named;
  for (const PointColumn& column : point_columns()) {
    const QString title = QString::fromUtf8(column.title);
    if (title != QLatin1String(column.key)) {
      named.push_back(
          {QRegularExpression("(?<![^\\s])" + QRegularExpression::escape(title) + "(?:,\\s*" +
                                  QRegularExpression::escape(QString::fromUtf8(column.unit)) +
                                  ")?\\s*(?=[=<>!])",
                              QRegularExpression::CaseInsensitiveOption),
           column.key});
    }
  }
  return named;
}

}  // namespace

QString without_dressing(QString text) {
  static const QRegularExpression blanks("\\s*(!=|<=|>=|==|=>|=<|=|<|>)\\s*");
  static const std::vector<NamedColumn> columns = named_columns();
  for (const auto& [sign, plain] :
       {std::pair{"≤", "<="}, std::pair{"≥", ">="}, std::pair{"≠", "!="}}) {
    text.replace(QString::fromUtf8(sign), QString(plain));
  }
  for (const NamedColumn& column : columns) {
    text.replace(column.title, column.key);
  }
  text.replace(blanks, "\\1");
  for (const auto& [twin, plain] :
       {std::pair{"==", "="}, std::pair{"=>", ">="}, std::pair{"=<", "<="}}) {
    text.replace(QString(twin), QString(plain));
  }
  return text;
}

QStringList terms_of(const QString& filter) {
  static const QRegularExpression term("(?:[^\\s'\"]|'[^']*'|\"[^\"]*\"|['\"].*$)+");
  QStringList terms;
  for (QRegularExpressionMatchIterator at = term.globalMatch(filter); at.hasNext();) {
    terms << at.next().captured(0);
  }
  return terms;
}

QStringList plain_terms_of(const QString& filter) {
  return terms_of(without_dressing(filter));
}

namespace {

// Without what it says of the column.
QStringList other_terms(const QString& filter, const QString& key) {
  static const QRegularExpression compared("^([A-Za-z]+)(<=|>=|!=|=|<|>)");
  QStringList terms = plain_terms_of(filter);
  terms.removeIf([&key](const QString& term) {
    const QRegularExpressionMatch match = compared.match(term);
    return match.captured(1).compare(key, Qt::CaseInsensitive) == 0;
  });
  return terms;
}

QString quoted(const QString& text) {
  static const QRegularExpression plain("^[^\\s'\"]+$");
  return plain.match(text).hasMatch() ? text
         : text.contains('"')         ? "'" + text + "'"
                                      : "\"" + text + "\"";
}

}  // namespace

QString with_range(const QString& filter, const QString& key, double low, double high) {
  const auto written = [](double value) {
    return std::fabs(value) >= 1e3 ? QString::number(value, 'f', 0)
                                   : QString::number(value, 'g', 4);
  };
  QStringList terms = other_terms(filter, key);
  if (std::isfinite(low)) {
    terms << key + ">=" + written(low);
  }
  if (std::isfinite(high)) {
    terms << key + "<=" + written(high);
  }
  return terms.join(' ');
}

// One by its name, several by what they are not. The empty text has no name.
QString with_texts(const QString& filter, const QString& key, const QStringList& kept,
                   const QStringList& all) {
  QStringList terms = other_terms(filter, key);
  if (kept.size() == 1 && !kept.first().isEmpty()) {
    terms << key + "=" + quoted(kept.first());
  } else if (!kept.isEmpty()) {
    for (const QString& text : all) {
      if (!text.isEmpty() && !kept.contains(text)) {
        terms << key + "!=" + quoted(text);
      }
    }
  }
  return terms.join(' ');
}

}  // namespace versieve::gui
