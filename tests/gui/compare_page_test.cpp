// What changed? The flow by mouse and keyboard: two databases that ship, tuple by tuple, and two
// tables cell by cell; the command prints the same.
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QHeaderView>
#include <QLabel>
#include <QMimeData>
#include <QProcess>
#include <QPushButton>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <memory>

#include "engine/analyse/plan/table_file.h"
#include "engine/io/atomic_file.h"
#include "gui/pages/compare/compare_page.h"
#include "gui/views/elided_text.h"
#include "gui/views/number_knob.h"
#include "gui/views/ratio_plot.h"
#include "gui/views/theme.h"
#include "tests/gui/test_main.h"
#include "tests/gui/ui_watch.h"
#include "tests/gui/window_case.h"
#include "tests/support/tiny_table.h"

using namespace versieve;
using namespace versieve::gui;
using engine::Change;

class ComparePageTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  ComparePage& page() { return window_->comparePage(); }
  RatioPlot& plot() { return page().plot(); }
  const std::vector<ComparedRow>& rows() { return page().rows().rows(); }
  bool compared() { return page().comparer().files() && !page().comparer().isBusy(); }
  template <typename Widget>
  Widget* child(const char* name) {
    return page().findChild<Widget*>(name);
  }
  void press(const char* name) { QTest::mouseClick(child<QPushButton>(name), Qt::LeftButton); }
  void compare_shipped() {
    page().comparer().setPaths({"h100.db", "h200.db"});
    QTRY_VERIFY_WITH_TIMEOUT(compared(), kWaitMs);
  }
  QString table_file(const QString& name, const PlanTable& table) {
    engine::write_file_atomically(name.toStdString(), engine::plan_table_json(table));
    return name;
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    for (const char* name : {"h100.db", "h200.db"}) {
      QVERIFY(copy_shipped(name, folder_));
    }
    QVERIFY(QDir::setCurrent(folder_.path()));
    window_ = std::make_unique<Window>();
    window_->resize(1280, 800);
    window_->show();
    watch_models(*window_);
    QVERIFY(window_->showPage("compare"));
  }

  void init() { window_->document().setFilter({}); }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
  }

  void oneFileAloneSaysWhatToAddAndOffersWhatIsThere() {
    QVERIFY(child<QLabel>("compareMessage")->text().contains("Add two databases"));
    QVERIFY(open(*window_, "h100.db"));
    window_->showPage("compare");
    QVERIFY(child<QLabel>("compareMessage")->isVisible());
    QVERIFY(child<QLabel>("compareMessage")->text().contains("Add a second file"));
    QPushButton* shipped = child<QPushButton>("compareShipped");
    QCOMPARE(shipped->text(), "Compare with h200.db");
    UiWatch watch;
    shipped->setFocus();
    QTest::keyClick(shipped, Qt::Key_Space);
    QTRY_VERIFY_WITH_TIMEOUT(compared(), kWaitMs);
    const double longest = watch.longestMs();
    qInfo("first show: %.1f ms", longest);
    QVERIFY2(longest <= UiWatch::kMostMs, qPrintable(QString::number(longest)));
    QVERIFY(plot().isVisible());
  }

  void worseComesFirstAndTheRuleIsSaid() {
    compare_shipped();
    QVERIFY(rows().size() > 1000);
    QCOMPARE(rows().front().change, Change::kWorse);
    QVERIFY(page().summary().text().contains("same within noise"));
    QVERIFY(page().summary().text().contains("repeated measurements"));
    QCOMPARE(cell(page().rows(), 0, 0), "slower");
    QVERIFY(!plot().accessibleDescription().isEmpty());
    keep_picture(*window_, "compare");
  }

  void keysGoAlongTheListAndAClickSelectsInBoth() {
    compare_shipped();
    plot().setFocus();
    QTest::keyClick(&plot(), Qt::Key_Home);
    QTest::keyClick(&plot(), Qt::Key_Down);
    QCOMPARE(plot().selected(), 1);
    QCOMPARE(page().table().currentIndex().row(), 1);
    int better = 0;
    while (rows()[static_cast<std::size_t>(better)].change != Change::kBetter) {
      ++better;
    }
    QTest::mouseClick(&plot(), Qt::LeftButton, {}, plot().placeOf(better).toPoint());
    QVERIFY(plot().selected() >= 0);
    QCOMPARE(page().table().currentIndex().row(), plot().selected());
    QVERIFY(plot().accessibleDescription().contains("ratio"));
    page().table().setFocus();
    QTest::keyClick(&page().table(), Qt::Key_Home, Qt::ControlModifier);
    QCOMPARE(plot().selected(), 0);
  }

  void aClickOnATitleSortsWhatIsAbsentLast() {
    compare_shipped();
    QHeaderView& header = *page().table().horizontalHeader();
    QTest::mouseClick(header.viewport(), Qt::LeftButton, {},
                      {header.sectionViewportPosition(1) + 8, header.height() / 2});
    for (std::size_t i = 1; i < rows().size(); ++i) {
      QVERIFY(rows()[i - 1].ratio <= rows()[i].ratio);
    }
    QTest::mouseClick(header.viewport(), Qt::LeftButton, {},
                      {header.sectionViewportPosition(0) + 8, header.height() / 2});
    QCOMPARE(rows().front().change, Change::kWorse);
  }

  void theFilterOfThePointsNarrowsTheTuples() {
    compare_shipped();
    const std::size_t all = rows().size();
    window_->document().setFilter("workload=step");
    QVERIFY(rows().size() < all);
    for (int row = 0; row < page().rows().rowCount(); ++row) {
      QCOMPARE(page().rows().basePoint(row).key.workload, WorkloadKind::kStep);
    }
    QVERIFY(page().summary().text().contains("The filter shows"));
  }

  void noiseAndFigureAreAsked() {
    compare_shipped();
    page().noise().setFocus();
    page().noise().selectAll();
    QTest::keyClicks(&page().noise(), "60");
    QTest::keyClick(&page().noise(), Qt::Key_Return);
    QTRY_VERIFY_WITH_TIMEOUT(compared() && rows().front().change != Change::kWorse, kWaitMs);
    QVERIFY(page().summary().text().contains("60.0 %, as it was asked for"));
    page().noise().setValue(page().noise().minimum());
    QTRY_VERIFY_WITH_TIMEOUT(compared() && rows().front().change == Change::kWorse, kWaitMs);
    page().figure().setCurrentIndex(1);
    QTRY_VERIFY_WITH_TIMEOUT(
        compared() && page().rows().points()->figure == engine::ComparedFigure::kDramBytes,
        kWaitMs);
    QVERIFY(page().comparer().commandLine().endsWith("--figure bytes"));
    page().figure().setCurrentIndex(0);
    QTRY_VERIFY_WITH_TIMEOUT(
        compared() && page().rows().points()->figure == engine::ComparedFigure::kTime, kWaitMs);
  }

  void swappedWhatWasSlowerIsFaster() {
    compare_shipped();
    const std::size_t slower = page().rows().points()->count_of(Change::kWorse);
    press("compareSwap");
    QTRY_VERIFY_WITH_TIMEOUT(compared() && page().comparer().files()->paths.first() == "h200.db",
                             kWaitMs);
    QCOMPARE(page().rows().points()->count_of(Change::kBetter), slower);
    press("compareSwap");
    QTRY_VERIFY_WITH_TIMEOUT(compared() && page().comparer().files()->paths.first() == "h100.db",
                             kWaitMs);
  }

  void theCommandThatIsCopiedPrintsTheSame() {
    compare_shipped();
    press("compareCommand");
    const QString line = QGuiApplication::clipboard()->text();
    QCOMPARE(line, "versieve compare h100.db h200.db");
    QProcess process;
    process.start(VERSIEVE_BINARY_DIR "/bin/versieve", line.split(' ').mid(1));
    QVERIFY(process.waitForFinished(kWaitMs));
    const QString printed = process.readAllStandardOutput();
    const engine::PointComparison& shown = *page().rows().points();
    QVERIFY(printed.contains(QString::fromStdString(engine::counts_text(shown))));
    QVERIFY(printed.contains(QString::fromStdString(engine::rule_text(shown))));
  }

  void aTableTakesThePlaceOfDatabasesAndSaysWhyCellsChanged() {
    PlanTable after = test::tiny_table();
    after.hardware = "h200-sxm";
    after.entries[0].evaluation = test::told("nsa/d3k2n6/dfs/c2e/F*", 50.0);
    after.entries[5].evaluation = test::told("nsa/d4k3n8/bfs/c8a/F*", 50.0);
    page().addFile(table_file("last.json", test::tiny_table()));
    QMimeData dropped;
    dropped.setUrls({QUrl::fromLocalFile(table_file(folder_.filePath("now.json"), after))});
    QDragEnterEvent enter({5, 5}, Qt::CopyAction, &dropped, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&page(), &enter);
    QVERIFY(enter.isAccepted());
    QDropEvent drop({5, 5}, Qt::CopyAction, &dropped, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&page(), &drop);
    QTRY_VERIFY_WITH_TIMEOUT(compared() && page().rows().areTables(), kWaitMs);
    QCOMPARE(page().rows().rowCount(), 12);
    QCOMPARE(cell(page().rows(), 0, 0), "another winner");
    QVERIFY(page().rows().html(1).contains("its step takes 50.0 % less (machine)"));
    QVERIFY(page().rows().surroundings().contains("planned for h100-sxm, then h200-sxm"));
    QVERIFY(!page().figure().isEnabled());
    QVERIFY(!plot().placeOf(0).isNull());
    press("compareRemove");
    QVERIFY(child<QLabel>("compareMessage")->isVisible());
    QCOMPARE(page().rows().rowCount(), 0);
  }

  void aFileThatCannotBeReadIsSaidAndWhatIsOpenStays() {
    QFile broken("broken.json");
    QVERIFY(broken.open(QIODevice::WriteOnly) && broken.write("{") == 1);
    broken.close();
    page().comparer().setPaths({"last.json", "broken.json"});
    QTRY_VERIFY_WITH_TIMEOUT(!page().comparer().isBusy(), kWaitMs);
    QVERIFY(child<QLabel>("compareMessage")->text().startsWith("Not compared: "));
    QVERIFY(window_->document().snapshot());
    compare_shipped();
    QVERIFY(plot().isVisible());
  }

  void nothingIsCutInASmallWindow() {
    compare_shipped();
    for (const QSize& size : {QSize(1024, 768), QSize(1280, 800)}) {
      window_->resize(size);
      QTest::qWait(50);
      QCOMPARE(window_->size(), size);
      for (QPushButton* button : page().findChildren<QPushButton*>()) {
        if (button->isVisible()) {
          QVERIFY2(button->width() >= button->sizeHint().width(), qPrintable(button->text()));
          QVERIFY(
              page().rect().contains(QRect(button->mapTo(&page(), QPoint(0, 0)), button->size())));
        }
      }
      QVERIFY(plot().height() >= 200);
      QVERIFY(page().table().height() >= 150);
    }
    for (QWidget* part : page().findChildren<QWidget*>()) {
      if (part->isVisible() && part->focusPolicy() == Qt::StrongFocus &&
          part->parent() == &page()) {
        QVERIFY(!part->accessibleName().isEmpty());
      }
    }
  }
};

VERSIEVE_GUI_TEST(ComparePageTest)
#include "compare_page_test.moc"
