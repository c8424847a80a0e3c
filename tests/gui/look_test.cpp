// The look of the window: light and dark, small, and by keyboard.
#include <QAccessible>
#include <QComboBox>
#include <QDir>
#include <QFile>
#include <QLabel>
#include <QMenu>
#include <QMessageBox>
#include <QSlider>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QThreadPool>
#include <algorithm>
#include <cmath>

#include "gui/models/plain_words.h"
#include "gui/models/preferences.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/points_page.h"
#include "gui/pages/validation_page.h"
#include "gui/views/axis.h"
#include "gui/views/contrast.h"
#include "gui/views/focus_ring.h"
#include "gui/views/theme.h"
#include "tests/gui/test_main.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

namespace {

// Of WCAG 2: 4.5 for text, 3 for what is drawn.
double contrast(const QColor& a, const QColor& b) {
  const auto luminance = [](const QColor& color) {
    const auto linear = [](double c) {
      return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) +
           0.0722 * linear(color.blueF());
  };
  const double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

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

}  // namespace

class LookTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  QString campaign_;

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    campaign_ = folder_.filePath("campaign.db");
    write_synthetic_campaign(campaign_, true);
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
        QVERIFY(contrast(c.ink, ground) >= 7.0);
        for (const QColor& text : {c.quiet_ink, c.accent, c.warning}) {
          QVERIFY(contrast(text, ground) >= 4.5);
        }
      }
      QVERIFY(contrast(c.ink, c.accent_tint) >= 7.0);
      QVERIFY(contrast(c.quiet_ink, c.accent_tint) >= 4.5);
      for (int i = 0; i < theme::kCategoryCount; ++i) {
        // Okabe and Ito's orange and sky blue are the palest that are told apart on white.
        QVERIFY(contrast(theme::category(i), c.panel) >=
                (shade == theme::Shade::kDark ? 3.0 : 2.0));
      }
    }
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
      QVERIFY(contrast(c.ink, c.page) >= 20.0);
      for (const QColor& text : {c.quiet_ink, c.accent, c.warning}) {
        QVERIFY(contrast(text, c.page) >= 7.0);
      }
      QVERIFY(contrast(c.line, c.page) >= 4.5);
      QVERIFY(contrast(c.quiet_ink, c.accent_tint) >= 7.0);
      for (int i = 0; i <= theme::kCategoryCount; ++i) {
        QVERIFY(contrast(theme::category(i), c.panel) >= 4.5);
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
    QCOMPARE(ground().lightness() < 60, true);
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

  void allThatTakesTheFocusHasAName() {
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    for (const QString& page : Window::pageNames()) {
      window.showPage(page);
      Planner& planner = window.plannerPage().planner();
      QTRY_VERIFY_WITH_TIMEOUT(!planner.isBusy(), kWaitMs);
      for (QWidget* widget : window.findChildren<QWidget*>()) {
        if (!widget->isVisible() || !(widget->focusPolicy() & Qt::TabFocus) ||
            widget->focusProxy() != nullptr || widget->objectName().startsWith("qt_")) {
          continue;
        }
        QAccessibleInterface* interface = QAccessible::queryAccessibleInterface(widget);
        QVERIFY2(interface != nullptr && !interface->text(QAccessible::Name).isEmpty(),
                 qPrintable(page + ": " + widget->metaObject()->className() + " " +
                            widget->objectName()));
      }
    }
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

  // Choices, sliders and numbers showed no focus that could be seen.
  void choicesSlidersAndNumbersWearARingWhenTheyHaveTheFocus() {
    QObject keeper;
    new FocusRing(&keeper);
    Window window;
    window.show();
    window.activateWindow();
    QVERIFY(open(window, campaign_));
    window.showPage("planner");
    PlannerPage& page = window.plannerPage();
    QTRY_VERIFY_WITH_TIMEOUT(page.planner().plan() && !page.planner().isBusy(), kWaitMs);
    for (QWidget* widget :
         {static_cast<QWidget*>(&page.model()), static_cast<QWidget*>(&page.bandwidth()),
          static_cast<QWidget*>(&page.typedBandwidth())}) {
      widget->setFocus();
      const QWidget* ring = widget->findChild<QWidget*>("focusRing");
      QVERIFY(ring != nullptr && ring->isVisible());
      QCOMPARE(ring->size(), widget->size());
      QCOMPARE(window.findChildren<QWidget*>("focusRing").size(), qsizetype{1});
    }
    page.grid().setFocus();  // which shows it itself
    QVERIFY(window.findChildren<QWidget*>("focusRing").isEmpty());
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

  // Tab leaves a table; before, it went from cell to cell and never out.
  void tabGoesThroughThePageOfPoints() {
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    window.showPage("points");
    window.activateWindow();
    QTableView& table = window.pointsPage().table();
    table.setFocus();
    QTest::keyClick(&table, Qt::Key_Tab);
    QVERIFY(!table.hasFocus());
  }
};

VERSIEVE_GUI_TEST(LookTest)
#include "look_test.moc"
