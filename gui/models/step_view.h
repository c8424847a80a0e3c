// Why a measured step takes its time: its kinds of launches in the step's order with time, bytes by
// term against what was counted, and arithmetic; the rates that were measured of its machine; how
// much its tree's queries share; and one such step launch by launch, where it was traced. Read on
// a worker, never changed after.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/models/document.h"
#include "gui/models/jobs.h"
#include "gui/models/step_launch.h"
#include "gui/models/traced_launches.h"
#include "model/words/range_counters.h"

namespace versieve::gui {

struct MeasuredStep {
  PointKey key;
  std::optional<double> us, low_us, high_us;  // median of the whole step
  // Times are those of counted launches, each alone: the point has no others.
  bool is_counted_time = false;
  std::vector<StepLaunch> launches;  // in the step's order

  double launches_us() const;
  double floor_bytes() const;
};

// What the queries of a tree share, mean over layers and points.
struct TreeSharing {
  QString of;  // whose selections, and of how many points; empty: nobody recorded any
  std::array<std::array<std::optional<double>, kSharingDistances>, kSharingAlongCount> overlap{};
  std::array<std::array<std::optional<double>, kSharingGroups.size()>, kSharingAlongCount> saved{};
};

struct StepView {
  QString path;  // of the database
  std::optional<MeasuredStep> first, second;
  MachineRoofs roofs;
  TreeSharing sharing;
  std::optional<TracedLaunches> first_trace,
      second_trace;                   // of the same steps, where one is stored
  std::optional<BlockChoice> choice;  // of the first
};
using StepViewPtr = std::shared_ptr<const StepView>;

MeasuredStep measured_step(const PointMeasurement& point);
// "nsa/d6k8n64/bfs/c8e/F*, 16K, smollm2-nsa"
QString step_title(const PointKey& key);
// Time, what of it is launches, what lies between them, and the time that the bytes alone need.
QString step_text(const MeasuredStep& step, const MachineRoofs& roofs);
// What is said where a step has no trace, and how one is had; empty where all that are shown have.
QString missing_trace_text(const StepView& view);
// Time, rate, what of the roof over it that is.
QString launch_text(const StepLaunch& launch, const MachineRoofs& roofs);

// The document's steps and the view of two of them.
class StepReader : public QObject {
  Q_OBJECT
 public:
  explicit StepReader(Document& document, QObject* parent = nullptr);

  const std::vector<std::int32_t>& steps() const;  // the snapshot's
  QString title(int point) const;
  bool isTraced(int point) const;
  // The second may be -1: none.
  void show(int first, int second);

  const StepViewPtr& view() const { return view_; }      // may be null
  const QString& sentence() const { return sentence_; }  // why there is none
  bool isBusy() const { return job_.isRunning(); }

 Q_SIGNALS:
  void listed();
  void changed();

 private:
  void list();

  Document& document_;
  StepViewPtr view_;
  QString sentence_;
  Job job_;
};

}  // namespace versieve::gui
