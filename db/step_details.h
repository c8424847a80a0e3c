// What single steps did: the traces and block choices that lie beside a database's step points
// (model/words/step_trace.h), which Store::add_point stores. Read by point: whoever reads points by
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
  // As Store::open, for reading.
  static StepDetails open(const std::string& path);
  ~StepDetails();
  StepDetails(StepDetails&&) noexcept;
  StepDetails& operator=(StepDetails&&) noexcept;

  // Empty where nobody stored any, as in files of schemas before 9.
  StepDetail of(std::int64_t point_id) const;
  std::vector<std::int64_t> traced_points() const;  // that have a trace, by id

 private:
  struct Impl;
  explicit StepDetails(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace versieve::db
