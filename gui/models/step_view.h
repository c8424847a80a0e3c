// Why a measured step takes its time: its kinds of launches in the step's order with time, bytes by
// term against what was counted, and arithmetic; the rates that were measured of its machine; and
// how much its tree's queries share. Read on a worker, never changed after.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/models/document.h"
#include "gui/models/jobs.h"
#include "model/words/range_counters.h"

namespace versieve::gui {

// All launches of one kind in a step.
struct StepLaunch {
  QString name;  // the kernel's root word
  std::int64_t launches = 0;
  std::optional<double> us;  // all of them together
  double flops = 0.0;
  std::array<double, kTrafficTermCount> term_bytes{};  // the floor: each byte moved once
  double floor_bytes = 0.0;
  std::optional<double> dram_bytes;  // counted
  std::optional<double> l2_bytes;    // counted: sectors looked up

  // Flop a counted byte; where nobody counted, a byte of the floor. None without arithmetic.
  std::optional<double> intensity() const;
};

struct MeasuredStep {
  PointKey key;
  std::optional<double> us, low_us, high_us;  // median of the whole step
  // Times are those of counted launches, each alone: the point has no others.
  bool is_counted_time = false;
  std::vector<StepLaunch> launches;  // in the step's order

  double launches_us() const;
  double floor_bytes() const;
};

// Bytes and arithmetic a second; none: not measured there.
struct MachineRoofs {
  QString machine;
  std::optional<double> dram, l2, tensor;
};

// What the queries of a tree share, mean over layers and points.
struct TreeSharing {
  QString of;  // whose selections, and of how many points; empty: nobody recorded any
  std::array<std::array<std::optional<double>, kSharingDistances>, kSharingAlongCount> overlap{};
  std::array<std::array<std::optional<double>, kSharingGroups.size()>, kSharingAlongCount> saved{};
};

struct StepView {
  std::optional<MeasuredStep> first, second;
  MachineRoofs roofs;
  TreeSharing sharing;
};
using StepViewPtr = std::shared_ptr<const StepView>;

MeasuredStep measured_step(const PointMeasurement& point);
// "nsa/d6k8n64/bfs/c8e/F*, 16K, smollm2-nsa"
QString step_title(const PointKey& key);
// Time, what of it is launches, what lies between them, and the time that the bytes alone need.
QString step_text(const MeasuredStep& step, const MachineRoofs& roofs);
// Time, rate, what of the roof over it that is.
QString launch_text(const StepLaunch& launch, const MachineRoofs& roofs);

// The document's steps and the view of two of them.
class StepReader : public QObject {
  Q_OBJECT
 public:
  explicit StepReader(Document& document, QObject* parent = nullptr);

  const std::vector<std::int32_t>& steps() const;  // the snapshot's
  QString title(int point) const;
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
