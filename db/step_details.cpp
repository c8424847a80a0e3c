#include "db/step_details.h"

#include "db/open.h"
#include "db/step_detail_rows.h"

namespace versieve::db {

struct StepDetails::Impl {
  std::unique_ptr<Database> database;
};

StepDetails::StepDetails(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StepDetails::~StepDetails() = default;
StepDetails::StepDetails(StepDetails&&) noexcept = default;
StepDetails& StepDetails::operator=(StepDetails&&) noexcept = default;

StepDetails StepDetails::open(const std::string& path) {
  return StepDetails(std::make_unique<Impl>(Impl{open_for_reading(path)}));
}

StepDetail StepDetails::of(std::int64_t point_id) const {
  const Snapshot snapshot(*impl_->database);
  return StepDetailReader(*impl_->database).read(point_id);
}

std::vector<std::int64_t> StepDetails::traced_points() const {
  const Snapshot snapshot(*impl_->database);
  return StepDetailReader(*impl_->database).traced_points();
}

}  // namespace versieve::db
