// Which points are shown: terms separated by blanks, all of which must hold.
//   chat          a text column holds "chat"        -chat       none does
//   model=nsa-1b  a text column is exactly this     L>=16K  time<50us  N!=64   a number compares
// Columns go by their key or by the title that the table shows (ρ>0.5), numbers may have a unit.
// Quotes keep blanks together; blanks around a sign are left out: model = 'nsa-1b'.
#pragma once

#include <QString>
#include <QStringList>
#include <functional>
#include <vector>

#include "gui/models/snapshot.h"

namespace versieve::gui {

class PointFilter {
 public:
  // Throws Error(kUsage) with one sentence.
  static PointFilter parse(const QString& text);

  std::vector<std::int32_t> apply(const Snapshot& snapshot) const;  // indices, ascending
  // Why it leaves no point, a sentence. REQUIRES: it leaves none, and there are points.
  QString emptyBecause(const Snapshot& snapshot) const;

 private:
  enum class Comparison { kContains, kLacks, kEqual, kUnequal, kLess, kAtMost, kMore, kAtLeast };
  struct Term {
    Comparison comparison = Comparison::kContains;
    int column = -1;  // of point_columns(); none for contains, lacks
    QString text;
    QString word;  // as it is said of a comparison: "time<50us"
    double number = 0.0;
  };

  static Term parse_term(const QString& word);
  static Term comparison_term(const QString& key, const QString& sign, const QString& value);

  using PointTest = std::function<bool(const Snapshot&, const db::PointOverview&)>;
  static PointTest test_of(const Term& term);
  static std::vector<std::int32_t> those_of(const Snapshot& snapshot,
                                            const std::vector<PointTest>& tests);
  // "model is demo, nsa-1b"; "time is from 3.1 to 812 µs".
  static QString what_there_is(const Snapshot& snapshot, int column);
  static bool compare(double value, Comparison comparison, double number);

  std::vector<Term> terms_;
};

// The filter's terms as they are written, quotes and all.
QStringList terms_of(const QString& filter);
// The filter with the column between two numbers, in the place of what it said of that column's
// numbers before.
QString with_range(const QString& filter, const QString& key, double low, double high);

}  // namespace versieve::gui
