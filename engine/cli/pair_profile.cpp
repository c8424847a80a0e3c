#include "engine/cli/pair_profile.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "engine/analyse/plan/pair_plan.h"
#include "engine/cli/output.h"
#include "engine/cli/progress_text.h"
#include "engine/cli/run_record.h"
#include "engine/io/formatted.h"
#include "engine/io/pair_identity.h"
#include "model/words/error.h"
#include "model/words/pair_evidence.h"
#include "model/words/strategy.h"

namespace versieve::cli {
namespace {

using engine::CalibratedSchedule;

constexpr double kProductBudget = 0.02;  // of the schedule that goes with approximate groups
constexpr const char* kNoCounters = "What schedules and strategies cost takes no counters.";

std::string configuration_of(const engine::CalibrateRequest& request,
                             const engine::PairAtHand& pair) {
  nlohmann::ordered_json out = {{"sweep", kCalibrationRun},
                                {"pair_sha256", pair.source.id.sha256},
                                {"dtype", request.dtype},
                                {"backend", request.backend},
                                {"most_tried", request.most_tried},
                                {"budgets", engine::kLossBudgets},
                                {"texts", nlohmann::ordered_json::array()}};
  for (const engine::CalibrateWindow& window : request.windows) {
    out["texts"].push_back({{"text", window.name}, {"tokens", window.tokens.size()}});
  }
  return out.dump();
}

std::string found_text(const engine::CalibrateReport& report,
                       const std::vector<CalibratedSchedule>& schedules) {
  nlohmann::ordered_json out = engine::calibration_json(report);
  out["schedules"] = nlohmann::ordered_json::array();
  for (const CalibratedSchedule& own : schedules) {
    out["schedules"].push_back(
        {{"budget", own.budget}, {"schedule", own.schedule}, {"rise", own.rise}});
  }
  return out.dump();
}

// Of a run that was finished; none where it holds no calibration.
std::optional<std::vector<CalibratedSchedule>> calibration_in(const db::Store& store,
                                                              const db::StoredRun& run) {
  if (run.record.kind != kCalibrationRun || run.record.status != RunStatus::kComplete) {
    return {};
  }
  for (const db::Diagnostic& line : store.diagnostics(run.id)) {
    if (line.source == kCalibrationRun) {
      return engine::calibrated_schedules_in(line.text, store.path());
    }
  }
  return {};
}

std::optional<std::vector<CalibratedSchedule>> calibration_of(const db::Store& store,
                                                              const std::string& configuration) {
  for (const db::StoredRun& run : store.runs()) {
    if (run.record.configuration == configuration) {
      if (const auto found = calibration_in(store, run)) {
        return found;
      }
    }
  }
  return {};
}

// Strategies that runs of the same request hold for all of its sets.
std::set<std::string> measured_strategies(const db::Store& store,
                                          const std::string& configuration) {
  std::set<std::string> strategies;
  for (const db::StoredRun& run : store.runs()) {
    if (run.record.kind == "quality" && run.record.configuration == configuration &&
        run.record.status == RunStatus::kComplete) {
      for (const QualityPoint& row : store.quality(run.id)) {
        strategies.insert(row.strategy);
      }
    }
  }
  return strategies;
}

void store_part(db::Store& store, const engine::PairAtHand& pair,
                const engine::PairQualityPart& part, const engine::LossyQualityReport& report,
                PairQualityOutcome& outcome) {
  const std::vector<QualityPoint> rows = engine::quality_points(report, part.pair, part.split);
  for (const std::string& why : report.left_out) {
    if (std::count(outcome.left_out.begin(), outcome.left_out.end(), why) == 0) {
      outcome.left_out.push_back(why);
    }
  }
  const std::int64_t run = store.begin_run(
      uncounted_run("quality", pair.backend, report.device, kNoCounters, part.configuration));
  store.add_quality(run, rows);
  if (!report.chain_shares.empty()) {
    store.add_diagnostic(run, "info", kChainShares,
                         engine::chain_shares_json(report.chain_shares).dump());
  }
  store.finish_run(run, RunStatus::kComplete);
  outcome.rows += static_cast<std::int64_t>(rows.size());
}

// Some strategies of a part, in one transaction. Whether there was anything to begin.
bool measure_piece(db::Store& store, const engine::PairAtHand& pair, engine::PairQualityPart part,
                   const PairProfileOptions& options, bool is_over, PairQualityOutcome& outcome) {
  if (options.resume) {
    const std::set<std::string> there = measured_strategies(store, part.configuration);
    const std::size_t before = part.request.strategies.size();
    std::erase_if(part.request.strategies, [&](const std::string& strategy) {
      return there.count(Strategy::parse(strategy).text()) > 0;
    });
    outcome.skipped += static_cast<std::int64_t>(before - part.request.strategies.size());
  }
  if (part.request.strategies.empty()) {
    return false;
  }
  if (is_over) {
    outcome.not_begun += static_cast<std::int64_t>(part.request.strategies.size());
    return true;
  }
  part.request.on_progress = [&](const engine::QualityProgress& at) {
    write_progress(quality_progress_text(at));
    options.on_pause();
  };
  try {
    store_part(store, pair, part, engine::run_lossy_quality(part.request), outcome);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kAnswerNo) {
      throw;
    }
    outcome.left_out.push_back(error.what());  // questions longer than the model takes
  }
  return true;
}

}  // namespace

std::vector<CalibratedSchedule> calibrate_pair(db::Store& store, const engine::PairAtHand& pair,
                                               const PairProfileOptions& options) {
  std::optional<engine::CalibrateRequest> request = engine::pair_calibration(pair, options.threads);
  if (!request) {
    return {};
  }
  const std::string configuration = configuration_of(*request, pair);
  if (options.resume) {
    if (const auto found = calibration_of(store, configuration)) {
      return *found;
    }
  }
  std::int64_t losses = 0;
  request->on_loss = [&](const std::string& schedule, double loss) {
    write_progress("\rcalibrating, loss " + std::to_string(++losses) +
                   engine::formatted(": %s %.4f nats a token   ", schedule.c_str(), loss));
    options.on_pause();
  };
  const engine::CalibrateReport report = engine::run_calibration(*request);
  write_progress("\n");
  std::vector<CalibratedSchedule> schedules = engine::calibrated_schedules(report.search);
  const std::int64_t run = store.begin_run(
      uncounted_run(kCalibrationRun, pair.backend, report.device, kNoCounters, configuration));
  store.add_diagnostic(run, "info", kCalibrationRun, found_text(report, schedules));
  store.finish_run(run, RunStatus::kComplete);
  return schedules;
}

PairQualityOutcome measure_pair_quality(db::Store& store, const engine::PairAtHand& pair,
                                        const std::vector<CalibratedSchedule>& calibrated,
                                        const PairProfileOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  engine::PairQualityOptions wanted{.reuse = engine::reuse_schedules(calibrated),
                                    .tasks = options.tasks,
                                    .questions = options.questions,
                                    .threads = options.threads};
  for (const CalibratedSchedule& own : calibrated) {
    if (own.budget <= kProductBudget) {
      wanted.product = own.schedule;
    }
  }
  PairQualityOutcome outcome;
  std::vector<engine::PairQualityPart> parts = engine::pair_quality(pair, wanted);
  if (options.dense.empty()) {
    outcome.left_out.push_back(
        "what ReSA and SpecAttn lose is measured of the pair's dense model, and there is none: "
        "--dense FOLDER");
  } else {
    for (engine::PairQualityPart& part :
         engine::dense_quality(pair, {options.dense, engine::pair_identity(options.dense)}, wanted,
                               outcome.left_out)) {
      parts.push_back(std::move(part));
    }
  }
  const std::vector<engine::PairQualityPart> pieces = engine::quality_pieces(parts);
  bool began = false;  // one piece always is, so that one run after the other comes to an end
  for (std::size_t i = static_cast<std::size_t>(options.shard.index); i < pieces.size();
       i += static_cast<std::size_t>(options.shard.count)) {
    const double passed =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const bool is_over = began && options.quality_s > 0.0 && passed >= options.quality_s;
    began = measure_piece(store, pair, pieces[i], options, is_over, outcome) || began;
  }
  return outcome;
}

}  // namespace versieve::cli
