// Points with everything that came back from them, written and read row by row. Callers hold the
// transaction.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "db/sqlite.h"
#include "db/store.h"
#include "db/words.h"
#include "model/words/compared_point.h"

namespace versieve::db {

inline constexpr std::int64_t kFirstSchemaWithPairs = 4;        // schema/0004_pair_identity.sql
inline constexpr std::int64_t kFirstSchemaWithTemperature = 8;  // schema/0008_temperature.sql

// Of block_sharing, all but the point: in the order of BlockSharing's fields.
inline constexpr const char* kSharingColumns =
    "along, layer, steps, overlap_0, overlap_1, overlap_2, overlap_3, overlap_4, overlap_5, "
    "overlap_6, overlap_7, overlap_8, group_blocks_2, group_blocks_4, group_blocks_8, "
    "loads_saved_2, loads_saved_4, loads_saved_8, next_layer";

class PointWriter {
 public:
  explicit PointWriter(Database& database);

  std::int64_t insert(std::int64_t run_id, const PointMeasurement& point);
  // The point of this run with this key, failed ones too.
  std::optional<std::int64_t> find(std::int64_t run_id, const PointKey& key);
  // To be called when the transaction was rolled back.
  void forget() { words_.forget(); }

 private:
  std::int64_t insert_row(std::int64_t run_id, const PointMeasurement& point);
  void insert_range(std::int64_t point_id, std::int64_t ordinal, const RangeMeasurement& range);
  void insert_acceptance(std::int64_t point_id, const AcceptanceMeasurement& acceptance);
  void insert_walk(std::int64_t point_id, const AcceptanceWalk& walk);
  void insert_text(std::int64_t point_id, const TextYield& text);
  void insert_sharing(std::int64_t point_id, const BlockSharing& sharing);

  Database& database_;
  Words words_;
  Statement point_;
  Statement find_;
  Statement sample_;
  Statement range_;
  Statement traffic_;
  Statement range_sample_;
  Statement counter_;
  Statement acceptance_;
  Statement accepted_count_;
  Statement accepted_step_;
  Statement accepted_text_;
  Statement sharing_;
  Statement run_count_;
};

// Is the key there with status ok or refused, in this run, or in any run of this kind and
// configuration?
bool has_finished_point(Database& database, std::int64_t run_id, const PointKey& key);
bool has_finished_point(Database& database, const std::string& kind,
                        const std::string& configuration, const PointKey& key);

// The trained pairs that points are of, each once, by name and hash.
std::vector<PairId> read_pairs(const Database& database);
Overview read_overview(const Database& database, const PointFilter& filter);
std::vector<std::int64_t> read_point_ids(const Database& database, const PointFilter& filter);
// The good ones, by id.
std::vector<ComparedPoint> read_compared_points(const Database& database);

// Reads whole points by id.
class PointReader {
 public:
  explicit PointReader(const Database& database);
  PointMeasurement read(std::int64_t point_id);
  ComparedPoint read_compared(std::int64_t point_id);

 private:
  PointMeasurement read_columns(std::int64_t point_id);
  void read_ranges(std::int64_t point_id, PointMeasurement& point);
  void read_traffic(std::int64_t range_id, Traffic& traffic);
  void read_acceptance(std::int64_t point_id, PointMeasurement& point);
  void read_walks(std::int64_t point_id, AcceptanceMeasurement& acceptance);
  void read_texts(std::int64_t point_id, AcceptanceMeasurement& acceptance);
  void read_sharing(std::int64_t point_id, PointMeasurement& point);
  const std::string& word(std::int64_t id) const;

  std::string path_;
  std::vector<std::string> words_;
  bool has_pairs_ = true;  // not in files of schemas before 4
  Statement point_;
  Statement summary_;
  Statement samples_;
  Statement ranges_;
  Statement traffic_;
  Statement range_samples_;
  Statement counters_;
  Statement acceptance_;
  Statement accepted_counts_;
  std::optional<Statement> accepted_steps_;  // none in files of schemas before 3
  std::optional<Statement> sharing_;         // before 6
  std::optional<Statement> accepted_texts_;  // before 7
};

}  // namespace versieve::db
