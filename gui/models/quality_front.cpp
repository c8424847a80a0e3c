#include "gui/models/quality_front.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"

namespace versieve::gui {
namespace {

std::optional<double> most_kl_of(const PlanEntry& entry) {
  return entry.price.is_known() ? std::optional<double>(entry.price.kl_nats.high) : std::nullopt;
}

void mark_front(std::vector<FrontPoint>& points) {
  std::vector<FrontPoint*> measured;
  for (FrontPoint& point : points) {
    if (point.most_kl) {
      measured.push_back(&point);
    }
  }
  std::stable_sort(measured.begin(), measured.end(), [](const FrontPoint* a, const FrontPoint* b) {
    return *a->most_kl < *b->most_kl;  // equal ones: the faster is first already
  });
  double best = 0.0;
  for (FrontPoint* point : measured) {
    if (point->entry->evaluation.throughput > best) {
      best = point->entry->evaluation.throughput;
      point->is_on_front = true;
    }
  }
}

QString strategy_of(const PlanEntry& entry) {
  return compact(QString::fromStdString(entry.evaluation.strategy.text()));
}

QString rate_of(const PlanEntry& entry) {
  const Evaluation& e = entry.evaluation;
  return QString::fromUtf8("%1 tokens/s (90 %: %2 – %3)")
      .arg(fixed(e.throughput, 0), fixed(e.throughput_interval.low, 0),
           fixed(e.throughput_interval.high, 0));
}

}  // namespace

std::vector<double> QualityFront::losses() const {
  std::set<double> found;
  for (const FrontPoint& point : points) {
    if (point.most_kl && *point.most_kl > 0.0) {
      found.insert(*point.most_kl);
    }
  }
  return {found.begin(), found.end()};
}

QualityFront quality_front(const PlanPtr& plan, std::int64_t bucket,
                           const std::vector<PrecisionClass>& classes) {
  QualityFront front{.plan = plan, .bucket = bucket, .limit = plan->chosen.max_loss, .points = {}};
  std::set<std::string> seen;
  for (const PlanTable* table : {&plan->chosen, &plan->any_loss}) {
    for (const PlanEntry* entry : entries_of(*table, bucket, classes)) {
      if (!seen.insert(entry->evaluation.strategy.text()).second) {
        continue;
      }
      // Both baselines stay in every plan, whatever they lose.
      const std::optional<double> most = most_kl_of(*entry);
      const bool is_within =
          !front.limit || !entry->baseline.empty() || (most && *most <= *front.limit);
      front.points.push_back(
          {.entry = entry, .most_kl = most, .is_within = is_within, .is_on_front = false});
    }
  }
  std::stable_sort(front.points.begin(), front.points.end(),
                   [](const FrontPoint& a, const FrontPoint& b) {
                     return a.entry->evaluation.throughput > b.entry->evaluation.throughput;
                   });
  mark_front(front.points);
  return front;
}

QString loss_text(const std::optional<double>& most_kl) {
  if (!most_kl) {
    return QString::fromUtf8("not measured");
  }
  return *most_kl > 0.0
             ? QString::fromUtf8("at most %1 nats a token (95 %)").arg(fixed(*most_kl, 3))
             : QString("exact");
}

QString front_text(const QualityFront& front) {
  const FrontPoint* within = nullptr;
  const FrontPoint* best = nullptr;
  int beyond = 0;
  int unknown = 0;
  for (const FrontPoint& point : front.points) {
    best = best == nullptr ? &point : best;
    within = within == nullptr && point.is_within ? &point : within;
    beyond += !point.is_within && point.most_kl ? 1 : 0;
    unknown += point.most_kl ? 0 : 1;
  }
  if (best == nullptr) {
    return QString::fromUtf8("No class is shown, or none can be priced.");
  }
  QString text;
  if (front.limit && within != nullptr) {
    text = QString::fromUtf8("Within %1 nats a token: %2, %3. ")
               .arg(fixed(*front.limit, 3), strategy_of(*within->entry), rate_of(*within->entry));
    const double cost =
        1.0 - within->entry->evaluation.throughput / best->entry->evaluation.throughput;
    text += within == best ? QString::fromUtf8("The limit costs nothing. ")
                           : QString::fromUtf8("The limit costs %1 %: without it %2, %3%4. ")
                                 .arg(fixed(100.0 * cost, 1), strategy_of(*best->entry),
                                      fixed(best->entry->evaluation.throughput, 0),
                                      overlaps(*within->entry, *best->entry)
                                          ? QString::fromUtf8(" (≈: the intervals overlap)")
                                          : QString());
  } else {
    text = QString::fromUtf8("Without a limit: %1, %2, loss %3. ")
               .arg(strategy_of(*best->entry), rate_of(*best->entry), loss_text(best->most_kl));
  }
  if (beyond > 0) {
    text += QString::fromUtf8("%1 of %2 may lose more than the limit. ")
                .arg(beyond)
                .arg(front.points.size());
  }
  if (unknown > 0) {
    text += QString::fromUtf8("Of %1 nobody measured what they lose: a limit leaves them out.")
                .arg(unknown);
  }
  return text.trimmed();
}

QString front_point_text(const QualityFront& front, const FrontPoint& point) {
  const PlanEntry& entry = *point.entry;
  QStringList lines = {strategy_of(entry), text_in_words(entry.evaluation.strategy.text()),
                       class_in_words(entry.precision), rate_of(entry)};
  if (point.most_kl && *point.most_kl > 0.0) {
    lines << QString::fromUtf8("KL %1 nats a token, at most %2 (95 %); perplexity × %3")
                 .arg(fixed(entry.price.kl_nats.value, 4), fixed(*point.most_kl, 4),
                      fixed(std::exp(entry.price.rise_nats.value), 3));
  }
  lines << "loss: " + price_text(entry);
  lines << (!point.is_within ? QString::fromUtf8("left out by the limit of %1 nats")
                                   .arg(fixed(front.limit.value_or(0.0), 3))
            : point.is_on_front
                ? QString::fromUtf8("on the front: nothing measured loses less and is faster")
            : point.most_kl ? QString::fromUtf8("another loses no more and is faster")
                            : QString::fromUtf8("not on the front: its loss was not measured"));
  return lines.join('\n');
}

}  // namespace versieve::gui
