// Rows of single steps' traces and block choices. Callers hold the transaction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "db/sqlite.h"
#include "db/words.h"
#include "model/words/error.h"
#include "model/words/step_trace.h"

namespace versieve::db {

class StepDetailWriter {
 public:
  explicit StepDetailWriter(Database& database);

  bool holds(std::int64_t point_id);  // of either kind
  void insert(std::int64_t point_id, const StepDetail& detail);
  // To be called when the transaction was rolled back.
  void forget() { words_.forget(); }

 private:
  void insert_trace(std::int64_t point_id, const StepTrace& trace);
  void insert_choice(std::int64_t point_id, const BlockChoice& choice);

  Words words_;
  Statement holds_;
  Statement trace_;
  Statement launch_;
  Statement choice_;
  Statement node_;
  Statement block_;
};

// Of a file of a schema before 9 everything is empty.
class StepDetailReader {
 public:
  explicit StepDetailReader(const Database& database);

  // Throws Error(kBadInput) for rows that no program of ours writes.
  StepDetail read(std::int64_t point_id);
  std::vector<std::int64_t> traced_points();

 private:
  std::optional<StepTrace> read_trace(std::int64_t point_id);
  std::optional<BlockChoice> read_choice(std::int64_t point_id);
  Error damaged(std::int64_t point_id, const std::string& what) const;

  const Database& database_;
  bool has_tables_ = false;
};

}  // namespace versieve::db
