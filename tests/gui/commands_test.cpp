// Every command by its id: the palette finds it by its letters, the keyboard and the menu reach the
// same action, and none fails on an empty window or on a database.
#include <QAction>
#include <QApplication>
#include <QFile>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMenuBar>
#include <QMessageBox>
#include <QRegularExpression>
#include <QSet>
#include <QStatusBar>
#include <QTabWidget>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>
#include <algorithm>

#include "gui/views/command_palette.h"
#include "gui/views/theme.h"
#include "tests/gui/many_points.h"
#include "tests/gui/test_main.h"
#include "tests/gui/window_case.h"

using namespace versieve;
using namespace versieve::gui;

class CommandsTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir folder_;

  static constexpr int kHuge = 1'000'000;

  void load(Window& window, const QString& path) {
    if (path.endsWith("huge.db")) {
      const std::shared_ptr<Snapshot> snapshot = many_points(kHuge);
      snapshot->path = path;
      window.document().accept(snapshot);
    } else if (path.endsWith("broken.db")) {
      QSignalSpy failed(&window.document(), &Document::failed);
      window.document().open(path);
      QVERIFY(failed.wait(kWaitMs));
    } else if (!path.isEmpty()) {
      QVERIFY(open(window, path));
    }
  }

  void leave_dialogs() {
    for (QWidget* over : {QApplication::activePopupWidget(), QApplication::activeModalWidget()}) {
      if (const QMessageBox* box = qobject_cast<QMessageBox*>(over)) {
        QVERIFY(is_sentence(box->text()));
      }
      if (over != nullptr) {
        over->close();
      }
    }
  }

  // Words, with nothing of a program's inside in them.
  static bool is_sentence(const QString& text) {
    static const QRegularExpression inside(
        "%\\d|std::|nullptr|terminate|what\\(\\)|SQLITE_|\\bnan\\b");
    return text.trimmed().count(' ') >= 1 && !text.contains(inside);
  }

  static void set_something(Window& window) {
    Document& document = window.document();
    if (document.snapshot() && !document.snapshot()->overview.points.empty()) {
      document.setFilter("L>=4K");
      document.select(7);
      document.setBaseline(5);
      document.setPins({3});
    }
  }

  // Points, and what was set but for what the command itself sets; what is said.
  static void check_kept(Window& window, const QString& path, const QString& command) {
    const Document& document = window.document();
    const bool is_read = !path.isEmpty() && !path.endsWith("broken.db");
    QVERIFY2((document.snapshot() != nullptr) == is_read, qPrintable(command));
    for (const char* name : {"bannerText", "startTitle", "startText"}) {
      const QLabel* label = window.findChild<QLabel*>(name);
      QVERIFY2(!label->isVisible() || is_sentence(label->text()),
               qPrintable(command + ": " + label->text()));
    }
    const QString said = window.statusBar()->currentMessage();
    QVERIFY2(said.isEmpty() || is_sentence(said), qPrintable(command + ": " + said));
    if (!is_read || document.snapshot()->overview.points.empty()) {
      return;
    }
    QVERIFY2(document.mask().size() >= 40 &&
                 document.mask().size() == document.snapshot()->overview.points.size(),
             qPrintable(command));
    QVERIFY2(!document.shown().empty(), qPrintable(command));
    if (command == QLatin1String("edit.undo") || command == QLatin1String("edit.redo")) {
      return;
    }
    QVERIFY2(document.selected() == 7, qPrintable(command));
    QVERIFY2(document.filterText().isEmpty() == (command == QLatin1String("edit.allPoints")),
             qPrintable(command + ": " + document.filterText()));
    QVERIFY2(command == QLatin1String("points.baseline") || document.baseline() == 5,
             qPrintable(command));
    QVERIFY2(command.startsWith("points.") || document.pins() == std::vector<int>{3},
             qPrintable(command));
  }

  // Types into the palette and takes what is first.
  void take(Window& window, const QString& letters) {
    window.findChild<QAction*>("help.commands")->trigger();
    CommandPalette* palette = window.findChild<CommandPalette*>("palette");
    QVERIFY(palette != nullptr && palette->isVisible());
    QTest::keyClicks(&palette->typed(), letters);
    QVERIFY(palette->list().count() >= 1);
    QTest::keyClick(&palette->typed(), Qt::Key_Return);
    QTRY_VERIFY_WITH_TIMEOUT(window.findChild<CommandPalette*>("palette") == nullptr, kWaitMs);
  }

 private Q_SLOTS:
  void initTestCase() {
    theme::apply(*qApp);
    test::write_made_up_sweep(folder_.filePath("sweep.db").toStdString());
    { db::Store::open(folder_.filePath("empty.db").toStdString(), db::OpenMode::kCreateOrOpen); }
    for (const auto& [name, text] : {std::pair{"broken.db", "SQLite format 3 not quite"},
                                     std::pair{"huge.db", "read before it became this"}}) {
      QFile file(folder_.filePath(name));
      QVERIFY(file.open(QIODevice::WriteOnly) && file.write(text) > 0);
    }
  }

  void cleanup() { job_pool().waitForDone(); }  // plans of a window that is gone

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
    const auto says_none = [palette] {
      const QList<QLabel*> labels = palette->findChildren<QLabel*>();
      return std::any_of(labels.begin(), labels.end(), [](const QLabel* label) {
        return label->isVisible() && label->text().startsWith("No command");
      });
    };
    QVERIFY(!says_none());
    QTest::keyClicks(&palette->typed(), "plan.energy");  // an id is found, too
    QCOMPARE(palette->list().count(), 1);
    palette->typed().clear();
    QTest::keyClicks(&palette->typed(), "zzzz");
    QCOMPARE(palette->list().count(), 0);
    QVERIFY(says_none());
    QTest::keyClick(&palette->typed(), Qt::Key_Return);
    QVERIFY(palette->isVisible());
    QTest::keyClick(palette, Qt::Key_Escape);
    QTRY_VERIFY_WITH_TIMEOUT(window.findChild<CommandPalette*>("palette") == nullptr, kWaitMs);
  }

  void everyCommandIsHarmless_data() {
    QTest::addColumn<QString>("path");
    QTest::newRow("nothing") << QString();
    for (const char* name : {"empty", "sweep", "huge", "broken"}) {
      QTest::newRow(name) << folder_.filePath(QString(name) + ".db");
    }
  }

  // Each command on no, an empty, a usual, a huge and a broken database, from all pages: nothing
  // fails, nothing that was read or set is lost, what is said is a sentence, and the dialogs that
  // some open are left again. A fifth of the commands from each page, each from some of the
  // pages; where VERSIEVE_EVERY_COMMAND is set all from all.
  void everyCommandIsHarmless() {
    QFETCH(QString, path);
    Window window;
    window.show();
    load(window, path);
    if (!path.endsWith("huge.db")) {  // a look at all cells of a million points takes minutes
      watch_models(window);
    }
    QTimer leave;  // of all dialogs and menus, those too that open after their command
    connect(&leave, &QTimer::timeout, this, [this] { leave_dialogs(); });
    leave.start(1);
    const int every = qEnvironmentVariableIsSet("VERSIEVE_EVERY_COMMAND") ? 1 : 5;
    int place = QString(QTest::currentDataTag()).size(), tried = 0;
    for (const QString& page : Window::pageNames()) {
      window.showPage(page);
      for (QAction* command : commands_of(*window.menuBar())) {
        if (command->objectName() == QLatin1String("file.quit") || ++place % every != 0) {
          continue;
        }
        set_something(window);
        window.showPage(page);
        command->trigger();
        QTest::qWait(3);
        check_kept(window, path, command->objectName());
        if (QTest::currentTestFailed()) {
          return;
        }
        ++tried;
      }
    }
    qInfo("%d commands", tried);
    QTRY_VERIFY_WITH_TIMEOUT(QApplication::activeModalWidget() == nullptr, kWaitMs);
    QVERIFY(window.isVisible());
    (void)window.grab();
    window.findChild<QAction*>("file.quit")->trigger();
    QVERIFY(!window.isVisible());
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

VERSIEVE_GUI_TEST(CommandsTest)
#include "commands_test.moc"
