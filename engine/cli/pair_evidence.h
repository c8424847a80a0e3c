// What a plan or a prediction for a pair may count on: the points of that very pair,
// and by leave another's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "db/evidence.h"
#include "engine/cli/pair_shape.h"
#include "model/cost/fitted_model.h"
#include "model/plan/loss_prices.h"

namespace versieve::cli {

// Which evidence may be another's where the pair has none of its own, as --borrow says.
struct Borrowed {
  bool times = true;
  bool acceptance = true;
  bool quality = true;
};
// Of "times", "acceptance", "quality" and "none"; of no words all may be. Throws Error(kUsage) for
// other words, and for "none" beside one of them.
Borrowed parse_borrowed(const std::vector<std::string>& words);

// The pair as the database knows it: nothing of a geometry, of a folder without weights or without
// a database.
struct KnownPair {
  std::optional<PairId> id;  // none: a geometry by its name
  db::PairEvidence evidence;
  std::string remark;  // why there is none, a sentence; or empty
};
// `device`: whose times. `database` may be empty.
KnownPair known_pair(const PairShape& shape, const std::string& database,
                     const std::string& device);

// The pair's timed steps and its own tokens a step in the place of the fit's, as far as there are
// any; `names_acceptance`: the command says whose tokens it counts on. Throws Error(kAnswerNo)
// where something is missing that may not be borrowed.
void use_pair(const KnownPair& pair, const PairShape& shape, const Borrowed& borrowed,
              bool names_acceptance, FittedModel& fit);
// What strategies cost the pair, by the rows of that very pair in the database; where it has none,
// by leave of the pair whose acceptance is planned with, else of another. `database` may be empty.
LossPrices loss_prices(const KnownPair& pair, const PairShape& shape, const Borrowed& borrowed,
                       const AcceptanceModel& acceptance, const std::string& database);

}  // namespace versieve::cli
