// The text of a filter as its terms: to take one away, or to write what was brushed into it.
#pragma once

#include <QString>
#include <QStringList>

namespace versieve::gui {

// As people used to queries write it, with the titles and signs that the table shows, plain:
// L >= 16K of "L ≥ 16K", time<50 of "Median time, µs < 50".
QString without_dressing(QString text);
// The filter's terms as they are written, quotes and all.
QStringList terms_of(const QString& filter);
// The same with signs for titles and no blanks around them: what a term is whatever its dressing.
QStringList plain_terms_of(const QString& filter);
// The filter with the column between two numbers, in the place of what it said of that column's
// numbers before. An infinite bound is left out.
QString with_range(const QString& filter, const QString& key, double low, double high);
// The filter with these of a text column's texts alone, in the place of what it said of them
// before.
QString with_texts(const QString& filter, const QString& key, const QStringList& kept,
                   const QStringList& all);

}  // namespace versieve::gui
