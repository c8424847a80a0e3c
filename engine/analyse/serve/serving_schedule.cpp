#include "engine/analyse/serve/serving_schedule.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/analyse/fit/statistics.h"
#include "engine/analyse/serve/draft_yields.h"
#include "engine/analyse/serve/serving_evidence.h"
#include "engine/analyse/serve/serving_text.h"
#include "engine/io/formatted.h"
#include "model/cost/crossover.h"
#include "model/words/error.h"
#include "model/words/normal_law.h"

namespace versieve::engine {
namespace {

constexpr double kOneSample = 0.1;  // relative error of a time that is one number: an assumption
// From the least to the greatest of 2, 3 and 4 samples lie 50, 75 and 87.5 % of a median's law: so
// many standard errors to either side.
constexpr double kFewSamples[] = {0.6745, 1.1503, 1.5341};

// Its error by ranks around the middle, which a pause of the server among the samples does not
// move.
Estimate time_of(std::vector<double> us) {
  const double middle = *median(us);
  if (us.size() < 2) {
    return {middle, kOneSample};
  }
  std::sort(us.begin(), us.end());
  const double count = static_cast<double>(us.size());
  const double outside = std::max(0.0, std::floor(0.5 * (count - kNinety * std::sqrt(count))));
  const std::size_t low = static_cast<std::size_t>(outside);
  const double errors = us.size() < 5 ? kFewSamples[us.size() - 2] : kNinety;
  return {middle, 0.5 * std::log(us[us.size() - 1 - low] / us[low]) / errors};
}

// Of tuples with one draft the fastest.
Estimate time_of(const std::map<std::string, std::vector<double>>& tuples) {
  Estimate out = time_of(tuples.begin()->second);
  for (const auto& [strategy, us] : tuples) {
    const Estimate other = time_of(us);
    out = other.value < out.value ? other : out;
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

// A step with a draft does all that a plain one does, so that it is worth a token at least.
BreakEven break_even(const Estimate& ratio, StepTimes source) {
  const double reach = std::exp(kNinety * ratio.error);
  const auto at_least_one = [](double tokens) { return std::max(1.0, tokens); };
  return {at_least_one(ratio.value),
          {at_least_one(ratio.value / reach), at_least_one(ratio.value * reach)},
          source};
}

class Builder {
 public:
  Builder(const ServingInput& input, ServingEvidence all) : input_(input), all_(std::move(all)) {}

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
  std::map<DraftChoice, DraftTokens, ByDraft> tokens_near(const CellEnds& place) const {
    std::map<DraftChoice, DraftTokens, ByDraft> out;
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

  // Null: none was timed there.
  const DraftTimes* timed(const CellEnds& place, const DraftChoice& draft) const {
    const auto found = all_.times.find(place);
    if (found == all_.times.end()) {
      return nullptr;
    }
    const auto of = found->second.find(draft);
    return of == found->second.end() ? nullptr : &of->second;
  }
  // In the setting in which it is fastest, of those that `beside` was timed in too.
  std::optional<StepSetting> plain_setting(const CellEnds& place, const DraftTimes* beside) const {
    const DraftTimes* const plain = timed(place, {});
    std::optional<StepSetting> out;
    if (plain == nullptr) {
      return out;
    }
    for (const auto& [setting, tuples] : plain->us) {
      const bool is_shared = beside == nullptr || beside->us.count(setting) != 0;
      if (is_shared && (!out || time_of(tuples).value < time_of(plain->us.at(*out)).value)) {
        out = setting;
      }
    }
    return out;
  }
  std::optional<Estimate> plain(const CellEnds& place) const {
    const std::optional<StepSetting> setting = plain_setting(place, nullptr);
    return setting ? std::optional(time_of(timed(place, {})->us.at(*setting))) : std::nullopt;
  }

  std::optional<Estimate> timed_ratio(const CellEnds& place, const DraftChoice& draft) const {
    const DraftTimes* const drafted = timed(place, draft);
    const std::optional<StepSetting> setting =
        drafted == nullptr ? std::nullopt : plain_setting(place, drafted);
    if (!setting) {
      return {};
    }
    const Estimate own = time_of(drafted->us.at(*setting));
    const Estimate base = time_of(timed(place, {})->us.at(*setting));
    return Estimate{own.value / base.value, std::hypot(own.error, base.error)};
  }
  // Of a draft whose steps took less time than plain decoding's, the first there is; or empty.
  std::string too_fast() const {
    for (const auto& [place, times] : all_.times) {
      for (const auto& [draft, own] : times) {
        const std::optional<Estimate> ratio =
            draft.speculates() ? timed_ratio(place, draft) : std::optional<Estimate>();
        if (ratio && ratio->value < kBelowPlain) {
          return formatted("%s at up to %lld requests and %lld tokens of context took %.2f",
                           draft_text(draft).c_str(), static_cast<long long>(place.second),
                           static_cast<long long>(place.first), ratio->value);
        }
      }
    }
    return "";
  }

  // On the line from plain decoding to the next longer chain that was timed; between them time
  // bends upward at most, so a shorter chain takes no longer than that.
  std::optional<Estimate> between(const CellEnds& place, const DraftChoice& draft) const {
    const auto found = all_.times.find(place);
    if (found == all_.times.end() || draft.width != 1) {
      return {};
    }
    for (const auto& [longer, times] : found->second) {
      const std::optional<Estimate> ratio = longer.width == 1 && longer.levels() > draft.levels()
                                                ? timed_ratio(place, longer)
                                                : std::optional<Estimate>();
      if (ratio) {
        const double part =
            static_cast<double>(draft.levels()) / static_cast<double>(longer.levels());
        const double value = 1.0 + part * (ratio->value - 1.0);
        return Estimate{value, ratio->error * ratio->value * part / value};
      }
    }
    return {};
  }

  // How far the timed ratios of this draft lie from the roofline's: between those at fewer and at
  // more requests by the logarithm of requests, beyond them the nearest one's.
  std::optional<Estimate> timed_over_roofline(const CellEnds& place,
                                              const DraftChoice& draft) const {
    struct Known {
      Estimate scale;
      double away = 0.0;  // doublings of the requests
    };
    std::optional<Known> fewer, more;
    for (const auto& [at, times] : all_.times) {
      std::optional<Estimate> ratio = timed_ratio(at, draft);
      ratio = ratio ? ratio : between(at, draft);
      if (!ratio || at.first != place.first) {
        continue;
      }
      const double away = std::fabs(std::log2(static_cast<double>(at.second)) -
                                    std::log2(static_cast<double>(place.second)));
      std::optional<Known>& side = at.second <= place.second ? fewer : more;
      if (!side || away < side->away) {
        side = {{ratio->value / roofline(*input_.hardware, draft, at.second, kLevelShare),
                 ratio->error},
                away};
      }
    }
    if (!fewer && !more) {
      return {};
    }
    if (!fewer || !more) {
      const Known& only = fewer ? *fewer : *more;
      return Estimate{only.scale.value, std::hypot(only.scale.error, kCarriedShare * only.away)};
    }
    const double share = more->away / (fewer->away + more->away);  // of fewer
    const double error =
        std::hypot(share * fewer->scale.error, (1.0 - share) * more->scale.error);
    return Estimate{
        std::pow(fewer->scale.value, share) * std::pow(more->scale.value, 1.0 - share),
        std::hypot(error, kCarriedShare * std::min(fewer->away, more->away))};
  }

  std::optional<BreakEven> break_even_of(const CellEnds& place, const DraftChoice& draft) const {
    if (const std::optional<Estimate> ratio = timed_ratio(place, draft)) {
      return break_even(*ratio, StepTimes::kTimed);
    }
    if (const std::optional<Estimate> ratio = between(place, draft)) {
      return break_even(*ratio, StepTimes::kBetween);
    }
    if (input_.hardware == nullptr) {
      return {};
    }
    const double value = roofline(*input_.hardware, draft, place.second, kLevelShare);
    if (const std::optional<Estimate> scale = timed_over_roofline(place, draft)) {
      BreakEven out = break_even({value * scale->value, scale->error}, StepTimes::kRoofline);
      return out;
    }
    return BreakEven{
        value * kOverRoofline,
        {roofline(*input_.hardware, draft, place.second, 0.0), value * kMostOverRoofline},
        StepTimes::kRoofline};
  }

  ServingCell cell_of(const CellEnds& place) const {
    ServingCell out;
    out.measured = all_.tokens.count(place) != 0;
    if (const std::optional<Estimate> base = plain(place)) {
      out.plain_step_us = base->value;
    }
    for (const auto& [draft, yield] : draft_yields(tokens_near(place))) {
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

  static ServingChoice choice_of(const DraftChoice& draft, const DraftYield& yield,
                                 const BreakEven& even) {
    const double most = static_cast<double>(draft.levels() + 1);
    const double tokens = std::min(most, yield.tokens.value);  // servers miscount by a little
    const double reach = std::exp(kNinety * yield.tokens.error);
    ServingChoice out{
        .draft = draft,
        .tokens = tokens,
        .tokens_interval = {std::max(1.0, tokens / reach), std::min(most, tokens * reach)},
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
    if (const std::string draft = too_fast(); !draft.empty()) {
      out.notes.push_back("steps with a draft took less time than steps without one (" + draft +
                          " of theirs), so the two were not of one machine under one load; such a "
                          "draft breaks even at one token here, which flatters it");
    }
    if (all_.slow_form > 0) {
      out.notes.push_back(
          formatted("%lld timed steps are of form=vanilla, this project's own slow "
                    "attention, and are left out",
                    static_cast<long long>(all_.slow_form)));
    }
    if (all_.lossy > 0) {
      out.notes.push_back(
          formatted("%lld points are of strategies that may change the text and are "
                    "left out: no server's setting has their like",
                    static_cast<long long>(all_.lossy)));
    }
  }

  const ServingInput& input_;
  ServingEvidence all_;
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
  ServingEvidence all = serving_evidence(input);
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

}  // namespace versieve::engine
