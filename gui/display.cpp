#include "gui/display.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <QGuiApplication>
#include <QRegularExpression>
#include <QStringList>
#include <array>
#include <cerrno>
#include <optional>
#include <vector>

namespace versieve::gui {
namespace {

constexpr unsigned kPatienceSeconds = 30;  // a forwarded display may be far away

int words_of_qt = -1;  // the child's end of the pipe; a message handler has no other way to it

void send_to_parent(QtMsgType type, const QMessageLogContext&, const QString& text) {
  const QByteArray line = text.simplified().toUtf8() + '\n';
  [[maybe_unused]] const ssize_t sent =
      ::write(words_of_qt, line.constData(), static_cast<std::size_t>(line.size()));
  if (type == QtFatalMsg) {
    ::_exit(1);
  }
}

// Never returns: what Qt does with a display is done here, and its abort is none.
[[noreturn]] void try_display(int argc, char** argv, int pipe_end) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::alarm(kPatienceSeconds);
  words_of_qt = pipe_end;
  qInstallMessageHandler(send_to_parent);
  std::vector<char*> arguments(argv, argv + argc + 1);  // Qt takes out those that it knows
  new QGuiApplication(argc, arguments.data());          // its end is the process's
  ::_exit(0);
}

QString read_all(int descriptor) {
  QByteArray text;
  std::array<char, 1024> part{};
  for (;;) {
    const ssize_t got = ::read(descriptor, part.data(), part.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return QString::fromUtf8(text);
    }
    text.append(part.data(), static_cast<qsizetype>(got));
  }
}

// What Qt said in the child; none: the display opened.
std::optional<QString> complaint_of_qt(int argc, char** argv) {
  int ends[2];
  if (::pipe(ends) != 0) {
    return std::nullopt;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    try_display(argc, argv, ends[1]);
  }
  ::close(ends[1]);
  const QString words = child > 0 ? read_all(ends[0]) : QString();
  ::close(ends[0]);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? std::nullopt : std::optional(words);
}

// Of Qt's lines the first: the later ones advise to install it again.
QString first_reason(const QString& words) {
  for (const QString& line : words.split('\n', Qt::SkipEmptyParts)) {
    if (!line.contains("locale") && !line.contains("XDG_RUNTIME_DIR")) {
      return line;
    }
  }
  return "the display does not answer";
}

}  // namespace

QString window_impossible_because(int argc, char** argv) {
  const std::optional<QString> complaint = complaint_of_qt(argc, argv);
  if (!complaint) {
    return {};
  }
  const QString platform = qEnvironmentVariable("QT_QPA_PLATFORM");
  const bool none_named = platform.isEmpty() && qEnvironmentVariableIsEmpty("DISPLAY") &&
                          qEnvironmentVariableIsEmpty("WAYLAND_DISPLAY");
  const QString reason =
      none_named ? QString("there is no display (DISPLAY and WAYLAND_DISPLAY are not set)")
                 : "the display cannot be used" +
                       (platform.isEmpty() ? QString() : " (QT_QPA_PLATFORM=" + platform + ")") +
                       ": " + first_reason(*complaint).remove(QRegularExpression("[.]$"));
  return reason +
         "; start it where there is one, over ssh with -X, or draw a page into a file with "
         "--screenshot FILE.png";
}

}  // namespace versieve::gui
