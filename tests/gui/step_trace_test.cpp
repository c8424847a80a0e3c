// The measured steps of the database that ships traces: looked into by mouse and keyboard, one and
// two beside each other; and what follows from a made-up trace.
#include <QCheckBox>
#include <QComboBox>
#include <QLabel>
#include <QTabWidget>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <QWheelEvent>
#include <cmath>
#include <memory>
#include <set>

#include "db/step_details.h"
#include "gui/pages/step/step_page.h"
#include "gui/views/theme.h"
#include "gui/views/view_saver.h"
#include "tests/db/sample_points.h"
#include "tests/gui/database_case.h"
#include "tests/gui/golden.h"
#include "tests/gui/test_main.h"
#include "tests/gui/ui_watch.h"

using namespace versieve;
using namespace versieve::gui;

class StepTraceTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  StepPage& page() { return window_->stepPage(); }
  const StepView& view() { return *page().reader().view(); }
  TraceTimeline& trace() { return page().trace(); }
  const TracedLaunches& first() { return *view().first_trace; }
  const TracedLaunches& second() { return *view().second_trace; }

  int step_of(const char* strategy, std::int64_t context_len, const char* model) {
    const SnapshotPtr held = window_->document().snapshot();
    const Snapshot& snapshot = *held;
    for (const int point : page().reader().steps()) {
      const db::PointOverview& p = snapshot.overview.points[static_cast<std::size_t>(point)];
      if (snapshot.word(p.strategy) == strategy && p.context_len == context_len &&
          snapshot.word(p.model) == model) {
        return point;
      }
    }
    return -1;
  }
  void show(int first, int second) {
    page().first().setCurrentIndex(page().first().findData(first));
    page().second().setCurrentIndex(page().second().findData(second));
    QTRY_VERIFY_WITH_TIMEOUT(!page().reader().isBusy() && page().reader().view() &&
                                 view().second.has_value() == (second >= 0),
                             kWaitMs);
  }
  void showPair() {
    const int tree = step_of("nsa/d6k8n64/dfs/c4e/F*", 6144, "demo-nsa");
    const int other = step_of("nsa/d5k4n32/bfs/c8e/F*", 6144, "demo-nsa");
    QVERIFY(tree >= 0 && other >= 0);
    show(tree, other);
  }
  static double sum(const TracedLaunches& launches) {
    double us = 0.0;
    for (const TracedPhase& phase : launches.phases) {
      us += phase.us;
    }
    return us;
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    window_ = window_on_shipped("h100-traces.db", folder_);
    QVERIFY(window_ != nullptr);
    window_->showPage("step");
  }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
  }

  void aMadeUpTraceIsCutIntoPhasesSpansAndGaps() {
    const StepTrace made = *test::sample_detail(0).trace;
    std::vector<StepLaunch> kinds(1);
    kinds[0].name = "linear";
    kinds[0].floor_bytes = 3e6;
    kinds[0].flops = 1e9;
    const TracedLaunches it = traced_launches(
        made, kinds, {.machine = "made up", .dram = 3e12, .l2 = {}, .tensor = 1e15});
    QCOMPARE(it.phases.size(), std::size_t{3});
    QCOMPARE(it.phases[0].name, QString("nsa_fused"));
    QCOMPARE(it.phases[2].name, QString("outside every range"));
    QCOMPARE(it.phase_of, (std::vector<int>{0, 1, 2}));
    QCOMPARE(it.lane_of, (std::vector<int>{0, 0, 1}));
    QCOMPARE(it.lanes, 2);
    // The second begins at 2,500 and ends at 4,000, 1,000 behind the first's end.
    QCOMPARE(it.phases[0].us, 3.0);
    QCOMPARE(it.phases[1].us, 1.0);
    QCOMPARE(it.phases[1].priced_us, std::optional<double>(1.0));  // its flops take as long
    QVERIFY(!it.phases[0].priced_us);
    QCOMPARE(it.length_us, 6.8);
    QCOMPARE(it.busy_us, 4.8);
    QCOMPARE(it.gaps.size(), std::size_t{1});
    QCOMPARE(it.gaps[0].start_ns, std::int64_t{4000});
    QCOMPARE(it.gaps[0].end_ns, std::int64_t{6000});
    QVERIFY(trace_text(it, 7.0).contains("1 gap together"));
    QVERIFY(traced_launch_text(it, 1).contains("linear_kernel"));
    QVERIFY(traced_launch_text(it, 1).contains("not behind another"));
    StepTrace shorter = made;
    shorter.launches.resize(1);
    const TracedLaunches other = traced_launches(shorter, kinds, {});
    const std::vector<PhaseDifference> rows = phase_differences(it, other);
    QCOMPARE(rows.size(), std::size_t{4});
    QCOMPARE(rows[0].name, QString("linear"));
    QCOMPARE(rows[0].difference_us(), -1.0);
    QCOMPARE(rows.back().name, QString("gaps"));
    QCOMPARE(rows.back().difference_us(), -2.0);
    QVERIFY(traced_launches({}, {}, {}).phases.empty());
    QCOMPARE(traced_launches({}, {}, {}).length_us, 0.0);
  }

  void everyStepThatShipsHasATraceWhosePhasesAddUp() {
    QTRY_VERIFY_WITH_TIMEOUT(!page().reader().steps().empty(), kWaitMs);
    for (const int point : page().reader().steps()) {
      show(point, -1);
      QTRY_VERIFY_WITH_TIMEOUT(view().first_trace, kWaitMs);
      QVERIFY(first().trace.launches.size() >= 7);
      QVERIFY(std::fabs(sum(first()) - first().busy_us) < 1e-6 * first().busy_us);
      QVERIFY(first().gap_us() >= 0.0);
      QVERIFY(view().first->us);  // tracing hardly slows a step
      QVERIFY(std::fabs(first().length_us / *view().first->us - 1.0) < 0.05);
      const bool is_recorded = view().first->key.launch == LaunchMode::kGraph;
      QCOMPARE(first().trace.replayed, is_recorded);
      QVERIFY(first().priced_us() > 0.0 && first().priced_us() < first().length_us);
      if (is_recorded) {
        QCOMPARE(first().phase("outside every range"), -1);
      }
    }
  }

  void aLaunchIsToldByMouseAndByKey() {
    UiWatch watch;
    showPair();
    QVERIFY(trace().isVisible() && !page().timeline().isVisible() && !page().missing().isVisible());
    int longest = 0;
    for (int i = 0; i < static_cast<int>(first().trace.launches.size()); ++i) {
      longest = first().own_us[static_cast<std::size_t>(i)] >
                        first().own_us[static_cast<std::size_t>(longest)]
                    ? i
                    : longest;
    }
    const TracedLaunch& launch = first().trace.launches[static_cast<std::size_t>(longest)];
    QTest::mouseClick(&trace(), Qt::LeftButton, {}, trace().barOf(0, longest).center().toPoint());
    QCOMPARE(trace().told_step(), 0);
    const TracedLaunch& told = first().trace.launches[static_cast<std::size_t>(trace().told())];
    QCOMPARE(told.kernel, launch.kernel);
    QVERIFY(page().told().text().startsWith(QString::fromStdString(told.kernel)));
    QVERIFY(page().told().text().contains("phase " + QString::fromStdString(told.range)));
    QVERIFY(page().told().text().contains("priced"));
    QCOMPARE(trace().accessibleDescription(), trace().told_text());
    trace().setFocus();
    QTest::keyClick(&trace(), Qt::Key_Home);
    QCOMPARE(trace().told(), 0);
    QTest::keyClick(&trace(), Qt::Key_Right);
    QCOMPARE(trace().told(), 1);
    QTest::keyClick(&trace(), Qt::Key_End);
    QCOMPARE(trace().told(), static_cast<int>(first().trace.launches.size()) - 1);
    page().phases().tell("linear");
    trace().tell_phase("linear");
    const int before = trace().told();
    QTest::keyClick(&trace(), Qt::Key_PageDown);
    QVERIFY(trace().told() > before);
    QCOMPARE(first().trace.launches[static_cast<std::size_t>(trace().told())].range,
             std::string("linear"));
    QTest::keyClick(&trace(), Qt::Key_PageUp);
    QCOMPARE(trace().told(), before);
    QTest::keyClick(&trace(), Qt::Key_Down);
    QCOMPARE(trace().told_step(), 1);
    QTest::keyClick(&trace(), Qt::Key_Up);
    QCOMPARE(trace().told_step(), 0);
    QVERIFY2(watch.longestMs() <= UiWatch::kMostMs, qPrintable(QString::number(watch.longestMs())));
  }

  void aDoubleClickGoesToTheLaunchAndBack() {
    showPair();
    trace().fit();
    const double all = trace().to_us() - trace().from_us();
    QTest::mouseDClick(&trace(), Qt::LeftButton, {}, trace().barOf(0, 3).center().toPoint());
    QVERIFY(trace().to_us() - trace().from_us() < 0.5 * all);
    QTest::mouseDClick(&trace(), Qt::LeftButton, {}, QPoint(600, trace().height() - 6));
    QVERIFY(std::fabs(trace().to_us() - trace().from_us() - all) < 1e-9);
  }

  void theTraceIsZoomedAndMoved() {
    showPair();
    trace().fit();
    const double all = trace().to_us() - trace().from_us();
    const QPointF at = trace().barOf(0, 20).center();
    QWheelEvent wheel(at, trace().mapToGlobal(at), {}, {0, 480}, Qt::NoButton, Qt::NoModifier,
                      Qt::NoScrollPhase, false);
    QApplication::sendEvent(&trace(), &wheel);
    const double shown = trace().to_us() - trace().from_us();
    QVERIFY(shown < 0.5 * all);
    QVERIFY(std::fabs(trace().barOf(0, 20).center().x() - at.x()) < 1.0);  // it stays put
    const double from = trace().from_us();
    const QPoint grip(600, trace().height() - 8);
    QTest::mousePress(&trace(), Qt::LeftButton, {}, grip);
    QTest::mouseMove(&trace(), grip - QPoint(60, 0));
    QTest::mouseRelease(&trace(), Qt::LeftButton, {}, grip - QPoint(60, 0));
    QVERIFY(trace().from_us() > from);
    QVERIFY(std::fabs(trace().to_us() - trace().from_us() - shown) < 1e-9);
    trace().setFocus();
    QTest::keyClick(&trace(), Qt::Key_End);  // what is told is brought into sight
    const QRectF last = trace().barOf(0, trace().told());
    QVERIFY(last.left() >= 0.0 && last.right() <= trace().width());
    QTest::keyClick(&trace(), Qt::Key_Plus);
    QVERIFY(trace().to_us() - trace().from_us() < shown);
    QTest::keyClick(&trace(), Qt::Key_0);
    QVERIFY(std::fabs(trace().to_us() - trace().from_us() - all) < 1e-9);
  }

  void twoStepsStandUnderEachOtherAlignedAtAPhase() {
    showPair();
    QVERIFY(page().aligned().isEnabled());
    const auto first_bar = [&](int of, const QString& phase) {
      const TracedLaunches& it = of == 0 ? first() : second();
      return trace().barOf(of,
                           it.phases[static_cast<std::size_t>(it.phase(phase))].launches.front());
    };
    for (const char* phase : {"linear", "accept_tree"}) {
      QVERIFY(page().aligned().findData(phase) > 0);
      page().aligned().setCurrentIndex(page().aligned().findData(phase));
      QVERIFY(std::fabs(first_bar(0, phase).left() - first_bar(1, phase).left()) < 0.01);
      QVERIFY(first_bar(0, phase).bottom() < first_bar(1, phase).top());
    }
    page().aligned().setCurrentIndex(0);
    QVERIFY(std::fabs(trace().barOf(0, 0).left() - trace().barOf(1, 0).left()) < 0.01);
  }

  void phasesAreListedWithTheirDifferences() {
    showPair();
    page().parts().setCurrentIndex(1);
    PhaseBars& phases = page().phases();
    QVERIFY(phases.isVisible());
    std::set<QString> names = {"gaps"};
    for (const TracedLaunches* it : {&first(), &second()}) {
      for (const TracedPhase& phase : it->phases) {
        names.insert(phase.name);
      }
    }
    QCOMPARE(phases.rows(), static_cast<int>(names.size()));
    double difference = 0.0;
    const QList<QStringList> rows = phases.savedRows();
    QCOMPARE(rows.size(), qsizetype(phases.rows()) + 1);
    for (qsizetype row = 1; row < rows.size(); ++row) {
      difference += rows[row].last().toDouble();
    }
    QVERIFY(std::fabs(difference - (second().length_us - first().length_us)) < 0.1);
    phases.setFocus();
    for (int row = 0; row < phases.rows(); ++row) {
      QTest::keyClick(&phases, Qt::Key_Up);
    }
    QCOMPARE(phases.told(), rows[1].first());
    QVERIFY(page().told().text().contains("phase " + rows[1].first()));
    QTest::mouseClick(&phases, Qt::LeftButton, {}, phases.rowRect(1).center().toPoint());
    QCOMPARE(phases.told(), rows[2].first());
    QVERIFY(!phases.accessibleDescription().isEmpty());
    page().second().setCurrentIndex(0);
    QTRY_VERIFY_WITH_TIMEOUT(!view().second, kWaitMs);
    QVERIFY(phases.savedRows().first().contains("Priced, us"));
  }

  void whichNodeChoseWhichBlockIsShownByGroup() {
    showPair();
    page().parts().setCurrentIndex(2);
    ChoicePlot& choice = page().choice();
    QVERIFY(choice.isVisible());
    QCOMPARE(choice.nodes(), 64);
    QVERIFY(choice.columns() > 16 && choice.columns() < 110);  // of 6,144 tokens in blocks of 64
    QVERIFY(choice.told().contains("groups of 4 load"));
    int chosen = 0;
    for (int column = 0; column < choice.columns(); ++column) {
      chosen += choice.chose(5, column);
    }
    QCOMPARE(chosen, 16);
    choice.setFocus();
    QTest::keyClick(&choice, Qt::Key_Right);
    QTest::keyClick(&choice, Qt::Key_Down);
    QVERIFY(choice.told().startsWith("node 1 (behind node 0)"));
    QCOMPARE(choice.accessibleDescription(), choice.told());
    QTest::mouseClick(&choice, Qt::LeftButton, {}, choice.cellRect(7, 3).center().toPoint());
    QVERIFY(choice.told().startsWith("node 7 "));
    const QList<QStringList> rows = choice.savedRows();
    QCOMPARE(rows.size(), qsizetype{64 * 16 + 1});
    QCOMPARE(rows[1].size(), rows[0].size());
    page().parts().setCurrentIndex(0);
  }

  void theTraceIsSavedAsATable() {
    showPair();
    const QList<QStringList> rows = trace().savedRows();
    QCOMPARE(rows.size(),
             qsizetype(first().trace.launches.size() + second().trace.launches.size() + 1));
    for (const QStringList& row : rows) {
      QCOMPARE(row.size(), rows[0].size());
    }
    QVERIFY(window_->saver().views().contains(&trace()));
  }

  void thePageLooksAsItDid() {
    showPair();
    const QString twice = window_->devicePixelRatioF() > 1.0 ? "-2x" : "";
    for (const char* part : {"roofs", "phases", "blocks"}) {
      page().parts().setCurrentIndex(part[0] == 'r' ? 0 : part[0] == 'p' ? 1 : 2);
      for (const bool is_dark : {false, true}) {
        window_->setDark(is_dark);
        // A busy machine draws late what was restyled.
        QImage picture;
        QString difference;
        for (int tries = 0; tries == 0 || (!difference.isEmpty() && tries < 30 * test::kSanitized);
             ++tries) {
          QTest::qWait(300);
          picture = window_->grab().toImage();
          difference = golden_difference(
              QString("step-trace-") + part + twice + (is_dark ? "-dark" : "-light"), picture);
        }
        if (const QString folder = qEnvironmentVariable("VERSIEVE_PICTURES"); !folder.isEmpty()) {
          picture.save(folder + "/step-" + part + twice + (is_dark ? "-dark" : "") + ".png");
        }
        QVERIFY2(difference.isEmpty(), qPrintable(difference));
      }
    }
    window_->setDark(false);
    page().parts().setCurrentIndex(1);
    QTest::qWait(100);
    keep_picture(*window_, "step");
  }

  // Which steps have a trace was to be found by trying.
  void stepsWithATraceAreMarkedComeFirstAndCanBeListedAlone() {
    const QString path = folder_.filePath("one-traced.db");
    QString traced;
    {
      const std::string from = folder_.filePath("h100-traces.db").toStdString();
      const db::Store shipped = db::Store::open(from, db::OpenMode::kReadOnly);
      const db::StepDetails details = db::StepDetails::open(from);
      const std::int64_t last = details.traced_points().back();
      db::Store store = db::Store::open(path.toStdString(), db::OpenMode::kCreateOrOpen);
      const std::int64_t run = store.begin_run(test::sample_run("one-traced"));
      for (const db::PointOverview& point : shipped.overview({}).points) {
        const PointMeasurement measured = shipped.point(point.id);
        store.add_point(run, measured, point.id == last ? details.of(last) : StepDetail());
        traced = point.id == last ? step_title(measured.key) : traced;
      }
      store.finish_run(run, RunStatus::kComplete);
    }
    Window window;
    window.show();
    QVERIFY(open(window, path));
    window.showPage("step");
    StepPage& step = window.stepPage();
    QTRY_VERIFY_WITH_TIMEOUT(step.reader().view() && !step.reader().isBusy(), kWaitMs);
    QVERIFY(step.reader().view()->first_trace && step.missing().isHidden());
    QComboBox& list = step.first();
    QVERIFY(list.count() > 5 && list.itemText(0) == traced);
    for (int i = 0; i < list.count(); ++i) {
      QCOMPARE(list.itemIcon(i).isNull(), i != 0);
      QCOMPARE(list.itemData(i, Qt::AccessibleTextRole).toString(),
               list.itemText(i) + (i == 0 ? ", with a trace" : ""));
    }
    list.setCurrentIndex(3);
    QTRY_VERIFY_WITH_TIMEOUT(!step.missing().isHidden(), kWaitMs);
    QVERIFY2(step.missing().text().contains("versieve profile --db ") &&
                 step.missing().text().contains("one-traced.db --sweep "),
             qPrintable(step.missing().text()));
    QTest::keyClick(&step.tracedOnly(), Qt::Key_Space);
    QCOMPARE(list.count(), 1);
    QCOMPARE(step.second().count(), 2);  // nothing, and this one
    QTRY_VERIFY_WITH_TIMEOUT(step.reader().view() && step.reader().view()->first_trace, kWaitMs);
    QTest::keyClick(&step.tracedOnly(), Qt::Key_Space);
    QCOMPARE(list.currentText(), traced);  // what was chosen stays
    window.document().setFilter("trace=stored");
    QCOMPARE(window.document().shown().size(), std::size_t{1});
  }

  void thePageFitsASmallScreen() {
    showPair();
    window_->resize(1024, 768);
    QTest::qWait(100);
    QCOMPARE(window_->width(), 1024);
    QCOMPARE(window_->height(), 768);
    QVERIFY(trace().height() >= trace().minimumSizeHint().height());
    // What is chosen stands in one line, the tick beside the last choice: it was alone in a second.
    const auto middle = [this](const QWidget& widget) {
      return widget.mapTo(&page(), widget.rect().center()).y();
    };
    const QWidget& tick = page().tracedOnly();
    QVERIFY(std::abs(middle(tick) - middle(page().first())) <= 3);
    QVERIFY(tick.width() >= tick.sizeHint().width());
    QVERIFY(page().first().width() > 200 && page().first().width() == page().second().width());
  }
};

VERSIEVE_GUI_TEST(StepTraceTest)
#include "step_trace_test.moc"
