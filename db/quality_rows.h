// The table `quality`. Callers hold the transaction.
#pragma once

#include <cstdint>
#include <vector>

#include "db/sqlite.h"
#include "model/words/quality_point.h"

namespace versieve::db {

// Throws if the run holds this key already.
void insert_quality(Database& database, std::int64_t run_id, const QualityPoint& point);
// Of one run, or where `run_id` is none of all; in the order in which they were stored. Empty for
// files of schemas before 5.
std::vector<QualityPoint> read_quality(const Database& database,
                                       std::optional<std::int64_t> run_id);

}  // namespace versieve::db
