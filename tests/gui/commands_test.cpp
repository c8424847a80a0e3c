// Every command by its id: the palette finds it by its letters, the keyboard and the menu reach the
// same action, and none fails on an empty window or on a database.
#include <QAction>
#include <QLineEdit>
#include <QListWidget>
#include <QMenuBar>
#include <QSet>
#include <QTabWidget>
#include <QTemporaryDir>
#include <QTest>

#include "gui/views/command_palette.h"
#include "gui/views/theme.h"
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

  // Commands that open no dialog, on a window without a database: nothing fails.
  void commandsOfAnEmptyWindowAreHarmless() {
    Window window;
    window.show();
    for (QAction* command : commands_of(*window.menuBar())) {
      const QString id = command->objectName();
      if (id.startsWith("page.") || id == "file.read" || id == "file.follow") {
        command->trigger();
        QTest::qWait(1);
      }
    }
    QVERIFY(window.isVisible());
  }
};

QTEST_MAIN(CommandsTest)
#include "commands_test.moc"
