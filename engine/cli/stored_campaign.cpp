#include "engine/cli/stored_campaign.h"

#include <optional>

#include "model/words/error.h"

namespace versieve::cli {

StoredCampaign::StoredCampaign(db::Store& store, const RunRecord& record)
    : store_(store), id_(store.begin_run(record)) {}

StoredCampaign::~StoredCampaign() {
  if (open_) {
    try {
      store_.finish_run(id_, RunStatus::kAborted);
    } catch (const Error&) {
      // The next writer marks the run as aborted.
    }
  }
}

void StoredCampaign::add(const PointMeasurement& point) {
  store_.add_point(id_, point, detail_);
  traces_ += detail_.trace.has_value();
  detail_ = {};
  refused_.add(point);
  if (const std::optional<engine::ClockLine> line = clocks_.line_of(point)) {
    store_.add_diagnostic(id_, line->severity, "clock", line->text);
  }
}

void StoredCampaign::complete() {
  for (const std::string& line : refused_.lines()) {
    store_.add_diagnostic(id_, "warning", "points", line);
  }
  store_.finish_run(id_, RunStatus::kComplete);
  open_ = false;
}

std::string StoredCampaign::uuid() const {
  for (const db::StoredRun& run : store_.runs()) {
    if (run.id == id_) {
      return run.record.uuid;
    }
  }
  return {};
}

}  // namespace versieve::cli
