// Rules that need the times of whole steps, or the machine.
#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/analyse/diagnose/rules.h"
#include "engine/analyse/fit/context_ranges.h"
#include "engine/analyse/fit/statistics.h"
#include "engine/analyse/serve/serving_schedule.h"
#include "engine/io/formatted.h"
#include "model/cost/crossover.h"
#include "model/words/request_range.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kLaunchesNamed = 3;

// Our own slow form of attention is timed to be compared with, and no advice rests on it.
bool is_slow_form(const PointMeasurement& m) {
  return Strategy::parse(m.key.strategy).form == NsaForm::kVanilla;
}

// A timed step whose tokens are known, beside a plain one of the same context.
struct Pace {
  const PointMeasurement* step = nullptr;
  double tokens = 0.0;       // a step
  double plain_steps = 0.0;  // that it takes as long as: tokens at which it breaks even

  double gain() const { return tokens / plain_steps; }
};

double microseconds(const PointMeasurement& m) {
  return 1e-3 * median(m.time_ns).value_or(0.0);
}

// One where nobody said.
RequestRange requests_at(const PointMeasurement& m) {
  return requests_of(m.key.regime).value_or(RequestRange{});
}

const PointMeasurement* plain_step(const std::vector<PointMeasurement>& steps,
                                   const PointMeasurement& beside) {
  const Strategy own = Strategy::parse(beside.key.strategy);
  for (const PointMeasurement& m : steps) {
    const Strategy s = Strategy::parse(m.key.strategy);
    if (!s.draft.speculates() && s.attention == own.attention && s.form == own.form &&
        !m.time_ns.empty() && m.key.context_len == beside.key.context_len &&
        m.key.dtype == beside.key.dtype && m.key.launch == beside.key.launch &&
        m.key.temperature == beside.key.temperature && requests_at(m) == requests_at(beside)) {
      return &m;
    }
  }
  return nullptr;
}

// Of the same range of contexts.
std::optional<double> tokens_of(const AcceptanceEvidence& evidence, const Strategy& s,
                                std::int64_t context_len) {
  const std::int64_t group = approximate_group(s);
  double sum = 0.0, count = 0.0;
  for (const AcceptanceModel::Measured& m : evidence.tuples) {
    if (!m.at_least && m.draft == s.draft && m.schedule == s.schedule &&
        m.approximate_group == group && (group == 1 || m.order == s.order) &&
        context_range_of(m.context_len) == context_range_of(context_len)) {
      sum += m.mean;
      count += 1.0;
    }
  }
  return count > 0.0 ? sum / count : std::optional<double>();
}

std::vector<Pace> paces(const DiagnosisInput& input) {
  std::vector<Pace> out;
  for (const PointMeasurement& m : input.steps) {
    const Strategy s = Strategy::parse(m.key.strategy);
    const PointMeasurement* plain = plain_step(input.steps, m);
    // A sparse pair's weights with dense attention yield tokens that nobody measured.
    const bool other_target = !m.key.pair.empty() && s.attention != AttentionMethod::kNsa;
    if (!s.draft.speculates() || m.time_ns.empty() || plain == nullptr || other_target ||
        is_slow_form(m)) {
      continue;
    }
    if (const std::optional<double> tokens = tokens_of(input.evidence, s, m.key.context_len)) {
      out.push_back({&m, *tokens, microseconds(m) / microseconds(*plain)});
    }
  }
  return out;
}

// Which launches take most of a step, if its ranges were timed.
std::string split_of(const PointMeasurement& step) {
  std::vector<std::pair<double, std::string>> parts;
  double total = 0.0;
  for (const RangeMeasurement& r : step.ranges) {
    if (const std::optional<double> ns = median(r.gpu_time_ns)) {
      parts.push_back({*ns, r.path});
      total += *ns;
    }
  }
  std::sort(parts.rbegin(), parts.rend());
  parts.resize(std::min(parts.size(), kLaunchesNamed));
  std::string text;
  for (const auto& [ns, path] : parts) {
    text += (text.empty() ? "; of its launches' time " : ", ") + path +
            formatted(" takes %.0f %%", 100.0 * ns / total);
  }
  return text;
}

std::string described(const Pace& p) {
  const std::optional<RequestRange> requests = requests_of(p.step->key.regime);
  const PrecisionClass precision = Strategy::parse(p.step->key.strategy).precision();
  const std::string lossy = precision == PrecisionClass::kStrict
                                ? std::string()
                                : formatted(" (%s: may change the text)", name_of(precision));
  return p.step->key.strategy + lossy +
         formatted(" at context %lld%s takes %.2f plain steps and yields %.2f tokens (%.2f x)",
                   static_cast<long long>(p.step->key.context_len),
                   requests ? (", " + text_of(*requests) + ",").c_str() : "", p.plain_steps,
                   p.tokens, p.gain());
}

}  // namespace

Finding step_cost(const DiagnosisInput& input) {
  const std::vector<Pace> all = paces(input);
  if (all.empty()) {
    const bool only_slow = std::any_of(input.steps.begin(), input.steps.end(), is_slow_form);
    return {"step cost", Verdict::kNotJudged,
            std::string("no step of a measured draft was timed beside a plain step of the same "
                        "context") +
                (only_slow ? "; those of form=vanilla, this project's own slow attention, do not "
                             "count"
                           : ""),
            "Import or profile steps with times, plain decoding among them"};
  }
  const auto faster = std::find_if(all.begin(), all.end(), [](const Pace& p) {
    const Strategy strategy = Strategy::parse(p.step->key.strategy);
    return strategy.precision() == PrecisionClass::kStrict && p.plain_steps < kBelowPlain;
  });
  if (faster != all.end()) {
    return {"step cost", Verdict::kNote,
            described(*faster) +
                ", and no step with a draft takes less time than one without: the "
                "two were not of one machine under one load",
            "Take the times of both under the same load, and import them again"};
  }
  const auto less = [](const Pace& a, const Pace& b) { return a.gain() < b.gain(); };
  const Pace& worst = *std::min_element(all.begin(), all.end(), less);
  const Pace& best = *std::max_element(all.begin(), all.end(), less);
  const std::string launches =
      "`versieve fit --predict` splits a step by its launches and what bounds them";
  if (best.gain() < 1.0) {
    return {"step cost", Verdict::kLoss,
            "no timed draft pays: the best, " + described(best) + split_of(*best.step),
            "Fewer nodes or levels cost less; " + launches};
  }
  if (worst.gain() < 1.0) {
    return {"step cost", Verdict::kNote,
            "not every timed draft pays: " + described(worst) + split_of(*worst.step) +
                "; the best, " + described(best),
            "Plan with measured acceptance; " + launches};
  }
  return {"step cost", Verdict::kFine,
          "every timed draft pays: the least, " + described(worst) + ", the best, " +
              described(best) + split_of(*best.step),
          ""};
}

Finding batch_crossover(const DiagnosisInput& input) {
  std::int64_t nodes = 0, most = 1;
  for (const AcceptanceModel::Measured& m : input.evidence.tuples) {
    nodes = std::max(nodes, m.draft.nodes);
  }
  for (const PointMeasurement& m : input.steps) {
    most = std::max(most, requests_at(m).high);
  }
  const std::string times =
      most == 1 ? "times are of one request at a time"
                : formatted("times reach %lld requests at a time", static_cast<long long>(most));
  if (input.hardware == nullptr || nodes == 0) {
    return {"batch", Verdict::kNotJudged, times + ", and are of no machine in the catalogue", ""};
  }
  const double rows = crossover_rows(*input.hardware);
  const double requests = crossover_requests(*input.hardware, nodes);
  return {"batch", Verdict::kNote,
          times + formatted("; on %s products of weights turn from bandwidth to arithmetic at %.0f "
                            "rows, so %lld nodes a request cost time of their own from %.1f "
                            "requests on",
                            input.hardware->name.c_str(), rows, static_cast<long long>(nodes),
                            requests),
          "Larger batches want fewer nodes"};
}

}  // namespace versieve::engine
