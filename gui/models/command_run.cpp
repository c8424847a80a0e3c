#include "gui/models/command_run.h"

#include <QCoreApplication>
#include <QFileInfo>
#include <QRegularExpression>
#include <QStandardPaths>

#include "gui/models/command_words.h"

namespace versieve::gui {

std::optional<SweepProgress> sweep_progress(const QString& line) {
  static const QRegularExpression form(
      "^\\s*(\\d+)/(\\d+) points, (\\S+) passed, about (\\S+) left(?:, (\\d+) failed)?");
  const QRegularExpressionMatch match = form.match(line);
  if (!match.hasMatch()) {
    return std::nullopt;
  }
  return SweepProgress{.done = match.captured(1).toInt(),
                       .total = match.captured(2).toInt(),
                       .passed = match.captured(3),
                       .left = match.captured(4),
                       .failed = match.captured(5).toInt()};
}

CommandRun::CommandRun(QObject* parent) : QObject(parent), program_(usual_program()) {}

CommandRun::~CommandRun() {
  if (process_ != nullptr) {
    process_->disconnect(this);
    process_->setParent(nullptr);
    process_->terminate();
  }
}

QString CommandRun::usual_program() {
  const QString beside = QCoreApplication::applicationDirPath() + "/versieve";
  return QFileInfo(beside).isExecutable() ? beside : QStandardPaths::findExecutable("versieve");
}

void CommandRun::start(const QStringList& arguments) {
  if (process_ != nullptr) {
    return;
  }
  arguments_ = arguments;
  is_ending_ = false;
  succeeded_ = false;
  progress_.reset();
  pending_.clear();
  said_.clear();
  outcome_.clear();
  if (program_.isEmpty()) {
    outcome_ = tr("The command versieve is neither beside the app nor in the path");
    Q_EMIT changed();
    Q_EMIT finished();
    return;
  }
  process_ = new QProcess(this);
  connect(process_, &QProcess::readyReadStandardError, this, &CommandRun::read_progress);
  connect(process_, &QProcess::readyReadStandardOutput, this, [this] {
    said_ += QString::fromUtf8(process_->readAllStandardOutput());
    Q_EMIT changed();
  });
  connect(process_, &QProcess::finished, this, &CommandRun::end);
  connect(process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
    if (error == QProcess::FailedToStart) {
      end(-1, QProcess::CrashExit);
    }
  });
  process_->start(program_, arguments_);
  Q_EMIT changed();
}

void CommandRun::cancel() {
  if (process_ != nullptr && !is_ending_) {
    is_ending_ = true;
    process_->terminate();
    Q_EMIT changed();
  }
}

// Each progress is written over by the next, from the line's begin.
void CommandRun::read_progress() {
  pending_ += QString::fromUtf8(process_->readAllStandardError());
  static const QRegularExpression ends("[\\r\\n]");
  const QStringList lines = pending_.split(ends);
  pending_ = lines.last();
  for (const QString& line : lines) {
    if (const std::optional<SweepProgress> at = sweep_progress(line)) {
      progress_ = at;
      // What is said after it stands in the same line.
      const qsizetype blanks = line.indexOf(QLatin1String("   "));
      const QString rest = blanks < 0 ? QString() : line.mid(blanks).trimmed();
      if (!rest.isEmpty() && &line != &lines.last()) {
        said_ += rest + '\n';
      }
    } else if (!line.trimmed().isEmpty() && &line != &lines.last()) {
      said_ += line.trimmed() + '\n';
    }
  }
  Q_EMIT changed();
}

void CommandRun::end(int code, QProcess::ExitStatus status) {
  if (process_ == nullptr) {
    return;
  }
  read_progress();
  said_ += QString::fromUtf8(process_->readAllStandardOutput());
  if (!pending_.trimmed().isEmpty() && !sweep_progress(pending_)) {
    said_ += pending_.trimmed() + '\n';
  }
  const bool started = process_->error() != QProcess::FailedToStart;
  process_->deleteLater();
  process_ = nullptr;
  succeeded_ = status == QProcess::NormalExit && code == 0;
  if (!started) {
    outcome_ = tr("%1 could not be started").arg(program_);
  } else if (succeeded_) {
    outcome_ = tr("Done");
  } else if (is_ending_) {
    outcome_ = progress_ ? tr("Cancelled after %1 of %2 points, which are kept; starting it again "
                              "goes on with the rest")
                               .arg(progress_->done)
                               .arg(progress_->total)
                         : tr("Cancelled");
  } else if (status == QProcess::CrashExit) {
    outcome_ = tr("It was ended from outside; what it had stored is kept");
  } else {
    outcome_ = tr("It failed (exit %1): what it says stands below").arg(code);
  }
  is_ending_ = false;
  Q_EMIT changed();
  Q_EMIT finished();
}

QString CommandRun::commandLine() const {
  return arguments_.isEmpty() ? QString() : command_line(QStringList{"versieve"} + arguments_);
}

}  // namespace versieve::gui
