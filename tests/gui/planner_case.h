// A planner page over made-up campaigns, for its tests: one without and one with points of the
// other systems, which the window shows.
#pragma once

#include <QTemporaryDir>
#include <QTest>
#include <map>
#include <memory>

#include "gui/models/numbers.h"
#include "gui/pages/planner_page.h"
#include "gui/views/theme.h"
#include "tests/gui/window_case.h"

namespace versieve::gui {

// Of another pair, whose chains of three yield two tokens a step.
inline void store_imported_chain(const QString& path) {
  db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen);
  const std::int64_t run = store.begin_run(
      {.uuid = "imported-run", .kind = std::string(kImportedKind) + "csv", .device = "RTX 4090"});
  PointMeasurement m;
  m.key = {.workload = WorkloadKind::kAcceptance,
           .model = "pair-7b",
           .regime = "unstated",
           .strategy = "dense/d3k1n4/bfs/c1/F*",
           .dtype = Dtype::kUnstated,
           .backend = Backend::kImported,
           .cache_state = CacheState::kAsIs,
           .launch = LaunchMode::kUnstated,
           .context_len = 2048};
  m.acceptance = AcceptanceMeasurement{.steps = 100,
                                       .generated_tokens = 200,
                                       .accepted_histogram = {0, 40, 30, 20, 10},
                                       .accepted_per_step = 2.0};
  store.add_point(run, m);
  store.finish_run(run, RunStatus::kComplete);
}

inline constexpr int kLossColumn = 14;

// Without the sign of a tie.
inline QString rank_of(PlannerPage& page, int row) {
  return cell(page.entries(), row, 0).remove(QString::fromUtf8(" ≈"));
}

// What two of the three schedules cost a pair.
inline void store_losses(const QString& path) {
  db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen);
  std::vector<QualityPoint> rows;
  for (const auto& [schedule, kl] : {std::pair{"(FR)*", 0.01}, std::pair{"(FRRR)*", 0.2}}) {
    QualityPoint& point = rows.emplace_back(test::sample_quality(1));
    point.pair = {"measured-pair", std::string(64, 'a')};
    point.set = "texts: all";
    point.strategy = std::string("nsa/ar/bfs/c1/") + schedule;
    point.kl_nats = {kl, 0.9 * kl, 1.1 * kl};
    point.same_token = {1.0 - kl, 0.7, 1.0};
  }
  store.add_quality(store.begin_run(test::sample_run("quality-run")), rows);
}

// Of the Reuse-only cell of 4K to 8K: the loss column's text, by schedule.
inline std::map<std::string, QString> losses_shown(PlannerPage& page) {
  page.showCell(1, PrecisionClass::kReuseOnly);
  std::map<std::string, QString> out;
  for (int row = 0; row < page.entries().rowCount(); ++row) {
    out[page.entries().entryAt(row)->evaluation.strategy.schedule] =
        cell(page.entries(), row, kLossColumn);
  }
  return out;
}

struct PlannerCase {
  QTemporaryDir folder_;
  QString campaign_;
  QString systems_;                 // with points of the other systems
  std::unique_ptr<Window> window_;  // shows those

  void begin() {
    theme::apply(*qApp);
    campaign_ = folder_.filePath("campaign.db");
    write_synthetic_campaign(campaign_, false);
    systems_ = folder_.filePath("systems.db");
    write_synthetic_campaign(systems_, true);
    window_ = std::make_unique<Window>();
    window_->show();
    QVERIFY(open(*window_, systems_));
    window_->showPage("planner");
  }
  // All classes on the measured machine.
  void beginOne() {
    Planner& planner = window_->plannerPage().planner();
    for (int i = 0; i < kPrecisionClassCount; ++i) {
      planner.setShown(static_cast<PrecisionClass>(i), true);
    }
    window_->plannerPage().grid().select(0, 0);
    QTRY_VERIFY_WITH_TIMEOUT(planner.plan() && !planner.isBusy(), kWaitMs);
  }
  void end() {
    window_.reset();
    job_pool().waitForDone();
  }
};

}  // namespace versieve::gui
