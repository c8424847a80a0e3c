#include "gui/models/planner.h"

#include <QFileInfo>
#include <algorithm>
#include <set>
#include <tuple>

#include "engine/analyse/plan/deployment.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/io/atomic_file.h"
#include "gui/models/numbers.h"
#include "model/plan/concurrency.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

constexpr int kTickMs = 100;  // between two looks at how far a fit is

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

auto machine_in(const PlanRequest& request) {
  return std::tuple(request.hardware ? request.hardware->key : std::string(), request.hardware_file,
                    request.bandwidth);
}

bool can_be_planned(const ContextBucket& range) {
  try {
    return parse_buckets(name_of(range)).size() == 1;
  } catch (const Error&) {
    return false;
  }
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
  connect(&document, &Document::loaded, this, &Planner::take_document);
}

// The worker ends soon; what it finds nobody asks for.
Planner::~Planner() {
  watch_->ends = true;
}

void Planner::endFit() {
  watch_->ends = true;
}

std::optional<double> Planner::share() const {
  return watch_->fits && isBusy() ? std::optional<double>(watch_->share) : std::nullopt;
}

QString Planner::waitText() const {
  const QString text = watch_->fits ? tr("Fitting the cost model …") : tr("Reading, planning …");
  return watch_->fits ? text + tr(" %1 %").arg(qRound(100.0 * watch_->share)) : text;
}

void Planner::need() {
  if (!needed_) {
    needed_ = true;
    start();
  }
}

void Planner::setModel(const std::string& name) {
  request_.model = name;
  request_.scope.baseline.clear();  // another model has other layers
  request_.scope.schedules.clear();
  request_.acceptance = {};
  request_.draft_vocab.reset();
  turn();
}

std::string Planner::modelFolder() const {
  return plan_ && !plan_->basis->grounds.shape.folder.empty() ? plan_->basis->model : std::string();
}

void Planner::setHardware(std::optional<HardwareSpec> machine, const std::string& file) {
  request_.hardware = std::move(machine);
  request_.hardware_file = file;
  turn();
}

void Planner::setBandwidth(std::optional<double> terabytes_per_s) {
  request_.bandwidth = terabytes_per_s;
  turn();
}

void Planner::setAcceptance(AcceptanceChoice choice) {
  request_.acceptance = std::move(choice);
  turn();
}

void Planner::setDraftVocab(std::optional<std::int64_t> tokens) {
  request_.draft_vocab = tokens;
  turn();
}

void Planner::setScope(const PlanScope& scope) {
  if (scope != request_.scope) {
    request_.scope = scope;
    turn();
  }
}

void Planner::setMaxLoss(std::optional<double> nats) {
  if (nats != request_.max_loss) {
    request_.max_loss = nats;
    turn();
  }
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
    const PlanTable table = of_classes(plan_->chosen, exportedClasses());
    if (const std::string none = kept_by_none_text(table); !none.empty()) {
      return QString::fromStdString(none);
    }
    engine::write_file_atomically(path.toStdString(), exported(table, format));
  } catch (const Error& error) {
    return QString::fromUtf8(error.what());
  }
  return {};
}

std::vector<PrecisionClass> Planner::exportedClasses() const {
  const std::vector<PrecisionClass> shown = shownClasses();
  std::vector<PrecisionClass> priced;
  if (plan_) {
    const std::vector<PrecisionClass>& all = plan_->basis->classes;
    std::copy_if(shown.begin(), shown.end(), std::back_inserter(priced), [&](PrecisionClass c) {
      return std::find(all.begin(), all.end(), c) != all.end();
    });
  }
  return priced.empty() ? shown : priced;
}

PlanCommand Planner::command(const QString& out) const {
  const SnapshotPtr snapshot = document_.snapshot();
  if (!plan_ || !snapshot) {
    return {{}, tr("No plan yet.")};
  }
  return plan_command(*plan_, request_, snapshot->path, prior_file_, exportedClasses(), out);
}

std::vector<std::int64_t> Planner::longerContexts() const {
  std::vector<std::int64_t> out;
  ContextBucket next = default_buckets().back();
  while (plan_) {
    next = {next.high, 2 * next.high};
    const bool is_measured = plan_->basis->fit.outside_because(next.low + 1, 1).empty();
    // A geometry has as many positions as are asked.
    const bool is_taken =
        !plan_->basis->grounds.shape.is_pair() || next.high <= plan_->target().max_position;
    if (!is_measured || !is_taken || !can_be_planned(next)) {
      break;
    }
    out.push_back(next.high);
  }
  return out;
}

const HardwareSpec* Planner::machine() const {
  if (request_.hardware) {
    return &*request_.hardware;
  }
  return plan_ ? &hardware_by_key(plan_->fit->model.hardware_key) : nullptr;
}

// A file that grows and is read again by itself leaves the plan as it is: it would be made anew at
// every point. Reading it by hand plans anew.
void Planner::take_document() {
  if (document_.wasFollowed() && (plan_ || isBusy())) {
    Q_EMIT changed();
  } else {
    forget();
  }
}

void Planner::forget() {
  watch_->ends = true;
  plan_.reset();
  request_.model.clear();
  request_.acceptance = {};  // another database has other pairs
  request_.scope = {};
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
  // Knobs turn the plan of the points that it was made of.
  const SnapshotPtr snapshot = plan_ ? planned_from_ : document_.snapshot();
  if (!needed_ || !snapshot) {
    return;
  }
  const PlanPtr earlier = plan_;
  watch_ = std::make_shared<FitWatch>();
  const auto work = [=, prior = prior_, request = request_, watch = watch_] {
    return make_plan(*snapshot, prior.get(), earlier, request, *watch);
  };
  ticks_.start();
  job_.start<PlanPtr>(
      work,
      [this, snapshot, request = request_](const PlanPtr& plan) {
        ticks_.stop();
        plan_ = plan;
        planned_ = request;
        planned_from_ = snapshot;
        sentence_.clear();
        if (turned_) {
          start();
        } else {
          Q_EMIT changed();
        }
      },
      [this](const QString& sentence) {
        ticks_.stop();
        fail(sentence);
      });
  Q_EMIT changed();
}

// What was asked for since is planned next.
void Planner::fail(const QString& sentence) {
  const bool is_other =
      plan_ && (plan_->basis->scope != request_.scope ||
                (!request_.model.empty() && plan_->basis->model != request_.model));
  // Prompts and joules are of one machine: another one is refused with them. Of the planned one a
  // failure is no refusal, and would be met again.
  const bool is_refused_machine =
      plan_ && machine_in(request_) != machine_in(planned_) &&
      (!plan_->basis->scope.prefill.empty() || plan_->basis->scope.objective == Objective::kEnergy);
  if (is_other || is_refused_machine) {
    if (!turned_) {
      request_ = planned_;
      request_.model = plan_->basis->model;
      Q_EMIT refused(sentence);
    }
    start();
    return;
  }
  plan_.reset();
  sentence_ = sentence;
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
  const auto yield = [&table](const PlanEntry* entry) {
    return yield_of(table.aims.objective, table.energy, entry->evaluation);
  };
  std::stable_sort(
      entries.begin(), entries.end(),
      [&yield](const PlanEntry* a, const PlanEntry* b) { return yield(a) > yield(b); });
  return entries;
}

bool overlaps(const PlanEntry& a, const PlanEntry& b) {
  const Interval& x = compared_interval(a.evaluation);
  const Interval& y = compared_interval(b.evaluation);
  return x.low <= y.high && y.low <= x.high;
}

QString unavailable_text(const PlanTable& table, std::int64_t bucket, PrecisionClass precision) {
  for (const UnavailableCell& cell : table.unavailable) {
    if (cell.bucket == bucket && cell.precision == precision) {
      return with_micro(QString::fromStdString(cell.reason));
    }
  }
  return {};
}

}  // namespace versieve::gui
