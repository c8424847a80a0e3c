// Every view leaves the window as PNG, SVG and CSV, saved and copied, with where it comes from in
// the file.
#include <QClipboard>
#include <QContextMenuEvent>
#include <QCryptographicHash>
#include <QDir>
#include <QFileDialog>
#include <QImage>
#include <QMenu>
#include <QMimeData>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>
#include <QTimer>
#include <QXmlStreamReader>
#include <memory>

#include "gui/models/provenance.h"
#include "gui/pages/compare/compare_page.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/points_page.h"
#include "gui/pages/sensitivity/sensitivity_page.h"
#include "gui/pages/step/step_page.h"
#include "gui/views/ratio_plot.h"
#include "gui/views/saved_view.h"
#include "gui/views/theme.h"
#include "gui/views/view_saver.h"
#include "tests/gui/test_main.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

class SavingTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  std::unique_ptr<Window> window_;

  ViewSaver& saver() { return window_->saver(); }

  QByteArray saved(QWidget& view, const QString& name) {
    QSignalSpy written(&saver(), &ViewSaver::written);
    saver().save(view, name);
    if (!written.wait(kWaitMs)) {
      return {};
    }
    QFile file(name);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  }

  QString hash() {
    QFile file("h100.db");
    [[maybe_unused]] const bool is_open = file.open(QIODevice::ReadOnly);
    return QString::fromLatin1(
        QCryptographicHash::hash(file.readAll(), QCryptographicHash::Sha256).toHex());
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
    QVERIFY(open(*window_, "h100.db"));
  }

  void cleanupTestCase() {
    window_.reset();
    job_pool().waitForDone();
  }

  void everyViewOfEveryPageIsSavedInThreeFormsThatSayWhereTheyComeFrom() {
    window_->document().setFilter("workload=step");
    window_->comparePage().comparer().setPaths({"h100.db", "h200.db"});
    QTRY_VERIFY_WITH_TIMEOUT(window_->comparePage().comparer().files(), kWaitMs);
    const QString sha256 = hash();
    // Those that wait for no fit.
    for (const char* page : {"runs", "points", "explore", "step", "compare"}) {
      window_->showPage(page);
      QTest::qWait(200);
      for (QWidget* view : saver().views()) {
        const QString name = ViewSaver::nameOf(*view);
        QVERIFY2(!name.isEmpty(), page);
        const QByteArray png = saved(*view, "view.png");
        const QImage image = QImage::fromData(png, "PNG");
        QCOMPARE(image.size(), view->size() * view->devicePixelRatioF());
        QVERIFY(image.text("Software").startsWith("Versieve "));
        const QString told = image.text("Description");
        QVERIFY2(told.contains(sha256), qPrintable(told));
        QVERIFY(told.contains("data: 2026-11-25"));
        QVERIFY(told.contains("command: versieve"));
        QVERIFY(told.contains(name));
        const QByteArray svg = saved(*view, "view.svg");
        QXmlStreamReader reader(svg);
        int texts = 0;
        while (!reader.atEnd()) {
          texts += reader.readNext() == QXmlStreamReader::StartElement && reader.name() == u"text";
        }
        QVERIFY2(!reader.hasError(), qPrintable(reader.errorString()));
        QVERIFY(svg.contains(sha256.toLatin1()));
        const QByteArray csv = saved(*view, "view.csv");
        QVERIFY(csv.startsWith("# Versieve "));
        QVERIFY(csv.contains(sha256.toLatin1()));
        QVERIFY2(csv.split('\n').size() > 6, qPrintable(name));
      }
    }
  }

  void aPictureOfRatiosIsDrawnNotPasted() {
    window_->showPage("compare");
    QTRY_VERIFY_WITH_TIMEOUT(window_->comparePage().comparer().files(), kWaitMs);
    window_->document().setFilter({});
    RatioPlot& plot = window_->comparePage().plot();
    const QByteArray svg = saved(plot, "ratios.svg");
    QVERIFY(!svg.contains("<image"));
    QVERIFY(svg.contains(">second / first</text>"));
    QVERIFY(svg.count("<path") > 100);
    const QByteArray csv = saved(plot, "ratios.csv");
    QVERIFY(csv.contains("# command: versieve compare h100.db h200.db"));
    QVERIFY(csv.contains("Change,Ratio,"));
  }

  void copiedAreThePictureAndTheTable() {
    window_->showPage("compare");
    window_->comparePage().plot().setFocus();
    QCOMPARE(saver().focused(), &window_->comparePage().plot());
    QSignalSpy copied(&saver(), &ViewSaver::copied);
    QTest::keyClick(window_.get(), Qt::Key_C, Qt::ControlModifier | Qt::ShiftModifier);
    QVERIFY(copied.wait(kWaitMs));
    const QMimeData& data = *QGuiApplication::clipboard()->mimeData();
    QVERIFY(data.hasImage());
    QVERIFY(data.hasFormat("image/svg+xml"));
    QVERIFY(data.text().startsWith("# Versieve "));
  }

  void theRightButtonOffersTheViewUnderIt() {
    window_->showPage("points");
    QTableView* table = window_->pointsPage().findChild<QTableView*>();
    QVERIFY(table != nullptr);
    QContextMenuEvent event(QContextMenuEvent::Mouse, {5, 5}, table->mapToGlobal(QPoint(5, 5)));
    QApplication::sendEvent(table->viewport(), &event);
    QMenu* menu = window_->findChild<QMenu*>("viewMenu");
    QVERIFY(menu != nullptr);
    QStringList entries;
    for (const QAction* action : menu->actions()) {
      entries << action->text();
    }
    QVERIFY(entries.contains("Copy rows"));
    QVERIFY(entries.contains("Save…"));
    menu->close();
  }

  void whatCannotBeWrittenIsSaidInASentence() {
    window_->showPage("points");
    QWidget* view = saver().views().first();
    QSignalSpy failed(&saver(), &ViewSaver::failed);
    saver().save(*view, "view.pdf");
    QCOMPARE(failed.size(), 1);
    QVERIFY(failed.takeFirst()[0].toString().contains(".png, .svg or .csv"));
    saver().save(*view, "/no/such/folder/view.png");
    QVERIFY(failed.wait(kWaitMs));
    QVERIFY(failed.takeFirst()[0].toString().contains("cannot be written"));
  }

  void cellsWithCommasAndQuotesAreQuoted() {
    QCOMPARE(csv_file({{"a,b", "say \"c\"", "d"}}, {"one"}),
             QByteArray("# one\n\"a,b\",\"say \"\"c\"\"\",d\n"));
  }
};

VERSIEVE_GUI_TEST(SavingTest)
#include "saving_test.moc"
