// Writes points and answers whether a key is there; the readers are in points_read.cpp.
#include <cmath>

#include "db/points.h"
#include "db/summary.h"
#include "model/words/error.h"

namespace versieve::db {
namespace {

// The columns of a key, in the order in which bind_key fills them; the pair and the temperature,
// which files of schemas before 4 and 8 do not have, come last.
constexpr const char* kKeyMatches =
    "point.workload = ? AND point.model = ? AND point.regime = ? AND point.split = ? AND "
    "point.strategy = ? AND point.dtype = ? AND point.backend = ? AND point.cache_state = ? AND "
    "point.launch = ? AND point.context_len = ? AND point.num_queries = ? AND "
    "ifnull(point.overlap, -1e300) = ifnull(?, -1e300) AND ";
constexpr const char* kPairMatches = "point.pair = ?";
constexpr const char* kTemperatureMatches = " AND point.temperature = ?";

constexpr const char* kInsertPoint =
    "INSERT INTO point (run_id, workload, model, regime, split, strategy, dtype, backend, "
    "cache_state, launch, context_len, num_queries, overlap, pair, temperature, status, reason, "
    "stop_reason, reliability, adjacent_overlap, unique_blocks, sample_count, median_ns, "
    "median_low_ns, "
    "median_high_ns, dram_bytes, predicted_bytes, accepted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

// Why a number is missing; kOk if it is there.
CounterStatus status_of(double value) {
  if (std::isnan(value)) {
    return CounterStatus::kNan;
  }
  return std::isinf(value) ? CounterStatus::kOutOfRange : CounterStatus::kOk;
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

std::optional<double> finite(const std::optional<double>& value) {
  return value ? finite(*value) : std::nullopt;
}

void bind_sample(Statement& insert, std::int64_t owner, std::size_t repetition, double ns) {
  insert.bind(owner)
      .bind(static_cast<std::int64_t>(repetition))
      .bind(finite(ns))
      .bind(std::string(name_of(status_of(ns))))
      .run();
}

// Of an older file, which is only read: its names alone tell pairs apart.
const char* pair_matches(const Database& database) {
  return database.integer("PRAGMA user_version") < kFirstSchemaWithPairs ? "? IS NOT NULL"
                                                                         : kPairMatches;
}

template <typename WordId>
void bind_key(Statement& statement, const PointKey& key, const WordId& word_id) {
  statement.bind(std::string(name_of(key.workload)))
      .bind(word_id(key.model))
      .bind(word_id(key.regime))
      .bind(word_id(key.split))
      .bind(word_id(key.strategy))
      .bind(word_id(name_of(key.dtype)))
      .bind(word_id(name_of(key.backend)))
      .bind(word_id(name_of(key.cache_state)))
      .bind(word_id(name_of(key.launch)))
      .bind(key.context_len)
      .bind(key.num_queries)
      .bind(finite(key.overlap))
      .bind(word_id(key.pair))
      .bind(key.temperature);
}

const char* temperature_matches(const Database& database) {
  return database.integer("PRAGMA user_version") < kFirstSchemaWithTemperature
             ? " AND ? = 0"
             : kTemperatureMatches;
}

// Binds the key if the file knows all its words; otherwise no point can have it.
bool bind_known_key(Statement& statement, Words& words, const PointKey& key) {
  for (const std::string& text :
       {key.model, key.pair, key.regime, key.split, key.strategy, std::string(name_of(key.dtype)),
        std::string(name_of(key.backend)), std::string(name_of(key.cache_state)),
        std::string(name_of(key.launch))}) {
    if (!words.find(text)) {
      return false;
    }
  }
  bind_key(statement, key, [&words](const std::string& text) { return *words.find(text); });
  return true;
}

}  // namespace

PointWriter::PointWriter(Database& database)
    : database_(database),
      words_(database),
      point_(database, kInsertPoint),
      find_(database, std::string("SELECT id FROM point WHERE run_id = ? AND ") + kKeyMatches +
                          kPairMatches + kTemperatureMatches),
      sample_(database,
              "INSERT INTO sample (point_id, repetition, ns, status) VALUES (?, ?, ?, ?)"),
      range_(database,
             "INSERT INTO range (point_id, ordinal, path, launches, flops) VALUES (?, ?, ?, ?, ?)"),
      traffic_(database,
               "INSERT INTO range_traffic (range_id, term, read_bytes, write_bytes) "
               "VALUES (?, ?, ?, ?)"),
      range_sample_(
          database,
          "INSERT INTO range_sample (range_id, repetition, ns, status) VALUES (?, ?, ?, ?)"),
      counter_(database,
               "INSERT INTO counter (range_id, ordinal, metric, value, status) "
               "VALUES (?, ?, ?, ?, ?)"),
      acceptance_(database,
                  "INSERT INTO acceptance (point_id, steps, generated_tokens, accepted_mean, "
                  "looping, teacher_forced) VALUES (?, ?, ?, ?, ?, ?)"),
      accepted_count_(database,
                      "INSERT INTO accepted_count (point_id, tokens, steps) VALUES (?, ?, ?)"),
      accepted_step_(database,
                     "INSERT INTO accepted_step (point_id, text, position, tokens) "
                     "VALUES (?, ?, ?, ?)"),
      accepted_text_(database,
                     "INSERT INTO accepted_text (point_id, text, steps, tokens, looping) "
                     "VALUES (?, ?, ?, ?, ?)"),
      sharing_(database,
               std::string("INSERT INTO block_sharing (point_id, ") + kSharingColumns +
                   ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
      run_count_(database,
                 "UPDATE run SET ok_count = ok_count + (?1 = 'ok'), refused_count = refused_count "
                 "+ (?1 = 'refused'), failed_count = failed_count + (?1 = 'failed') "
                 "WHERE id = ?2") {}

std::int64_t PointWriter::insert(std::int64_t run_id, const PointMeasurement& point) {
  if (find(run_id, point.key)) {
    throw Error(ExitCode::kBadInput, database_.path() + " already holds the point " +
                                         point.key.strategy +
                                         " at L = " + std::to_string(point.key.context_len) +
                                         ", N = " + std::to_string(point.key.num_queries) +
                                         " in run number " + std::to_string(run_id));
  }
  const std::int64_t point_id = insert_row(run_id, point);
  for (std::size_t i = 0; i < point.time_ns.size(); ++i) {
    bind_sample(sample_, point_id, i, point.time_ns[i]);
  }
  std::int64_t ordinal = 0;
  for (const RangeMeasurement& range : point.ranges) {
    insert_range(point_id, ordinal++, range);
  }
  if (point.acceptance) {
    insert_acceptance(point_id, *point.acceptance);
  }
  for (const BlockSharing& sharing : point.sharing) {
    insert_sharing(point_id, sharing);
  }
  run_count_.bind(std::string(name_of(point.status))).bind(run_id).run();
  return point_id;
}

std::optional<std::int64_t> PointWriter::find(std::int64_t run_id, const PointKey& key) {
  std::optional<std::int64_t> id;
  find_.bind(run_id);
  if (bind_known_key(find_, words_, key) && find_.next()) {
    id = find_.integer(0);
  }
  find_.reset();
  return id;
}

std::int64_t PointWriter::insert_row(std::int64_t run_id, const PointMeasurement& point) {
  const PointSummary summary = summarize(point);
  point_.bind(run_id);
  bind_key(point_, point.key, [this](const std::string& text) { return words_.id(text); });
  point_.bind(std::string(name_of(point.status)))
      .bind(point.reason)
      .bind(words_.id(point.stop_reason))
      .bind(words_.id(name_of(point.reliability)))
      .bind(finite(point.adjacent_overlap))
      .bind(finite(point.unique_blocks))
      .bind(summary.sample_count)
      .bind(summary.median_ns)
      .bind(summary.median_low_ns)
      .bind(summary.median_high_ns)
      .bind(summary.dram_bytes)
      .bind(summary.predicted_bytes)
      .bind(summary.accepted)
      .run();
  return database_.last_insert_id();
}

void PointWriter::insert_range(std::int64_t point_id, std::int64_t ordinal,
                               const RangeMeasurement& range) {
  const std::int64_t path = words_.id(range.path);
  range_.bind(point_id).bind(ordinal).bind(path).bind(range.launches);
  range_.bind(finite(range.predicted.flops)).run();
  const std::int64_t range_id = database_.last_insert_id();
  for (std::size_t term = 0; term < kTrafficTermCount; ++term) {
    const double read = range.predicted.read_bytes[term];
    const double written = range.predicted.write_bytes[term];
    if (read != 0.0 || written != 0.0) {
      traffic_.bind(range_id).bind(std::string(name_of(static_cast<TrafficTerm>(term))));
      traffic_.bind(finite(read)).bind(finite(written)).run();
    }
  }
  for (std::size_t i = 0; i < range.gpu_time_ns.size(); ++i) {
    bind_sample(range_sample_, range_id, i, range.gpu_time_ns[i]);
  }
  std::int64_t counter_ordinal = 0;
  for (const CounterValue& counter : range.counters) {
    const bool claims_value = counter.status == CounterStatus::kOk;
    const double value = counter.value.value_or(std::nan(""));
    const std::int64_t metric = words_.id(counter.metric);
    counter_.bind(range_id).bind(counter_ordinal++).bind(metric);
    counter_.bind(claims_value ? finite(value) : std::nullopt);
    counter_.bind(std::string(name_of(claims_value ? status_of(value) : counter.status))).run();
  }
}

void PointWriter::insert_acceptance(std::int64_t point_id,
                                    const AcceptanceMeasurement& acceptance) {
  acceptance_.bind(point_id)
      .bind(acceptance.steps)
      .bind(acceptance.generated_tokens)
      .bind(finite(acceptance.accepted_per_step))
      .bind(std::int64_t{acceptance.looping})
      .bind(finite(acceptance.teacher_forced))
      .run();
  std::int64_t tokens = 0;
  for (const std::int64_t steps : acceptance.accepted_histogram) {
    accepted_count_.bind(point_id).bind(tokens++).bind(steps).run();
  }
  for (const AcceptanceWalk& walk : acceptance.walks) {
    insert_walk(point_id, walk);
  }
  for (const TextYield& text : acceptance.texts) {
    insert_text(point_id, text);
  }
}

void PointWriter::insert_walk(std::int64_t point_id, const AcceptanceWalk& walk) {
  const std::int64_t text = words_.id(walk.text);
  std::int64_t position = 0;
  for (const std::int64_t yield : walk.yields) {
    accepted_step_.bind(point_id).bind(text).bind(position).bind(yield).run();
    position += yield;
  }
}

void PointWriter::insert_text(std::int64_t point_id, const TextYield& text) {
  const std::int64_t name = words_.id(text.text);
  accepted_text_.bind(point_id).bind(name).bind(text.steps).bind(text.tokens);
  accepted_text_.bind(std::int64_t{text.looping}).run();
}

void PointWriter::insert_sharing(std::int64_t point_id, const BlockSharing& sharing) {
  sharing_.bind(point_id).bind(std::string(name_of(sharing.along))).bind(sharing.layer);
  sharing_.bind(sharing.steps);
  for (const std::optional<double>& overlap : sharing.overlap) {
    sharing_.bind(finite(overlap));
  }
  for (const std::optional<double>& blocks : sharing.group_blocks) {
    sharing_.bind(finite(blocks));
  }
  for (const std::optional<double>& saved : sharing.loads_saved) {
    sharing_.bind(finite(saved));
  }
  sharing_.bind(finite(sharing.next_layer)).run();
}

bool has_finished_point(Database& database, std::int64_t run_id, const PointKey& key) {
  Words words(database);
  Statement query(database,
                  std::string("SELECT 1 FROM point WHERE status <> 'failed' AND run_id = ? AND ") +
                      kKeyMatches + pair_matches(database) + temperature_matches(database));
  query.bind(run_id);
  return bind_known_key(query, words, key) && query.next();
}

bool has_finished_point(Database& database, const std::string& kind,
                        const std::string& configuration, const PointKey& key) {
  Words words(database);
  Statement query(database,
                  std::string("SELECT 1 FROM run CROSS JOIN point ON point.run_id = run.id WHERE "
                              "point.status <> 'failed' AND run.kind = ? AND "
                              "run.configuration = ? AND ") +
                      kKeyMatches + pair_matches(database) + temperature_matches(database));
  query.bind(kind).bind(configuration);
  return bind_known_key(query, words, key) && query.next();
}

}  // namespace versieve::db
