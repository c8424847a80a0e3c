#include "engine/cli/pair_evidence.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/analyse/fit/acceptance_fit.h"
#include "engine/analyse/fit/pair_steps.h"
#include "engine/io/input_file.h"
#include "engine/io/pair_identity.h"
#include "engine/io/shards.h"
#include "engine/measure/sweep/pair_quality.h"
#include "model/words/error.h"

namespace versieve::cli {
namespace {

// A configuration is enough for a price, not for an identity.
bool has_weights(const std::filesystem::path& folder) {
  try {
    engine::weight_file_names(folder);
    return !engine::is_there(folder / "draft") ||
           !engine::weight_file_names(folder / "draft").empty();
  } catch (const Error&) {
    return false;
  }
}

std::string namesakes_text(const db::PairEvidence& evidence, const std::string& database) {
  std::string hashes;
  for (const PairId& other : evidence.namesakes) {
    hashes += (hashes.empty() ? "" : ", ") + short_hash(other.sha256);
  }
  return "the points of " + evidence.pair.name + " in " + database +
         " are of other weights (sha256 " + hashes + ") and say nothing of these";
}

// Hash of the pair's dense model, of which the newest run of kind `quality` that names the pair
// holds rows; empty: there is none.
std::string dense_model_of(const db::Store& store, const std::string& sha256) {
  std::string dense, newest;
  for (const db::StoredRun& run : store.runs()) {
    const nlohmann::json configuration = nlohmann::json::parse(run.record.configuration, nullptr,
                                                               /*allow_exceptions=*/false);
    if (sha256.empty() || run.record.kind != "quality" || !configuration.is_object() ||
        configuration.value(engine::kDenseOf, nlohmann::json()) != sha256 ||
        run.record.started_utc < newest) {
      continue;
    }
    newest = run.record.started_utc;
    dense = configuration.value("pair_sha256", "");
  }
  return dense;
}

void refuse_borrowing(const KnownPair& pair, const std::string& what, const std::string& word) {
  throw Error(ExitCode::kAnswerNo, "there is " + what + " of " + text_of(*pair.id) +
                                       ", and --borrow does not name " + word +
                                       (pair.remark.empty() ? "" : ": " + pair.remark));
}

}  // namespace

Borrowed parse_borrowed(const std::vector<std::string>& words) {
  if (words.empty()) {
    return {};
  }
  Borrowed out{.times = false, .acceptance = false, .quality = false};
  for (const std::string& word : words) {
    if (word != "times" && word != "acceptance" && word != "quality" && word != "none") {
      throw Error(ExitCode::kUsage,
                  "--borrow takes times, acceptance, quality or none, not '" + word + "'");
    }
    out.times = out.times || word == "times";
    out.acceptance = out.acceptance || word == "acceptance";
    out.quality = out.quality || word == "quality";
  }
  if (words.size() > 1 && std::find(words.begin(), words.end(), "none") != words.end()) {
    throw Error(ExitCode::kUsage, "--borrow none leaves nothing to borrow beside it");
  }
  return out;
}

KnownPair known_pair(const PairShape& shape, const std::string& database,
                     const std::string& device) {
  KnownPair out;
  if (!shape.is_pair()) {
    return out;
  }
  if (!shape.kept && !has_weights(shape.folder)) {
    out.id = PairId{engine::pair_name(shape.folder), ""};
    out.remark = "the folder holds no weights, so that no point can be known to be of this pair";
    return out;
  }
  out.id = shape.kept ? *shape.kept : engine::pair_identity(shape.folder);
  if (database.empty()) {
    out.remark = "no database was given to look for points of this pair in";
    return out;
  }
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  out.evidence = db::evidence_of_pair(store, *out.id, device);
  if (out.evidence.acceptance.empty() && out.evidence.steps.empty() &&
      !out.evidence.namesakes.empty()) {
    out.remark = namesakes_text(out.evidence, database);
  }
  return out;
}

void use_pair(const KnownPair& pair, const PairShape& shape, const Borrowed& borrowed,
              bool names_acceptance, FittedModel& fit) {
  if (!pair.id) {
    return;
  }
  const AcceptanceModel own = engine::fit_acceptance(pair.evidence.acceptance);
  if (!own.positional.empty()) {
    fit.acceptance = own;
  } else if (!borrowed.acceptance && !names_acceptance) {
    refuse_borrowing(pair, "no measured acceptance", "acceptance");
  }
  const std::int64_t steps = engine::use_pair_steps(
      pair.evidence.steps, {pair.id->sha256, shape.target, shape.draft}, fit);
  if (steps == 0 && !borrowed.times) {
    refuse_borrowing(pair, "no step timed on " + fit.device, "times");
  }
}

LossPrices loss_prices(const KnownPair& pair, const PairShape& shape, const Borrowed& borrowed,
                       const AcceptanceModel& acceptance, const std::string& database) {
  const PairId own = pair.id.value_or(PairId{});
  if (database.empty()) {
    return LossPrices(pair.evidence.quality, own, acceptance.sha256, shape.target.layers);
  }
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  const std::string dense = dense_model_of(store, own.sha256);
  std::vector<QualityPoint> rows = db::quality_points(store);
  if (!borrowed.quality) {
    std::erase_if(rows, [&](const QualityPoint& row) {
      const std::string& sha256 = row.pair.sha256;
      return sha256.empty() || (sha256 != own.sha256 && sha256 != dense);
    });
  }
  return LossPrices(rows, own, acceptance.sha256, shape.target.layers, dense);
}

}  // namespace versieve::cli
