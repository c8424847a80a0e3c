#include "gui/models/point_text.h"

#include <QJsonDocument>
#include <QJsonObject>
#include <QStringList>
#include <algorithm>
#include <cmath>
#include <optional>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "model/words/pair_id.h"
#include "model/words/range_counters.h"

namespace versieve::gui {
namespace {

QString utf8(const std::string& text) {
  return QString::fromStdString(text).toHtmlEscaped();
}

QString heading(const QString& text) {
  return "<p class='quiet' style='margin-top:12px; margin-bottom:2px'>" + text + "</p>";
}

QString row(const QString& name, const QString& value) {
  return value.isEmpty() ? QString()
                         : "<tr><td class='quiet' style='padding-right:12px'>" + name +
                               "</td><td>" + value + "</td></tr>";
}

QString cells(const QStringList& texts, bool is_quiet = false) {
  QString html = "<tr>";
  for (qsizetype i = 0; i < texts.size(); ++i) {
    html += QString("<td align='%1' class='%2' style='padding:1px 6px 1px 0'>%3</td>")
                .arg(i == 0 ? "left" : "right", is_quiet ? "quiet" : "", texts[i]);
  }
  return html + "</tr>";
}

double median(std::vector<double> samples) {
  if (samples.empty()) {
    return std::nan("");
  }
  std::nth_element(samples.begin(),
                   samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2),
                   samples.end());
  return samples[samples.size() / 2];
}

QString key_rows(const PointMeasurement& point) {
  const PointKey& key = point.key;
  QString html =
      row("workload", QString(name_of(key.workload)) + ": " + workload_in_words(key.workload)) +
      row("model", utf8(key.model)) +
      (key.pair.empty() ? QString() : row("pair, sha256", utf8(short_hash(key.pair)))) +
      row("regime", utf8(key.regime + (key.split.empty() ? "" : ", " + key.split)));
  html += row("L, N", tokens(key.context_len) + " (" + length_name(key.workload) + "), " +
                          QString::number(key.num_queries) + " (" + rows_name(key.workload) + ")");
  html += row("run as", QString(name_of(key.backend)) + ", " + name_of(key.dtype) + ", " +
                            name_of(key.launch) + ", cache " + name_of(key.cache_state));
  if (key.overlap) {
    html += row("overlap asked", fixed(*key.overlap, 3));
  }
  if (key.temperature > 0.0) {
    html += row("temperature", fixed(key.temperature, 2));
  }
  if (point.adjacent_overlap) {
    html += row("overlap ρ", fixed(*point.adjacent_overlap, 3));
  }
  if (point.unique_blocks) {
    html += row("unique blocks", fixed(*point.unique_blocks, 1));
  }
  return html;
}

QString result_rows(const PointMeasurement& point, const db::PointOverview& overview) {
  QString html =
      row("status", name_of(point.status) + utf8(point.reason.empty() ? "" : ": " + point.reason));
  if (overview.median_ns) {
    html += row("median time", median_with_interval(overview.median_ns, overview.median_low_ns,
                                                    overview.median_high_ns));
    html += row("samples", QString::number(overview.sample_count) + ", stopped: " +
                               utf8(point.stop_reason) + ", " + name_of(point.reliability));
  }
  const double missing = std::nan("");
  if (overview.dram_bytes || overview.predicted_dram_bytes) {
    html += row(point.key.backend == Backend::kSimulator ? "DRAM simulated" : "DRAM measured",
                bytes(overview.dram_bytes.value_or(missing)));
    html += row("DRAM predicted", bytes(overview.predicted_dram_bytes.value_or(missing)));
  }
  return html;
}

QString acceptance_rows(const AcceptanceMeasurement& acceptance) {
  QString html = row("tokens a step", fixed(acceptance.accepted_per_step, 3) + " over " +
                                          QString::number(acceptance.steps) + " steps");
  if (acceptance.teacher_forced) {
    html += row("teacher forced", fixed(*acceptance.teacher_forced, 3));
  }
  if (acceptance.looping) {
    html += row("looping", acceptance.only_loops() ? "yes, kept out of means" : "every text");
  }
  QStringList counts;
  for (std::size_t tokens = 1; tokens < acceptance.accepted_histogram.size(); ++tokens) {
    counts << QString::number(tokens) + ": " +
                  QString::number(acceptance.accepted_histogram[tokens]);
  }
  return html + row("steps by tokens", counts.join(", "));
}

QString range_table(const std::vector<RangeMeasurement>& ranges) {
  QString html =
      "<table width='100%'>" + cells({"launch", "×", "µs", "DRAM MB", "predicted", "ratio"}, true);
  for (const RangeMeasurement& range : ranges) {
    const std::optional<DramBytes> counted = dram_bytes(range);
    const double measured = counted ? counted->total() : std::nan("");
    const double predicted = range.predicted.total();
    html += cells({utf8(range.path), QString::number(range.launches),
                   fixed(median(range.gpu_time_ns) * 1e-3, 2), fixed(measured * 1e-6, 2),
                   fixed(predicted * 1e-6, 2), fixed(measured / predicted, 2)});
  }
  return html + "</table>";
}

// JSON with line breaks; other text as it is.
QString pretty(const std::string& text) {
  const QJsonDocument json = QJsonDocument::fromJson(QByteArray::fromStdString(text));
  const QString readable =
      json.isNull() ? QString::fromStdString(text) : QString::fromUtf8(json.toJson()).trimmed();
  return "<pre style='margin:0; white-space:pre-wrap'>" + readable.toHtmlEscaped() + "</pre>";
}

}  // namespace

QString point_html(const PointMeasurement& point, const db::PointOverview& overview,
                   const QString& compared) {
  QString html = "<p style='font-weight:600'>" + utf8(point.key.strategy) + "</p>";
  const QString words = text_in_words(point.key.strategy);
  html += words.isEmpty() ? QString() : "<p>" + words.toHtmlEscaped() + ".</p>";
  html += compared;
  html += "<table>" + key_rows(point) + "</table>";
  html += heading("Result") + "<table>" + result_rows(point, overview) + "</table>";
  if (point.acceptance) {
    html += heading("Acceptance") + "<table>" + acceptance_rows(*point.acceptance) + "</table>";
  }
  if (!point.ranges.empty()) {
    html += heading("By launch") + range_table(point.ranges);
  }
  return html;
}

QString run_html(const db::StoredRun& run, const std::vector<db::Diagnostic>& diagnostics) {
  const RunRecord& record = run.record;
  QString html = "<p style='font-weight:600'>Run " + QString::number(run.id) + "  " +
                 utf8(record.kind) + "</p><table>";
  html += row("uuid", utf8(record.uuid)) + row("device", utf8(record.device));
  html += row("started", utf8(record.started_utc)) + row("finished", utf8(record.finished_utc));
  html += row("status", name_of(record.status)) + row("code", utf8(record.revision));
  html +=
      row("counters", utf8(name_of(record.counter_access) +
                           (record.counter_detail.empty() ? "" : ": " + record.counter_detail)));
  html += row("self-check", name_of(record.self_check));
  html += row("seed", QString::number(record.seed)) + "</table>";
  for (const db::Diagnostic& diagnostic : diagnostics) {
    html += "<p>" + utf8(diagnostic.severity + ", " + diagnostic.source + ": " + diagnostic.text) +
            "</p>";
  }
  html += heading("Environment") + pretty(record.environment);
  return html + heading("Configuration") + pretty(record.configuration);
}

}  // namespace versieve::gui
