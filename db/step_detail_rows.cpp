#include "db/step_detail_rows.h"

#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::db {
namespace {

constexpr std::int64_t kFirstSchemaWithTraces = 9;  // schema/0009_step_traces.sql

}  // namespace

StepDetailWriter::StepDetailWriter(Database& database)
    : words_(database),
      holds_(database,
             "SELECT EXISTS (SELECT 1 FROM step_trace WHERE point_id = ?1) OR "
             "EXISTS (SELECT 1 FROM block_choice WHERE point_id = ?1)"),
      trace_(database, "INSERT INTO step_trace (point_id, replayed, period_ns) VALUES (?, ?, ?)"),
      launch_(database,
              "INSERT INTO traced_launch (point_id, ordinal, kernel, range, evidence, start_ns, "
              "duration_ns, stream, blocks, threads) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
      choice_(database, "INSERT INTO block_choice (point_id, layer, kv_head) VALUES (?, ?, ?)"),
      node_(database, "INSERT INTO tree_node (point_id, node, parent) VALUES (?, ?, ?)"),
      block_(database, "INSERT INTO chosen_block (point_id, node, block) VALUES (?, ?, ?)") {}

bool StepDetailWriter::holds(std::int64_t point_id) {
  holds_.bind(point_id).next();
  const bool there = holds_.integer(0) != 0;
  holds_.reset();
  return there;
}

void StepDetailWriter::insert(std::int64_t point_id, const StepDetail& detail) {
  if (detail.trace) {
    insert_trace(point_id, *detail.trace);
  }
  if (detail.choice) {
    insert_choice(point_id, *detail.choice);
  }
}

void StepDetailWriter::insert_trace(std::int64_t point_id, const StepTrace& trace) {
  trace_.bind(point_id).bind(std::int64_t{trace.replayed}).bind(trace.period_ns).run();
  std::int64_t ordinal = 0;
  for (const TracedLaunch& launch : trace.launches) {
    const std::int64_t kernel = words_.id(launch.kernel);
    const std::int64_t range = words_.id(launch.range);
    const std::int64_t evidence = words_.id(name_of(launch.evidence));
    launch_.bind(point_id).bind(ordinal++).bind(kernel).bind(range).bind(evidence);
    launch_.bind(launch.start_ns).bind(launch.duration_ns).bind(launch.stream);
    launch_.bind(launch.blocks).bind(launch.threads).run();
  }
}

void StepDetailWriter::insert_choice(std::int64_t point_id, const BlockChoice& choice) {
  VERSIEVE_ASSERT(choice.parent.size() == choice.blocks.size(), "every node has a parent");
  choice_.bind(point_id).bind(choice.layer).bind(choice.kv_head).run();
  for (std::size_t i = 0; i < choice.parent.size(); ++i) {
    const std::int64_t node = static_cast<std::int64_t>(i);
    node_.bind(point_id).bind(node).bind(std::int64_t{choice.parent[i]}).run();
    for (const std::int32_t block : choice.blocks[i]) {
      block_.bind(point_id).bind(node).bind(std::int64_t{block}).run();
    }
  }
}

StepDetailReader::StepDetailReader(const Database& database)
    : database_(database),
      has_tables_(database.integer("PRAGMA user_version") >= kFirstSchemaWithTraces) {}

Error StepDetailReader::damaged(std::int64_t point_id, const std::string& what) const {
  return {ExitCode::kBadInput,
          database_.path() + ": point " + std::to_string(point_id) + ": " + what};
}

StepDetail StepDetailReader::read(std::int64_t point_id) {
  if (!has_tables_) {
    return {};
  }
  return {.trace = read_trace(point_id), .choice = read_choice(point_id)};
}

std::optional<StepTrace> StepDetailReader::read_trace(std::int64_t point_id) {
  Statement head(database_, "SELECT replayed, period_ns FROM step_trace WHERE point_id = ?");
  if (!head.bind(point_id).next()) {
    return std::nullopt;
  }
  StepTrace trace{
      .replayed = head.integer(0) != 0, .period_ns = head.optional_real(1), .launches = {}};
  Statement query(database_,
                  "SELECT kernel, range, evidence, start_ns, duration_ns, stream, blocks, threads "
                  "FROM v_traced_launch WHERE point_id = ? ORDER BY ordinal");
  for (query.bind(point_id); query.next();) {
    trace.launches.push_back({.kernel = query.text(0),
                              .range = query.text(1),
                              .evidence = range_evidence_of(query.text(2)),
                              .start_ns = query.integer(3),
                              .duration_ns = query.integer(4),
                              .stream = query.integer(5),
                              .blocks = query.integer(6),
                              .threads = query.integer(7)});
    const TracedLaunch& launch = trace.launches.back();
    if (launch.start_ns < 0 || launch.duration_ns < 0) {
      throw damaged(point_id, "a launch of its trace has a negative time");
    }
  }
  return trace;
}

std::optional<BlockChoice> StepDetailReader::read_choice(std::int64_t point_id) {
  Statement head(database_, "SELECT layer, kv_head FROM block_choice WHERE point_id = ?");
  if (!head.bind(point_id).next()) {
    return std::nullopt;
  }
  BlockChoice choice{
      .layer = head.integer(0), .kv_head = head.integer(1), .parent = {}, .blocks = {}};
  Statement nodes(database_, "SELECT node, parent FROM tree_node WHERE point_id = ? ORDER BY node");
  for (nodes.bind(point_id); nodes.next();) {
    if (nodes.integer(0) != std::ssize(choice.parent)) {
      throw damaged(point_id, "a node of its tree is missing");
    }
    choice.parent.push_back(static_cast<std::int32_t>(nodes.integer(1)));
  }
  choice.blocks.resize(choice.parent.size());
  Statement blocks(database_,
                   "SELECT node, block FROM chosen_block WHERE point_id = ? ORDER BY node, block");
  for (blocks.bind(point_id); blocks.next();) {
    const std::int64_t node = blocks.integer(0);
    if (node < 0 || node >= std::ssize(choice.blocks)) {
      throw damaged(point_id, "a block was chosen by a node that is missing");
    }
    choice.blocks[static_cast<std::size_t>(node)].push_back(
        static_cast<std::int32_t>(blocks.integer(1)));
  }
  return choice;
}

std::vector<std::int64_t> StepDetailReader::traced_points() {
  std::vector<std::int64_t> ids;
  if (has_tables_) {
    Statement query(database_, "SELECT point_id FROM step_trace ORDER BY point_id");
    while (query.next()) {
      ids.push_back(query.integer(0));
    }
  }
  return ids;
}

}  // namespace versieve::db
