#include "gui/models/batch_text.h"

#include <QObject>

#include "engine/analyse/plan/prefill_file.h"
#include "gui/models/numbers.h"
#include "gui/models/planner.h"

namespace versieve::gui {
namespace {

QString row(const QString& name, const QString& value) {
  return "<tr><td class='quiet' style='padding-right:12px'>" + name + "</td><td>" + value +
         "</td></tr>";
}

QString range(const Interval& interval, int decimals) {
  return fixed(interval.low, decimals) + " – " + fixed(interval.high, decimals);
}

// What an entry's request waits for its first token, and what tokens cost in energy, as far as
// prompts and power were measured.
QString aims_rows(const PlanTable& table, const PlanEntry& entry) {
  QString html;
  if (table.aims.prompts) {
    const FirstToken first =
        first_token(*table.aims.prompts, entry.evaluation, table.concurrency,
                    table.buckets[static_cast<std::size_t>(entry.bucket)].high);
    html += row(QObject::tr("first token"),
                QObject::tr("after %1 ms of a prompt as long as the range (90 %: %2)")
                    .arg(fixed(first.ms, 1), range(first.interval, 1)));
  }
  if (table.energy.sampled()) {
    const EnergyYield energy = energy_yield(table.energy, entry.evaluation, table.concurrency);
    html += row(QObject::tr("energy"), QObject::tr("%1 tokens a joule (90 %: %2), %3 W")
                                           .arg(fixed(energy.tokens_per_joule, 2),
                                                range(energy.interval, 2), fixed(energy.watts, 0)));
  }
  return html;
}

// Bounds, what ranks, and where prompts are from, in sentences.
QString aims_text(const PlanAims& aims) {
  QStringList bounds, sentences;
  if (aims.itl_ms) {
    bounds << QObject::tr("%1 ms a token").arg(*aims.itl_ms);
  }
  if (aims.ttft_ms) {
    bounds << QObject::tr("%1 ms to the first").arg(*aims.ttft_ms);
  }
  if (!bounds.isEmpty()) {
    sentences << QObject::tr("Only tuples that keep %1 for 90 % of such requests.")
                     .arg(bounds.join(QObject::tr(" and ")));
  }
  if (aims.objective == Objective::kEnergy) {
    sentences << QObject::tr("Ranked by tokens a joule.");
  }
  if (aims.prompts) {
    sentences << QObject::tr("Prompts as %1 read them.")
                     .arg(QString::fromStdString(engine::origin_text(*aims.prompts)));
    if (!aims.prompts->warning.empty()) {
      sentences << QObject::tr("Warning: %1.").arg(QString::fromStdString(aims.prompts->warning));
    }
  }
  return sentences.join(' ');
}

}  // namespace

std::optional<Speculation> speculation_of_entry(const PlanTable& table, const PlanEntry& entry) {
  const Evaluation* plain = plain_of(table, entry.bucket);
  if (plain == nullptr || !plain->cost || !entry.evaluation.cost ||
      !entry.evaluation.strategy.draft.speculates()) {
    return std::nullopt;
  }
  return speculation_of(entry.evaluation, *plain);
}

QString even_text(const PlanTable& table, const PlanEntry& entry) {
  const std::optional<Speculation> s = speculation_of_entry(table, entry);
  return s ? QObject::tr("even at %1 tokens a step, loses p %2")
                 .arg(fixed(s->break_even, 2), probability_text(s->loses))
           : QString();
}

QString speculation_rows(const PlanTable& table, const PlanEntry& entry) {
  QString html;
  if (const std::optional<Speculation> s = speculation_of_entry(table, entry)) {
    html += row(QObject::tr("breaks even"),
                QObject::tr("at %1 tokens a step (90 %: %2), against plain decoding of as many "
                            "requests, to which it loses with probability %3")
                    .arg(fixed(s->break_even, 2), range(s->break_even_interval, 2),
                         probability_text(s->loses)));
  }
  const std::int64_t requests = table.concurrency;
  const Evaluation& e = entry.evaluation;
  html += row(QObject::tr("a token"),
              QObject::tr("every %1 ms for a request, in the mean (90 %: %2)")
                      .arg(fixed(inter_token_ms(e, requests), 3),
                           range(inter_token_interval_ms(e, requests), 3)) +
                  (requests > 1 ? QObject::tr("<br>%1 tokens/s for each of %2 requests")
                                      .arg(fixed(request_throughput(e, requests), 0))
                                      .arg(requests)
                                : QString()));
  html += aims_rows(table, entry);
  if (const QString memory = memory_sentence(table, static_cast<int>(entry.bucket));
      !memory.isEmpty()) {
    html += row(QObject::tr("memory"), memory);
  }
  return html;
}

QString memory_text(const PlanTable& table, int bucket) {
  const std::size_t at = static_cast<std::size_t>(bucket);
  return at < table.memory.size() ? QObject::tr("%1 fit").arg(table.memory[at].requests())
                                  : QString();
}

QString memory_sentence(const PlanTable& table, int bucket) {
  const std::size_t at = static_cast<std::size_t>(bucket);
  return at < table.memory.size()
             ? QString::fromStdString(text_of(table.memory[at], table.buckets[at].high))
             : QString();
}

bool is_operating_point(const PlanTable& plan, const PlanTable& table, const PlanEntry& entry) {
  return !plan.batched.empty() &&
         operating_point(plan, entry.bucket, entry.precision).table == &table;
}

QString switch_text(const PlanTable& plan, const SwitchPoint& point) {
  const std::int64_t most = by_concurrency(plan).back()->concurrency;
  return QObject::tr("%1 to %2 at %3 at once (90 %: %4 – %5)")
      .arg(name_of(draft_kind_of(point.from)), name_of(draft_kind_of(point.to)))
      .arg(point.requests)
      .arg(point.low)
      .arg(point.high > 0 ? QString::number(point.high) : QObject::tr("more than %1").arg(most));
}

QString batch_summary(const PlanTable& plan) {
  QString text = QString::fromStdString(batch_text(plan));
  text += text.isEmpty() ? "" : ".";
  const QString aims = aims_text(plan.aims);
  return text + (text.isEmpty() || aims.isEmpty() ? "" : " ") + aims;
}

}  // namespace versieve::gui
