#include "gui/models/planner.h"

#include <QFileInfo>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "db/evidence.h"
#include "engine/analyse/fit/acceptance_fit.h"
#include "engine/analyse/fit/stored_fit.h"
#include "engine/analyse/plan/deployment.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/io/atomic_file.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

constexpr int kTickMs = 100;  // between two looks at how far a fit is

// A database without a measured pair is planned with an imported one, else with a rate that the
// page says is assumed.
AcceptanceModel other_acceptance(const std::vector<PointMeasurement>& points) {
  const std::vector<engine::AcceptancePair> pairs = engine::acceptance_pairs(points);
  return pairs.empty() ? engine::assumed_acceptance(kFirstAssumedRate, {})
                       : engine::fit_acceptance_of(points, pairs.front().name, {});
}

std::shared_ptr<const engine::FitReport> fit(const db::Evidence& evidence, const FittedModel* prior,
                                             const std::vector<PointMeasurement>& acceptance,
                                             FitWatch& watch) {
  const engine::GoesOn goes_on = [&watch](double share) {
    watch.share = share;
    watch.fits = true;
    return !watch.ends;
  };
  const engine::FitInputs inputs{evidence.points, evidence.device,
                                 *hardware_for_device(evidence.device), evidence.runs};
  std::shared_ptr<engine::FitReport> report =
      std::make_shared<engine::FitReport>(engine::stored_or_new_fit(evidence.database, inputs,
                                                                    {.leave_out_regimes = false,
                                                                     .prior = prior,
                                                                     .left_out = &evidence.left_out,
                                                                     .goes_on = &goes_on}));
  if (report->model.acceptance.positional.empty()) {
    report->model.acceptance = other_acceptance(acceptance);
  }
  return report;
}

// The key says that this machine was made up; nothing measured is taken for it.
HardwareSpec with_bandwidth(HardwareSpec spec, double terabytes_per_s) {
  HardwareValue& value = spec.fields[static_cast<std::size_t>(HardwareField::kRawBandwidthGbps)];
  value = {.value = terabytes_per_s * 1000.0, .source = "the app's knob", .verified = false};
  const bool is_round =
      std::fabs(10.0 * terabytes_per_s - std::round(10.0 * terabytes_per_s)) < 1e-6;
  const std::string label =
      QString::number(terabytes_per_s, 'f', is_round ? 1 : 2).toStdString() + " TB/s";
  spec.key += " at " + label;
  spec.name += " at " + label;
  spec.measured.clear();
  return spec;
}

// Classes that cannot be priced are planned too: their cells say why.
PlanOptions all_classes() {
  PlanOptions options;
  options.classes.clear();
  for (int i = 0; i < kPrecisionClassCount; ++i) {
    options.classes.push_back(static_cast<PrecisionClass>(i));
  }
  return options;
}

std::string format_of(const QString& path) {
  const QString ending = QFileInfo(path).suffix().toLower();
  if (ending == QLatin1String("h") || ending == QLatin1String("hpp")) {
    return "cpp";
  }
  if (ending == QLatin1String("yaml") || ending == QLatin1String("yml")) {
    // plan.vllm.yaml: the settings of that serving engine.
    return QFileInfo(QFileInfo(path).completeBaseName()).suffix().toLower().toStdString();
  }
  if (ending != QLatin1String("json") && ending != QLatin1String("csv")) {
    throw Error(ExitCode::kUsage,
                "the file's ending says the form: .json, .csv, .h, .sglang.yaml, .vllm.yaml or "
                ".trtllm.yaml, not \"" +
                    path.toStdString() + "\"");
  }
  return ending.toStdString();
}

// A serving engine gets the strictest class that is shown.
std::string exported(const PlanTable& table, const std::string& format) {
  const engine::ServingEngine* const serving = engine::serving_engine(format);
  if (serving == nullptr || table.classes.empty()) {
    return engine::exported_table(table, format);
  }
  return engine::deployment_file(table, *serving, {.precision = table.classes.front()});
}

// A geometry owns no losses: those of the pair whose tokens a step are planned with, else of
// another.
LossPrices prices_of(const Plan& plan, const AcceptanceModel& acceptance) {
  return LossPrices(*plan.quality, {}, acceptance.sha256, plan.target().layers);
}

// Fitted, and planned for the measured machine and pair.
std::shared_ptr<Plan> first_plan(const Snapshot& snapshot, const FittedModel* prior,
                                 FitWatch& watch) {
  std::shared_ptr<Plan> plan = std::make_shared<Plan>();
  const db::Store store = db::Store::open(snapshot.path.toStdString(), db::OpenMode::kReadOnly);
  const db::Evidence evidence = db::evidence_of(store, db::fitted_device(store, "", ""));
  std::vector<PointMeasurement> acceptance;
  std::copy_if(
      evidence.points.begin(), evidence.points.end(), std::back_inserter(acceptance),
      [](const PointMeasurement& m) { return m.key.workload == WorkloadKind::kAcceptance; });
  plan->pairs = engine::acceptance_pairs(acceptance);
  plan->fit = fit(evidence, prior, acceptance, watch);
  plan->acceptance = std::make_shared<const std::vector<PointMeasurement>>(std::move(acceptance));
  plan->quality = std::make_shared<const std::vector<QualityPoint>>(db::quality_points(store));
  const FittedModel& model = plan->fit->model;
  PlanOptions options = all_classes();
  options.loss.prices = prices_of(*plan, model.acceptance);
  plan->replanner =
      std::make_shared<const Replanner>(model, named_llm_shape(model.geometry), options);
  plan->own = plan->replanner->plan_on(hardware_by_key(model.hardware_key));
  return plan;
}

AcceptanceModel acceptance_of(const Plan& plan, const AcceptanceChoice& choice) {
  const AcceptanceModel& own = plan.fit->model.acceptance;
  if (choice.rate) {
    return engine::assumed_acceptance(*choice.rate, own);
  }
  return choice.pair.empty() ? own : engine::fit_acceptance_of(*plan.acceptance, choice.pair, own);
}

PlanTable plan_with(const Plan& plan, const AcceptanceChoice& choice,
                    const std::optional<double>& max_loss) {
  const bool usual = plan.draft.vocab == usual_draft(plan.target()).vocab;
  if (choice.rate || !choice.pair.empty() || !usual || max_loss) {
    const AcceptanceModel acceptance = acceptance_of(plan, choice);
    return plan.replanner->plan_on(plan.machine, acceptance, plan.draft,
                                   {prices_of(plan, acceptance), max_loss});
  }
  return plan.machine.key == plan.own.hardware ? plan.own : plan.replanner->plan_on(plan.machine);
}

PlanPtr make_plan(const Snapshot& snapshot, const FittedModel* prior, const PlanPtr& earlier,
                  const std::optional<HardwareSpec>& machine,
                  const std::optional<double>& bandwidth, const AcceptanceChoice& acceptance,
                  const std::optional<std::int64_t>& draft_vocab,
                  const std::optional<double>& max_loss, FitWatch& watch) {
  const std::shared_ptr<Plan> result =
      earlier ? std::make_shared<Plan>(*earlier) : first_plan(snapshot, prior, watch);
  const HardwareSpec& own = hardware_by_key(result->fit->model.hardware_key);
  HardwareSpec chosen = machine.value_or(own);
  if (bandwidth) {
    chosen = with_bandwidth(chosen, *bandwidth);
  }
  result->machine = chosen;
  result->draft = draft_shape_for(result->target());
  result->draft.vocab =
      std::min(draft_vocab.value_or(usual_draft(result->target()).vocab), result->draft.vocab);
  result->chosen = plan_with(*result, acceptance, max_loss);
  return result;
}

}  // namespace

Planner::Planner(Document& document, QObject* parent) : QObject(parent), document_(document) {
  shown_.fill(true);
  ticks_.setInterval(kTickMs);
  connect(&ticks_, &QTimer::timeout, this, [this] {
    if (watch_->fits) {
      Q_EMIT progressed();
    }
  });
  connect(&document, &Document::loaded, this, &Planner::forget);
  connect(&document, &Document::failed, this, &Planner::forget);
}

// The worker ends soon; what it finds nobody asks for.
Planner::~Planner() {
  watch_->ends = true;
}

void Planner::endFit() {
  watch_->ends = true;
}

QString Planner::waitText() const {
  const QString text = tr("Fitting the cost model …");
  return watch_->fits ? text + tr(" %1 %").arg(qRound(100.0 * watch_->share)) : text;
}

void Planner::need() {
  if (!needed_) {
    needed_ = true;
    start();
  }
}

void Planner::setHardware(std::optional<HardwareSpec> machine) {
  hardware_ = std::move(machine);
  turn();
}

void Planner::setBandwidth(std::optional<double> terabytes_per_s) {
  bandwidth_ = terabytes_per_s;
  turn();
}

void Planner::setAcceptance(AcceptanceChoice choice) {
  acceptance_ = std::move(choice);
  turn();
}

void Planner::setDraftVocab(std::optional<std::int64_t> tokens) {
  draft_vocab_ = tokens;
  turn();
}

void Planner::setMaxLoss(std::optional<double> nats) {
  max_loss_ = nats;
  turn();
}

void Planner::setShown(PrecisionClass precision, bool is_shown) {
  bool& shown = shown_[static_cast<std::size_t>(precision)];
  if (shown != is_shown) {
    shown = is_shown;
    Q_EMIT changed();
  }
}

std::vector<PrecisionClass> Planner::shownClasses() const {
  std::vector<PrecisionClass> classes;
  for (int i = 0; i < kPrecisionClassCount; ++i) {
    if (shown_[static_cast<std::size_t>(i)]) {
      classes.push_back(static_cast<PrecisionClass>(i));
    }
  }
  return classes;
}

QString Planner::exportTo(const QString& path) const {
  if (!plan_) {
    return tr("there is no plan to export yet");
  }
  try {
    const std::string format = format_of(path);
    engine::write_file_atomically(path.toStdString(),
                                  exported(of_classes(plan_->chosen, shownClasses()), format));
  } catch (const Error& error) {
    return QString::fromUtf8(error.what());
  }
  return {};
}

const HardwareSpec* Planner::machine() const {
  if (hardware_) {
    return &*hardware_;
  }
  return plan_ ? &hardware_by_key(plan_->fit->model.hardware_key) : nullptr;
}

void Planner::forget() {
  watch_->ends = true;
  plan_.reset();
  acceptance_ = {};  // another database has other pairs
  sentence_.clear();
  const bool again = needed_;
  Q_EMIT changed();
  if (again) {
    start();
  }
}

// The work under way is answered first, with the last turn right after.
void Planner::turn() {
  turned_ = job_.isRunning();
  if (!turned_) {
    start();
  }
}

void Planner::start() {
  turned_ = false;
  const SnapshotPtr snapshot = document_.snapshot();
  if (!needed_ || !snapshot) {
    return;
  }
  const PlanPtr earlier = plan_;
  const std::optional<HardwareSpec> machine = hardware_;
  const std::optional<double> bandwidth = bandwidth_;
  const AcceptanceChoice acceptance = acceptance_;
  const std::optional<std::int64_t> draft_vocab = draft_vocab_;
  const std::optional<double> max_loss = max_loss_;
  watch_ = std::make_shared<FitWatch>();
  const auto work = [=, prior = prior_, watch = watch_] {
    return make_plan(*snapshot, prior.get(), earlier, machine, bandwidth, acceptance, draft_vocab,
                     max_loss, *watch);
  };
  ticks_.start();
  job_.start<PlanPtr>(
      work,
      [this](const PlanPtr& plan) {
        ticks_.stop();
        plan_ = plan;
        sentence_.clear();
        if (turned_) {
          start();
        } else {
          Q_EMIT changed();
        }
      },
      [this](const QString& sentence) {
        ticks_.stop();
        plan_.reset();
        sentence_ = sentence;
        Q_EMIT changed();
      });
  Q_EMIT changed();
}

std::vector<const PlanEntry*> entries_of(const PlanTable& table, std::int64_t bucket,
                                         const std::vector<PrecisionClass>& classes) {
  std::vector<const PlanEntry*> entries;
  std::set<std::string> baselines;
  for (const PlanEntry& entry : table.entries) {
    const bool is_wanted = entry.bucket == bucket && std::find(classes.begin(), classes.end(),
                                                               entry.precision) != classes.end();
    if (is_wanted && (entry.baseline.empty() || baselines.insert(entry.baseline).second)) {
      entries.push_back(&entry);
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const PlanEntry* a, const PlanEntry* b) {
    return a->evaluation.throughput > b->evaluation.throughput;
  });
  return entries;
}

const PlanEntry* best_entry(const PlanTable& table, std::int64_t bucket, PrecisionClass precision) {
  const std::vector<const PlanEntry*> entries = entries_of(table, bucket, {precision});
  return entries.empty() ? nullptr : entries.front();
}

const PlanEntry* best_of_its_own(const PlanTable& table, std::int64_t bucket,
                                 PrecisionClass precision) {
  for (const PlanEntry* entry : entries_of(table, bucket, {precision})) {
    if (entry->baseline.empty()) {
      return entry;
    }
  }
  return nullptr;
}

QString unavailable_text(const PlanTable& table, std::int64_t bucket, PrecisionClass precision) {
  for (const UnavailableCell& cell : table.unavailable) {
    if (cell.bucket == bucket && cell.precision == precision) {
      return QString::fromStdString(cell.reason);
    }
  }
  return {};
}

}  // namespace versieve::gui
