#include "gui/models/step_view.h"

#include <algorithm>
#include <numeric>

#include "db/step_details.h"
#include "engine/analyse/fit/statistics.h"
#include "engine/measure/sweep/machine_figures.h"
#include "gui/models/command_words.h"
#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"

namespace versieve::gui {
namespace {

constexpr const char* kL2Sectors = "lts__t_sectors.sum";
constexpr const char* kCountedTime = "gpu__time_duration.sum";
constexpr double kSectorBytes = 32.0;

StepLaunch launch_of(const RangeMeasurement& range, bool by_counters) {
  StepLaunch launch{.name = QString::fromStdString(range.path),
                    .launches = range.launches,
                    .us = {},
                    .flops = range.predicted.flops,
                    .floor_bytes = range.predicted.total(),
                    .dram_bytes = {},
                    .l2_bytes = {}};
  const std::optional<double> ns =
      by_counters ? counter_of(range, kCountedTime) : engine::median(range.gpu_time_ns);
  if (ns) {
    launch.us = *ns / 1e3;
  }
  for (std::size_t term = 0; term < kTrafficTermCount; ++term) {
    launch.term_bytes[term] = range.predicted.read_bytes[term] + range.predicted.write_bytes[term];
  }
  if (const std::optional<DramBytes> counted = dram_bytes(range)) {
    launch.dram_bytes = counted->total();
  }
  if (const std::optional<double> sectors = counter_of(range, kL2Sectors)) {
    launch.l2_bytes = *sectors * kSectorBytes;
  }
  return launch;
}

MachineRoofs roofs_of(const db::Store& store, const std::string& device) {
  db::PointFilter filter;
  filter.workload = WorkloadKind::kMachine;
  filter.device = device;
  MachineRoofs roofs{.machine = QString::fromStdString(device), .dram = {}, .l2 = {}, .tensor = {}};
  for (const MeasuredFigure& m : engine::machine_figures(store.points(filter), device)) {
    if (m.name == "read_rate") {
      roofs.dram = 1e9 * m.figure.value;
    } else if (m.name == "l2_copy_rate") {
      roofs.l2 = 1e9 * m.figure.value;
    } else if (m.name == "gemm_rate") {
      roofs.tensor = 1e12 * m.figure.value;
    }
  }
  return roofs;
}

class Mean {
 public:
  void add(const std::optional<double>& value) {
    if (value) {
      sum_ += *value;
      ++count_;
    }
  }
  std::optional<double> value() const {
    return count_ > 0 ? std::optional<double>(sum_ / count_) : std::nullopt;
  }

 private:
  double sum_ = 0.0;
  int count_ = 0;
};

// Those of the step's own pair where they were recorded, else of any.
TreeSharing sharing_of(const db::Store& store, const PointKey& key) {
  db::PointFilter filter;
  filter.workload = WorkloadKind::kAcceptance;
  std::vector<PointMeasurement> points = store.points(filter);
  std::erase_if(points, [](const PointMeasurement& point) { return point.sharing.empty(); });
  const auto is_own = [&](const PointMeasurement& point) {
    return !key.pair.empty() && point.key.pair == key.pair;
  };
  const bool has_own = std::any_of(points.begin(), points.end(), is_own);
  std::array<std::array<Mean, kSharingDistances>, kSharingAlongCount> overlap;
  std::array<std::array<Mean, kSharingGroups.size()>, kSharingAlongCount> saved;
  TreeSharing sharing;
  int count = 0;
  for (const PointMeasurement& point : points) {
    if (has_own && !is_own(point)) {
      continue;
    }
    ++count;
    for (const BlockSharing& layer : point.sharing) {
      const std::size_t along = static_cast<std::size_t>(layer.along);
      for (std::size_t d = 0; d < kSharingDistances; ++d) {
        overlap[along][d].add(layer.overlap[d]);
      }
      for (std::size_t g = 0; g < kSharingGroups.size(); ++g) {
        saved[along][g].add(layer.loads_saved[g]);
      }
    }
    sharing.of = QString::fromStdString(point.key.model);
  }
  if (count > 0) {
    sharing.of = QString::fromUtf8("%1%2, %3 points on real text")
                     .arg(sharing.of, has_own ? "" : ", in its place")
                     .arg(count);
  }
  for (std::size_t along = 0; along < kSharingAlongCount; ++along) {
    std::transform(overlap[along].begin(), overlap[along].end(), sharing.overlap[along].begin(),
                   [](const Mean& mean) { return mean.value(); });
    std::transform(saved[along].begin(), saved[along].end(), sharing.saved[along].begin(),
                   [](const Mean& mean) { return mean.value(); });
  }
  return sharing;
}

void add_traces(const db::StepDetails& details, std::int64_t first, std::int64_t second,
                StepView& view) {
  StepDetail detail = details.of(first);
  view.choice = std::move(detail.choice);
  if (detail.trace) {
    view.first_trace = traced_launches(*detail.trace, view.first->launches, view.roofs);
  }
  if (second >= 0) {
    if (const std::optional<StepTrace> trace = details.of(second).trace) {
      view.second_trace = traced_launches(*trace, view.second->launches, view.roofs);
    }
  }
}

StepViewPtr read_view(const QString& path, std::int64_t first, std::int64_t second,
                      const std::string& device) {
  const db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kReadOnly);
  const std::shared_ptr<StepView> view = std::make_shared<StepView>();
  view->path = path;
  view->first = measured_step(store.point(first));
  if (second >= 0) {
    view->second = measured_step(store.point(second));
  }
  view->roofs = roofs_of(store, device);
  view->sharing = sharing_of(store, view->first->key);
  add_traces(db::StepDetails::open(path.toStdString()), first, second, *view);
  return view;
}

}  // namespace

std::optional<double> StepLaunch::intensity() const {
  const double moved = dram_bytes.value_or(floor_bytes);
  return flops > 0.0 && moved > 0.0 ? std::optional<double>(flops / moved) : std::nullopt;
}

double MeasuredStep::launches_us() const {
  return std::accumulate(
      launches.begin(), launches.end(), 0.0,
      [](double sum, const StepLaunch& launch) { return sum + launch.us.value_or(0.0); });
}

double MeasuredStep::floor_bytes() const {
  return std::accumulate(
      launches.begin(), launches.end(), 0.0,
      [](double sum, const StepLaunch& launch) { return sum + launch.floor_bytes; });
}

MeasuredStep measured_step(const PointMeasurement& point) {
  MeasuredStep step{.key = point.key, .us = {}, .low_us = {}, .high_us = {}, .launches = {}};
  if (const std::optional<double> ns = engine::median(point.time_ns)) {
    step.us = *ns / 1e3;
  }
  step.is_counted_time =
      std::all_of(point.ranges.begin(), point.ranges.end(),
                  [](const RangeMeasurement& range) { return range.gpu_time_ns.empty(); });
  for (const RangeMeasurement& range : point.ranges) {
    step.launches.push_back(launch_of(range, step.is_counted_time));
  }
  return step;
}

QString step_title(const PointKey& key) {
  return QString("%1, %2, %3")
      .arg(compact(QString::fromStdString(key.strategy)), tokens(key.context_len),
           QString::fromStdString(key.model));
}

QString step_text(const MeasuredStep& step, const MachineRoofs& roofs) {
  const double launches = step.launches_us();
  QString text =
      step_title(step.key) + ": " + (step.us ? nanoseconds(1e3 * *step.us) : "not timed");
  if (launches <= 0.0 && step.floor_bytes() <= 0.0) {
    return text + "; of its launches the names alone are stored.";
  }
  if (step.is_counted_time) {
    text += QString::fromUtf8(
                "; its launches were timed one by one under the counters alone, %1 "
                "together")
                .arg(nanoseconds(1e3 * launches));
  } else if (step.us) {
    text += *step.us >= launches
                ? QString::fromUtf8("; launches %1, between them %2 (%3 %)")
                      .arg(nanoseconds(1e3 * launches), nanoseconds(1e3 * (*step.us - launches)),
                           fixed(100.0 * (1.0 - launches / *step.us), 0))
                : QString::fromUtf8("; its launches %1, timed one by one")
                      .arg(nanoseconds(1e3 * launches));
  }
  if (roofs.dram && step.us) {
    const double floor_us = 1e6 * step.floor_bytes() / *roofs.dram;
    text += QString::fromUtf8("; its bytes alone need %1 at the measured read rate (%2 %)")
                .arg(nanoseconds(1e3 * floor_us), fixed(100.0 * floor_us / *step.us, 0));
  }
  return text + ".";
}

QString missing_trace_text(const StepView& view) {
  const bool first = !view.first_trace;
  const bool second = view.second && !view.second_trace;
  if (!first && !second) {
    return {};
  }
  const QString which = first && second ? QObject::tr("No trace of either step is stored")
                        : view.second
                            ? (first ? QObject::tr("No trace of the first step is stored")
                                     : QObject::tr("No trace of the step beside it is stored"))
                            : QObject::tr("No trace of this step is stored");
  const MeasuredStep& step = first ? *view.first : *view.second;
  const QString how = step.key.pair.empty() ? QStringLiteral("--sweep traces")
                                            : QStringLiteral("--sweep pair --model FOLDER");
  return which + QObject::tr(
                     ". Where a GPU and CUPTI are, \"%1\" measures steps with their "
                     "traces; db/measured/h100-traces.db has some.")
                     .arg(command_line({"versieve", "profile", "--db", view.path}) + " " + how);
}

QString launch_text(const StepLaunch& launch, const MachineRoofs& roofs) {
  QStringList lines = {QString::fromUtf8("%1: %2 %3, %4")
                           .arg(launch.name)
                           .arg(launch.launches)
                           .arg(launch.launches == 1 ? "launch" : "launches",
                                launch.us ? nanoseconds(1e3 * *launch.us) : "not timed")};
  lines << QString::fromUtf8("bytes: at least %1, counted %2")
               .arg(bytes(launch.floor_bytes),
                    launch.dram_bytes ? bytes(*launch.dram_bytes) : QString(QChar(kAbsent)));
  if (launch.us && launch.dram_bytes) {
    const double rate = 1e6 * *launch.dram_bytes / *launch.us;
    lines << QString::fromUtf8("DRAM %1 GB/s%2")
                 .arg(fixed(rate / 1e9, 0), roofs.dram
                                                ? QString::fromUtf8(", %1 % of the measured rate")
                                                      .arg(fixed(100.0 * rate / *roofs.dram, 0))
                                                : QString());
  }
  if (launch.us && launch.flops > 0.0) {
    const double rate = 1e6 * launch.flops / *launch.us;
    lines << QString::fromUtf8("%1 Tflop/s%2")
                 .arg(fixed(rate / 1e12, 2),
                      roofs.tensor ? QString::fromUtf8(", %1 % of the measured matrix products")
                                         .arg(fixed(100.0 * rate / *roofs.tensor, 1))
                                   : QString());
  }
  return lines.join('\n');
}

const std::vector<std::int32_t>& StepReader::steps() const {
  static const std::vector<std::int32_t> none;
  return document_.snapshot() ? document_.snapshot()->steps : none;
}

StepReader::StepReader(Document& document, QObject* parent) : QObject(parent), document_(document) {
  connect(&document, &Document::loaded, this, &StepReader::list);
}

QString StepReader::title(int point) const {
  const Snapshot& snapshot = *document_.snapshot();
  const db::PointOverview& p = snapshot.overview.points[static_cast<std::size_t>(point)];
  return QString("%1, %2, %3")
      .arg(compact(snapshot.word(p.strategy)), tokens(p.context_len), snapshot.word(p.model));
}

bool StepReader::isTraced(int point) const {
  return document_.snapshot()->overview.points[static_cast<std::size_t>(point)].is_traced;
}

void StepReader::list() {
  view_.reset();
  sentence_.clear();
  if (steps().empty()) {
    sentence_ =
        tr("this database holds no timed step with its launches: versieve profile --sweep "
           "pair measures some");
  }
  Q_EMIT listed();
  Q_EMIT changed();
}

void StepReader::show(int first, int second) {
  if (!document_.snapshot() || first < 0) {
    return;
  }
  const Snapshot& snapshot = *document_.snapshot();
  const db::PointOverview& point = snapshot.overview.points[static_cast<std::size_t>(first)];
  const std::int64_t first_id = point.id;
  const std::int64_t second_id =
      second < 0 ? -1 : snapshot.overview.points[static_cast<std::size_t>(second)].id;
  const std::string device = snapshot.run(point.run_id)->record.device;
  job_.start<StepViewPtr>([path = snapshot.path, first_id, second_id,
                           device] { return read_view(path, first_id, second_id, device); },
                          [this](const StepViewPtr& view) {
                            view_ = view;
                            sentence_.clear();
                            Q_EMIT changed();
                          },
                          [this](const QString& sentence) {
                            view_.reset();
                            sentence_ = sentence;
                            Q_EMIT changed();
                          });
}

}  // namespace versieve::gui
