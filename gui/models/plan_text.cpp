// Planner entries as readable text.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "engine/analyse/fit/goals.h"
#include "gui/models/batch_text.h"
#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/models/plan_slice.h"
#include "gui/models/planner.h"
#include "model/plan/guarded_plan.h"
#include "model/plan/system_pricer.h"
#include "model/plan/tuple_pricer.h"

namespace versieve::gui {
namespace {

QString percent(double part) {
  return fixed(100.0 * part, 0) + " %";
}

template <std::size_t kCount>
std::size_t largest(const std::array<double, kCount>& values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

// Name, value and share of each part that is not zero, the largest first.
template <typename Enumeration, std::size_t kCount>
QString parts_table(const QString& title, const std::array<double, kCount>& values,
                    QString (*text)(double)) {
  const double total = std::accumulate(values.begin(), values.end(), 0.0);
  std::array<std::size_t, kCount> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&values](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  QString html =
      "<p class='quiet' style='margin-top:12px; margin-bottom:2px'>" + title + "</p><table>";
  for (const std::size_t index : order) {
    if (values[index] > 0.0) {
      html += QString(
                  "<tr><td class='quiet' style='padding-right:12px'>%1</td><td align='right' "
                  "style='padding-right:12px'>%2</td><td align='right'>%3</td></tr>")
                  .arg(QString(name_of(static_cast<Enumeration>(index))).replace('_', ' '),
                       text(values[index]), percent(values[index] / total));
    }
  }
  return html + "</table>";
}

QString microseconds(double value) {
  return fixed(value, 1) + " µs";
}

QString interval(const Interval& range, int decimals) {
  return fixed(range.low, decimals) + " – " + fixed(range.high, decimals);
}

QString row(const QString& name, const QString& value) {
  return "<tr><td class='quiet' style='padding-right:12px'>" + name + "</td><td>" + value +
         "</td></tr>";
}

// Rows below this share of a step are shown as one.
constexpr double kLeastShare = 0.005;

// The same of a step of several requests.
std::vector<StepPart> parts_of_batch(const Plan& plan, const Strategy& strategy,
                                     std::int64_t context, std::int64_t requests) {
  const FittedModel& fit = plan.basis->fit;
  const Pricer own(fit, plan.machine, plan.target(), plan.draft, kUsualRequests, requests);
  std::vector<StepPart> parts =
      strategy.attention == AttentionMethod::kNsa
          ? own.parts(strategy, context, accepted_overlap(fit.acceptance, context - 1, context))
          : SystemPricer(fit, plan.machine, plan.target(), own).parts(strategy, context);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const StepPart& a, const StepPart& b) { return a.time_us > b.time_us; });
  return parts;
}

QString launch_row(const QString& name, const QString& us, const QString& of_floor,
                   const QString& bound) {
  return QString(
             "<tr><td class='quiet' style='padding-right:12px'>%1</td><td align='right' "
             "style='padding-right:12px'>%2</td><td align='right' style='padding-right:12px'>%3"
             "</td><td>%4</td></tr>")
      .arg(name, us, of_floor, bound);
}

QString launch_row(const QString& name, const StepPart& part, const QString& bound) {
  return launch_row(name, fixed(part.time_us, 1), percent(part.floor_us / part.time_us), bound);
}

QString launch_name(const StepPart& part) {
  const QString layer = name_of(part.layer);
  return QString("%1 × %2, %3")
      .arg(fixed(part.launches, part.launches < 1.0 ? 1 : 0), QString::fromStdString(part.name),
           layer.isEmpty() ? QString(name_of(part.phase)) : layer);
}

QString estimate(const Estimate95& e, double scale, int decimals) {
  return QString("%1 (95 %: %2 – %3)")
      .arg(fixed(scale * e.value, decimals), fixed(scale * e.low, decimals),
           fixed(scale * e.high, decimals));
}

// What an entry loses, whose number that is, and what answers it changes.
QString price_html(const LossPrice& price) {
  if (price.from == PriceFrom::kConstruction) {
    return "none by construction";
  }
  if (!price.is_known()) {
    return "not measured: " + QString::fromStdString(price.unmeasured_because).toHtmlEscaped();
  }
  QString html =
      "KL " + estimate(price.kl_nats, 1.0, 4) + " nats a token<br>loss " +
      estimate(price.rise_nats, 1.0, 4) + " nats up, perplexity × " +
      fixed(std::exp(price.rise_nats.value), 4) + "<br>same likeliest token " +
      estimate(price.same_token, 100.0, 1) + " %<br>of " +
      QString("%1 tokens, ").arg(price.tokens) +
      QString::fromStdString(price.sets).toHtmlEscaped() + "; " +
      (price.from == PriceFrom::kOwn ? "own" : "borrowed from ") +
      (price.from == PriceFrom::kOwn ? QString()
                                     : QString::fromStdString(text_of(price.pair)).toHtmlEscaped());
  html += price.price_of.empty()
              ? QString()
              : "<br>measured at " + QString::fromStdString(price.price_of).toHtmlEscaped();
  for (const TaskPrice& task : price.tasks) {
    html += QString("<br>%1: right answers %2 points, of %3 questions")
                .arg(QString::fromStdString(task.set).toHtmlEscaped(),
                     estimate(task.answers.change, 100.0, 1))
                .arg(task.answers.questions);
  }
  return html;
}

// An interval of width zero is none: of a plain step it is exact, else nobody measured it.
QString accepted_html(const Evaluation& evaluation) {
  const Interval& range = evaluation.accepted_interval;
  const QString mean = fixed(evaluation.expected_accepted, 2);
  if (range.low < range.high) {
    return mean + "  (90 %: " + interval(range, 2) + ")";
  }
  return evaluation.strategy.draft.speculates() ? mean + "  (assumed: no interval)"
                                                : mean + "  (exactly)";
}

constexpr double kSame = 5e-4;  // of tokens a second

// The same strategy in a range, ranked there or a baseline that is not.
const Evaluation* find_like(const PlanTable& table, std::int64_t bucket, const PlanEntry& like) {
  for (const PlanEntry& entry : table.entries) {
    if (entry.bucket == bucket && entry.evaluation.strategy == like.evaluation.strategy) {
      return &entry.evaluation;
    }
  }
  for (const PlanBaseline& baseline : table.baselines) {
    if (baseline.bucket == bucket && baseline.evaluation.strategy == like.evaluation.strategy) {
      return &baseline.evaluation;
    }
  }
  return nullptr;
}

bool same_rate(const Evaluation& a, const Evaluation& b) {
  return std::fabs(a.throughput / b.throughput - 1.0) < kSame;
}

bool same_entries(const PlanTable& a, const PlanTable& b) {
  return std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(),
                    [](const PlanEntry& x, const PlanEntry& y) {
                      return x.evaluation.strategy == y.evaluation.strategy &&
                             same_rate(x.evaluation, y.evaluation);
                    });
}

// Why turning from one plan's knobs to another's leaves an entry as it is, knob by knob.
QString still_because(const Plan& from_plan, const PlanTable& from, const Plan& plan,
                      const PlanEntry& entry) {
  const PlanTable& to = plan.chosen;
  const bool drafts = entry.evaluation.strategy.draft.speculates();
  QStringList whys;
  if (from.hardware != to.hardware) {
    const StepCost& cost = *entry.evaluation.cost;
    const double waits = cost.bound_us[static_cast<std::size_t>(Bound::kLatency)] +
                         cost.bound_us[static_cast<std::size_t>(Bound::kLaunch)];
    whys << "latency and launches are " + percent(waits / cost.time_us) +
                " of its step, and the memory changes neither";
  }
  if (acceptance_pair(from) != acceptance_pair(to) ||
      from.acceptance_origin != to.acceptance_origin) {
    whys << (entry.precision == PrecisionClass::kApproxSampling && drafts
                 ? "its drafted tokens are accepted unseen, whoever drafts them"
             : !drafts ? "a plain step yields one token, whatever a draft proposes"
                       : "both pairs yield the same there");
  }
  if (from_plan.draft.vocab != plan.draft.vocab) {
    whys << (drafts ? "the draft's head is too small a part of its step" : "it drafts nothing");
  }
  if (from.max_loss != to.max_loss) {
    whys << "a limit of losses leaves entries out and changes none that stay";
  }
  return whys.join("; ");
}

}  // namespace

QString unmoved_text(const Plan& plan, const PlanEntry& entry, int level) {
  if (!plan.isTurned()) {
    return {};
  }
  const Evaluation* own = find_like(table_of(plan.own, level), entry.bucket, entry);
  if (own == nullptr || !same_rate(*own, entry.evaluation)) {
    return {};
  }
  Plan measured = plan;
  measured.draft = plan.own_draft();
  return still_because(measured, plan.own, plan, entry);
}

QString nothing_moved_text(const Plan& before, const Plan& plan) {
  if (before.basis != plan.basis || plan.chosen.entries.empty()) {
    return {};
  }
  for (int level = 0; level < level_count(plan.chosen); ++level) {
    if (!same_entries(table_of(before.chosen, level), table_of(plan.chosen, level))) {
      return {};
    }
  }
  const QString why =
      before.chosen.max_loss != plan.chosen.max_loss
          ? QString("no ranked entry loses so much, or the limit was as wide before")
          : still_because(before, before.chosen, plan, plan.chosen.entries.front());
  return why.isEmpty() ? QString() : "Nothing moved: " + why + ".";
}

QString before_html(const PlanTable& table, const PlanEntry& entry) {
  const Evaluation* before = entry.bucket > 0 ? find_like(table, entry.bucket - 1, entry) : nullptr;
  if (before == nullptr) {
    return {};
  }
  const Evaluation& now = entry.evaluation;
  const Evaluation& then = *before;
  const double tokens = now.expected_accepted / then.expected_accepted;
  const double time = now.cost->time_us / then.cost->time_us;
  const QString verdict = tokens / time > 1.0 + kSame   ? "faster than"
                          : tokens / time < 1.0 - kSame ? "slower than"
                                                        : "as fast as";
  return row(
      "context",
      QString("%1 in %2: tokens a step × %3, time × %4")
          .arg(verdict, bucket_text(table.buckets[static_cast<std::size_t>(entry.bucket - 1)]),
               fixed(tokens, 3), fixed(time, 3)));
}

QString missed_goals_text(const engine::FitReport& fit) {
  QStringList missed;
  for (const engine::Goal& goal : engine::goals_of(fit)) {
    if (!goal.met) {
      QString what = QString::fromStdString(goal.what);
      what.replace(0, what.startsWith("- of them ") ? 10 : 0,
                   what.startsWith("- ") ? "bytes, " : "");
      missed << QString("%1 %2 (wanted %3)")
                    .arg(what, QString::fromStdString(goal.measured),
                         QString::fromStdString(goal.wanted));
    }
  }
  return missed.isEmpty() ? QString() : "Goals missed: " + missed.join("; ");
}

QString launches_html(const Plan& plan, const PlanEntry& entry, int level) {
  const LlmShape& target = plan.target();
  const std::int64_t context =
      sampled_context(plan.chosen.buckets[static_cast<std::size_t>(entry.bucket)], 1);
  const std::int64_t requests = table_of(plan.chosen, level).concurrency;
  const std::vector<StepPart> parts =
      requests == 1 ? predicted_step_parts(plan.basis->fit, plan.machine, target, plan.draft,
                                           entry.evaluation.strategy, context)
                    : parts_of_batch(plan, entry.evaluation.strategy, context, requests);
  double step_us = 0.0;
  for (const StepPart& part : parts) {
    step_us += part.time_us;
  }
  QString html = QString(
                     "<p class='quiet' style='margin-top:12px; margin-bottom:2px'>Launches of a "
                     "step%1 at context %2, as predicted: %3 µs</p><table>")
                     .arg(requests == 1 ? QString() : QString(" of %1 requests").arg(requests))
                     .arg(context)
                     .arg(fixed(step_us, 1)) +
                 launch_row({}, "µs", "of floor", "bound by");
  StepPart rest;
  for (const StepPart& part : parts) {
    if (part.time_us < kLeastShare * step_us) {
      rest.launches += part.launches;
      rest.time_us += part.time_us;
      rest.floor_us += part.floor_us;
    } else {
      html += launch_row(launch_name(part), part, name_of(bottleneck_of(part)));
    }
  }
  if (rest.time_us > 0.0) {
    html += launch_row(QString("%1 × others").arg(fixed(rest.launches, 0)), rest, {});
  }
  return html + "</table>";
}

QString bucket_text(const ContextBucket& bucket) {
  return tokens(bucket.low) + " – " + tokens(bucket.high);
}

QString reason_text(const PlanEntry& entry) {
  constexpr double kThousand = 1e3;  // from there on a tenth says nothing
  const StepCost& cost = *entry.evaluation.cost;
  const std::size_t bound = largest(cost.bound_us);
  return QString("%1 tokens in %2 µs, %3 %4-bound")
      .arg(fixed(entry.evaluation.expected_accepted, 2),
           fixed(cost.time_us, cost.time_us < kThousand ? 1 : 0),
           percent(cost.bound_us[bound] / cost.time_us),
           QString(name_of(static_cast<Bound>(bound))));
}

QString price_text(const PlanEntry& entry) {
  QString text = QString::fromStdString(short_text(entry.price));
  if (const QString of = QString::fromStdString(entry.price.price_of); !of.isEmpty()) {
    text.replace(of, compact(of));
  }
  return text;
}

QString probability_text(double probability) {
  return probability > 0.99   ? QStringLiteral("> 0.99")
         : probability < 0.01 ? QStringLiteral("< 0.01")
                              : fixed(probability, 2);
}

namespace {

// "3.1 % more", "as many", of a ratio.
QString compared(double ratio, const QString& above, const QString& below, const QString& alike) {
  constexpr double kAlike = 5e-4;  // shown as 0.0 %
  const double share = std::fabs(ratio - 1.0);
  return share < kAlike ? alike : fixed(100.0 * share, 1) + " % " + (ratio > 1.0 ? above : below);
}

// Why it stands before the next of its class; empty of the last.
QString next_text(const PlanTable& table, const PlanEntry& entry) {
  const std::vector<const PlanEntry*> all = entries_of(table, entry.bucket, {entry.precision});
  const auto own = std::find_if(all.begin(), all.end(), [&](const PlanEntry* other) {
    return other->evaluation.strategy == entry.evaluation.strategy;
  });
  if (own == all.end() || std::next(own) == all.end()) {
    return {};
  }
  const PlanEntry& next = **std::next(own);
  const Evaluation& a = entry.evaluation;
  const Evaluation& b = next.evaluation;
  const QString tokens =
      compared(a.expected_accepted / b.expected_accepted, "more", "fewer", "as many");
  const QString time =
      compared(a.cost->time_us / b.cost->time_us, "longer", "less time", "as long");
  return QString(
             "%1 has %2 % fewer tokens/s: this one yields %3 tokens a step and its step takes "
             "%4; the 90 % intervals %5")
      .arg(compact(QString::fromStdString(b.strategy.text())).toHtmlEscaped(),
           fixed(100.0 * (1.0 - b.throughput / a.throughput), 1), tokens, time,
           overlaps(entry, next) ? "overlap, so that which is faster is not decided"
                                 : "do not overlap");
}

}  // namespace

QString entry_html(const Plan& plan, const PlanEntry& entry, int level) {
  const PlanTable& table = table_of(plan.chosen, level);
  const Evaluation& evaluation = entry.evaluation;
  const StepCost& cost = *evaluation.cost;
  QString html = "<p style='font-weight:600'>" +
                 QString::fromStdString(evaluation.strategy.text()).toHtmlEscaped() + "</p>";
  html += "<p>" + text_in_words(evaluation.strategy.text()).toHtmlEscaped() + ".</p><table>";
  if (!entry.baseline.empty()) {
    html += row("role", QString("baseline (%1), a candidate of every class")
                            .arg(QString::fromStdString(entry.baseline)));
  }
  const PrecisionClass precision = evaluation.strategy.precision();
  html += row("class", QString("%1; lost: %2").arg(name_of(precision), loss_of(precision)));
  html += row("loss", price_html(entry.price));
  html += row("expected", fixed(evaluation.throughput, 0) +
                              " tokens/s<br>90 %: " + interval(evaluation.throughput_interval, 0));
  html += row("a step", fixed(cost.time_us, 1) +
                            " µs<br>90 %: " + interval(evaluation.latency_interval_us, 1));
  html += row("tokens a step", accepted_html(evaluation));
  html += row("gain", fixed(entry.gain_over_ar, 2) + "× over autoregressive, " +
                          fixed(entry.gain_over_baseline, 2) +
                          "× over the fixed baseline, which it beats with probability " +
                          probability_text(entry.beats_baseline));
  if (const QString next = next_text(table, entry); !next.isEmpty()) {
    html += row("the next", next);
  }
  html += speculation_rows(table, entry);
  html += before_html(table, entry);
  if (const QString why = unmoved_text(plan, entry, level); !why.isEmpty()) {
    html += row("knobs", "leave it as it was: " + why);
  }
  html += row("DRAM a step", bytes(cost.dram_bytes));
  html += row("source", name_of(evaluation.source));
  html += entry.note.empty() ? QString() : row("note", QString::fromStdString(entry.note));
  html += "</table>";
  html += parts_table<Phase>("Time by part of the step", cost.phase_us, microseconds);
  html += parts_table<Bound>("Time by what bounds it", cost.bound_us, microseconds);
  return html + parts_table<TrafficTerm>("DRAM bytes by term", cost.term_bytes, bytes);
}

QString condition_html(const PlanTable& table, const PlanEntry& entry) {
  const std::string condition = run_condition(table, entry.bucket, entry.precision);
  return condition.empty() ? QString()
                           : "<p>" + QString::fromStdString(condition).toHtmlEscaped() + ".</p>";
}

}  // namespace versieve::gui
