#include "gui/models/comparison.h"

#include <QStringList>
#include <array>
#include <cmath>

#include "gui/models/numbers.h"
#include "gui/models/point_column.h"

namespace versieve::gui {
namespace {

using db::PointOverview;

// What distinguishes one point from another; a column each.
constexpr std::array kKeys = {"source", "workload", "model", "regime", "strategy", "L",
                              "N",      "dtype",    "cache", "launch", "split"};

struct Quantity {
  const char* name;
  std::optional<double> PointOverview::*value;
  QString (*text)(double);
};

const std::array<Quantity, 4> kQuantities = {
    {{"median time", &PointOverview::median_ns, nanoseconds},
     {"DRAM bytes", &PointOverview::dram_bytes, bytes},
     {"DRAM predicted", &PointOverview::predicted_dram_bytes, bytes},
     {"tokens a step", &PointOverview::accepted_per_step,
      [](double value) { return fixed(value, 2); }}}};

QString row(const QString& name, const QStringList& cells, bool is_quiet = false) {
  QString html = "<tr><td class='quiet' style='padding-right:12px'>" + name + "</td>";
  for (const QString& cell : cells) {
    html += QString("<td align='right' class='%1' style='padding-right:12px'>%2</td>")
                .arg(is_quiet ? "quiet" : "", cell);
  }
  return html + "</tr>";
}

QString quantity_rows(const PointOverview& point, const PointOverview& baseline) {
  QString html;
  for (const Quantity& quantity : kQuantities) {
    const std::optional<double>& here = point.*quantity.value;
    const std::optional<double>& there = baseline.*quantity.value;
    if (here && there) {
      html += row(quantity.name,
                  {quantity.text(*here), quantity.text(*there),
                   quantity.value == &PointOverview::median_ns ? time_ratio_text(point, baseline)
                                                               : fixed(*here / *there, 2)});
    }
  }
  return html;
}

QString differences(const Snapshot& snapshot, const PointOverview& point,
                    const PointOverview& baseline) {
  QStringList parts;
  for (const char* key : kKeys) {
    const PointColumn& column = point_columns()[static_cast<std::size_t>(column_index(key))];
    const QString there = column.text(snapshot, baseline);
    if (column.text(snapshot, point) != there) {
      const QString title = column.title;
      parts << (title.size() > 1 ? title.toLower() : title) + " " +
                   (there.isEmpty() ? QString(QChar(kAbsent)) : there);
    }
  }
  return parts.isEmpty() ? QStringLiteral("in nothing but the run") : parts.join(", ");
}

}  // namespace

double time_ratio(const PointOverview& point, const PointOverview& baseline) {
  return point.median_ns.value_or(std::nan("")) / baseline.median_ns.value_or(std::nan(""));
}

bool times_overlap(const PointOverview& point, const PointOverview& baseline) {
  return point.median_low_ns && point.median_high_ns && baseline.median_low_ns &&
         baseline.median_high_ns && *point.median_low_ns <= *baseline.median_high_ns &&
         *baseline.median_low_ns <= *point.median_high_ns;
}

QString time_ratio_text(const PointOverview& point, const PointOverview& baseline) {
  const QString text = fixed(time_ratio(point, baseline), 2);
  return times_overlap(point, baseline) ? QString::fromUtf8("≈ ") + text : text;
}

QString comparison_html(const Snapshot& snapshot, int point, int baseline) {
  const PointOverview& here = snapshot.overview.points[static_cast<std::size_t>(point)];
  const PointOverview& there = snapshot.overview.points[static_cast<std::size_t>(baseline)];
  QString html =
      "<p class='quiet' style='margin-top:12px; margin-bottom:2px'>"
      "Against the baseline</p>";
  if (point == baseline) {
    return html + "<p style='margin-top:0'>This is the baseline.</p>";
  }
  const QString rows = quantity_rows(here, there);
  html += rows.isEmpty()
              ? "<p style='margin-top:0'>The two have no figure in common.</p>"
              : "<table>" + row({}, {"this", "baseline", "ratio"}, true) + rows + "</table>";
  if (times_overlap(here, there)) {
    html += "<p style='margin-top:4px'>≈: the 95 % intervals of the two times overlap.</p>";
  }
  return html + "<p style='margin-top:4px'><span class='quiet'>The baseline has</span> " +
         differences(snapshot, here, there).toHtmlEscaped() + ".</p>";
}

}  // namespace versieve::gui
