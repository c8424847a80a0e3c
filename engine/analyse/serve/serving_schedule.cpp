#include "engine/analyse/serve/serving_schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "engine/analyse/fit/statistics.h"
#include "engine/io/formatted.h"
#include "model/cost/crossover.h"
#include "model/words/error.h"
#include "model/words/normal_law.h"
#include "model/words/request_range.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kLeastContext = 1024;  // the end of the first bucket
constexpr double kMedianShare =
    1.2533141373155001;             // sqrt(pi / 2): error of a median over a mean's
constexpr double kOneSample = 0.1;  // relative error of a time that is one number: an assumption

// The end of a number's doubling range.
std::int64_t doubling_end(std::int64_t value, std::int64_t first) {
  std::int64_t end = first;
  while (end < value) {
    end *= 2;
  }
  return end;
}

struct ByDraft {
  bool operator()(const DraftChoice& a, const DraftChoice& b) const {
    return std::tuple(a.depth, a.width, a.nodes) < std::tuple(b.depth, b.width, b.nodes);
  }
};

// Steps of one draft in a cell.
struct Tokens {
  double steps = 0.0, sum = 0.0;
  std::vector<double> emitted;  // [a]: steps that emitted a tokens, of those that were counted so
  double counted = 0.0;
  std::int64_t texts = 1;
  bool at_least = false;

  double mean() const { return sum / steps; }
};

struct Times {
  std::vector<double> us;
};

// A cell's ends: context, requests.
using Place = std::pair<std::int64_t, std::int64_t>;

struct Gathered {
  std::map<Place, std::map<DraftChoice, Tokens, ByDraft>> tokens;
  std::map<Place, std::map<DraftChoice, Times, ByDraft>> times;
  std::int64_t lossy = 0;
  std::set<std::int64_t> contexts;
  bool unknown_requests = false;
};

bool is_strict(const Strategy& s) {
  return s.precision() == PrecisionClass::kStrict;
}

void add_tokens(const AcceptanceMeasurement& a, bool at_least, std::int64_t texts, Tokens& to) {
  const double steps = static_cast<double>(a.steps);
  to.steps += steps;
  to.sum += steps * a.accepted_per_step;
  to.at_least = to.at_least || at_least;
  to.texts = std::max(to.texts, texts);
  to.emitted.resize(std::max(to.emitted.size(), a.accepted_histogram.size()));
  for (std::size_t i = 0; i < a.accepted_histogram.size(); ++i) {
    to.emitted[i] += static_cast<double>(a.accepted_histogram[i]);
    to.counted += static_cast<double>(a.accepted_histogram[i]);
  }
}

Gathered gathered(const ServingInput& input) {
  Gathered out;
  for (const PointMeasurement& m : input.acceptance) {
    const Strategy s = Strategy::parse(m.key.strategy);
    if (!m.acceptance || m.acceptance->steps < 1 || !s.draft.speculates()) {
      continue;
    }
    if (!is_strict(s)) {
      out.lossy += 1;
      continue;
    }
    const std::optional<RequestRange> requests = requests_of(m.key.regime);
    out.unknown_requests = out.unknown_requests || !requests;
    const RequestRange range = requests.value_or(RequestRange{});
    const Place place{doubling_end(m.key.context_len, kLeastContext), doubling_end(range.high, 1)};
    out.contexts.insert(place.first);
    const std::int64_t texts =
        std::max<std::int64_t>(range.low, static_cast<std::int64_t>(m.acceptance->texts.size()));
    add_tokens(*m.acceptance, m.reliability == Reliability::kAtLeast, texts,
               out.tokens[place][s.draft]);
  }
  for (const PointMeasurement& m : input.steps) {
    const Strategy s = Strategy::parse(m.key.strategy);
    if (m.time_ns.empty() || !is_strict(s)) {
      continue;
    }
    const RequestRange range = requests_of(m.key.regime).value_or(RequestRange{});
    std::vector<double>& us = out.times[{doubling_end(m.key.context_len, kLeastContext),
                                         doubling_end(range.high, 1)}][s.draft]
                                  .us;
    for (const double ns : m.time_ns) {
      us.push_back(1e-3 * ns);
    }
  }
  return out;
}

// A number and its relative standard error.
struct Known {
  double value = 1.0, error = 0.0;
};

Known time_of(const std::vector<double>& us) {
  const double middle = *median(us);
  if (us.size() < 2) {
    return {middle, kOneSample};
  }
  double square = 0.0, mean = 0.0;
  for (const double t : us) {
    mean += t / static_cast<double>(us.size());
  }
  for (const double t : us) {
    square += (t - mean) * (t - mean) / static_cast<double>(us.size() - 1);
  }
  return {middle, kMedianShare * std::sqrt(square / static_cast<double>(us.size())) / middle};
}

// Of steps of a mean between 1 and `most`: no law has a greater variance.
double step_variance(double mean, double most) {
  return std::max(0.0, (mean - 1.0) * (most - mean));
}

double token_error(double mean, double most, double steps, std::int64_t texts) {
  const double of_steps = step_variance(mean, most) / (mean * mean * steps);
  return std::sqrt(of_steps + kTextShare * kTextShare / static_cast<double>(texts));
}

// 1 + a + ... + a^levels
double geometric(double a, std::int64_t levels) {
  double sum = 1.0, term = 1.0;
  for (std::int64_t i = 0; i < levels; ++i) {
    term *= a;
    sum += term;
  }
  return sum;
}

// The rate at which such a chain yields `mean` tokens.
double rate_of(double mean, std::int64_t levels) {
  double low = 0.0, high = 1.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (geometric(middle, levels) < mean ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

struct Yield {
  Known tokens;
  TokenSource source = TokenSource::kCounted;
  bool at_least = false;
};

// What the first `levels` tokens of a chain yield.
Yield cut_yield(const Tokens& of, const DraftChoice& draft, std::int64_t levels) {
  const double steps = of.steps;
  if (levels == draft.levels()) {
    return {{of.mean(), token_error(of.mean(), static_cast<double>(levels + 1), steps, of.texts)},
            TokenSource::kCounted,
            of.at_least};
  }
  if (of.counted > 0.0) {
    double sum = 0.0;
    for (std::size_t a = 0; a < of.emitted.size(); ++a) {
      sum += of.emitted[a] * std::min(static_cast<double>(a), static_cast<double>(levels + 1));
    }
    const double mean = sum / of.counted;
    return {{mean, token_error(mean, static_cast<double>(levels + 1), of.counted, of.texts)},
            TokenSource::kCut,
            of.at_least};
  }
  const double mean = geometric(rate_of(of.mean(), draft.levels()), levels);
  const double cut = kCutShare * static_cast<double>(draft.levels() - levels);
  return {
      {mean, std::hypot(token_error(mean, static_cast<double>(levels + 1), steps, of.texts), cut)},
      TokenSource::kGeometric,
      of.at_least};
}

DraftChoice chain_of(std::int64_t levels) {
  return {.depth = levels, .width = 1, .nodes = levels + 1};
}

// Drafts that a cell may choose, with what they yield: those that were measured, and shorter chains
// of a chain; of two that come to the same the one with more steps behind it.
std::map<DraftChoice, Yield, ByDraft> yields(
    const std::map<DraftChoice, Tokens, ByDraft>& measured) {
  std::map<DraftChoice, Yield, ByDraft> out;
  for (const auto& [draft, tokens] : measured) {
    out[draft] = cut_yield(tokens, draft, draft.levels());
  }
  for (const auto& [draft, tokens] : measured) {  // the shortest chain that holds it comes first
    if (draft.width != 1 || tokens.at_least) {
      continue;
    }
    for (std::int64_t levels = 1; levels < draft.levels(); ++levels) {
      out.emplace(chain_of(levels), cut_yield(tokens, draft, levels));
    }
  }
  return out;
}

// Time over plain decoding's by the machine's roofline: rows of weights' products, and a share a
// drafted level.
double roofline(const HardwareSpec& hardware, const DraftChoice& draft, std::int64_t requests,
                double level_share) {
  const double plain_rows = static_cast<double>(requests) / crossover_rows(hardware);
  const double rows = plain_rows * static_cast<double>(draft.nodes);
  return std::max(1.0, rows) / std::max(1.0, plain_rows) +
         level_share * static_cast<double>(draft.levels());
}

struct BreakEven {
  double value = 1.0;
  Interval interval{1.0, 1.0};
  StepTimes source = StepTimes::kTimed;
};

BreakEven break_even(const Known& ratio, StepTimes source) {
  const double reach = std::exp(kNinety * ratio.error);
  return {ratio.value, {ratio.value / reach, ratio.value * reach}, source};
}

class Builder {
 public:
  Builder(const ServingInput& input, Gathered all) : input_(input), all_(std::move(all)) {}

  ServingSchedule schedule() {
    ServingSchedule out{.pair = input_.pair.name,
                        .device = input_.device,
                        .hardware = input_.hardware == nullptr ? "" : input_.hardware->key};
    std::int64_t context_low = 0;
    for (const std::int64_t context : all_.contexts) {
      add_context(context_low, context, out);
      context_low = context;
    }
    add_notes(out);
    return out;
  }

 private:
  void add_context(std::int64_t low, std::int64_t high, ServingSchedule& out) const {
    std::int64_t last = input_.hardware == nullptr ? 1 : kMostRequests;
    for (const auto& [place, tokens] : all_.tokens) {
      last = place.first == high ? std::max(last, place.second) : last;
    }
    for (const auto& [place, times] : all_.times) {
      last = place.first == high ? std::max(last, place.second) : last;
    }
    std::int64_t from = 1;
    for (std::int64_t end = 1; end <= last; end *= 2) {
      ServingCell cell = cell_of({high, end});
      cell.context_low = low;
      cell.context_high = high;
      cell.requests_low = from;
      cell.requests_high = end;
      if (!cell.choices.empty()) {
        out.cells.push_back(std::move(cell));
        from = end + 1;
      }
    }
  }

  // Of each draft the tokens at the nearest requests at which it was measured; fewer before more.
  std::map<DraftChoice, Tokens, ByDraft> tokens_near(const Place& place) const {
    std::map<DraftChoice, Tokens, ByDraft> out;
    std::map<DraftChoice, double, ByDraft> least;
    for (const auto& [at, drafts] : all_.tokens) {
      const double away = std::fabs(std::log2(static_cast<double>(at.second)) -
                                    std::log2(static_cast<double>(place.second)));
      for (const auto& [draft, tokens] : drafts) {
        const auto known = least.find(draft);
        if (at.first == place.first && (known == least.end() || away < known->second)) {
          out[draft] = tokens;
          least[draft] = away;
        }
      }
    }
    return out;
  }

  std::optional<Known> timed(const Place& place, const DraftChoice& draft) const {
    const auto found = all_.times.find(place);
    if (found == all_.times.end()) {
      return {};
    }
    const auto of = found->second.find(draft);
    return of == found->second.end() ? std::optional<Known>() : time_of(of->second.us);
  }
  std::optional<Known> plain(const Place& place) const {
    const auto found = all_.times.find(place);
    if (found == all_.times.end()) {
      return {};
    }
    for (const auto& [draft, times] : found->second) {
      if (!draft.speculates()) {
        return time_of(times.us);
      }
    }
    return {};
  }

  std::optional<Known> timed_ratio(const Place& place, const DraftChoice& draft) const {
    const std::optional<Known> own = timed(place, draft), base = plain(place);
    if (!own || !base) {
      return {};
    }
    return Known{own->value / base->value, std::hypot(own->error, base->error)};
  }

  // On the line from plain decoding to the next longer chain that was timed; between them time
  // bends upward at most, so a shorter chain takes no longer than that.
  std::optional<Known> between(const Place& place, const DraftChoice& draft) const {
    const auto found = all_.times.find(place);
    if (found == all_.times.end() || draft.width != 1) {
      return {};
    }
    for (const auto& [longer, times] : found->second) {
      const std::optional<Known> ratio = longer.width == 1 && longer.levels() > draft.levels()
                                             ? timed_ratio(place, longer)
                                             : std::optional<Known>();
      if (ratio) {
        const double part =
            static_cast<double>(draft.levels()) / static_cast<double>(longer.levels());
        const double value = 1.0 + part * (ratio->value - 1.0);
        return Known{value, ratio->error * ratio->value * part / value};
      }
    }
    return {};
  }

  // How far the timed ratios of this draft lie from the roofline's at the nearest requests.
  std::optional<Known> timed_over_roofline(const Place& place, const DraftChoice& draft) const {
    std::optional<Known> out;
    double least = 0.0;
    for (const auto& [at, times] : all_.times) {
      std::optional<Known> ratio = timed_ratio(at, draft);
      ratio = ratio ? ratio : between(at, draft);
      const double away = std::fabs(std::log2(static_cast<double>(at.second)) -
                                    std::log2(static_cast<double>(place.second)));
      if (ratio && at.first == place.first && (!out || away < least)) {
        out = Known{ratio->value / roofline(*input_.hardware, draft, at.second, kLevelShare),
                    std::hypot(ratio->error, kCarriedShare * away)};
        least = away;
      }
    }
    return out;
  }

  std::optional<BreakEven> break_even_of(const Place& place, const DraftChoice& draft) const {
    if (const std::optional<Known> ratio = timed_ratio(place, draft)) {
      return break_even(*ratio, StepTimes::kTimed);
    }
    if (const std::optional<Known> ratio = between(place, draft)) {
      return break_even(*ratio, StepTimes::kBetween);
    }
    if (input_.hardware == nullptr) {
      return {};
    }
    const double value = roofline(*input_.hardware, draft, place.second, kLevelShare);
    if (const std::optional<Known> scale = timed_over_roofline(place, draft)) {
      BreakEven out = break_even({value * scale->value, scale->error}, StepTimes::kRoofline);
      return out;
    }
    return BreakEven{
        value * kOverRoofline,
        {roofline(*input_.hardware, draft, place.second, 0.0), value * kMostOverRoofline},
        StepTimes::kRoofline};
  }

  ServingCell cell_of(const Place& place) const {
    ServingCell out;
    out.measured = all_.tokens.count(place) != 0;
    if (const std::optional<Known> base = plain(place)) {
      out.plain_step_us = base->value;
    }
    for (const auto& [draft, yield] : yields(tokens_near(place))) {
      if (const std::optional<BreakEven> even = break_even_of(place, draft)) {
        out.choices.push_back(choice_of(draft, yield, *even));
      }
    }
    if (out.choices.empty()) {
      return out;
    }
    out.choices.push_back({.draft = {}, .loses = 0.0});
    std::stable_sort(
        out.choices.begin(), out.choices.end(), [](const ServingChoice& a, const ServingChoice& b) {
          return a.gain() != b.gain() ? a.gain() > b.gain() : a.draft.nodes < b.draft.nodes;
        });
    return out;
  }

  static ServingChoice choice_of(const DraftChoice& draft, const Yield& yield,
                                 const BreakEven& even) {
    const double most = static_cast<double>(draft.levels() + 1);
    const double reach = std::exp(kNinety * yield.tokens.error);
    ServingChoice out{.draft = draft,
                      .tokens = yield.tokens.value,
                      .tokens_interval = {std::max(1.0, yield.tokens.value / reach),
                                          std::min(most, yield.tokens.value * reach)},
                      .break_even = even.value,
                      .break_even_interval = even.interval,
                      .token_source = yield.source,
                      .times = even.source,
                      .at_least = yield.at_least};
    const double even_error = std::log(even.interval.high / even.interval.low) / (2.0 * kNinety);
    const double spread = std::hypot(yield.tokens.error, even_error);
    const double gap = std::log(out.tokens / out.break_even);
    out.loses =
        spread > 0.0 ? 0.5 * std::erfc(gap / (spread * std::sqrt(2.0))) : (gap < 0.0 ? 1.0 : 0.0);
    return out;
  }

  void add_notes(ServingSchedule& out) const {
    const auto any = [&out](const auto& holds) {
      return std::any_of(out.cells.begin(), out.cells.end(), [&](const ServingCell& cell) {
        return std::any_of(cell.choices.begin(), cell.choices.end(), holds);
      });
    };
    if (all_.unknown_requests && input_.pair.origin == AcceptanceOrigin::kImported) {
      out.notes.push_back(
          "some tokens a step are of a source that does not say how many requests ran: they stand "
          "for one, and for more where nothing else was measured");
    }
    if (any([](const ServingChoice& c) { return c.at_least; })) {
      out.notes.push_back(
          "drafts were cut short where a choice says at least: its tokens are a lower bound");
    }
    if (any([](const ServingChoice& c) {
          return c.draft.speculates() && c.times == StepTimes::kRoofline;
        })) {
      out.notes.push_back(formatted(
          "where times say roofline, no step was timed: weights of two bytes turn from bandwidth "
          "to "
          "arithmetic at %.0f rows on %s, a drafted level takes %.2f of a plain step (an "
          "assumption), and steps take %.1f times that as a rule, %.1f at most (as 14 timed ones)",
          crossover_rows(*input_.hardware), input_.hardware->name.c_str(), kLevelShare,
          kOverRoofline, kMostOverRoofline));
    }
    if (all_.lossy > 0) {
      out.notes.push_back(
          formatted("%lld points are of strategies that may change the text and are "
                    "left out: no server's setting has their like",
                    static_cast<long long>(all_.lossy)));
    }
  }

  const ServingInput& input_;
  Gathered all_;
};

}  // namespace

const char* name_of(StepTimes times) {
  switch (times) {
    case StepTimes::kTimed:
      return "timed";
    case StepTimes::kBetween:
      return "between";
    case StepTimes::kModel:
      return "model";
    case StepTimes::kRoofline:
      break;
  }
  return "roofline";
}

const char* name_of(TokenSource source) {
  switch (source) {
    case TokenSource::kCounted:
      return "counted";
    case TokenSource::kCut:
      return "cut";
    case TokenSource::kPlanned:
      return "planned";
    case TokenSource::kGeometric:
      break;
  }
  return "geometric";
}

ServingSchedule serving_schedule(const ServingInput& input) {
  Gathered all = gathered(input);
  if (all.tokens.empty()) {
    throw Error(ExitCode::kAnswerNo,
                "the pair '" + input.pair.name +
                    "' has no measured draft of class Strict, so nothing can be scheduled");
  }
  ServingSchedule out = Builder(input, std::move(all)).schedule();
  if (out.cells.empty()) {
    throw Error(ExitCode::kAnswerNo,
                "no step of '" + input.pair.name +
                    "' was timed beside plain decoding, and the device '" + input.device +
                    "' is not in the catalogue: import a log of the server without speculation "
                    "too, or give --hardware");
  }
  return out;
}

std::string draft_text(const DraftChoice& draft) {
  return draft.speculates()
             ? formatted("d%lldk%lldn%lld", static_cast<long long>(draft.depth),
                         static_cast<long long>(draft.width), static_cast<long long>(draft.nodes))
             : "no draft";
}

std::string requests_text(const ServingCell& cell) {
  if (cell.requests_low == cell.requests_high) {
    return cell.requests_high == 1
               ? "one request"
               : formatted("%lld requests", static_cast<long long>(cell.requests_high));
  }
  return formatted("%lld to %lld requests", static_cast<long long>(cell.requests_low),
                   static_cast<long long>(cell.requests_high));
}

namespace {

const char* verdict_of(const ServingChoice& choice) {
  const bool is_guess = choice.times == StepTimes::kRoofline || choice.times == StepTimes::kModel;
  return choice.gain() > 1.0 ? (is_guess ? "should pay" : "pays")
                             : (is_guess ? "should not pay" : "does not pay");
}

}  // namespace

std::string serving_text(const ServingSchedule& schedule) {
  std::string out;
  std::int64_t context = -1;
  for (const ServingCell& cell : schedule.cells) {
    if (cell.context_high != context) {
      out += formatted("contexts of %lld-%lld tokens\n", static_cast<long long>(cell.context_low),
                       static_cast<long long>(cell.context_high));
      context = cell.context_high;
    }
    const auto best = std::find_if(cell.choices.begin(), cell.choices.end(),
                                   [](const ServingChoice& c) { return c.draft.speculates(); });
    out += formatted("  %-18s ", requests_text(cell).c_str());
    if (best == cell.choices.end()) {
      out += "no draft\n";
      continue;
    }
    out += formatted(
        "%-9s %s%.2f tokens a step [%.2f, %.2f], breaks even at %.2f [%.2f, %.2f]: %s (loses with "
        "p = %.2f; %s)\n",
        draft_text(best->draft).c_str(), best->at_least ? "at least " : "", best->tokens,
        best->tokens_interval.low, best->tokens_interval.high, best->break_even,
        best->break_even_interval.low, best->break_even_interval.high, verdict_of(*best),
        best->loses, name_of(best->times));
  }
  for (const std::string& note : schedule.notes) {
    out += "note: " + note + "\n";
  }
  return out;
}

}  // namespace versieve::engine
