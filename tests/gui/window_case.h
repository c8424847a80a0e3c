// What the tests of the window share: databases that never were, opening one, a cell's text.
#pragma once

#include <QAbstractItemModel>
#include <QAbstractItemModelTester>
#include <QDir>
#include <QFile>
#include <QLabel>
#include <QSignalSpy>
#include <QStatusBar>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>

#include "gui/window.h"
#include "model/words/hardware.h"
#include "tests/gui/made_up_sweep.h"
#include "tests/support/sanitized.h"
#include "tests/support/synthetic_points.h"
#include "tests/support/system_points.h"

namespace versieve::gui {

inline constexpr int kWaitMs = test::kSanitized * 60'000;

// Fitted and planned from measurements that never happened.
inline void write_synthetic_campaign(const QString& path, bool with_systems) {
  db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen);
  const std::int64_t run = store.begin_run(test::sample_run("synthetic-run"));
  const synthetic::Plan plan = {
      .form = with_systems ? NsaForm::kFused : NsaForm::kVanilla,
      .step_launch = with_systems ? LaunchMode::kGraph : LaunchMode::kStream};
  const HardwareSpec& hardware = hardware_by_key("h200-sxm");
  for (const std::vector<PointMeasurement>& points :
       {synthetic::attention_points(plan, hardware), synthetic::step_points(plan, hardware),
        synthetic::acceptance_points(0.8, 0.9, 0.95),
        with_systems ? synthetic::system_points(plan, hardware)
                     : std::vector<PointMeasurement>()}) {
    for (const PointMeasurement& point : points) {
      store.add_point(run, point);
    }
  }
  store.finish_run(run, RunStatus::kComplete);
}

// A measured database that ships, with the fit that the commands' tests have kept beside it, in a
// folder where it may be written to.
inline bool copy_shipped(const QString& name, const QTemporaryDir& folder) {
  const QString shipped = VERSIEVE_SOURCE_DIR "/db/measured/" + name;
  QFile::copy(shipped + ".fit", folder.filePath(name + ".fit"));  // one is made where there is none
  QFile file(shipped);
  const bool is_copied = file.copy(folder.filePath(name));
  if (!is_copied) {
    qWarning("%s is not copied to %s: %s", qPrintable(shipped), qPrintable(folder.path()),
             qPrintable(file.errorString()));
  }
  return is_copied;
}

inline bool open(Window& window, const QString& path) {
  QSignalSpy loaded(&window.document(), &Document::loaded);
  window.document().open(path);
  return loaded.wait(kWaitMs);
}

// Whether the models of all tables keep what models promise, as long as the window is there. Takes
// its time on the UI thread.
inline void watch_models(Window& window) {
  for (const QTableView* table : window.findChildren<QTableView*>()) {
    if (table->model() != nullptr) {
      new QAbstractItemModelTester(table->model(),
                                   QAbstractItemModelTester::FailureReportingMode::QtTest, &window);
    }
  }
}

inline QString cell(const QAbstractItemModel& model, int row, int column) {
  return model.index(row, column).data().toString();
}

// The picture of the manual that shows this flow, where VERSIEVE_PICTURES names a folder.
inline void keep_picture(Window& window, const QString& name) {
  const QString folder = qEnvironmentVariable("VERSIEVE_PICTURES");
  if (!folder.isEmpty()) {
    window.statusBar()->clearMessage();  // of what was done before
    for (const QLabel* label : window.findChildren<QLabel*>()) {
      QVERIFY2(!label->text().contains(QDir::tempPath()), qPrintable(label->text()));
    }
    window.grab().save(folder + "/" + name + ".png");
  }
}

}  // namespace versieve::gui
