#include "gui/models/plan_command.h"

#include <QObject>
#include <QStringList>

#include "engine/analyse/plan/hardware_file.h"
#include "engine/io/formatted.h"
#include "gui/models/command_words.h"

namespace versieve::gui {
namespace {

QString exact(double value) {
  return QString::fromStdString(engine::exact_decimal(value));
}

void add_objective(const PlanScope& scope, QStringList& words) {
  const bool is_bounded = scope.itl_ms || scope.ttft_ms;
  if (scope.objective == Objective::kEnergy || is_bounded) {
    words << "--objective" << (scope.objective == Objective::kEnergy ? "energy" : "latency");
  }
  if (scope.itl_ms) {
    words << "--itl-ms" << exact(*scope.itl_ms);
  }
  if (scope.ttft_ms) {
    words << "--ttft-ms" << exact(*scope.ttft_ms);
  }
  if (!scope.prefill.empty()) {
    words << "--prefill" << QString::fromStdString(scope.prefill);
  }
}

void add_scope(const PlanScope& scope, QStringList& words) {
  if (!scope.buckets.empty()) {
    words << "--buckets" << QString::fromStdString(scope.buckets);
  }
  if (!scope.baseline.empty()) {
    words << "--baseline" << QString::fromStdString(scope.baseline);
  }
  for (const std::string& schedule : scope.schedules) {
    words << "--schedule" << QString::fromStdString(schedule);
  }
  for (const engine::SystemOption& option : engine::system_options()) {
    if (const std::optional<std::string>& given = scope.systems.*option.given) {
      words << option.flag << QString::fromStdString(*given);
    }
  }
  if (scope.requests) {
    words << "--requests" << QString::number(*scope.requests);
  }
  if (!scope.concurrency.empty()) {
    words << "--concurrency" << QString::fromStdString(scope.concurrency);
  }
  add_objective(scope, words);
  if (scope.temperature > 0.0) {
    words << "--temperature" << exact(scope.temperature);
  }
}

void add_machine(const Plan& plan, const PlanRequest& request, QStringList& words) {
  if (request.hardware) {
    words << "--hardware"
          << QString::fromStdString(request.hardware_file.empty() ? request.hardware->key
                                                                  : request.hardware_file)
          << "--device" << QString::fromStdString(plan.basis->fit.device);
  }
  if (request.bandwidth) {
    words << "--bandwidth" << exact(*request.bandwidth);
  }
}

// A database whose fit knows no pair's tokens: those of the basis are said.
void add_acceptance(const Plan& plan, const AcceptanceChoice& choice, QStringList& words) {
  const bool chosen = choice.rate || !choice.pair.empty();
  const AcceptanceChoice& said = chosen ? choice : plan.basis->fallback;
  if (said.rate) {
    words << "--assume-acceptance" << exact(*said.rate);
  } else if (!said.pair.empty()) {
    words << "--acceptance" << QString::fromStdString(said.pair);
  }
}

}  // namespace

PlanCommand plan_command(const Plan& plan, const PlanRequest& request, const QString& database,
                         const QString& prior, const std::vector<PrecisionClass>& classes,
                         const QString& out) {
  const bool all = classes == plan.basis->classes;
  if (!all && request.max_loss) {
    return {{},
            QObject::tr("A limit of losses counts what it leaves out in every class, so no "
                        "command writes some of the classes alone: show all of them.")};
  }
  QStringList words = {"versieve", "plan", "--db", database};
  const std::string& model = plan.basis->model;
  if (model != plan.models.front().name || request.hardware) {
    const bool is_kept = plan.basis->grounds.shape.kept.has_value();
    words << "--model" << QString::fromStdString(is_kept ? short_hash(model) : model);
  }
  if (!prior.isEmpty()) {
    words << "--prior" << prior;
  }
  add_machine(plan, request, words);
  add_acceptance(plan, request.acceptance, words);
  if (request.draft_vocab && plan.draft.vocab != plan.own_draft().vocab) {
    words << "--draft-vocab" << QString::number(plan.draft.vocab);
  }
  if (request.max_loss) {
    words << "--max-loss" << exact(*request.max_loss);
  }
  add_scope(request.scope, words);
  if (!all) {
    QStringList names;
    for (const PrecisionClass precision : classes) {
      names << name_of(precision);
    }
    words << "--class" << names.join(',');
  }
  words << "--out" << out;
  return {command_line(words), {}};
}

}  // namespace versieve::gui
