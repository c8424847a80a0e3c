// Planner entries as readable text.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/models/planner.h"
#include "model/plan/guarded_plan.h"

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

}  // namespace

QString launches_html(const Plan& plan, const PlanEntry& entry) {
  const LlmShape target = plan.target();
  const std::int64_t context =
      sampled_context(plan.chosen.buckets[static_cast<std::size_t>(entry.bucket)], 1);
  const std::vector<StepPart> parts = predicted_step_parts(
      plan.fit->model, plan.machine, target, plan.draft, entry.evaluation.strategy, context);
  double step_us = 0.0;
  for (const StepPart& part : parts) {
    step_us += part.time_us;
  }
  QString html = QString(
                     "<p class='quiet' style='margin-top:12px; margin-bottom:2px'>Launches of a "
                     "step at context %1, as predicted: %2 µs</p><table>")
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
  const StepCost& cost = *entry.evaluation.cost;
  const std::size_t bound = largest(cost.bound_us);
  return QString("%1 tokens in %2, %3 %4-bound")
      .arg(fixed(entry.evaluation.expected_accepted, 2), nanoseconds(cost.time_us * 1e3),
           percent(cost.bound_us[bound] / cost.time_us),
           QString(name_of(static_cast<Bound>(bound))));
}

QString price_text(const PlanEntry& entry) {
  return QString::fromStdString(short_text(entry.price));
}

QString probability_text(double probability) {
  return probability > 0.99   ? QStringLiteral("> 0.99")
         : probability < 0.01 ? QStringLiteral("< 0.01")
                              : fixed(probability, 2);
}

QString entry_html(const PlanEntry& entry) {
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
  html += row("tokens a step", fixed(evaluation.expected_accepted, 2) +
                                   "  (90 %: " + interval(evaluation.accepted_interval, 2) + ")");
  html += row("gain", fixed(entry.gain_over_ar, 2) + "× over autoregressive, " +
                          fixed(entry.gain_over_baseline, 2) +
                          "× over the fixed baseline, which it beats with probability " +
                          probability_text(entry.beats_baseline));
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
