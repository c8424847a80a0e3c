// The look of the window: light and dark, and small.
#include <QDir>
#include <QFile>
#include <QHeaderView>
#include <QLabel>
#include <QMenu>
#include <QMessageBox>
#include <QSet>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QThreadPool>
#include <algorithm>

#include "gui/models/plain_words.h"
#include "gui/models/preferences.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/points_page.h"
#include "gui/views/axis.h"
#include "gui/views/contrast.h"
#include "gui/views/theme.h"
#include "tests/gui/database_case.h"
#include "tests/gui/test_main.h"

using namespace versieve;
using namespace versieve::gui;

namespace {

// Pixels of about this colour: the edges of letters are mixed with the ground.
int count_color(const QImage& picture, const QRect& where, const QColor& color) {
  constexpr int kNear = 60;
  int count = 0;
  for (int y = where.top(); y <= where.bottom(); ++y) {
    for (int x = where.left(); x <= where.right(); ++x) {
      const QColor at = picture.pixelColor(x, y);
      count += std::abs(at.red() - color.red()) < kNear &&
                       std::abs(at.green() - color.green()) < kNear &&
                       std::abs(at.blue() - color.blue()) < kNear && at.saturation() > 100
                   ? 1
                   : 0;
    }
  }
  return count;
}

// Where the first ink of a line of text stands, from the left.
int first_ink(const QImage& picture, const QRect& where) {
  const QRgb ground = picture.pixel(where.left() + 1, where.center().y());
  for (int x = where.left() + 1; x <= where.right(); ++x) {
    for (int y = where.top() + 4; y <= where.bottom() - 4; ++y) {
      if (std::abs(qGray(picture.pixel(x, y)) - qGray(ground)) > 60) {
        return x - where.left();
      }
    }
  }
  return -1;
}

}  // namespace

class LookTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  QString campaign_;

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    campaign_ = synthetic_campaign_in(folder_);
  }

  void cleanup() { theme::apply(*qApp); }
  void cleanupTestCase() { job_pool().waitForDone(); }

  void theNextWindowIsAsThisOneWas() {
    const QString file = folder_.filePath("preferences.ini");
    {
      Preferences kept(file);
      QVERIFY(kept.geometry().isEmpty());
      QVERIFY(!kept.isDark().has_value());
      QVERIFY(kept.recent().isEmpty());
      Window window;
      window.keepIn(kept);
      QAction* const recent = window.findChild<QAction*>("recent");
      QVERIFY(recent != nullptr && !recent->isEnabled());
      window.resize(1234, 765);
      window.show();
      QVERIFY(open(window, campaign_));
      QVERIFY(recent->isEnabled());
      QAction* const dark = window.findChild<QAction*>("view.dark");
      QVERIFY(dark != nullptr);
      dark->trigger();
      QVERIFY(window.close());
    }
    Preferences kept(file);
    QCOMPARE(kept.isDark(), std::optional<bool>(true));
    QCOMPARE(kept.recent(), QStringList(campaign_));
    Window window;
    window.keepIn(kept);
    QCOMPARE(window.size(), QSize(1234, 765));
    QAction* const recent = window.findChild<QAction*>("recent");
    QCOMPARE(recent->menu()->actions().size(), 1);
    QSignalSpy loaded(&window.document(), &Document::loaded);
    recent->menu()->actions().first()->trigger();
    QVERIFY(loaded.wait(kWaitMs));
    QCOMPARE(window.document().snapshot()->path, campaign_);
  }

  void recentDatabasesAreFewAndThere() {
    Preferences kept(folder_.filePath("recent.ini"));
    QStringList paths;
    for (int i = 0; i < Preferences::kMostRecent + 3; ++i) {
      const QString path = folder_.filePath(QString("file %1 & more.db").arg(i));
      QFile file(path);
      QVERIFY(file.open(QIODevice::WriteOnly));
      paths.prepend(path);
      kept.noteOpened(path);
    }
    QCOMPARE(kept.recent(), QStringList(paths.mid(0, Preferences::kMostRecent)));
    kept.noteOpened(paths[3]);
    QCOMPARE(kept.recent().first(), paths[3]);
    QCOMPARE(kept.recent().size(), Preferences::kMostRecent);
    QVERIFY(QFile::remove(paths[3]));
    QCOMPARE(kept.recent().first(), paths[0]);
  }

  void aWindowThatKeepsNothingHasNoRecentDatabases() {
    Window window;
    QVERIFY(open(window, campaign_));
    QVERIFY(!window.findChild<QAction*>("recent")->isEnabled());
    QVERIFY(window.close());
  }

  void textAndMarksStandOutInBothShades() {
    for (const theme::Shade shade : {theme::Shade::kLight, theme::Shade::kDark}) {
      theme::apply(*qApp, shade);
      QCOMPARE(theme::shade(), shade);
      const theme::Colors& c = theme::colors();
      for (const QColor& ground : {c.page, c.panel}) {
        QVERIFY(theme::contrast(c.ink, ground) >= 7.0);
        for (const QColor& text : {c.quiet_ink, c.accent, c.warning}) {
          QVERIFY(theme::contrast(text, ground) >= 4.5);
        }
      }
      QVERIFY(theme::contrast(c.ink, c.accent_tint) >= 7.0);
      QVERIFY(theme::contrast(c.quiet_ink, c.accent_tint) >= 4.5);
      for (int i = 0; i < theme::kCategoryCount; ++i) {
        // Okabe and Ito's orange and sky blue are the palest that are told apart on white.
        QVERIFY(theme::contrast(theme::category(i), c.panel) >=
                (shade == theme::Shade::kDark ? 3.0 : 2.0));
      }
    }
  }

  // White stood on yellow and pink bars.
  void textInsideBarsStandsOutInAllColours() {
    QVERIFY(qAbs(theme::contrast(Qt::black, Qt::white) - 21.0) < 1e-9);
    QVERIFY(qAbs(theme::contrast(QColor(0x76, 0x76, 0x76), Qt::white) - 4.54) < 0.01);
    for (const bool is_high : {false, true}) {
      theme::raise_contrast(is_high);
      for (const theme::Shade shade : {theme::Shade::kLight, theme::Shade::kDark}) {
        theme::apply(*qApp, shade);
        for (int i = 0; i <= theme::kCategoryCount; ++i) {
          const QColor bar = theme::category(i);
          QVERIFY(theme::contrast(theme::ink_on(bar), bar) >= 4.5);
        }
      }
    }
    theme::raise_contrast(false);
  }

  // By its command, in both shades; kept for the next time.
  void contrastIsRaisedByACommand() {
    Window window;
    Preferences preferences(folder_.filePath("contrast.ini"));
    window.keepIn(preferences);
    window.show();
    QAction* const high = window.findChild<QAction*>("view.contrast");
    QVERIFY(high != nullptr && !high->isChecked());
    high->trigger();
    QVERIFY(theme::is_contrast_high() && preferences.isHighContrast());
    for (const bool is_dark : {false, true}) {
      window.setDark(is_dark);
      const theme::Colors& c = theme::colors();
      QVERIFY(theme::contrast(c.ink, c.page) >= 20.0);
      for (const QColor& text : {c.quiet_ink, c.accent, c.warning}) {
        QVERIFY(theme::contrast(text, c.page) >= 7.0);
      }
      QVERIFY(theme::contrast(c.line, c.page) >= 4.5);
      QVERIFY(theme::contrast(c.quiet_ink, c.accent_tint) >= 7.0);
      for (int i = 0; i <= theme::kCategoryCount; ++i) {
        QVERIFY(theme::contrast(theme::category(i), c.panel) >= 4.5);
      }
    }
    high->trigger();
    QVERIFY(!theme::is_contrast_high() && !preferences.isHighContrast());
    window.setDark(false);
    QVERIFY(window.close());
  }

  void theWindowTurnsDarkWithAllThatItShows() {
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("points");
    QTextBrowser* point = window.pointsPage().findChild<QTextBrowser*>("point");
    QTRY_VERIFY_WITH_TIMEOUT(point->toPlainText().contains("workload"), kWaitMs);
    const auto ground = [&window] {
      Scatter& scatter = window.pointsPage().scatter();
      return scatter.grab().toImage().pixelColor(3, scatter.height() - 3);
    };
    QCOMPARE(ground().lightness() > 200, true);
    const QString light = point->toHtml();
    QVERIFY(light.contains(theme::colors().quiet_ink.name()));
    window.setDark(true);
    QTRY_VERIFY_WITH_TIMEOUT(ground().lightness() < 60, kWaitMs);
    QVERIFY(point->toHtml().contains(theme::colors().quiet_ink.name()));
    window.setDark(false);
    QCOMPARE(point->toHtml(), light);
  }

  // It could not be made narrower than 1138 pixels.
  void theWindowFitsASmallScreen() {
    Window window;
    window.resize(1024, 700);
    window.show();
    QVERIFY(open(window, campaign_));
    for (const QString& page : Window::pageNames()) {
      window.showPage(page);
      QCoreApplication::processEvents();
      QVERIFY2(window.width() <= 1024 && window.height() <= 700, qPrintable(page));
    }
  }

  // A centred sentence of two lines had room for one.
  void noLabelIsCut() {
    const QString empty = folder_.filePath("empty.db");
    { db::Store::open(empty.toStdString(), db::OpenMode::kCreateOrOpen); }
    for (const QString& path : {empty, campaign_}) {
      Window window;
      window.resize(1024, 700);
      window.show();
      QVERIFY(open(window, path));
      for (const QString& page : Window::pageNames()) {
        window.showPage(page);
        QTRY_VERIFY_WITH_TIMEOUT(!window.plannerPage().planner().isBusy(), kWaitMs);
        QTest::qWait(50);
        for (const QLabel* label : window.findChildren<QLabel*>()) {
          if (!label->isVisible() || label->text().isEmpty() ||
              label->sizePolicy().horizontalPolicy() == QSizePolicy::Ignored) {
            continue;
          }
          const bool fits = label->wordWrap()
                                ? label->height() >= label->heightForWidth(label->width())
                                : label->width() >= label->sizeHint().width();
          QVERIFY2(fits, qPrintable(page + ": " + label->objectName() + " " + label->text()));
        }
      }
    }
  }

  // In a low window only the strategy and its interval were left of a cell.
  void aLowCellOfThePlannerStillSaysWhatItYields() {
    Window window;
    window.resize(1100, 700);
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    QTRY_VERIFY_WITH_TIMEOUT(page.planner().plan() && !page.planner().isBusy(), kWaitMs);
    PlanGrid& grid = page.grid();
    grid.resize(900, grid.minimumSizeHint().height());
    const QImage picture = grid.grab().toImage();
    for (int bucket = 0; bucket < 4; ++bucket) {
      QVERIFY(count_color(picture, grid.cellRect(bucket, 1).adjusted(4, 4, -4, -4),
                          theme::colors().accent) > 20);
    }
  }

  void aLogarithmicAxisHasTwoTicksAtLeast() {
    for (const int wanted : {1, 2, 3, 5}) {
      QVERIFY(Axis::around({2.4, 3900.0}, true, false).ticks(wanted).size() >= 2);
      QVERIFY(Axis::around({11.0, 95.0}, true, false).ticks(wanted).size() >= 2);
    }
  }

  // A long path and a long sentence about the filter made the window wider than the screen.
  void longTextsDoNotWidenTheWindow() {
    const QString folder = folder_.filePath(QString(120, 'x') + "/" + QString(120, 'y'));
    QVERIFY(QDir().mkpath(folder));
    QVERIFY(QFile::copy(campaign_, folder + "/campaign.db"));
    Window window;
    window.resize(1024, 700);
    window.show();
    QVERIFY(open(window, folder + "/campaign.db"));
    window.showPage("points");
    window.document().setFilter("nonsense=1");
    QCoreApplication::processEvents();
    const QLabel* error = window.findChild<QLabel*>("filterError");
    QVERIFY(error->isVisible() && error->text().contains("no column is called"));
    QCOMPARE(window.width(), 1024);
    window.document().setFilter("N>1");
    QVERIFY(!error->isVisible());
  }

  // Brushing and the baseline were to be found in a README alone.
  void f1ListsKeysAndGestures() {
    Window window;
    window.show();
    window.activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(&window));
    QTest::keyClick(&window, Qt::Key_F1);
    QMessageBox* box = window.findChild<QMessageBox*>("keys");
    QVERIFY(box != nullptr && box->isVisible());
    QVERIFY(box->text().contains("Shift and drag"));
    box->close();
  }

  void whatIsSelectedIsSaidToAScreenReader() {
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    QTRY_VERIFY_WITH_TIMEOUT(page.planner().plan() && !page.planner().isBusy(), kWaitMs);
    QTest::keyClick(&page.grid(), Qt::Key_Down);
    QVERIFY(page.grid().accessibleDescription().contains("tokens/s"));
    window.document().select(2);
    QVERIFY(window.pointsPage().scatter().accessibleDescription().contains("L = "));
    window.document().select(-1);
    QVERIFY(window.pointsPage().scatter().accessibleDescription().isEmpty());
  }

  // A fit that is under way when the window goes must find nobody.
  void theWindowClosesWhileTheFitRuns() {
    {
      Window window;
      window.show();
      QVERIFY(open(window, campaign_));
      for (const QString& page : Window::pageNames()) {
        window.showPage(page);
      }
      QVERIFY(window.plannerPage().planner().isBusy());
      window.close();
    }
    job_pool().waitForDone();
    QCoreApplication::processEvents();
  }

  // A sentence that wrapped moved the grid under the pointer.
  void theGridStaysWhereItIsWhateverIsSaid() {
    Window window;
    window.resize(1024, 768);
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    const auto planned = [&] { return page.planner().plan() && !page.planner().isBusy(); };
    QTRY_VERIFY_WITH_TIMEOUT(planned(), kWaitMs);
    QTest::qWait(50);  // the choices have their widths
    (void)window.grab();
    const QPoint before = page.grid().mapTo(&window, QPoint());
    page.typedBandwidth().setValue(1.25);
    (void)window.grab();
    QCOMPARE(page.grid().mapTo(&window, QPoint()), before);
    QTRY_VERIFY_WITH_TIMEOUT(planned() && page.planner().plan()->isTurned(), kWaitMs);
    (void)window.grab();
    QCOMPARE(page.grid().mapTo(&window, QPoint()), before);
    const QTableView* table = page.findChild<QTableView*>("entries");
    QVERIFY(table->viewport()->height() >= 4 * table->rowHeight(0));  // two were left
    QVERIFY(page.grid().cellRect(0, 1).height() >= 50);
  }

  void longSchedulesAreToldByRuns() {
    QCOMPARE(compact("nsa/d6k6n32/bfs/c8e/FRRRRRRFRRRRRRRRRRRR"),
             QString::fromUtf8("nsa/d6k6n32/bfs/c8e/FR\u2076FR\u00b9\u00b2"));
    QCOMPARE(compact("nsa/ar/bfs/c1/(FRR)*"), QString("nsa/ar/bfs/c1/(FRR)*"));
  }

  // They stood three pixels beside each other.
  void cellsStandUnderTheirTitles() {
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("points");
    QTableView& table = window.pointsPage().table();
    QTRY_VERIFY_WITH_TIMEOUT(table.model()->rowCount() > 2, kWaitMs);
    const QImage titles = table.horizontalHeader()->viewport()->grab().toImage();
    const QImage cells = table.viewport()->grab().toImage();
    for (const int column : {0, 1, 2, 3, 4}) {
      const int left = table.columnViewportPosition(column), width = table.columnWidth(column);
      const int title = first_ink(titles, QRect(left, 0, width, titles.height()));
      const int cell =
          first_ink(cells, QRect(left, table.rowViewportPosition(2), width, table.rowHeight(2)));
      QVERIFY2(title >= 5 && std::abs(title - cell) <= 2,
               qPrintable(QString("column %1: %2, %3").arg(column).arg(title).arg(cell)));
    }
  }

  // Gains stood beside figures of no unit.
  void numbersInTablesHaveAUnit() {
    Window window;
    const QSet<QString> bare = {
        "Rank",          "N",        "ρ",       "Run",           "Points",   "Refused",
        "Failed",        "Texts",    "Moved",   "Ratio",         "T",        "L",
        "p loses",       "p better", "Context", "95 % interval", "Bound by", "Loss",
        "90 % interval", "First",    "Second",  "Rank, "};
    for (const QTableView* table : window.findChildren<QTableView*>()) {
      for (int column = 0; table->model() != nullptr && column < table->model()->columnCount();
           ++column) {
        const auto header = [&](int role) {
          return table->model()->headerData(column, Qt::Horizontal, role);
        };
        QString title = header(Qt::DisplayRole).toString();
        title = title.remove(QChar(0x25b4)).remove(QChar(0x25be)).trimmed();
        const bool is_number = header(Qt::TextAlignmentRole).toInt() & Qt::AlignRight;
        QVERIFY2(!is_number || bare.contains(title) || title.contains(", ") ||
                     title.contains('/') || title.startsWith(QChar(0xd7)),
                 qPrintable(table->objectName() + ": " + title));
      }
    }
  }
};

VERSIEVE_GUI_TEST(LookTest)
#include "look_test.moc"
