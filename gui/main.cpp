// The desktop app: `versieve-gui [database]`; with --screenshot it draws one page into a PNG file,
// without a display, and ends.
#include <QApplication>
#include <QBuffer>
#include <QCommandLineParser>
#include <QElapsedTimer>
#include <QFileInfo>
#include <QLocale>
#include <QRegularExpression>
#include <QTimer>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/fit/stored_fit.h"
#include "engine/io/atomic_file.h"
#include "gui/display.h"
#include "gui/models/jobs.h"
#include "gui/models/preferences.h"
#include "gui/models/session.h"
#include "gui/pages/compare/compare_page.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/replay_page.h"
#include "gui/pages/sensitivity/sensitivity_page.h"
#include "gui/views/contrast.h"
#include "gui/views/focus_ring.h"
#include "gui/views/theme.h"
#include "gui/window.h"
#include "model/words/error.h"

using versieve::Error;
using versieve::ExitCode;
using versieve::FittedModel;
using versieve::gui::Preferences;
using versieve::gui::Session;
using versieve::gui::Window;
using versieve::gui::kSessionSuffix;
namespace theme = versieve::gui::theme;

namespace {

constexpr int kSettleMs = 300;  // for layouts and the detail job after a page is there

int exit_with(ExitCode code, const QString& sentence) {
  std::fprintf(stderr, "versieve-gui: %s\n", qPrintable(sentence));
  return static_cast<int>(code);
}

// Whole or not at all.
void take_screenshot(Window& window, const QString& path) {
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  window.grab().save(&buffer, "PNG");
  try {
    versieve::engine::write_file_atomically(path.toStdString(), bytes.toStdString());
    QApplication::exit(0);
  } catch (const Error& error) {
    QApplication::exit(exit_with(error.code(), QString::fromUtf8(error.what())));
  }
}

// Pictures of what rests on the fit wait for the plan.
void prepare_screenshot(Window& window, const QString& page, const QString& path) {
  using versieve::gui::Document;
  using versieve::gui::Planner;
  const auto later = [&window, path] {
    QTimer::singleShot(kSettleMs, &window, [&window, path] { take_screenshot(window, path); });
  };
  Planner& planner = window.plannerPage().planner();
  using versieve::gui::Replayer;
  using versieve::gui::SensitivityModel;
  if (page == QLatin1String("replay")) {
    const Replayer& replayer = window.replayPage().replayer();
    QObject::connect(&replayer, &Replayer::changed, &window, [&replayer, &planner, later] {
      if (!planner.isBusy() && !replayer.isBusy() &&
          (replayer.replayed() || !replayer.sentence().isEmpty())) {
        later();
      }
    });
  } else if (page == QLatin1String("sensitivity")) {
    const SensitivityModel& model = window.sensitivityPage().model();
    QObject::connect(&model, &SensitivityModel::changed, &window, [&model, &planner, later] {
      if (!planner.isBusy() && !model.isBusy() &&
          (model.answer() || !model.sentence().isEmpty())) {
        later();
      }
    });
  } else if (page == QLatin1String("planner") || page == QLatin1String("validation") ||
             page == QLatin1String("quality")) {
    const auto opened = std::make_shared<QElapsedTimer>();
    QObject::connect(&window.document(), &Document::loaded, &window, [opened] { opened->start(); });
    QObject::connect(&planner, &Planner::changed, &window, [&planner, &window, opened, later] {
      if (!planner.isBusy() && (planner.plan() || !planner.sentence().isEmpty())) {
        window.grab();  // drawn, as on a display
        std::printf("plan shown %lld ms after its page was opened\n",
                    static_cast<long long>(opened->elapsed()));
        later();
      }
    });
  } else if (page == QLatin1String("compare") &&
             window.comparePage().comparer().paths().size() > 1) {
    const versieve::gui::Comparer& comparer = window.comparePage().comparer();
    QObject::connect(&comparer, &versieve::gui::Comparer::changed, &window, [&comparer, later] {
      if (!comparer.isBusy()) {
        later();
      }
    });
  } else {
    QObject::connect(&window.document(), &Document::loaded, &window, later);
  }
  QObject::connect(&window.document(), &Document::failed, &window, later);
}

// The options; may be read before there is an application.
struct CommandLine {
  CommandLine() {
    parser.setApplicationDescription("Explores a database of Versieve.");
    parser.addPositionalArgument(
        "database", "a file written by `versieve profile`, or a saved session", "[database]");
    parser.addOptions(
        {help, version, screenshot, page, filter, size, bandwidth, prior, colors, compare});
  }

  bool has(const QCommandLineOption& option) const { return parser.isSet(option); }
  QString value(const QCommandLineOption& option) const { return parser.value(option); }

  QCommandLineParser parser;
  QCommandLineOption help{{"h", "help"}, "Show what it takes, and end."};
  QCommandLineOption version{{"v", "version"}, "Show the version, and end."};
  QCommandLineOption screenshot{"screenshot", "Draw one page into a PNG file and end.", "file"};
  QCommandLineOption page{"page",
                          "The page to show: " + Window::pageNames().join(", ") +
                              "; the planner where a fit of the database is kept, else its "
                              "points.",
                          "name", "points"};
  QCommandLineOption filter{"filter", "Show the points for which this holds.", "text"};
  QCommandLineOption size{"size", "The window's size in pixels.", "width x height", "1400x900"};
  QCommandLineOption bandwidth{"bandwidth", "Plan for this memory bandwidth, 1 to 10.", "TB/s"};
  QCommandLineOption prior{
      "prior", "Begin the planner's fit at this one of another machine (`versieve fit --out`).",
      "file"};
  QCommandLineOption compare{
      "compare", "Compare the database, or a table, with this one; may be repeated.", "file"};
  QCommandLineOption colors{"colors",
                            "light, dark, or the same with high contrast: light-contrast, "
                            "dark-contrast; the desktop's if left out.",
                            "shade"};
};

QStringList words_of(int argc, char** argv) {
  QStringList words;
  for (int i = 0; i < argc; ++i) {
    words.append(QString::fromLocal8Bit(argv[i]));
  }
  return words;
}

// --help and --version need no display. False: neither was asked for.
bool printed_words(const CommandLine& line, int argc, char** argv) {
  if (!line.has(line.help) && !line.has(line.version)) {
    return false;
  }
  const QCoreApplication application(argc, argv);
  const QString words =
      line.has(line.help) ? line.parser.helpText() : QString("versieve-gui " VERSIEVE_VERSION "\n");
  std::fputs(qUtf8Printable(words), stdout);
  return true;
}

// Pictures need no display, and are the same with one; a platform that is named and is not there
// does not keep one from being drawn.
QString display_missing_because(bool for_picture, int argc, char** argv) {
  if (for_picture && qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) {
    qputenv("QT_QPA_PLATFORM", "offscreen");
  }
  QString reason = versieve::gui::window_impossible_because(argc, argv);
  if (for_picture && !reason.isEmpty()) {
    qputenv("QT_QPA_PLATFORM", "offscreen");
    reason = versieve::gui::window_impossible_because(argc, argv);
  }
  return reason;
}

// What a picture's window cannot have without a display is nothing to tell.
void leave_out_missing_display(QtMsgType type, const QMessageLogContext&, const QString& text) {
  if (text.startsWith("This plugin does not support") ||
      text.startsWith("QStandardPaths: XDG_RUNTIME_DIR not set")) {
    return;
  }
  std::fprintf(stderr, "%s\n", qPrintable(text));
  if (type == QtFatalMsg) {
    std::abort();
  }
}

// Qt's application object takes on the user's locale. Numbers are written with points everywhere:
// in files they must be, and a window that mixes marks reads as two numbers. Letters are compared
// as ASCII has them: a Turkish I has no i, and "NVIDIA" would be another name.
void leave_the_users_locale() {
  if (std::setlocale(LC_ALL, "C.UTF-8") == nullptr) {
    std::setlocale(LC_ALL, "C");
  }
  QLocale::setDefault(QLocale::c());
}

// What is wrong with the options, or an empty text.
QString misuse(const CommandLine& line) {
  const QString shade = line.value(line.colors);
  if (line.has(line.colors) && shade != QLatin1String("light") && shade != QLatin1String("dark") &&
      shade != QLatin1String("light-contrast") && shade != QLatin1String("dark-contrast")) {
    return "colors are light, dark, light-contrast or dark-contrast";
  }
  if (line.parser.positionalArguments().size() > 1) {
    return "one database at a time";
  }
  if (!Window::pageNames().contains(line.value(line.page))) {
    return "there is no page \"" + line.value(line.page) + "\"; there are " +
           Window::pageNames().join(", ");
  }
  if (!QRegularExpression("^[0-9]{3,4}x[0-9]{3,4}$").match(line.value(line.size)).hasMatch()) {
    return "a size is written as 1280x800";
  }
  bool is_number = true;
  const double terabytes = line.has(line.bandwidth)
                               ? QLocale::c().toDouble(line.value(line.bandwidth), &is_number)
                               : 1.0;
  if (!is_number || !(terabytes >= 1.0 && terabytes <= 10.0)) {
    return "a bandwidth is a number of TB/s between 1 and 10";
  }
  return {};
}

QSize asked_size(const CommandLine& line) {
  const QStringList pixels = line.value(line.size).split('x');
  return {pixels[0].toInt(), pixels[1].toInt()};
}

void color(QApplication& application, const CommandLine& line, const Preferences* preferences) {
  const std::optional<bool> kept_dark =
      preferences != nullptr ? preferences->isDark() : std::nullopt;
  const QString shade = line.value(line.colors);
  theme::raise_contrast(line.has(line.colors)
                            ? shade.endsWith(QLatin1String("contrast"))
                            : preferences != nullptr && preferences->isHighContrast());
  const bool is_dark = line.has(line.colors)
                           ? shade.startsWith(QLatin1String("dark"))
                           : kept_dark.value_or(theme::shade() == theme::Shade::kDark);
  theme::apply(application, is_dark ? theme::Shade::kDark : theme::Shade::kLight);
}

// Which tuple for my machine is what most ask first, and a kept fit answers at once.
QString first_page(const CommandLine& line) {
  const QStringList files = line.parser.positionalArguments();
  if (line.has(line.page) || line.has(line.screenshot) || line.has(line.filter) ||
      files.isEmpty()) {
    return line.value(line.page);
  }
  for (const std::filesystem::path& fit : versieve::engine::fit_files(files[0].toStdString())) {
    std::error_code unreadable;
    if (std::filesystem::exists(fit, unreadable)) {
      return "planner";
    }
  }
  return line.value(line.page);
}

// What is named goes before what a session keeps.
void prefer_options(const CommandLine& line, Session& session) {
  if (line.has(line.page) || !Window::pageNames().contains(session.page)) {
    session.page = line.value(line.page);
  }
  if (line.has(line.filter)) {
    session.values["points.filter"] = line.value(line.filter);
  }
  if (line.has(line.bandwidth)) {
    // After the machine, which resets it.
    session.values["planner.Memory bandwidth in TB/s"] =
        QLocale::c().toDouble(line.value(line.bandwidth));
  }
}

// What is to be opened as a session, by its suffix. Throws Error for one that cannot be read where
// a picture of it is wanted; a window says so itself.
std::optional<Session> named_session(const CommandLine& line) {
  const QStringList files = line.parser.positionalArguments();
  if (files.isEmpty() || QFileInfo(files[0]).suffix() != QLatin1String(kSessionSuffix)) {
    return std::nullopt;
  }
  try {
    Session session = versieve::gui::read_session(files[0]);
    prefer_options(line, session);
    return session;
  } catch (const Error&) {
    if (line.has(line.screenshot)) {
      throw;
    }
    return std::nullopt;
  }
}

// Throws Error: a prior that cannot be read.
void set_up(Window& window, const CommandLine& line, const std::optional<Session>& session,
            Preferences* preferences) {
  window.showPage(session ? session->page : first_page(line));
  if (preferences != nullptr) {
    window.keepIn(*preferences);
  }
  if (preferences == nullptr || line.has(line.size)) {
    window.resize(asked_size(line));
  }
  if (line.has(line.bandwidth) && !session) {
    window.plannerPage().setBandwidth(QLocale::c().toDouble(line.value(line.bandwidth)));
  }
  if (line.has(line.prior)) {
    window.plannerPage().planner().setPrior(
        std::make_shared<const FittedModel>(
            versieve::engine::read_fit(line.value(line.prior).toStdString())),
        line.value(line.prior));
  }
  if (line.has(line.compare)) {
    window.comparePage().comparer().setPaths(line.parser.positionalArguments().mid(0, 1) +
                                             line.parser.values(line.compare));
  }
  window.document().setFilter(line.value(line.filter));
}

// The file that is named, else what was left the last time.
void open_files(Window& window, const CommandLine& line, const std::optional<Session>& session) {
  if (session) {
    window.openSession(*session);
  } else if (!line.parser.positionalArguments().isEmpty()) {
    window.openPath(line.parser.positionalArguments().first());
  } else if (!line.has(line.screenshot) && !line.has(line.filter) && !line.has(line.page)) {
    window.openLastSession();
  }
}

int run(QApplication& application, const CommandLine& line) {
  std::optional<Preferences> preferences;
  if (!line.has(line.screenshot)) {
    preferences.emplace();
  }
  Preferences* const kept = preferences ? &*preferences : nullptr;
  color(application, line, kept);
  new versieve::gui::FocusRing(&application);
  const std::optional<Session> session = named_session(line);
  Window window;
  set_up(window, line, session, kept);
  const QString picture = line.value(line.screenshot);
  if (line.has(line.screenshot)) {
    prepare_screenshot(window, session ? session->page : line.value(line.page), picture);
    // A picture of a database that was not opened is none.
    QObject::connect(&window.document(), &versieve::gui::Document::failed, &window,
                     [](const QString&, const QString& sentence) {
                       QApplication::exit(exit_with(ExitCode::kBadInput, sentence));
                     });
  }
  window.show();
  open_files(window, line, session);
  const bool opens = session ? !session->database.isEmpty()
                             : !line.parser.positionalArguments().isEmpty();
  if (line.has(line.screenshot) && !opens) {
    QTimer::singleShot(kSettleMs, &window, [&] { take_screenshot(window, picture); });
  }
  return QApplication::exec();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  line.parser.parse(words_of(argc, argv));  // Qt's own options are not known yet
  if (printed_words(line, argc, argv)) {
    return static_cast<int>(ExitCode::kDone);
  }
  const QString no_display = display_missing_because(line.has(line.screenshot), argc, argv);
  if (!no_display.isEmpty()) {
    return exit_with(ExitCode::kEnvironment, no_display);
  }
  if (line.has(line.screenshot)) {
    qInstallMessageHandler(leave_out_missing_display);
  }
  QApplication application(argc, argv);
  QApplication::setApplicationName("versieve-gui");
  QGuiApplication::setDesktopFileName("org.versieve.Versieve");  // of gui/package
  leave_the_users_locale();
  if (!line.parser.parse(QCoreApplication::arguments())) {
    return exit_with(ExitCode::kUsage, line.parser.errorText());
  }
  if (const QString wrong = misuse(line); !wrong.isEmpty()) {
    return exit_with(ExitCode::kUsage, wrong);
  }
  try {
    return versieve::gui::leave(run(application, line));
  } catch (const Error& error) {
    return exit_with(error.code(), QString::fromUtf8(error.what()));
  }
}
