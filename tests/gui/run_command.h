// The command that the app shows, run as a shell runs it, and the bytes of files.
#pragma once

#include <QFile>
#include <QProcess>

#include "tests/gui/window_case.h"

namespace versieve::gui {

inline QByteArray bytes_of(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

// With the built command in the place of its name; what went wrong, empty if nothing did.
inline QString run_command(QString line) {
  line.replace(0, QString("versieve").size(), VERSIEVE_BINARY_DIR "/bin/versieve");
  QProcess shell;
  shell.start("/bin/sh", {"-c", line});
  return shell.waitForFinished(10 * kWaitMs) && shell.exitCode() == 0
             ? QString()
             : QString::fromUtf8(shell.readAllStandardError());
}

}  // namespace versieve::gui
