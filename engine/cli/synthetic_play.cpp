#include "engine/cli/synthetic_play.h"

#include <memory>

#include "db/evidence.h"
#include "engine/analyse/replay/walks.h"
#include "model/words/error.h"

namespace versieve::cli {
namespace {

// Texts along which the pair that the table counts on was recorded.
engine::SyntheticPlay recorded_play(const AcceptanceOptions& options, const PlanTable& table) {
  const db::Store store = db::Store::open(*options.database, db::OpenMode::kReadOnly);
  const PairId pair = acceptance_pair(table);
  const std::string split = options.split.value_or("test");
  const auto walks = std::make_shared<const engine::Walks>(db::acceptance_points(store), pair,
                                                           split, options.regime.value_or(""));
  const auto texts = [walks](const ContextBucket& bucket, std::int64_t) {
    std::vector<engine::SyntheticText> out;
    for (const engine::ReplayRequest& request : walks->requests(bucket.low, bucket.high)) {
      out.push_back(
          {.name = request.regime + " " + request.text,
           .context_len = request.context_len,
           .acceptance = engine::recorded_acceptance(
               [walks, request](const Strategy& strategy) -> const std::vector<std::int64_t>& {
                 return walks->of(request, strategy);
               })});
    }
    return out;
  };
  return {.from = engine::AcceptanceFrom::kRecorded,
          .source = "recorded walks of " + text_of(pair) + ", " + split + " split",
          .texts = texts};
}

}  // namespace

void declare_acceptance(CLI::App& app, AcceptanceOptions& options, const std::string& who) {
  app.add_option("--acceptance", options.from,
                 who +
                     "synthetic: steps are real, what they yield is given, recorded (walks of "
                     "the table's pair in --db) or law (the table's tokens a step)");
  app.add_option("--db", options.database, who + "database with the recorded walks");
  app.add_option("--split", options.split, who + "of the recorded walks (test)")
      ->check(CLI::IsMember({"test", "calibration"}));
  app.add_option("--regime", options.regime, who + "only walks of this regime");
}

std::optional<engine::SyntheticPlay> synthetic_play(const AcceptanceOptions& options,
                                                    const PlanTable& table, std::uint64_t seed) {
  const bool recorded = options.from && engine::parse_acceptance_from(*options.from) ==
                                            engine::AcceptanceFrom::kRecorded;
  if (recorded && !options.database) {
    throw Error(ExitCode::kUsage, "recorded acceptance needs a database with walks: --db FILE");
  }
  if (!recorded && (options.database || options.split || options.regime)) {
    throw Error(ExitCode::kUsage,
                "--db, --split and --regime choose among recorded walks: --acceptance recorded");
  }
  if (!options.from) {
    return {};
  }
  return recorded ? recorded_play(options, table) : engine::law_play(table, seed);
}

}  // namespace versieve::cli
