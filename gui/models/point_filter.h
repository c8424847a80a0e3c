// Which points are shown: terms separated by blanks, all of which must hold.
//   chat          a text column holds "chat"        -chat       none does
//   model=nsa-1b  a text column is exactly this     L>=16K  time<50us  N!=64   a number compares
// Columns go by their key or by the title that the table shows (ρ>0.5), numbers may have a unit.
// Quotes keep blanks together; blanks around a sign are left out: model = 'nsa-1b'.
#pragma once

#include <QString>
#include <span>
#include <vector>

#include "gui/models/snapshot.h"

namespace versieve::gui {

class PointFilter {
 public:
  // Throws Error(kUsage) with one sentence.
  static PointFilter parse(const QString& text);

  using Mask = std::vector<std::uint8_t>;  // [point] = 1 where it holds, else 0
  Mask mask(const Snapshot& snapshot) const;
  std::vector<std::int32_t> apply(const Snapshot& snapshot) const;  // indices, ascending
  // Between which numbers it leaves a column; infinite where it sets no bound.
  struct Bounds {
    double low, high;
  };
  Bounds boundsOf(int column) const;
  // [place] = 1 of a text column's texts that it leaves.
  Mask placesKept(const Snapshot& snapshot, int column) const;
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

  // Leaves in the mask what satisfies the term.
  static void keep(const Snapshot& snapshot, const Term& term, Mask& mask);
  static void keep_compared(std::span<const double> values, Comparison comparison, double number,
                            Mask& mask);
  // "model is demo, nsa-1b"; "time is from 3.1 to 812 µs".
  static QString what_there_is(const Snapshot& snapshot, int column);

  std::vector<Term> terms_;
};

std::vector<std::int32_t> indices_of(const std::vector<std::uint8_t>& mask);  // of the ones

}  // namespace versieve::gui
