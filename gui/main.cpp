// The desktop app: `versieve-gui [database]`; with --screenshot it draws one page into a PNG file,
// without a display if there is none, and ends.
#include <QApplication>
#include <QCommandLineParser>
#include <QFileInfo>
#include <QRegularExpression>
#include <QSaveFile>
#include <QThreadPool>
#include <QTimer>
#include <cstdio>
#include <memory>
#include <optional>

#include "engine/analyse/fit/fit_file.h"
#include "gui/models/preferences.h"
#include "gui/pages/planner_page.h"
#include "gui/pages/replay_page.h"
#include "gui/views/theme.h"
#include "gui/window.h"
#include "model/words/error.h"

using versieve::Error;
using versieve::ExitCode;
using versieve::FittedModel;
using versieve::gui::Preferences;
using versieve::gui::Window;
namespace theme = versieve::gui::theme;

namespace {

constexpr int kSettleMs = 300;  // for layouts and the detail job after a page is there

int exit_with(ExitCode code, const QString& sentence) {
  std::fprintf(stderr, "versieve-gui: %s\n", qPrintable(sentence));
  return static_cast<int>(code);
}

// Whole or not at all.
bool save_png(const QPixmap& picture, const QString& path) {
  QSaveFile file(path);
  return file.open(QIODevice::WriteOnly) && picture.save(&file, "PNG") && file.commit();
}

void take_screenshot(Window& window, const QString& path) {
  const bool saved = save_png(window.grab(), path);
  QApplication::exit(saved ? 0 : exit_with(ExitCode::kEnvironment, path + " cannot be written"));
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
  if (page == QLatin1String("replay")) {
    const Replayer& replayer = window.replayPage().replayer();
    QObject::connect(&replayer, &Replayer::changed, &window, [&replayer, later] {
      if (!replayer.isBusy() && (replayer.replayed() || !replayer.sentence().isEmpty())) {
        later();
      }
    });
  } else if (page == QLatin1String("planner") || page == QLatin1String("validation")) {
    QObject::connect(&planner, &Planner::changed, &window, [&planner, later] {
      if (!planner.isBusy() && (planner.plan() || !planner.sentence().isEmpty())) {
        later();
      }
    });
  } else {
    QObject::connect(&window.document(), &Document::loaded, &window, later);
  }
  QObject::connect(&window.document(), &Document::failed, &window, later);
}

// Pictures can be drawn on machines without a display.
void choose_platform(int argc, char** argv) {
  bool screenshot = false;
  for (int i = 1; i < argc; ++i) {
    screenshot = screenshot || QByteArray(argv[i]).startsWith("--screenshot");
  }
  if (screenshot && qEnvironmentVariableIsEmpty("DISPLAY") &&
      qEnvironmentVariableIsEmpty("WAYLAND_DISPLAY") &&
      qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) {
    qputenv("QT_QPA_PLATFORM", "offscreen");
  }
}

}  // namespace

int main(int argc, char** argv) {
  choose_platform(argc, argv);
  QApplication application(argc, argv);
  QApplication::setApplicationName("versieve-gui");

  QCommandLineParser arguments;
  arguments.setApplicationDescription("Explores a database of Versieve.");
  arguments.addHelpOption();
  arguments.addPositionalArgument("database", "a file written by `versieve profile`", "[database]");
  const QCommandLineOption screenshot("screenshot", "Draw one page into a PNG file and end.",
                                      "file");
  const QCommandLineOption page("page", "The page to show: " + Window::pageNames().join(", ") + ".",
                                "name", "points");
  const QCommandLineOption filter("filter", "Show the points for which this holds.", "text");
  const QCommandLineOption size("size", "The window's size in pixels.", "width x height",
                                "1400x900");
  const QCommandLineOption bandwidth("bandwidth", "Plan for this memory bandwidth, 1 to 10.",
                                     "TB/s");
  const QCommandLineOption prior(
      "prior", "Begin the planner's fit at this one of another machine (`versieve fit --out`).",
      "file");
  const QCommandLineOption colors("colors", "light or dark; the desktop's if left out.", "shade");
  arguments.addOptions({screenshot, page, filter, size, bandwidth, prior, colors});
  arguments.process(application);
  const QString shade = arguments.value(colors);
  if (arguments.isSet(colors) && shade != QLatin1String("light") &&
      shade != QLatin1String("dark")) {
    return exit_with(ExitCode::kUsage, "colors are light or dark");
  }
  // Pictures are the same whoever draws them.
  std::optional<Preferences> preferences;
  if (!arguments.isSet(screenshot)) {
    preferences.emplace();
  }
  const std::optional<bool> kept_dark = preferences ? preferences->isDark() : std::nullopt;
  const bool is_dark = arguments.isSet(colors)
                           ? shade == QLatin1String("dark")
                           : kept_dark.value_or(theme::shade() == theme::Shade::kDark);
  theme::apply(application, is_dark ? theme::Shade::kDark : theme::Shade::kLight);
  if (arguments.positionalArguments().size() > 1) {
    return exit_with(ExitCode::kUsage, "one database at a time");
  }

  Window window;
  if (!window.showPage(arguments.value(page))) {
    return exit_with(ExitCode::kUsage, "there is no page \"" + arguments.value(page) +
                                           "\"; there are " + Window::pageNames().join(", "));
  }
  const QRegularExpressionMatch pixels =
      QRegularExpression("^([0-9]{3,4})x([0-9]{3,4})$").match(arguments.value(size));
  if (!pixels.hasMatch()) {
    return exit_with(ExitCode::kUsage, "a size is written as 1280x800");
  }
  window.resize(pixels.captured(1).toInt(), pixels.captured(2).toInt());
  if (preferences) {
    const QSize asked = window.size();
    window.keepIn(*preferences);
    if (arguments.isSet(size)) {
      window.resize(asked);
    }
  }
  if (arguments.isSet(bandwidth)) {
    bool is_number = false;
    const double terabytes = arguments.value(bandwidth).toDouble(&is_number);
    if (!is_number || !(terabytes >= 1.0 && terabytes <= 10.0)) {
      return exit_with(ExitCode::kUsage, "a bandwidth is a number of TB/s between 1 and 10");
    }
    window.plannerPage().setBandwidth(terabytes);
  }
  if (arguments.isSet(prior)) {
    try {
      window.plannerPage().planner().setPrior(std::make_shared<const FittedModel>(
          versieve::engine::read_fit(arguments.value(prior).toStdString())));
    } catch (const Error& error) {
      return exit_with(error.code(), QString::fromUtf8(error.what()));
    }
  }
  window.document().setFilter(arguments.value(filter));
  if (arguments.isSet(screenshot)) {
    prepare_screenshot(window, arguments.value(page), arguments.value(screenshot));
  }
  window.show();
  if (!arguments.positionalArguments().isEmpty()) {
    window.document().open(arguments.positionalArguments().first());
  } else if (arguments.isSet(screenshot)) {
    QTimer::singleShot(kSettleMs, &window,
                       [&] { take_screenshot(window, arguments.value(screenshot)); });
  }
  const int code = QApplication::exec();
  QThreadPool::globalInstance()->waitForDone();  // a fit still under way posts to the application
  return code;
}
