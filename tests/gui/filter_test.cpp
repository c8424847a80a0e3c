// The filter line: words, comparisons and units, what is wrong in one, and what it hides.
#include <QLabel>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QThreadPool>

#include "gui/models/point_filter.h"
#include "gui/models/snapshot.h"
#include "gui/pages/points_page.h"
#include "gui/views/theme.h"
#include "gui/window.h"
#include "model/words/error.h"
#include "tests/gui/database_case.h"
#include "tests/gui/test_main.h"

using namespace versieve;
using namespace versieve::gui;

class FilterTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  QString sweep_;

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    sweep_ = made_up_sweep_in(folder_);
  }

  void cleanupTestCase() { job_pool().waitForDone(); }

  void filtersTakeWordsAndComparisons() {
    const SnapshotPtr snapshot = read_snapshot(sweep_);
    const auto count = [&snapshot](const char* text) {
      return static_cast<int>(PointFilter::parse(text).apply(*snapshot).size());
    };
    QCOMPARE(count(""), test::kMadeUpPoints);
    QCOMPARE(count("ATTENTION status=ok"), test::kMadeUpAttention + test::kMadeUpSimulated);
    QCOMPARE(count("-attention"), test::kMadeUpAcceptance);
    QCOMPARE(count("source=simulated"), test::kMadeUpSimulated);
    QCOMPARE(count("L>=16K L<=32K workload=attention source=measured"), 10);
    QCOMPARE(count("L >= 16K L <= 32K workload = 'attention' source = \"measured\""), 10);
    QCOMPARE(count("N=128 regime!=chat L=64K"), 1);
    QCOMPARE(count("time>0"), test::kMadeUpAttention + test::kMadeUpSimulated);
    for (const char* bad : {"colour=red", "L>=many", "model>3"}) {
      QVERIFY_EXCEPTION_THROWN(PointFilter::parse(bad), Error);
    }
  }

  void filtersTakeUnitsAndWhatTheTableShows() {
    const SnapshotPtr snapshot = read_snapshot(sweep_);
    const auto count = [&snapshot](const QString& text) {
      return static_cast<int>(PointFilter::parse(text).apply(*snapshot).size());
    };
    const int fast = count("time<50");
    QVERIFY(fast > 0 && fast < test::kMadeUpPoints);
    for (const char* same : {"time<50us", "time<50µs", "time < 0.05ms", "time<50000 ns", "time<5e1",
                             "Median time<50", "median time, µs < 50us", "TIME<50"}) {
      QCOMPARE(count(QString::fromUtf8(same).replace("50000 ns", "50000ns")), fast);
    }
    QCOMPARE(count("ρ>0"), count("rho>0"));
    QCOMPARE(count("N ≥ 64"), count("N>=64"));
    QCOMPARE(count("workload==attention"), count("workload=attention"));
    QCOMPARE(count("L>=16k"), count("L>=16384"));
    QCOMPARE(count("dram<1MB"), count("dram<1000kB"));
    QCOMPARE(count("Spread<1%"), count("spread<1"));
    QCOMPARE(count("meas. / pred.>1"), count("ratio>1"));
    QCOMPARE(count("'time'"), 0);  // the word, which no text column holds
  }

  // A half-typed term, a foreign sign, a comma: each said in a sentence of its own.
  void aFilterThatIsWrongSaysWhatAndFiltersNothing() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    QLineEdit* filter = window.findChild<QLineEdit*>("filter");
    const QLabel* sentence = window.findChild<QLabel*>("filterError");
    for (const auto& [wrong, said] :
         {std::pair{"time<", "after \"time<\" a value is missing"},
          std::pair{"time", "says nothing alone"}, std::pair{"<50", "stands no column"},
          std::pair{"time<8,5", "8.5"}, std::pair{"time<5kg", "no unit of time, which is in µs"},
          std::pair{"model='demo", "is not closed"}, std::pair{"model:demo", "model=demo"},
          std::pair{"time=fast", "not a number"}}) {
      filter->setText("N=128");
      QVERIFY(window.pointsPage().points().rowCount() < test::kMadeUpPoints);
      filter->setText(QString(*wrong == '<' ? "" : "N=128 ") + wrong);
      QCOMPARE(window.pointsPage().points().rowCount(), test::kMadeUpPoints);
      QVERIFY2(sentence->isVisible() && sentence->text().startsWith("Not filtered: ") &&
                   sentence->text().contains(QString::fromUtf8(said)),
               qPrintable(sentence->text()));
    }
    filter->setText("model=nonsense");
    QVERIFY2(sentence->text().contains("no point has model=nonsense; model is demo-nsa, nsa-1b"),
             qPrintable(sentence->text()));
    filter->setText("time>1s");
    QVERIFY2(sentence->text().contains("time is from "), qPrintable(sentence->text()));
    filter->setText("N=1 N=4");
    QVERIFY2(sentence->text().contains("all of it for none"), qPrintable(sentence->text()));
    filter->clear();
    QVERIFY(!sentence->isVisible());
  }

  void thePlaceholdersExampleHoldsInTheShippedDatabases() {
    for (const char* name : {"h100.db", "h200.db"}) {
      const SnapshotPtr snapshot =
          read_snapshot(QString(VERSIEVE_SOURCE_DIR "/db/measured/") + name);
      const std::size_t shown =
          PointFilter::parse(PointsPage::filterExample()).apply(*snapshot).size();
      QVERIFY(shown > 0 && shown < snapshot->overview.points.size());
    }
  }

  void aSelectionOutlivesTheFilterThatHidesIt() {
    Window window;
    window.show();
    QVERIFY(open(window, sweep_));
    window.showPage("points");
    PointsPage& page = window.pointsPage();
    const int target = 17;
    QSignalSpy read(&window.document(), &Document::pointRead);
    window.document().select(target);
    QVERIFY(read.wait(kWaitMs));
    window.document().setFilter("source=simulated");
    QCOMPARE(window.document().selected(), target);
    QCOMPARE(page.points().rowOf(target), -1);
    const QTextBrowser* details = window.findChild<QTextBrowser*>("point");
    QVERIFY(details->toPlainText().contains("The filter hides this point"));
    window.document().setFilter("source=measured");
    QCOMPARE(page.points().pointAt(page.table().currentIndex().row()), target);
    QVERIFY(!details->toPlainText().contains("The filter hides this point"));
  }
};

VERSIEVE_GUI_TEST(FilterTest)
#include "filter_test.moc"
