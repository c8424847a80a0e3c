#include "gui/models/point_column.h"

#include <cmath>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"

namespace versieve::gui {
namespace {

using db::PointOverview;

constexpr double kPerMicrosecond = 1e-3;
constexpr double kPerMegabyte = 1e-6;

double number(const std::optional<double>& value, double factor = 1.0) {
  return value ? *value * factor : std::nan("");
}

template <std::int32_t PointOverview::*kWord>
QString word_text(const Snapshot& snapshot, const PointOverview& point) {
  return snapshot.word(point.*kWord);
}

template <std::int32_t PointOverview::*kWord>
double word_place(const Snapshot& snapshot, const PointOverview& point) {
  return snapshot.word_order[static_cast<std::size_t>(point.*kWord)];
}

double run_value(const Snapshot&, const PointOverview& point) {
  return static_cast<double>(point.run_id);
}
QString run_text(const Snapshot&, const PointOverview& point) {
  return QString::number(point.run_id);
}
double workload_value(const Snapshot&, const PointOverview& point) {
  return static_cast<double>(point.workload);
}
double system_value(const Snapshot& snapshot, const PointOverview& point) {
  return static_cast<double>(system_of(snapshot.word(point.strategy)));
}
QString system_text(const Snapshot& snapshot, const PointOverview& point) {
  return short_name(system_of(snapshot.word(point.strategy)));
}
QString workload_text(const Snapshot&, const PointOverview& point) {
  return name_of(point.workload);
}
double context_value(const Snapshot&, const PointOverview& point) {
  return static_cast<double>(point.context_len);
}
QString context_text(const Snapshot&, const PointOverview& point) {
  return tokens(point.context_len);
}
double queries_value(const Snapshot&, const PointOverview& point) {
  return static_cast<double>(point.num_queries);
}
QString queries_text(const Snapshot&, const PointOverview& point) {
  return QString::number(point.num_queries);
}
double overlap_value(const Snapshot&, const PointOverview& point) {
  return number(point.adjacent_overlap);
}
QString overlap_text(const Snapshot& snapshot, const PointOverview& point) {
  return fixed(overlap_value(snapshot, point), 3);
}
double time_value(const Snapshot&, const PointOverview& point) {
  return number(point.median_ns, kPerMicrosecond);
}
QString time_text(const Snapshot& snapshot, const PointOverview& point) {
  return fixed(time_value(snapshot, point), 2);
}
// Half the interval's width, in percent of the median.
double spread_value(const Snapshot&, const PointOverview& point) {
  if (!point.median_ns || !point.median_low_ns || !point.median_high_ns) {
    return std::nan("");
  }
  return 50.0 * (*point.median_high_ns - *point.median_low_ns) / *point.median_ns;
}
QString spread_text(const Snapshot& snapshot, const PointOverview& point) {
  const double value = spread_value(snapshot, point);
  return std::isnan(value) ? fixed(value, 1) : "± " + fixed(value, 1);
}
double dram_value(const Snapshot&, const PointOverview& point) {
  return number(point.dram_bytes, kPerMegabyte);
}
QString dram_text(const Snapshot& snapshot, const PointOverview& point) {
  return fixed(dram_value(snapshot, point), 2);
}
double predicted_value(const Snapshot&, const PointOverview& point) {
  return number(point.predicted_dram_bytes, kPerMegabyte);
}
QString predicted_text(const Snapshot& snapshot, const PointOverview& point) {
  return fixed(predicted_value(snapshot, point), 2);
}
double ratio_value(const Snapshot&, const PointOverview& point) {
  return number(point.dram_bytes) / number(point.predicted_dram_bytes);
}
QString ratio_text(const Snapshot& snapshot, const PointOverview& point) {
  return fixed(ratio_value(snapshot, point), 2);
}
double accepted_value(const Snapshot&, const PointOverview& point) {
  return number(point.accepted_per_step);
}
QString accepted_text(const Snapshot& snapshot, const PointOverview& point) {
  return fixed(accepted_value(snapshot, point), 2);
}
double temperature_value(const Snapshot&, const PointOverview& point) {
  return point.temperature;
}
QString temperature_text(const Snapshot& snapshot, const PointOverview& point) {
  return fixed(temperature_value(snapshot, point), 2);
}
double traced_value(const Snapshot&, const PointOverview& point) {
  return point.is_traced ? 1.0 : 0.0;
}
QString traced_text(const Snapshot&, const PointOverview& point) {
  return point.is_traced ? QStringLiteral("stored") : QString(QChar(kAbsent));
}
double source_value(const Snapshot& snapshot, const PointOverview& point) {
  const QString& backend = snapshot.word(point.backend);
  return backend == QLatin1String(name_of(Backend::kImported))    ? 2.0
         : backend == QLatin1String(name_of(Backend::kSimulator)) ? 1.0
                                                                  : 0.0;
}

constexpr ColumnKind kText = ColumnKind::kText;
constexpr ColumnKind kNumber = ColumnKind::kNumber;
constexpr Better kNeither = Better::kNeither;
constexpr Better kLess = Better::kLess;
constexpr Better kMore = Better::kMore;
using P = PointOverview;

constexpr PointColumn kColumns[] = {
    {"source", "Source", "",
     "Measured on a device, simulated, or imported from another program's record", kText, 10,
     provenance, source_value, false, kNeither, &P::backend},
    {"system", "System", "",
     "What the point is of: an attention method with its drafts (NSA, dense, ReSA, SpecAttn), or a "
     "kernel alone (top-k, sampling, machine)",
     kText, 9, system_text, system_value, false, kNeither, &P::strategy},
    {"workload", "Workload", "",
     "attention: one NSA layer; decode: one layer over a dense cache; step: a whole verification "
     "step; acceptance: trained pair on real text; topk, sampling: those kernels alone; machine: "
     "copies, products, launches",
     kText, 10, workload_text, workload_value},
    {"model", "Model", "", "Geometry or checkpoint", kText, 10, word_text<&P::model>,
     word_place<&P::model>, false, kNeither, &P::model},
    {"regime", "Regime", "", "Kind of prompt", kText, 9, word_text<&P::regime>,
     word_place<&P::regime>, false, kNeither, &P::regime},
    {"strategy", "Strategy", "",
     "attention / draft tree / traversal / grouping / schedule; of a kernel its own text", kText,
     25, word_text<&P::strategy>, word_place<&P::strategy>, false, kNeither, &P::strategy},
    {"L", "L", "tokens", "Context length; of a kernel scores, logits or KiB a row", kNumber, 7,
     context_text, context_value, true, kMore},
    {"N", "N", "", "Query tokens verified together; of a kernel rows", kNumber, 5, queries_text,
     queries_value, false, kMore},
    {"rho", "ρ", "", "Measured overlap of neighbouring queries' selected blocks", kNumber, 6,
     overlap_text, overlap_value},
    {"time", "Median time", "µs", "Median of all samples", kNumber, 12, time_text, time_value,
     false, kLess},
    {"spread", "Spread", "%", "Half width of the median's 95 % interval", kNumber, 7, spread_text,
     spread_value, false, kLess},
    {"dram", "DRAM measured", "MB", "Bytes read and written, by counters", kNumber, 13, dram_text,
     dram_value, false, kLess},
    {"predicted", "DRAM predicted", "MB", "Bytes by the traffic functions", kNumber, 13,
     predicted_text, predicted_value, false, kLess},
    {"ratio", "meas. / pred.", "", "Measured over predicted DRAM bytes", kNumber, 10, ratio_text,
     ratio_value},
    {"accepted", "Tokens / step", "", "Mean accepted tokens a step, bonus counted", kNumber, 11,
     accepted_text, accepted_value, false, kMore},
    {"dtype", "Type", "", "Element type", kText, 6, word_text<&P::dtype>, word_place<&P::dtype>,
     false, kNeither, &P::dtype},
    {"cache", "Cache", "", "State of L2 before the measured work", kText, 10,
     word_text<&P::cache_state>, word_place<&P::cache_state>, false, kNeither, &P::cache_state},
    {"launch", "Launch", "", "Stream launches or a captured graph", kText, 7, word_text<&P::launch>,
     word_place<&P::launch>, false, kNeither, &P::launch},
    {"split", "Split", "", "Calibration or test text", kText, 10, word_text<&P::split>,
     word_place<&P::split>, false, kNeither, &P::split},
    {"temperature", "T", "", "Temperature that an acceptance point was sampled at; 0: greedily",
     kNumber, 5, temperature_text, temperature_value},
    {"trace", "Trace", "",
     "Whether one run of the step is stored launch by launch, as the page Step shows it", kText, 6,
     traced_text, traced_value},
    {"run", "Run", "", "Number of the run", kNumber, 5, run_text, run_value},
    {"status", "Status", "", "ok, refused or failed", kText, 8, word_text<&P::status>,
     word_place<&P::status>, false, kNeither, &P::status},
};

}  // namespace

std::span<const PointColumn> point_columns() {
  return kColumns;
}

int column_index(const QString& key) {
  int index = 0;
  for (const PointColumn& column : kColumns) {
    if (key == QLatin1String(column.key)) {
      return index;
    }
    ++index;
  }
  return -1;
}

QString provenance(const Snapshot& snapshot, const PointOverview& point) {
  const double source = source_value(snapshot, point);
  return source == 2.0   ? QStringLiteral("imported")
         : source == 1.0 ? QStringLiteral("simulated")
                         : QStringLiteral("measured");
}

}  // namespace versieve::gui
