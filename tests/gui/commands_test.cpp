// Every command by its id: the palette finds it by its letters, the keyboard and the menu reach the
// same action, and none fails on an empty window or on a database.
#include <QAction>
#include <QApplication>
#include <QFile>
#include <QLineEdit>
#include <QListWidget>
#include <QMenuBar>
#include <QSet>
#include <QTabWidget>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>

#include "gui/views/command_palette.h"
#include "gui/views/theme.h"
#include "tests/gui/many_points.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

class CommandsTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;

  // Types into the palette and takes what is first.
  void take(Window& window, const QString& letters) {
    window.findChild<QAction*>("help.commands")->trigger();
    CommandPalette* palette = window.findChild<CommandPalette*>("palette");
    QVERIFY(palette != nullptr && palette->isVisible());
    QTest::keyClicks(&palette->typed(), letters);
    QVERIFY(palette->list().count() >= 1);
    QTest::keyClick(&palette->typed(), Qt::Key_Return);
    QTRY_VERIFY(window.findChild<CommandPalette*>("palette") == nullptr);
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    test::write_made_up_sweep(folder_.filePath("sweep.db").toStdString());
  }

  void lettersMatchInTheirOrder() {
    QVERIFY(matches_letters("dkc", "Dark colours"));
    QVERIFY(matches_letters("d c", "Dark colours"));
    QVERIFY(matches_letters("", "Quit"));
    QVERIFY(!matches_letters("cd", "Dark colours"));
  }

  void everyCommandHasAnIdOfItsOwn() {
    Window window;
    QSet<QString> ids;
    for (const QAction* command : commands_of(*window.menuBar())) {
      QVERIFY2(!ids.contains(command->objectName()), qPrintable(command->objectName()));
      ids.insert(command->objectName());
    }
    for (const QString& page : Window::pageNames()) {
      QVERIFY(ids.contains("page." + page));
    }
    QVERIFY(ids.contains("file.open") && ids.contains("help.commands"));
  }

  void thePaletteDoesWhatTheMenuDoes() {
    Window window;
    window.show();
    QVERIFY(open(window, folder_.filePath("sweep.db")));
    const QTabWidget* tabs = window.findChild<QTabWidget*>();
    take(window, "runs");
    QCOMPARE(tabs->currentIndex(), 0);
    take(window, "point");
    QCOMPARE(tabs->currentIndex(), 1);
    const bool was_dark = theme::shade() == theme::Shade::kDark;
    take(window, "dark");
    QCOMPARE(theme::shade() == theme::Shade::kDark, !was_dark);
    take(window, "dark");
  }

  void arrowsChooseAndEscapeDoesNothing() {
    Window window;
    window.show();
    QVERIFY(open(window, folder_.filePath("sweep.db")));
    window.findChild<QAction*>("help.commands")->trigger();
    CommandPalette* palette = window.findChild<CommandPalette*>("palette");
    QVERIFY(palette->list().count() > 8);
    QTest::keyClick(&palette->typed(), Qt::Key_Down);
    QCOMPARE(palette->list().currentRow(), 1);
    QTest::keyClick(&palette->typed(), Qt::Key_Up);
    QCOMPARE(palette->list().currentRow(), 0);
    QTest::keyClicks(&palette->typed(), "zzzz");
    QCOMPARE(palette->list().count(), 0);
    QTest::keyClick(&palette->typed(), Qt::Key_Return);
    QVERIFY(palette->isVisible());
    QTest::keyClick(palette, Qt::Key_Escape);
    QTRY_VERIFY(window.findChild<CommandPalette*>("palette") == nullptr);
  }

  // Each command on a usual database from most pages, on none, an empty, a huge and a broken one
  // from some: nothing fails, and the dialogs that some open are left again.
  void everyCommandIsHarmlessOnAnyDatabase() {
    const QString empty = folder_.filePath("empty.db"), broken = folder_.filePath("broken.db");
    { db::Store::open(empty.toStdString(), db::OpenMode::kCreateOrOpen); }
    QFile file(broken);
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write("SQLite format 3 not quite") > 0);
    file.close();
    QTimer leave;  // of all dialogs and menus, those too that open after their command
    connect(&leave, &QTimer::timeout, this, [] {
      for (QWidget* over : {QApplication::activePopupWidget(), QApplication::activeModalWidget()}) {
        if (over != nullptr) {
          over->close();
        }
      }
    });
    leave.start(1);
    for (const QString& path :
         {QString(), empty, folder_.filePath("sweep.db"), QString("huge"), broken}) {
      Window window;
      window.show();
      const bool is_huge = path == QLatin1String("huge");
      const bool is_usual = path.endsWith(QLatin1String("sweep.db"));
      if (is_huge) {
        window.document().accept(many_points(1'000'000));
      } else if (path == broken) {
        QSignalSpy failed(&window.document(), &Document::failed);
        window.document().open(path);
        QVERIFY(failed.wait(kWaitMs));
      } else if (!path.isEmpty()) {
        QVERIFY(open(window, path));
      }
      for (const QString& page :
           is_usual  ? QStringList{"points", "explore", "planner", "step", "compare", "measure"}
           : is_huge ? QStringList{"explore"}
                     : QStringList{"points", "planner"}) {
        for (QAction* command : commands_of(*window.menuBar())) {
          if (command->objectName() == QLatin1String("file.quit")) {
            continue;
          }
          window.showPage(page);
          command->trigger();
          QTest::qWait(3);
        }
      }
      QTRY_VERIFY_WITH_TIMEOUT(QApplication::activeModalWidget() == nullptr, kWaitMs);
      QVERIFY(window.isVisible());
      (void)window.grab();
      window.findChild<QAction*>("file.quit")->trigger();
      QVERIFY(!window.isVisible());
    }
    theme::apply(*qApp);
  }

  // One key for one command.
  void noTwoCommandsShareAKey() {
    Window window;
    QSet<QString> keys;
    for (const QAction* command : commands_of(*window.menuBar())) {
      for (const QKeySequence& sequence : command->shortcuts()) {
        QVERIFY2(!keys.contains(sequence.toString()), qPrintable(command->objectName()));
        keys.insert(sequence.toString());
      }
    }
  }
};

QTEST_MAIN(CommandsTest)
#include "commands_test.moc"
