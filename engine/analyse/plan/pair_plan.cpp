#include "engine/analyse/plan/pair_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "engine/analyse/fit/acceptance_fit.h"
#include "engine/analyse/fit/own_steps.h"
#include "engine/analyse/fit/pair_steps.h"
#include "engine/io/formatted.h"
#include "engine/io/pair_identity.h"
#include "model/cost/text_spread.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

std::string namesakes_text(const PairEvidence& evidence, const std::string& database) {
  std::string hashes;
  for (const PairId& other : evidence.namesakes) {
    hashes += (hashes.empty() ? "" : ", ") + short_hash(other.sha256);
  }
  return "the points of " + evidence.pair.name + " in " + database +
         " are of other weights (sha256 " + hashes + ") and say nothing of these";
}

void refuse_borrowing(const KnownPair& pair, const std::string& what, const std::string& word) {
  throw Error(ExitCode::kAnswerNo, "there is " + what + " of " + text_of(*pair.id) +
                                       ", and --borrow does not name " + word +
                                       (pair.remark.empty() ? "" : ": " + pair.remark));
}

// `whose`: "of PAIR", "in DATABASE".
[[noreturn]] void refuse_temperature(double temperature, const std::string& whose,
                                     const std::vector<PointMeasurement>& acceptance) {
  const std::string known = temperatures_text(acceptance);
  throw Error(ExitCode::kAnswerNo,
              formatted("there is no acceptance at temperature %g ", temperature) + whose +
                  (known.empty() ? "" : ", but at " + known) +
                  ": versieve profile --sweep pair --temperature measures it");
}

// "of its timed steps 3 are left out: 2 noisy, 1 ...", or nothing.
std::string unused_text(const std::map<std::string, std::int64_t>& left_out) {
  std::int64_t count = 0;
  std::string reasons;
  for (const auto& [reason, steps] : left_out) {
    count += steps;
    reasons += (reasons.empty() ? "" : "; ") + std::to_string(steps) + " " + reason;
  }
  return count == 0 ? std::string()
                    : "of its timed steps " + std::to_string(count) + " are left out: " + reasons;
}

// F* and those that acceptance of the pair was measured with; the usual ones where there is none.
std::vector<std::string> measured_schedules(const std::vector<PointMeasurement>& acceptance) {
  std::vector<std::string> schedules = {"F*"};
  for (const PointMeasurement& point : acceptance) {
    const Strategy strategy = Strategy::parse(point.key.strategy);
    if (strategy.attention == AttentionMethod::kNsa &&
        std::find(schedules.begin(), schedules.end(), strategy.schedule) == schedules.end()) {
      schedules.push_back(strategy.schedule);
    }
  }
  return schedules.size() > 1 ? schedules : default_schedules();
}

// The classes that save work on blocks which a dense target does not select.
bool selects_blocks(PrecisionClass precision) {
  return precision == PrecisionClass::kReuseOnly || precision == PrecisionClass::kApproxOnly ||
         precision == PrecisionClass::kApproxReuse;
}

std::string text_in(const nlohmann::json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

ChainShare chain_share_of(const nlohmann::json& row) {
  return {.strategy = Strategy::parse(row.at("strategy").get<std::string>()).text(),
          .share = {row.at("share").get<double>(), row.at("share_95").at(0).get<double>(),
                    row.at("share_95").at(1).get<double>()},
          .counted = row.at("counted").get<std::int64_t>()};
}

bool is_share(const Estimate95& e) {
  return 0.0 < e.value && e.value <= 1.0 && 0.0 <= e.low && e.low <= e.high && e.high <= 1.0;
}

std::vector<ChainShare> chain_shares_in(const std::string& text, const std::string& database) {
  const Error damaged(ExitCode::kBadInput,
                      database + ": what it holds of chains (" + kChainShares + ") is damaged");
  std::vector<ChainShare> out;
  try {
    for (const nlohmann::json& row : nlohmann::json::parse(text)) {
      out.push_back(chain_share_of(row));
    }
  } catch (const nlohmann::json::exception&) {
    throw damaged;
  } catch (const Error&) {  // no strategy
    throw damaged;
  }
  if (!std::all_of(out.begin(), out.end(), [](const ChainShare& row) {
        return is_share(row.share) && Strategy::parse(row.strategy).draft.speculates();
      })) {
    throw damaged;
  }
  return out;
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

KnownPair identified(const PairShape& shape) {
  KnownPair out;
  out.id = shape.kept ? *shape.kept : known_identity(shape.folder);
  if (out.id->sha256.empty()) {
    out.remark = "the folder holds no weights, so that no point can be known to be of this pair";
  }
  return out;
}

KnownPair known_of(PairEvidence evidence, const std::string& database) {
  KnownPair out{.id = evidence.pair,
                .evidence = std::move(evidence),
                .remark = {},
                .chain_shares = {},
                .lent_shares = {}};
  out.chain_shares = chain_shares_of(out.id->sha256, out.evidence.quality_runs, database);
  out.lent_shares = lent_shares_of(out.id->sha256, out.evidence.quality_runs, database);
  if (out.evidence.acceptance.empty() && out.evidence.steps.empty() &&
      !out.evidence.namesakes.empty()) {
    out.remark = namesakes_text(out.evidence, database);
  }
  return out;
}

std::string use_pair(const KnownPair& pair, const PairShape& shape, const Borrowed& borrowed,
                     bool names_acceptance, FittedModel& fit, double temperature) {
  fit.lent_shares = borrowed.quality ? pair.lent_shares : LentShares{};
  if (!pair.id) {
    use_own_steps(shape.target, shape.draft, fit);
    return {};
  }
  fit.chain_shares = pair.chain_shares;
  const AcceptanceModel own = fit_acceptance(pair.evidence.acceptance, temperature);
  if (!own.positional.empty()) {
    fit.acceptance = own;
  } else if (temperature > 0.0 && !names_acceptance) {
    refuse_temperature(temperature, "of " + text_of(*pair.id), pair.evidence.acceptance);
  } else if (!borrowed.acceptance && !names_acceptance) {
    refuse_borrowing(pair, "no measured acceptance", "acceptance");
  }
  std::map<std::string, std::int64_t> left_out;
  const std::int64_t steps = use_pair_steps(
      pair.evidence.steps, {pair.id->sha256, shape.target, shape.own_draft}, fit, &left_out);
  if (steps == 0 && !borrowed.times) {
    refuse_borrowing(pair, "no step timed on " + fit.device, "times");
  }
  return unused_text(left_out);
}

void use_sampled(const std::vector<PointMeasurement>& acceptance, const std::string& database,
                 double temperature, FittedModel& fit) {
  AcceptanceModel sampled = fit_acceptance(acceptance, temperature);
  if (sampled.positional.empty()) {
    refuse_temperature(temperature, "in " + database, acceptance);
  }
  fit.acceptance = std::move(sampled);
}

std::vector<ChainShare> chain_shares_of(const std::string& pair_sha256,
                                        const std::vector<KeptQuality>& kept,
                                        const std::string& database) {
  std::vector<std::string> requests;
  for (const KeptQuality& run : kept) {
    requests.push_back(run.request);
  }
  const std::string dense = dense_model_of(pair_sha256, requests);
  std::map<std::string, ChainShare> newest;
  std::set<std::string> of_texts;
  for (const KeptQuality& run : kept) {
    const nlohmann::json request = nlohmann::json::parse(run.request, nullptr, false);
    const std::string of = request.is_object() ? text_in(request, "pair_sha256") : std::string();
    if (run.chain_shares.empty() || of.empty() || (of != pair_sha256 && of != dense)) {
      continue;
    }
    const bool is_of_texts = text_in(request, "set") == "texts";
    for (const ChainShare& row : chain_shares_in(run.chain_shares, database)) {
      if (is_of_texts || of_texts.count(row.strategy) == 0) {
        newest[row.strategy] = row;
      }
      if (is_of_texts) {
        of_texts.insert(row.strategy);
      }
    }
  }
  std::vector<ChainShare> out;
  for (const auto& [strategy, row] : newest) {
    out.push_back(row);
  }
  return out;
}

LentShares lent_shares_of(const std::string& pair_sha256, const std::vector<KeptQuality>& kept,
                          const std::string& database) {
  std::vector<std::string> requests;
  for (const KeptQuality& run : kept) {
    requests.push_back(run.request);
  }
  const std::string dense = dense_model_of(pair_sha256, requests);
  LentShares of_sigmoids;  // of the newest pair that has rows, but none of SpecAttn
  for (auto run = kept.rbegin(); run != kept.rend(); ++run) {
    const nlohmann::json request = nlohmann::json::parse(run->request, nullptr, false);
    const std::string of = request.is_object() ? text_in(request, "pair_sha256") : std::string();
    if (run->chain_shares.empty() || of.empty() || of == pair_sha256 || of == dense) {
      continue;
    }
    LentShares lent{.lender = "another pair (sha256 " + short_hash(of) + ")",
                    .rows = chain_shares_of(of, kept, database)};
    if (std::any_of(lent.rows.begin(), lent.rows.end(), [](const ChainShare& row) {
          return Strategy::parse(row.strategy).attention == AttentionMethod::kSpecAttn;
        })) {
      return lent;
    }
    of_sigmoids = of_sigmoids.rows.empty() ? std::move(lent) : of_sigmoids;
  }
  return of_sigmoids;
}

std::vector<ChainYield> chain_yields(const PlanGrounds& grounds, double temperature) {
  const std::string own = grounds.known.id.value_or(PairId{}).sha256;
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::vector<TextCount>> counts;
  std::map<std::string, PairId> pairs;
  for (const PointMeasurement& m : grounds.chains) {
    const bool is_own = !m.key.pair.empty() && (m.key.pair == own || m.key.pair == grounds.dense);
    if (m.key.temperature != temperature || !m.acceptance ||
        (!is_own && !grounds.borrowed.acceptance)) {
      continue;
    }
    for (const TextYield& text : m.acceptance->texts) {
      counts[{m.key.pair, m.key.strategy, m.key.context_len}].push_back(
          {.steps = static_cast<double>(text.steps), .tokens = static_cast<double>(text.tokens)});
    }
    pairs[m.key.pair] = {m.key.model, m.key.pair};
  }
  std::vector<ChainYield> out;
  for (const auto& [key, texts] : counts) {
    const auto& [pair, strategy, context_len] = key;
    const TextRatio found = ratio_of_texts(texts);
    const double count = static_cast<double>(texts.size());
    // A single text says nothing of how others differ: as much as pairs differ.
    constexpr double kOneText = 0.2;
    const double of_one = found.texts > 1 ? found.log_error : kOneText;
    out.push_back({.strategy = strategy,
                   .context_len = context_len,
                   .mean = found.ratio,
                   .log_error = of_one / std::sqrt(count),
                   .texts = found.texts,
                   .pair = pairs.at(pair),
                   .own = pair == own || pair == grounds.dense});
  }
  return out;
}

LossPrices loss_prices(const PlanGrounds& grounds, const AcceptanceModel& acceptance) {
  const PairId own = grounds.known.id.value_or(PairId{});
  std::vector<QualityPoint> rows = grounds.quality;
  if (!grounds.borrowed.quality) {
    std::erase_if(rows, [&](const QualityPoint& row) {
      const std::string& sha256 = row.pair.sha256;
      return sha256.empty() || (sha256 != own.sha256 && sha256 != grounds.dense);
    });
  }
  return LossPrices(rows, own, acceptance.sha256, grounds.shape.target.layers, grounds.dense);
}

std::string dense_model_of(const std::string& pair_sha256,
                           const std::vector<std::string>& quality_runs) {
  std::string dense;
  for (const std::string& text : quality_runs) {
    const nlohmann::json configuration =
        nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!pair_sha256.empty() && configuration.is_object() &&
        configuration.value(kDenseOf, nlohmann::json()) == pair_sha256) {
      dense = configuration.value("pair_sha256", "");
    }
  }
  return dense;
}

std::vector<CalibratedSchedule> calibrated_schedules_in(const std::string& found,
                                                        const std::string& database) {
  try {
    std::vector<CalibratedSchedule> out;
    const nlohmann::json answer = nlohmann::json::parse(found);
    for (const nlohmann::json& own : answer.at("schedules")) {
      out.push_back({.budget = own.at("budget").get<double>(),
                     .schedule = own.at("schedule").get<std::string>(),
                     .rise = own.at("rise").get<double>()});
    }
    return out;
  } catch (const nlohmann::json::exception&) {
    throw Error(ExitCode::kBadInput, database + ": a calibration that it holds is damaged");
  }
}

std::vector<CalibratedSchedule> calibrated_on(const std::string& pair_sha256,
                                              const std::vector<KeptCalibration>& kept,
                                              const std::string& database) {
  std::vector<CalibratedSchedule> newest;
  for (const KeptCalibration& calibration : kept) {
    const nlohmann::json request = nlohmann::json::parse(calibration.request, nullptr, false);
    const auto pair = request.find("pair_sha256");
    if (pair != request.end() && *pair == pair_sha256) {
      newest = calibrated_schedules_in(calibration.found, database);
    }
  }
  return newest;
}

std::string calibrated_text(const std::vector<CalibratedSchedule>& calibrated) {
  std::string text;
  for (const CalibratedSchedule& own : calibrated) {
    text += (text.empty() ? "" : ", ") + own.schedule +
            formatted(" within %g nats a token", own.budget);
  }
  return text;
}

std::string calibrated_remark(const PlanGrounds& grounds,
                              const std::vector<std::string>& schedules) {
  std::vector<CalibratedSchedule> calibrated = grounds.calibrated;
  std::erase_if(calibrated, [&](const CalibratedSchedule& own) {
    return std::find(schedules.begin(), schedules.end(), own.schedule) == schedules.end();
  });
  return calibrated.empty() ? std::string()
                            : "schedules calibrated on the pair: " + calibrated_text(calibrated);
}

PlanOptions follow_pair(const PlanGrounds& grounds, const FittedModel& fit,
                        const ChosenOptions& chosen, PlanOptions options) {
  const PairShape& shape = grounds.shape;
  const bool dense = shape.target.attention == AttentionKind::kDense;
  options.draft = shape.draft;
  options.draft_model = shape.draft_model;
  options.drafts = shape.drafts;
  if (!chosen.baseline) {
    options.baseline = usual_baseline(shape.target, options);
  }
  if (!chosen.buckets && shape.is_pair()) {  // a geometry has as many positions as are asked
    std::erase_if(options.buckets, [&shape](const ContextBucket& bucket) {
      return bucket.low >= shape.target.max_position;
    });
  }
  if (dense) {
    options.schedules = {"F*"};
  } else if (!chosen.schedules) {
    options.schedules = measured_schedules(grounds.known.evidence.acceptance);
  }
  options.loss.prices = loss_prices(grounds, fit.acceptance);
  options.chain_yields = ChainYields(chain_yields(grounds, fit.temperature));
  options.pair = grounds.known.id;
  const std::string remark = grounds.known.remark.empty()
                                 ? calibrated_remark(grounds, options.schedules)
                                 : grounds.known.remark;
  const bool both = !grounds.unused.empty() && !remark.empty();
  options.pair_remark = grounds.unused + (both ? "; " : "") + remark;
  if (!chosen.classes) {
    options.classes = priced_classes(fit);
    std::erase_if(options.classes, [&](PrecisionClass precision) {
      return dense && (selects_blocks(precision) ||
                       (precision == PrecisionClass::kApproxSampling && !shape.drafts));
    });
  }
  return options;
}

}  // namespace versieve::engine
