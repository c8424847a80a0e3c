// The window by keyboard and by screen reader: Tab reaches every control, which has a name and
// shows that it has the focus.
#include <QAccessible>
#include <QComboBox>
#include <QSlider>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QThreadPool>

#include "gui/pages/planner_page.h"
#include "gui/pages/points_page.h"
#include "gui/views/focus_ring.h"
#include "gui/views/theme.h"
#include "tests/gui/database_case.h"
#include "tests/gui/test_main.h"

using namespace versieve;
using namespace versieve::gui;

namespace {

bool takes_tab(const QWidget& widget) {
  return widget.isVisible() && widget.isEnabled() && (widget.focusPolicy() & Qt::TabFocus) &&
         widget.focusProxy() == nullptr && !widget.objectName().startsWith("qt_");
}

QString described(const QString& page, const QWidget& widget) {
  return page + ": " + widget.metaObject()->className() + " " + widget.objectName() + " " +
         widget.accessibleName();
}

QRect in_window(const QWidget& widget) {
  return {widget.mapTo(widget.window(), QPoint()), widget.size()};
}

// From one widget on by Tab, until it comes back.
QList<QWidget*> tabbed_through(Window& window) {
  QList<QWidget*> visited;
  for (int presses = 0; presses < 300; ++presses) {
    QTest::keyClick(window.focusWidget() != nullptr ? window.focusWidget() : &window, Qt::Key_Tab);
    QWidget* const now = window.focusWidget();
    if (now == nullptr || (!visited.isEmpty() && now == visited.first())) {
      break;
    }
    visited << now;
  }
  return visited;
}

}  // namespace

class KeyboardTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;
  QString campaign_;

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    campaign_ = synthetic_campaign_in(folder_);
  }

  void cleanupTestCase() { job_pool().waitForDone(); }

  void allThatTakesTheFocusHasAName() {
    Window window;
    window.show();
    QVERIFY(open(window, campaign_));
    for (const QString& page : Window::pageNames()) {
      window.showPage(page);
      Planner& planner = window.plannerPage().planner();
      QTRY_VERIFY_WITH_TIMEOUT(!planner.isBusy(), kWaitMs);
      for (QWidget* widget : window.findChildren<QWidget*>()) {
        if (!takes_tab(*widget)) {
          continue;
        }
        QAccessibleInterface* interface = QAccessible::queryAccessibleInterface(widget);
        QVERIFY2(interface != nullptr && !interface->text(QAccessible::Name).isEmpty(),
                 qPrintable(described(page, *widget)));
      }
    }
  }

  // By Tab alone, from top to bottom or from left to right, and one sees where one is.
  void tabReachesEveryControlAndItIsSeen() {
    QObject keeper;
    new FocusRing(&keeper);
    Window window;
    window.resize(1280, 860);
    window.show();
    window.activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(&window));
    QVERIFY(open(window, campaign_));
    QStringList faults;
    for (const QString& page : Window::pageNames()) {
      window.showPage(page);
      QTest::qWait(50);  // for jobs to begin
      QTRY_VERIFY_WITH_TIMEOUT(
          !window.plannerPage().planner().isBusy() && job_pool().activeThreadCount() == 0, kWaitMs);
      QTest::qWait(50);
      const QList<QWidget*> visited = tabbed_through(window);
      for (QWidget* widget : window.findChildren<QWidget*>()) {
        if (takes_tab(*widget) && !visited.contains(widget)) {
          faults << "not reached by Tab: " + described(page, *widget);
        }
      }
      for (qsizetype i = 0; i + 1 < visited.size(); ++i) {
        const QRect from = in_window(*visited[i]), to = in_window(*visited[i + 1]);
        if (to.bottom() < from.top() && to.left() < from.right() && i + 2 != visited.size()) {
          faults << "Tab goes back up: " + described(page, *visited[i]) + " -> " +
                        described(page, *visited[i + 1]);
        }
      }
      for (QWidget* widget : visited) {
        const QRect around = in_window(*widget).adjusted(-3, -3, 3, 3);
        widget->setFocus(Qt::TabFocusReason);
        const QImage with = window.grab(around).toImage();
        widget->clearFocus();
        const QImage without = window.grab(around).toImage();
        if (with == without) {
          faults << "focus is not seen: " + described(page, *widget);
        }
      }
    }
    QVERIFY2(faults.isEmpty(), qPrintable(faults.join('\n')));
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

VERSIEVE_GUI_TEST(KeyboardTest)
#include "keyboard_test.moc"
