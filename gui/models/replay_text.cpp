// A replay as readable text.
#include <QStringList>
#include <algorithm>
#include <cmath>
#include <map>

#include "gui/models/numbers.h"
#include "gui/models/replayer.h"

namespace versieve::gui {
namespace {

using engine::Choice;

QString percent(double gain) {
  return (gain < 0.0 ? QString(QChar(0x2212)) : QString("+")) + fixed(100.0 * std::fabs(gain), 1) +
         " %";
}

QString row(const QString& name, const QString& value) {
  return "<tr><td class='quiet' style='padding-right:12px'>" + name + "</td><td>" + value +
         "</td></tr>";
}

QString choices_table(const std::vector<Choice>& choices) {
  QString html =
      "<table><tr class='quiet'><td class='quiet' style='padding-right:12px'>tuple</td>"
      "<td class='quiet' align='right' style='padding-right:12px'>tokens a step</td>"
      "<td class='quiet' align='right'>step</td></tr>";
  for (const Choice& choice : choices) {
    html += QString(
                "<tr><td style='padding-right:12px'>%1</td>"
                "<td align='right' style='padding-right:12px'>%2</td>"
                "<td align='right'>%3</td></tr>")
                .arg(QString::fromStdString(choice.strategy.text()).toHtmlEscaped(),
                     fixed(choice.expected_accepted, 2), fixed(choice.step_us, 1) + " µs");
  }
  return html + "</table>";
}

// Of what the guard could reach what it may: plain decoding needs no walk.
std::vector<Choice> recorded(std::vector<Choice> choices, const engine::ReplayRow& cell) {
  std::erase_if(choices, [&](const Choice& choice) {
    return choice.strategy.draft.speculates() && std::find(cell.choices.begin(), cell.choices.end(),
                                                           choice.strategy) == cell.choices.end();
  });
  return choices;
}

QString heading(const QString& text) {
  return "<p class='quiet' style='margin-top:12px; margin-bottom:2px'>" + text + "</p>";
}

QString policy(double throughput, double baseline) {
  return fixed(throughput, 0) + " tokens/s, " + gain_text(throughput, baseline);
}

QString moved(const engine::Refined& refined, std::int64_t requests) {
  return refined.moved == 0 ? QStringLiteral("<br>moved no text")
                            : QString("<br>moved %1 of %2 texts, %3 times")
                                  .arg(refined.moved)
                                  .arg(requests)
                                  .arg(refined.transitions);
}

// Which better-ranked tuples are not played, and why.
QString passed_over_text(const engine::ReplayRow& cell) {
  QStringList names;
  for (const Strategy& strategy : cell.passed_over) {
    names << QString::fromStdString(strategy.text()).toHtmlEscaped();
  }
  return names.join("<br>") + "<br>of which nobody recorded a walk at these contexts";
}

QString cell_heading(const Replayed& replayed, std::int64_t bucket, PrecisionClass precision) {
  return QString("<p style='font-weight:600'>%1, %2</p>")
      .arg(bucket_text(replayed.plan->chosen.buckets[static_cast<std::size_t>(bucket)]),
           name_of(precision));
}

}  // namespace

QString gain_text(double throughput, double baseline) {
  return percent(throughput / baseline - 1.0);
}

QString replay_summary(const Replayed& replayed) {
  const PlanTable& table = replayed.plan->chosen;
  const engine::Replay& replay = replayed.replay;
  std::int64_t requests = 0;
  for (const engine::ReplayRow& row : replay.rows) {
    requests += row.requests;
  }
  const auto moves = [requests](const engine::Refined& refined) {
    return QString("%1 of %2 moved").arg(refined.moved).arg(requests);
  };
  return QString(
             "%1 on %2, along recorded texts of the test split (%3), in %4 of %10 cells. Mean gain "
             "over the fixed baseline: best recorded tuple %5 (the first in %11 of them); with the "
             "guard to the next ranked %6 (%7); with the guard by promise %8 (%9).")
             .arg(QString::fromStdString(table.model), QString::fromStdString(table.hardware),
                  QString::fromStdString(table.acceptance_pair))
             .arg(replay.rows.size())
             .arg(percent(replay.static_best_gain), percent(replay.best_r_gain),
                  moves(replay.best_r), percent(replay.best_p_gain), moves(replay.best_p))
             .arg(replay.rows.size() + replay.gaps.size())
             .arg(engine::played_by_first(replay)) +
         (!table.batched.empty() ? " Played one request at a time, as the plan has it for one."
                                 : "");
}

bool is_of_whole_class(const Replayed& replayed, const engine::ReplayGap& gap) {
  const std::vector<engine::ReplayGap>& gaps = replayed.replay.gaps;
  const auto alike = std::count_if(gaps.begin(), gaps.end(), [&gap](const engine::ReplayGap& g) {
    return g.precision == gap.precision && g.reason == gap.reason;
  });
  return alike == static_cast<std::ptrdiff_t>(replayed.plan->chosen.buckets.size());
}

QString whole_classes_text(const Replayed& replayed) {
  std::map<std::string, QStringList> classes;  // [reason]
  for (const engine::ReplayGap& gap : replayed.replay.gaps) {
    QStringList& names = classes[gap.reason];
    if (is_of_whole_class(replayed, gap) && !names.contains(name_of(gap.precision))) {
      names << name_of(gap.precision);
    }
  }
  QStringList sentences;
  for (const auto& [reason, names] : classes) {
    if (!names.isEmpty()) {
      sentences << QString("Not played: %1 – %2.")
                       .arg(names.join(", "), with_micro(QString::fromStdString(reason)));
    }
  }
  return sentences.join('\n');
}

QString gap_html(const Replayed& replayed, const engine::ReplayGap& gap) {
  return cell_heading(replayed, gap.bucket, gap.precision) +
         "<p>Not played: " + with_micro(QString::fromStdString(gap.reason)).toHtmlEscaped() +
         ".</p>";
}

QString replay_row_html(const Replayed& replayed, const engine::ReplayRow& cell) {
  const PlanTable& table = replayed.plan->chosen;
  const engine::Cell choices =
      engine::cell_of(table, cell.bucket, cell.precision, cell.passed_over);
  const Choice& first = choices.ranked.front();
  const double planned = 1e6 * first.expected_accepted / first.step_us;
  QString html = QString("<p style='font-weight:600'>%1, %2</p><p>%3 texts, %4 tokens.</p><table>")
                     .arg(bucket_text(table.buckets[static_cast<std::size_t>(cell.bucket)]),
                          name_of(cell.precision))
                     .arg(cell.requests)
                     .arg(fixed(cell.tokens, 0));
  html += row("baseline", QString::fromStdString(choices.base->strategy.text()).toHtmlEscaped() +
                              "<br>" + fixed(cell.base, 0) + " tokens/s");
  html += row("plain", policy(cell.no_speculation, cell.base));
  if (!cell.passed_over.empty()) {
    html += row("passed over", passed_over_text(cell));
  }
  html += row(cell.rank == 1 ? QStringLiteral("first tuple") : QString("rank %1").arg(cell.rank),
              QString::fromStdString(first.strategy.text()).toHtmlEscaped() + "<br>" +
                  policy(cell.static_best, cell.base) + "<br>planned " + fixed(planned, 0) +
                  ", played " + fixed(cell.static_best / planned, 2) + " of it");
  html += row("next ranked",
              policy(cell.best_r.throughput, cell.base) + moved(cell.best_r, cell.requests));
  html += row("by promise",
              policy(cell.best_p.throughput, cell.base) + moved(cell.best_p, cell.requests));
  html += "</table>" + heading("What the guard may move to, as planned") +
          choices_table(recorded(choices.with_plain, cell));
  const GuardConstants& guard = table.guard;
  return html + heading("When it moves") +
         QString(
             "<p style='margin-top:0'>After %1 steps of a tuple, when the smoothed yield (α = "
             "%2) stays below %3 of what was planned for %4 steps in a row; at most %5 times a "
             "text.</p>")
             .arg(guard.warmup)
             .arg(guard.alpha)
             .arg(guard.drop_ratio)
             .arg(guard.hysteresis)
             .arg(guard.max_transitions);
}

}  // namespace versieve::gui
