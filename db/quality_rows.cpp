#include "db/quality_rows.h"

#include "db/words.h"
#include "model/words/error.h"

namespace versieve::db {
namespace {

constexpr std::int64_t kFirstSchemaWithQuality = 5;

constexpr const char* kColumns =
    "model, pair, set_name, distance, split, strategy, dtype, backend, set_sha256, read_as, "
    "tokens, loss_nats, kl_nats, kl_nats_low, kl_nats_high, rise_nats, rise_nats_low, "
    "rise_nats_high, same_token, same_token_low, same_token_high, questions, right_answers, "
    "gained, lost, accuracy, accuracy_low, accuracy_high, change, change_low, change_high";

void bind_estimate(Statement& statement, const Estimate95& estimate) {
  statement.bind(estimate.value).bind(estimate.low).bind(estimate.high);
}

// Counts, then shares; none of either where nothing was asked.
void bind_answers(Statement& statement, const std::optional<QualityAnswers>& answers) {
  if (answers) {
    statement.bind(answers->questions)
        .bind(answers->right)
        .bind(answers->gained)
        .bind(answers->lost);
    bind_estimate(statement, answers->accuracy);
    bind_estimate(statement, answers->change);
    return;
  }
  for (int i = 0; i < 4; ++i) {
    statement.bind(std::optional<std::int64_t>());
  }
  for (int i = 0; i < 6; ++i) {
    statement.bind(std::optional<double>());
  }
}

Estimate95 estimate_at(const Statement& row, int column) {
  return {row.real(column), row.real(column + 1), row.real(column + 2)};
}

std::optional<QualityAnswers> answers_at(const Statement& row, int column) {
  if (row.is_null(column)) {
    return {};
  }
  return QualityAnswers{.questions = row.integer(column),
                        .right = row.integer(column + 1),
                        .gained = row.integer(column + 2),
                        .lost = row.integer(column + 3),
                        .accuracy = estimate_at(row, column + 4),
                        .change = estimate_at(row, column + 7)};
}

QualityPoint point_at(const Statement& row, const std::vector<std::string>& words) {
  const auto word = [&](int column) {
    const std::int64_t id = row.integer(column);
    if (id < 0 || static_cast<std::size_t>(id) >= words.size()) {
      throw Error(ExitCode::kBadInput, "the database refers to a word that it does not hold");
    }
    return words[static_cast<std::size_t>(id)];
  };
  return {.pair = {word(0), word(1)},
          .set = word(2),
          .distance = word(3),
          .split = word(4),
          .strategy = word(5),
          .dtype = dtype_of(word(6)),
          .backend = backend_of(word(7)),
          .set_sha256 = word(8),
          .read_as = word(9),
          .tokens = row.integer(10),
          .loss_nats = row.real(11),
          .kl_nats = estimate_at(row, 12),
          .rise_nats = estimate_at(row, 15),
          .same_token = estimate_at(row, 18),
          .answers = answers_at(row, 21)};
}

}  // namespace

void insert_quality(Database& database, std::int64_t run_id, const QualityPoint& point) {
  Words words(database);
  Statement insert(database,
                   std::string("INSERT INTO quality (run_id, ") + kColumns +
                       ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                       "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(run_id);
  for (const std::string& text :
       {point.pair.name, point.pair.sha256, point.set, point.distance, point.split, point.strategy,
        std::string(name_of(point.dtype)), std::string(name_of(point.backend)), point.set_sha256,
        point.read_as}) {
    insert.bind(words.id(text));
  }
  insert.bind(point.tokens).bind(point.loss_nats);
  bind_estimate(insert, point.kl_nats);
  bind_estimate(insert, point.rise_nats);
  bind_estimate(insert, point.same_token);
  bind_answers(insert, point.answers);
  insert.run();
}

std::vector<QualityPoint> read_quality(const Database& database,
                                       std::optional<std::int64_t> run_id) {
  std::vector<QualityPoint> points;
  if (database.integer("PRAGMA user_version") < kFirstSchemaWithQuality) {
    return points;
  }
  const std::vector<std::string> words = all_words(database);
  Statement query(database, std::string("SELECT ") + kColumns +
                                " FROM quality WHERE ?1 IS NULL OR run_id = ?1 ORDER BY id");
  for (query.bind(run_id); query.next();) {
    points.push_back(point_at(query, words));
  }
  return points;
}

}  // namespace versieve::db
