#include "db/step_details.h"

#include "db/open.h"
#include "db/step_detail_rows.h"
#include "model/words/error.h"

namespace versieve::db {

struct StepDetails::Impl {
  Impl(const std::string& path, OpenMode mode)
      : database(mode == OpenMode::kReadOnly ? open_for_reading(path) : open_for_writing(path)),
        may_write(mode != OpenMode::kReadOnly),
        writer(may_write ? std::make_unique<StepDetailWriter>(*database) : nullptr) {}
  ~Impl() {
    writer.reset();  // its statements end before the mode can change
    if (may_write) {
      leave_plain_file(*database);
    }
  }

  std::unique_ptr<Database> database;
  bool may_write = false;
  std::unique_ptr<StepDetailWriter> writer;
};

StepDetails::StepDetails(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StepDetails::~StepDetails() = default;
StepDetails::StepDetails(StepDetails&&) noexcept = default;
StepDetails& StepDetails::operator=(StepDetails&&) noexcept = default;

StepDetails StepDetails::open(const std::string& path, OpenMode mode) {
  return StepDetails(std::make_unique<Impl>(path, mode));
}

void StepDetails::add(std::int64_t point_id, const StepDetail& detail) {
  if (!impl_->may_write) {
    throw Error(ExitCode::kUsage, impl_->database->path() + " was opened for reading only");
  }
  try {
    Transaction transaction(*impl_->database);
    if (impl_->writer->holds(point_id)) {
      throw Error(ExitCode::kBadInput, impl_->database->path() +
                                           " already holds what the step of " + "point " +
                                           std::to_string(point_id) + " did");
    }
    impl_->writer->insert(point_id, detail);
    transaction.commit();
  } catch (...) {
    impl_->writer->forget();
    throw;
  }
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
