#include "gui/models/replayer.h"

#include "db/evidence.h"
#include "engine/io/atomic_file.h"
#include "engine/measure/sweep/sweep.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

constexpr const char* kSplit = "test";  // the table's acceptance is the calibration split's

std::shared_ptr<const engine::Walks> walks_of(const Snapshot& snapshot, const PairId& pair,
                                              const std::string& regime) {
  const db::Store store = db::Store::open(snapshot.path.toStdString(), db::OpenMode::kReadOnly);
  return std::make_shared<const engine::Walks>(db::acceptance_points(store), pair, kSplit, regime);
}

ReplayedPtr play(const SnapshotPtr& snapshot, const PlanPtr& plan, const std::string& regime,
                 const ReplayedPtr& earlier) {
  const PlanTable& table = plan->chosen;
  if (const std::string reason = engine::unplayable_because(table); !reason.empty()) {
    throw Error(ExitCode::kAnswerNo, reason);
  }
  std::shared_ptr<Replayed> result = std::make_shared<Replayed>();
  result->snapshot = snapshot;
  result->regime = regime;
  result->plan = plan;
  const bool same_walks = earlier && earlier->snapshot == snapshot && earlier->regime == regime &&
                          acceptance_pair(earlier->plan->chosen) == acceptance_pair(table);
  result->walks = same_walks ? earlier->walks : walks_of(*snapshot, acceptance_pair(table), regime);
  result->replay = engine::replay(table, *result->walks, {.guard = table.guard});
  result->missing_walks = engine::sweep_of_missing_walks(
      table, *result->walks, kSplit,
      regime.empty() ? engine::text_regimes() : std::vector<std::string>{regime});
  return result;
}

}  // namespace

Replayer::Replayer(Document& document, Planner& planner, QObject* parent)
    : QObject(parent), document_(document), planner_(planner) {
  connect(&planner, &Planner::changed, this, &Replayer::follow_plan);
}

void Replayer::need() {
  needed_ = true;
  planner_.need();
  follow_plan();
}

void Replayer::setRegime(const QString& regime) {
  regime_ = regime.toStdString();
  asked_.reset();
  follow_plan();
}

QString Replayer::writeMissingWalks(const QString& path) const {
  if (!replayed_ || replayed_->missing_walks.empty()) {
    return tr("no walk is missing");
  }
  try {
    engine::write_file_atomically(path.toStdString(), replayed_->missing_walks);
  } catch (const Error& error) {
    return QString::fromUtf8(error.what());
  }
  return {};
}

void Replayer::follow_plan() {
  if (!needed_) {
    return;
  }
  const PlanPtr& plan = planner_.plan();
  if (!plan) {
    replayed_.reset();
    asked_.reset();
    sentence_ = planner_.sentence();
  } else if (plan != asked_) {
    asked_ = plan;
    start();
  }
  Q_EMIT changed();
}

void Replayer::start() {
  const SnapshotPtr snapshot = document_.snapshot();
  const PlanPtr plan = asked_;
  const std::string regime = regime_;
  const ReplayedPtr earlier = replayed_;
  job_.start<ReplayedPtr>([=] { return play(snapshot, plan, regime, earlier); },
                          [this, plan](const ReplayedPtr& replayed) {
                            if (plan == asked_) {
                              replayed_ = replayed;
                              sentence_.clear();
                              Q_EMIT changed();
                            }
                          },
                          [this, plan](const QString& sentence) {
                            if (plan == asked_) {
                              replayed_.reset();
                              sentence_ = sentence;
                              Q_EMIT changed();
                            }
                          });
}

}  // namespace versieve::gui
