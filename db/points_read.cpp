// Reads points, one line each or whole; the writer is in points_write.cpp.
#include <algorithm>
#include <numeric>

#include "db/points.h"
#include "db/step_detail_rows.h"
#include "model/words/assert.h"
#include "model/words/error.h"
#include "model/words/pair_id.h"

namespace versieve::db {
namespace {

constexpr std::int64_t kFirstSchemaWithSteps = 3;    // schema/0003_accepted_steps.sql
constexpr std::int64_t kFirstSchemaWithSharing = 6;  // schema/0006_block_sharing.sql
constexpr std::int64_t kFirstSchemaWithTexts = 7;    // schema/0007_accepted_texts.sql

std::int64_t schema_of(const Database& database) {
  return database.integer("PRAGMA user_version");
}

// What schema/0004 does to a file that is written to, for one that is only read.
bool is_of_byte_pair(const PointKey& key) {
  return key.workload == WorkloadKind::kAcceptance && key.model == byte_pair().name &&
         key.backend != Backend::kImported && key.backend != Backend::kSimulator;
}

// The parts of PointFilter as SQL, with what is bound to them.
class FilterClause {
 public:
  FilterClause(const PointFilter& filter, std::int64_t schema) {
    if (filter.run_id) {
      add("point.run_id = ?", std::to_string(*filter.run_id));
    }
    if (filter.workload) {
      add("point.workload = ?", name_of(*filter.workload));
    }
    if (!filter.device.empty()) {
      add("point.run_id IN (SELECT run.id FROM run JOIN device ON device.id = run.device_id "
          "WHERE instr(lower(device.name), lower(?)) > 0)",
          filter.device);
    }
    add_word("model", filter.model);
    add_word("regime", filter.regime);
    add_word("split", filter.split);
    add_word("backend", filter.backend ? name_of(*filter.backend) : "");
    add_pair(filter.pair, schema);
    if (filter.only_ok) {
      sql_ += " AND point.status = 'ok'";
    }
  }

  const std::string& sql() const { return sql_; }
  void bind_to(Statement& statement) const {
    for (const std::string& value : values_) {
      statement.bind(value);
    }
  }

 private:
  void add(const std::string& condition, const std::string& value) {
    sql_ += " AND " + condition;
    values_.push_back(value);
  }
  void add_pair(const std::string& sha256, std::int64_t schema) {
    if (schema >= kFirstSchemaWithPairs) {
      add_word("pair", sha256);
    } else if (sha256 == byte_pair().sha256) {
      add_word("model", byte_pair().name);
      sql_ +=
          " AND point.workload = 'acceptance' AND point.backend NOT IN "
          "(SELECT id FROM word WHERE text IN ('imported', 'sim'))";
    } else if (!sha256.empty()) {
      sql_ += " AND 0";
    }
  }
  void add_word(const std::string& column, const std::string& text) {
    if (!text.empty()) {
      add("point." + column + " = (SELECT id FROM word WHERE text = ?)", text);
    }
  }

  std::string sql_ = " WHERE 1";
  std::vector<std::string> values_;
};

std::int32_t word_at(const Statement& row, int column) {
  return static_cast<std::int32_t>(row.integer(column));
}

// Of an older file all is greedy.
std::string temperature_column(const Database& database) {
  return schema_of(database) < kFirstSchemaWithTemperature ? "0" : "temperature";
}

std::string overview_columns(const Database& database) {
  return "SELECT id, run_id, workload, model, regime, split, strategy, dtype, backend, "
         "cache_state, launch, status, reliability, context_len, num_queries, overlap, "
         "adjacent_overlap, sample_count, median_ns, median_low_ns, median_high_ns, dram_bytes, "
         "predicted_bytes, accepted, " +
         temperature_column(database) + " FROM point";
}

// `status` is an index into the words appended behind the file's own.
PointOverview overview_row(const Statement& row, const std::vector<std::string>& words) {
  PointOverview point;
  point.id = row.integer(0);
  point.run_id = row.integer(1);
  point.workload = workload_kind(row.text(2));
  point.model = word_at(row, 3);
  point.regime = word_at(row, 4);
  point.split = word_at(row, 5);
  point.strategy = word_at(row, 6);
  point.dtype = word_at(row, 7);
  point.backend = word_at(row, 8);
  point.cache_state = word_at(row, 9);
  point.launch = word_at(row, 10);
  const std::string status = row.text(11);
  std::size_t index = words.size() - 3;
  while (index + 1 < words.size() && words[index] != status) {
    ++index;
  }
  point.status = static_cast<std::int32_t>(index);
  point.reliability = word_at(row, 12);
  point.context_len = row.integer(13);
  point.num_queries = row.integer(14);
  point.overlap = row.optional_real(15);
  point.adjacent_overlap = row.optional_real(16);
  point.sample_count = row.integer(17);
  point.median_ns = row.optional_real(18);
  point.median_low_ns = row.optional_real(19);
  point.median_high_ns = row.optional_real(20);
  point.dram_bytes = row.optional_real(21);
  point.predicted_dram_bytes = row.optional_real(22);
  point.accepted_per_step = row.optional_real(23);
  point.temperature = row.real(24);
  return point;
}

void read_samples(Statement& query, std::int64_t owner, std::vector<double>& samples) {
  for (query.bind(owner); query.next();) {
    samples.push_back(query.real(0));
  }
}

constexpr std::int64_t kMostTokens = 65536;  // of one step, far above any draft's

// Tokens of which no step is stored were emitted by none.
void add_count(std::int64_t tokens, std::int64_t steps, std::vector<std::int64_t>& histogram) {
  if (tokens < 0 || tokens > kMostTokens) {
    throw Error(ExitCode::kBadInput,
                "a step is said to emit " + std::to_string(tokens) + " tokens");
  }
  histogram.resize(std::max(histogram.size(), static_cast<std::size_t>(tokens) + 1));
  histogram[static_cast<std::size_t>(tokens)] = steps;
}

std::size_t term_index(const std::string& name) {
  for (std::size_t term = 0; term < kTrafficTermCount; ++term) {
    if (name == name_of(static_cast<TrafficTerm>(term))) {
      return term;
    }
  }
  throw Error(ExitCode::kBadInput, "the database holds the unknown traffic term '" + name + "'");
}

}  // namespace

std::vector<std::int64_t> read_point_ids(const Database& database, const PointFilter& filter) {
  const FilterClause clause(filter, schema_of(database));
  Statement query(database, "SELECT id FROM point" + clause.sql() + " ORDER BY id");
  std::vector<std::int64_t> ids;
  for (clause.bind_to(query); query.next();) {
    ids.push_back(query.integer(0));
  }
  return ids;
}

std::vector<PairId> read_pairs(const Database& database) {
  std::vector<PairId> pairs;
  if (schema_of(database) < kFirstSchemaWithPairs) {
    if (!read_point_ids(database, {.pair = byte_pair().sha256}).empty()) {
      pairs.push_back(byte_pair());
    }
    return pairs;
  }
  Statement query(
      database,
      "SELECT DISTINCT model.text, pair.text FROM point "
      "JOIN word model ON model.id = point.model JOIN word pair ON pair.id = point.pair "
      "WHERE point.pair <> 0 ORDER BY 1, 2");
  while (query.next()) {
    pairs.push_back({query.text(0), query.text(1)});
  }
  return pairs;
}

Overview read_overview(const Database& database, const PointFilter& filter) {
  Overview overview;
  overview.words = all_words(database);
  for (const char* status : {"ok", "refused", "failed"}) {
    overview.words.emplace_back(status);
  }
  const FilterClause clause(filter, schema_of(database));
  Statement query(database, overview_columns(database) + clause.sql() + " ORDER BY id");
  for (clause.bind_to(query); query.next();) {
    overview.points.push_back(overview_row(query, overview.words));
  }
  const std::vector<std::int64_t> traced = StepDetailReader(database).traced_points();  // by id
  for (PointOverview& point : overview.points) {
    point.is_traced = std::binary_search(traced.begin(), traced.end(), point.id);
  }
  return overview;
}

PointReader::PointReader(const Database& database)
    : path_(database.path()),
      words_(all_words(database)),
      has_pairs_(schema_of(database) >= kFirstSchemaWithPairs),
      point_(
          database,
          "SELECT workload, model, regime, split, strategy, dtype, backend, cache_state, launch, "
          "context_len, num_queries, overlap, status, reason, stop_reason, reliability, "
          "adjacent_overlap, unique_blocks, " +
              std::string(has_pairs_ ? "pair" : "0") + ", " + temperature_column(database) +
              " FROM point WHERE id = ?"),
      summary_(database,
               "SELECT run_id, median_ns, median_low_ns, median_high_ns, dram_bytes, accepted "
               "FROM point WHERE id = ?"),
      samples_(database, "SELECT ns FROM sample WHERE point_id = ? ORDER BY repetition"),
      ranges_(database,
              "SELECT id, path, launches, flops FROM range WHERE point_id = ? ORDER BY ordinal"),
      traffic_(database,
               "SELECT term, read_bytes, write_bytes FROM range_traffic WHERE range_id = ?"),
      range_samples_(database,
                     "SELECT ns FROM range_sample WHERE range_id = ? ORDER BY repetition"),
      counters_(database,
                "SELECT metric, value, status FROM counter WHERE range_id = ? ORDER BY ordinal"),
      acceptance_(database,
                  "SELECT steps, generated_tokens, accepted_mean, looping, teacher_forced "
                  "FROM acceptance WHERE point_id = ?"),
      accepted_counts_(
          database, "SELECT tokens, steps FROM accepted_count WHERE point_id = ? ORDER BY tokens") {
  if (schema_of(database) >= kFirstSchemaWithSteps) {
    accepted_steps_.emplace(database,
                            "SELECT text, position, tokens FROM accepted_step WHERE point_id = ? "
                            "ORDER BY text, position");
  }
  if (schema_of(database) >= kFirstSchemaWithSharing) {
    sharing_.emplace(database, std::string("SELECT ") + kSharingColumns +
                                   " FROM block_sharing WHERE point_id = ? ORDER BY along, layer");
  }
  if (schema_of(database) >= kFirstSchemaWithTexts) {
    accepted_texts_.emplace(database,
                            "SELECT text, steps, tokens, looping FROM accepted_text "
                            "WHERE point_id = ? ORDER BY text");
  }
}

PointMeasurement PointReader::read(std::int64_t point_id) {
  try {
    PointMeasurement point = read_columns(point_id);
    read_samples(samples_, point_id, point.time_ns);
    read_ranges(point_id, point);
    read_acceptance(point_id, point);
    read_sharing(point_id, point);
    return point;
  } catch (const Error& e) {  // a word that this program does not know
    throw Error(e.code(), path_ + ": point " + std::to_string(point_id) + ": " + e.what());
  }
}

PointMeasurement PointReader::read_columns(std::int64_t point_id) {
  if (!point_.bind(point_id).next()) {
    throw Error(ExitCode::kBadInput, "there is no such point");
  }
  PointMeasurement point;
  point.key.workload = workload_kind(point_.text(0));
  point.key.model = word(point_.integer(1));
  point.key.regime = word(point_.integer(2));
  point.key.split = word(point_.integer(3));
  point.key.strategy = word(point_.integer(4));
  point.key.dtype = dtype_of(word(point_.integer(5)));
  point.key.backend = backend_of(word(point_.integer(6)));
  point.key.cache_state = cache_state_of(word(point_.integer(7)));
  point.key.launch = launch_mode_of(word(point_.integer(8)));
  point.key.context_len = point_.integer(9);
  point.key.num_queries = point_.integer(10);
  point.key.overlap = point_.optional_real(11);
  point.status = point_status_of(point_.text(12));
  point.reason = point_.text(13);
  point.stop_reason = word(point_.integer(14));
  point.reliability = reliability_of(word(point_.integer(15)));
  point.adjacent_overlap = point_.optional_real(16);
  point.unique_blocks = point_.optional_real(17);
  point.key.pair =
      !has_pairs_ && is_of_byte_pair(point.key) ? byte_pair().sha256 : word(point_.integer(18));
  point.key.temperature = point_.real(19);
  point_.reset();
  return point;
}

ComparedPoint PointReader::read_compared(std::int64_t point_id) {
  PointMeasurement point = read_columns(point_id);
  summary_.bind(point_id).next();
  ComparedPoint compared{.key = std::move(point.key),
                         .id = point_id,
                         .run_id = summary_.integer(0),
                         .reliability = point.reliability,
                         .median_ns = summary_.optional_real(1),
                         .median_low_ns = summary_.optional_real(2),
                         .median_high_ns = summary_.optional_real(3),
                         .dram_bytes = summary_.optional_real(4),
                         .accepted_per_step = summary_.optional_real(5)};
  summary_.reset();
  return compared;
}

std::vector<ComparedPoint> read_compared_points(const Database& database) {
  PointReader reader(database);
  std::vector<ComparedPoint> points;
  for (const std::int64_t id : read_point_ids(database, {.only_ok = true})) {
    points.push_back(reader.read_compared(id));
  }
  return points;
}

void PointReader::read_ranges(std::int64_t point_id, PointMeasurement& point) {
  for (ranges_.bind(point_id); ranges_.next();) {
    RangeMeasurement range;
    const std::int64_t range_id = ranges_.integer(0);
    range.path = word(ranges_.integer(1));
    range.launches = ranges_.integer(2);
    range.predicted.flops = ranges_.real(3);
    read_traffic(range_id, range.predicted);
    read_samples(range_samples_, range_id, range.gpu_time_ns);
    for (counters_.bind(range_id); counters_.next();) {
      range.counters.push_back({word(counters_.integer(0)), counters_.optional_real(1),
                                counter_status_of(counters_.text(2))});
    }
    point.ranges.push_back(std::move(range));
  }
}

void PointReader::read_traffic(std::int64_t range_id, Traffic& traffic) {
  for (traffic_.bind(range_id); traffic_.next();) {
    const std::size_t term = term_index(traffic_.text(0));
    traffic.read_bytes[term] = traffic_.real(1);
    traffic.write_bytes[term] = traffic_.real(2);
  }
}

void PointReader::read_acceptance(std::int64_t point_id, PointMeasurement& point) {
  for (acceptance_.bind(point_id); acceptance_.next();) {
    AcceptanceMeasurement acceptance;
    acceptance.steps = acceptance_.integer(0);
    acceptance.generated_tokens = acceptance_.integer(1);
    acceptance.accepted_per_step = acceptance_.real(2);
    acceptance.looping = acceptance_.integer(3) != 0;
    acceptance.teacher_forced = acceptance_.optional_real(4);
    for (accepted_counts_.bind(point_id); accepted_counts_.next();) {
      add_count(accepted_counts_.integer(0), accepted_counts_.integer(1),
                acceptance.accepted_histogram);
    }
    read_walks(point_id, acceptance);
    read_texts(point_id, acceptance);
    point.acceptance = std::move(acceptance);
  }
}

void PointReader::read_walks(std::int64_t point_id, AcceptanceMeasurement& acceptance) {
  if (!accepted_steps_) {
    return;
  }
  for (accepted_steps_->bind(point_id); accepted_steps_->next();) {
    const std::string& text = word(accepted_steps_->integer(0));
    if (acceptance.walks.empty() || acceptance.walks.back().text != text) {
      acceptance.walks.push_back({.text = text, .yields = {}});
    }
    std::vector<std::int64_t>& yields = acceptance.walks.back().yields;
    if (std::accumulate(yields.begin(), yields.end(), std::int64_t{0}) !=
        accepted_steps_->integer(1)) {
      throw Error(ExitCode::kBadInput, "of its walk along " + text + " the step before token " +
                                           std::to_string(accepted_steps_->integer(1)) +
                                           " is missing");
    }
    yields.push_back(accepted_steps_->integer(2));
  }
}

void PointReader::read_texts(std::int64_t point_id, AcceptanceMeasurement& acceptance) {
  if (!accepted_texts_) {
    return;
  }
  for (accepted_texts_->bind(point_id); accepted_texts_->next();) {
    acceptance.texts.push_back({.text = word(accepted_texts_->integer(0)),
                                .steps = accepted_texts_->integer(1),
                                .tokens = accepted_texts_->integer(2),
                                .looping = accepted_texts_->integer(3) != 0});
  }
}

void PointReader::read_sharing(std::int64_t point_id, PointMeasurement& point) {
  if (!sharing_) {
    return;
  }
  for (sharing_->bind(point_id); sharing_->next();) {
    BlockSharing& row = point.sharing.emplace_back();
    row.along = sharing_along(sharing_->text(0));
    row.layer = sharing_->integer(1);
    row.steps = sharing_->integer(2);
    int column = 3;
    for (std::optional<double>& overlap : row.overlap) {
      overlap = sharing_->optional_real(column++);
    }
    for (std::optional<double>& blocks : row.group_blocks) {
      blocks = sharing_->optional_real(column++);
    }
    for (std::optional<double>& saved : row.loads_saved) {
      saved = sharing_->optional_real(column++);
    }
    row.next_layer = sharing_->optional_real(column);
  }
}

const std::string& PointReader::word(std::int64_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= words_.size()) {
    throw Error(ExitCode::kBadInput, "the database refers to a word that it does not hold");
  }
  return words_[static_cast<std::size_t>(id)];
}

}  // namespace versieve::db
