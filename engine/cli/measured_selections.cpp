#include "engine/cli/measured_selections.h"

#include "db/store.h"
#include "model/words/error.h"

namespace versieve::cli {

engine::MeasuredChoice measured_choice(const std::string& database) {
  if (database.empty()) {
    return engine::MeasuredChoice({});
  }
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  engine::MeasuredChoice choice(
      store.points({.workload = WorkloadKind::kAcceptance, .only_ok = true}));
  if (choice.empty()) {
    throw Error(ExitCode::kAnswerNo, database +
                                         " has no points of SpecAttn's choice: profile --sweep "
                                         "selections --model FOLDER of a dense pair");
  }
  return choice;
}

}  // namespace versieve::cli
