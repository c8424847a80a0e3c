#include "engine/analyse/serve/planned_batch.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "engine/measure/door/guard/serving_guard.h"
#include "model/plan/concurrency.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// As the guard reads them.
struct Row {
  std::int64_t context_high = 0, requests_high = 0;
  std::int64_t depth = 0, width = 0, nodes = 1;
  double tokens = 1.0, break_even = 1.0;
};

// What the guard weighs a draft's tokens by: its step's cost over a plain one's, in time or, of a
// plan for the most tokens a joule, in energy.
double cost_of(const PlanTable& whole, const Evaluation& e, const Evaluation& plain) {
  const auto yield = [&whole](const Evaluation& of) {
    return yield_of(whole.aims.objective, whole.energy, of) / of.expected_accepted;
  };
  return yield(plain) / yield(e);
}

Row row_of(const PlanTable& whole, const Evaluation& e, const Evaluation& plain, const Row& cell) {
  Row row = cell;
  const DraftChoice& draft = e.strategy.draft;
  if (draft.speculates()) {
    row.depth = draft.levels();
    row.width = draft.width;
    row.nodes = draft.nodes;
    row.tokens = std::clamp(e.expected_accepted, 1.0, static_cast<double>(draft.levels() + 1));
    row.break_even = cost_of(whole, e, plain);
  }
  return row;
}

bool same_draft(const Row& a, const Row& b) {
  return a.depth == b.depth && a.width == b.width && a.nodes == b.nodes;
}

class PlannedBatch final : public TuplePlan {
 public:
  PlannedBatch(const PlanTable& table, PrecisionClass precision, const TupleRefusal& refusal) {
    for (std::size_t bucket = 0; bucket < table.buckets.size(); ++bucket) {
      add_bucket(table, static_cast<std::int64_t>(bucket), precision, refusal);
    }
    if (rows_.empty()) {
      throw Error(ExitCode::kAnswerNo, std::string("the table has no tuple of class ") +
                                           name_of(precision) + " that a batch of this model runs");
    }
    for (const LeftOutTuple& tuple : left_out_) {
      remarks_.push_back("the table's '" + tuple.strategy.text() +
                         "' is left out: " + tuple.reason);
    }
    if (table.batched.empty()) {
      remarks_.push_back(
          "the table was planned for one request at a time, and its tuples stand for any number: "
          "plan with --concurrency");
    }
    std::string fault;
    guard_ = versieve_serving::Table::of(std::span<const Row>(rows_), fault);
    VERSIEVE_ASSERT(fault.empty(), "a plan's cells ascend");
  }

  const std::vector<Strategy>& tuples() const override { return tuples_; }
  std::unique_ptr<TupleChooser> chooser() const override;
  const std::vector<std::string>& remarks() const override { return remarks_; }

  const versieve_serving::Table& guard() const { return guard_; }
  // Of the cell's choice with that draft: rows and the guard's choices are numbered alike.
  std::size_t tuple_of(const versieve_serving::Cell& cell,
                       const versieve_serving::Choice& choice) const {
    std::size_t row = cell.first;
    while (rows_[row].depth != choice.depth || rows_[row].width != choice.width ||
           rows_[row].nodes != choice.nodes) {
      ++row;
    }
    return tuple_of_row_[row];
  }

 private:
  void add_bucket(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
                  const TupleRefusal& refusal);
  void add_cell(const PlanTable& whole, const PlanTable& table, std::int64_t bucket,
                PrecisionClass precision, const TupleRefusal& refusal);
  // Of two tuples with one draft the first, which ranks before, stands for both.
  void add(const Evaluation& e, const Row& row, std::size_t cell);
  bool runs(const Strategy& strategy, const TupleRefusal& refusal);

  std::vector<Strategy> tuples_;
  std::vector<Row> rows_;
  std::vector<std::size_t> tuple_of_row_;
  std::vector<LeftOutTuple> left_out_;
  std::vector<std::string> remarks_;
  versieve_serving::Table guard_;
};

bool PlannedBatch::runs(const Strategy& strategy, const TupleRefusal& refusal) {
  const std::string reason = refusal ? refusal(strategy) : std::string();
  const bool known = std::any_of(left_out_.begin(), left_out_.end(),
                                 [&](const LeftOutTuple& tuple) { return tuple.reason == reason; });
  if (!reason.empty() && !known) {
    left_out_.push_back({strategy, reason});
  }
  return reason.empty();
}

void PlannedBatch::add(const Evaluation& e, const Row& row, std::size_t cell) {
  for (std::size_t i = cell; i < rows_.size(); ++i) {
    if (same_draft(rows_[i], row)) {
      return;
    }
  }
  const auto known = std::find(tuples_.begin(), tuples_.end(), e.strategy);
  tuple_of_row_.push_back(static_cast<std::size_t>(known - tuples_.begin()));
  rows_.push_back(row);
  if (known == tuples_.end()) {
    tuples_.push_back(e.strategy);
  }
}

void PlannedBatch::add_cell(const PlanTable& whole, const PlanTable& table, std::int64_t bucket,
                            PrecisionClass precision, const TupleRefusal& refusal) {
  const Evaluation* const plain = plain_of(table, bucket);
  const std::vector<const PlanEntry*> entries = entries_of(table, bucket, precision);
  if (plain == nullptr || entries.empty()) {
    return;  // nobody planned it
  }
  const Row cell{.context_high = table.buckets[static_cast<std::size_t>(bucket)].high,
                 .requests_high = table.concurrency};
  const std::size_t first = rows_.size();
  for (const PlanEntry* entry : entries) {
    if (runs(entry->evaluation.strategy, refusal)) {
      add(entry->evaluation, row_of(whole, entry->evaluation, *plain, cell), first);
    }
  }
  if (runs(plain->strategy, refusal)) {
    add(*plain, row_of(whole, *plain, *plain, cell), first);
  }
}

void PlannedBatch::add_bucket(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
                              const TupleRefusal& refusal) {
  const std::size_t first = rows_.size();
  for (const PlanTable* of : by_concurrency(table)) {
    add_cell(table, *of, bucket, precision, refusal);
  }
  if (rows_.size() > first) {  // the most requests that were planned stand for more
    const std::int64_t most = rows_.back().requests_high;
    for (std::size_t i = first; i < rows_.size(); ++i) {
      if (rows_[i].requests_high == most) {
        rows_[i].requests_high = std::numeric_limits<std::int64_t>::max();
      }
    }
  }
}

class PlannedRequest final : public TupleChooser {
 public:
  explicit PlannedRequest(const PlannedBatch& plan) : plan_(&plan), guard_(plan.guard()) {}

  std::size_t next(std::int64_t context_len, std::int64_t running) override {
    const versieve_serving::Cell* const cell = plan_->guard().find(context_len, running);
    VERSIEVE_ASSERT(cell != nullptr, "the last cells stand for longer contexts and more requests");
    return plan_->tuple_of(*cell, guard_.next(context_len, running));
  }
  void observe(std::int64_t yielded) override { guard_.observe(static_cast<double>(yielded)); }

 private:
  const PlannedBatch* plan_;
  versieve_serving::Guard guard_;
};

std::unique_ptr<TupleChooser> PlannedBatch::chooser() const {
  return std::make_unique<PlannedRequest>(*this);
}

}  // namespace

std::shared_ptr<const TuplePlan> planned_batch(const PlanTable& table, PrecisionClass precision,
                                               const TupleRefusal& refusal) {
  return std::make_shared<PlannedBatch>(table, precision, refusal);
}

}  // namespace versieve::engine
