// What single steps did: the traces and block choices that lie beside a database's step points
// (model/words/step_trace.h). A connection of its own beside the Store's: whoever reads points by
// the thousand does not carry them. Errors are the Store's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/store.h"
#include "model/words/step_trace.h"

namespace versieve::db {

class StepDetails {
 public:
  // As Store::open.
  static StepDetails open(const std::string& path, OpenMode mode);
  ~StepDetails();
  StepDetails(StepDetails&&) noexcept;
  StepDetails& operator=(StepDetails&&) noexcept;

  // One transaction. The point is what Store::add_point returned. Throws if it has some already.
  void add(std::int64_t point_id, const StepDetail& detail);
  // Empty where nobody stored any, as in files of schemas before 9.
  StepDetail of(std::int64_t point_id) const;
  std::vector<std::int64_t> traced_points() const;  // that have a trace, by id

 private:
  struct Impl;
  explicit StepDetails(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace versieve::db
