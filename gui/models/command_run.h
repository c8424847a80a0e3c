// One run of the `versieve` command as a job: how far it is, how much time is left, what it says,
// and a cancel that keeps what was committed: a sweep stops after the point that it measures.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QProcess>
#include <QStringList>
#include <optional>

namespace versieve::gui {

// What a line of a sweep's progress says: "120/400 points, 0:12 passed, about 3:07 left, 2 failed".
struct SweepProgress {
  int done = 0, total = 0;
  QString passed, left;
  int failed = 0;
};
std::optional<SweepProgress> sweep_progress(const QString& line);

class CommandRun : public QObject {
  Q_OBJECT
 public:
  explicit CommandRun(QObject* parent = nullptr);
  // A sweep that still runs is asked to stop and not waited for: it ends after its point.
  ~CommandRun() override;

  // The command beside the app, else the one that the shell would find.
  static QString usual_program();
  void setProgram(const QString& program) { program_ = program; }
  void start(const QStringList& arguments);  // without the program's name
  void cancel();

  bool isRunning() const { return process_ != nullptr; }
  bool isEnding() const { return is_ending_; }  // after cancel()
  const std::optional<SweepProgress>& progress() const { return progress_; }
  const QString& said() const { return said_; }        // all but progress, as it came
  const QString& outcome() const { return outcome_; }  // a sentence; empty while it runs
  bool succeeded() const { return succeeded_; }
  QString commandLine() const;  // of the run that is or was

 Q_SIGNALS:
  void changed();
  void finished();

 private:
  void read_progress();
  void end(int code, QProcess::ExitStatus status);

  QString program_;
  QStringList arguments_;
  QProcess* process_ = nullptr;
  bool is_ending_ = false;
  bool succeeded_ = false;
  QString pending_;  // a line of standard error that has not ended
  std::optional<SweepProgress> progress_;
  QString said_;
  QString outcome_;
};

}  // namespace versieve::gui
