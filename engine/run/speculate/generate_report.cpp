// The report of `versieve generate` as JSON (a stable contract: engine/cli/README.md) and as text.
#include <nlohmann/json.hpp>

#include "engine/io/formatted.h"
#include "engine/run/speculate/generate_request.h"

namespace versieve::engine {
namespace {

bool chooses_tokens(const Strategy& strategy) {
  return strategy.attention == AttentionMethod::kSpecAttn ||
         strategy.attention == AttentionMethod::kIndexer;
}

std::string fixed(double value, int digits) {
  return formatted("%.*f", digits, value);
}

// Text for JSON: bytes that are not UTF-8 (a cut character, an untrained model) become U+FFFD.
std::string printable(const std::string& bytes) {
  const nlohmann::json quoted = bytes;
  const std::string valid = quoted.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(valid).get<std::string>();
}

nlohmann::json acceptance_json(const GenerateReport& report) {
  if (!report.given) {
    return {{"kind", "own"}};
  }
  return {{"kind", "synthetic"},
          {"from", name_of(report.given->from)},
          {"source", report.given->source}};
}

std::string ids_text(const std::vector<std::int32_t>& ids) {
  std::string out;
  for (const std::int32_t id : ids) {
    out += (out.empty() ? "" : " ") + std::to_string(id);
  }
  return out;
}

nlohmann::json phases_json(const Generation& run) {
  nlohmann::json phases = nlohmann::json::object();
  for (std::size_t i = 0; i < kStepPhaseCount; ++i) {
    phases[name_of(static_cast<StepPhase>(i))] = run.seconds[i];
  }
  phases["recorded_step"] = run.recorded_seconds;
  phases["rectify"] = run.rectify_seconds;
  return phases;
}

nlohmann::json guard_json(const StrategyRun& run) {
  const GuardedRun& guarded = *run.guarded;
  const ContextBucket& bucket = guarded.request.buckets.front();
  nlohmann::json moves = nlohmann::json::array();
  for (const GuardMove& move : run.generation.moves) {
    const std::size_t index = static_cast<std::size_t>(move.index);
    const GuardedRequest::Place place = guarded.request.place_of(index);
    moves.push_back({{"token", move.token},
                     {"bucket", {place.bucket.low, place.bucket.high}},
                     {"rank", place.rank + 1},
                     {"strategy", guarded.request.ranked[index].text()}});
  }
  return {{"rule", name_of(guarded.rule)}, {"bucket", {bucket.low, bucket.high}}, {"moves", moves}};
}

// Whose kernels attended: f32 on a GPU runs the vanilla form whatever the strategy says.
const char* kernel_of(const GenerateReport& report, const Strategy& strategy) {
  if (report.backend == Backend::kCpu) {
    return "reference";
  }
  return name_of(report.dtype == Dtype::kBf16 ? strategy.form : NsaForm::kVanilla);
}

nlohmann::json run_json(const GenerateReport& report, const StrategyRun& run) {
  const Generation& generation = run.generation;
  const PrecisionClass precision = run.strategy.precision();
  nlohmann::json out = {
      {"strategy", run.strategy.text()},
      {"precision_class", name_of(precision)},
      {"lossy", !claims_autoregressive_text(precision)},
      {"loss", loss_of(precision)},
      {"kernel", kernel_of(report, run.strategy)},
      {"generated_tokens", generation.tokens.size()},
      {"steps", generation.steps},
      {"accepted_per_step_mean", generation.accepted_per_step()},
      {"accepted_histogram", generation.accepted_histogram},
      {"tokens_per_s", generation.tokens_per_second()},
      {"ar_tokens_per_s", nullptr},
      {"identical_to_ar", nullptr},
      {"first_divergence", nullptr},
      {"decode_s", generation.decode_seconds()},
      {"phase_s", phases_json(generation)},
      {"launch", generation.recorded ? "graph" : "stream"},
      {"record_s", generation.record_seconds},
      {"rectifications", generation.rectifications},
      {"stopped", name_of(generation.stopped)},
      {"text", run.text ? nlohmann::json(printable(*run.text)) : nlohmann::json()},
      {"tokens", generation.tokens}};
  if (run.reference) {
    out["ar_tokens_per_s"] = run.reference->tokens_per_second();
    out["identical_to_ar"] = run.identical();
  }
  if (chooses_tokens(run.strategy)) {
    out["kv_reads_saved"] = generation.reads_saved;
  }
  if (run.guarded) {
    out["guard"] = guard_json(run);
  }
  if (run.divergence) {
    out["first_divergence"] = {{"index", run.divergence->index},
                               {"logit_gap", run.divergence->logit_gap}};
  }
  return out;
}

std::string guard_text(const StrategyRun& run) {
  const GuardedRun& guarded = *run.guarded;
  std::string out = "; first of the table's tuples for " + name_of(guarded.request.buckets.front());
  for (const GuardMove& move : run.generation.moves) {
    out += ", after " + std::to_string(move.token) + " tokens " +
           guarded.request.ranked[static_cast<std::size_t>(move.index)].text();
  }
  return out + (run.generation.moves.empty() ? ", which the guard kept" : "");
}

std::string run_text(const StrategyRun& run) {
  const Generation& generation = run.generation;
  const PrecisionClass precision = run.strategy.precision();
  std::string out = run.strategy.text() + " (" + name_of(precision) +
                    (run.claims_identity() ? "" : std::string(", lossy: ") + loss_of(precision)) +
                    "): " + std::to_string(generation.tokens.size()) + " tokens in " +
                    std::to_string(generation.steps) + " steps, " +
                    fixed(generation.accepted_per_step(), 2) + " a step, " +
                    fixed(generation.tokens_per_second(), 1) + " tokens/s" +
                    (generation.recorded ? " in graphs" : "");
  if (chooses_tokens(run.strategy)) {
    out += ", " + fixed(100.0 * generation.reads_saved, 1) + " % of the KV reads saved";
  }
  if (run.guarded) {
    out += guard_text(run);
  }
  if (run.reference) {
    const double plain = run.reference->tokens_per_second();
    out += "; autoregressive " + fixed(plain, 1) + " tokens/s";
    if (plain > 0.0) {
      out += " (" + fixed(generation.tokens_per_second() / plain, 2) + "x)";
    }
    const bool reuses = run.strategy.schedule.find('R') != std::string::npos;
    out += std::string("; text ") + (run.identical() ? "identical to" : "DIFFERENT from") +
           " autoregressive decoding" + (reuses ? " of the same schedule" : "") +
           (run.claims_identity() ? "" : " (approximate strategies do not claim it)");
  }
  return out + "\n";
}

}  // namespace

std::string GenerateReport::failure() const {
  for (const StrategyRun& run : runs) {
    if (run.divergence && run.claims_identity()) {
      return "strategy '" + run.strategy.text() +
             "' left the autoregressive text at generated token " +
             std::to_string(run.divergence->index) + ", where the two best logits are " +
             fixed(static_cast<double>(run.divergence->logit_gap), 6) + " apart";
    }
  }
  return {};
}

nlohmann::json report_json(const GenerateReport& report) {
  nlohmann::json out = {
      {"backend", name_of(report.backend)},  {"device", report.device},
      {"dtype", name_of(report.dtype)},      {"prompt_tokens", report.prompt_tokens},
      {"prefill_s", report.prefill_seconds}, {"acceptance", acceptance_json(report)}};
  if (report.runs.size() == 1) {
    out.update(run_json(report, report.runs[0]));
  } else {
    for (const StrategyRun& run : report.runs) {
      out["runs"].push_back(run_json(report, run));
    }
  }
  out["remarks"] = report.remarks;
  const std::string reason = report.failure();
  if (!reason.empty()) {
    out["reason"] = reason;
  }
  return out;
}

std::string report_text(const GenerateReport& report) {
  std::string out;
  std::optional<std::string> shown;
  for (const StrategyRun& run : report.runs) {
    const std::string text = run.text ? *run.text : ids_text(run.generation.tokens);
    if (!report.given && (!shown || *shown != text)) {
      out += text + "\n\n";
      shown = text;
    }
  }
  out += report.device + ", " + name_of(report.dtype) + "; prompt of " +
         std::to_string(report.prompt_tokens) + " tokens read in " +
         fixed(report.prefill_seconds, 2) + " s\n";
  if (report.given) {
    out += std::string("synthetic acceptance (") + name_of(report.given->from) +
           "): how many tokens each step yields is given by " + report.given->source +
           "; the text means nothing\n";
  }
  for (const StrategyRun& run : report.runs) {
    out += run_text(run);
  }
  const std::string reason = report.failure();
  return reason.empty() ? out : out + reason + "\n";
}

}  // namespace versieve::engine
