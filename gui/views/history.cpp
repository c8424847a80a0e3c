#include "gui/views/history.h"

#include <QApplication>
#include <QElapsedTimer>
#include <QEvent>
#include <QKeyEvent>
#include <QLineEdit>
#include <QTimer>

namespace versieve::gui {
namespace {

constexpr qint64 kOneStepMs = 1'000;  // keys and turns of the wheel that follow one another
constexpr int kMostSteps = 500;

// From some values to others; the same knobs again by keys within a second are one step.
class Step : public QUndoCommand {
 public:
  Step(History& history, const QJsonObject& before, const QJsonObject& after, bool by_keys)
      : history_(history), before_(before), after_(after), by_keys_(by_keys) {
    since_.start();
  }

  void undo() override { history_.write(before_); }
  void redo() override {
    if (!is_first_) {
      history_.write(after_);
    }
    is_first_ = false;  // it was done by hand
  }
  int id() const override { return 1; }
  bool mergeWith(const QUndoCommand* other) override {
    const Step& next = static_cast<const Step&>(*other);
    if (!by_keys_ || !next.by_keys_ || next.after_.keys() != after_.keys() ||
        since_.elapsed() > kOneStepMs) {
      return false;
    }
    after_ = next.after_;
    since_.restart();
    return true;
  }

 private:
  History& history_;
  QJsonObject before_, after_;
  bool by_keys_;
  bool is_first_ = true;
  QElapsedTimer since_;
};

}  // namespace

History::History(UiState& state, QObject* parent) : QObject(parent), state_(state) {
  stack_.setUndoLimit(kMostSteps);
  qApp->installEventFilter(this);
}

void History::clear() {
  stack_.clear();
  before_ = state_.readUndone();
}

void History::write(const QJsonObject& values) {
  is_writing_ = true;
  state_.write(values);
  is_writing_ = false;
  before_ = state_.readUndone();  // what is pending is this
  Q_EMIT changed();
}

bool History::eventFilter(QObject* watched, QEvent* event) {
  switch (event->type()) {
    case QEvent::MouseButtonPress:
    case QEvent::MouseButtonDblClick:
      begin(false);
      is_pressed_ = true;
      break;
    case QEvent::MouseButtonRelease:
      begin(false);
      is_pressed_ = false;
      break;
    case QEvent::ShortcutOverride: {
      const QKeyEvent* key = static_cast<const QKeyEvent*>(event);
      begin(true);
      // The line's own undo would be a change like any other.
      if (qobject_cast<QLineEdit*>(watched) != nullptr &&
          (key->matches(QKeySequence::Undo) || key->matches(QKeySequence::Redo))) {
        event->ignore();
        return true;
      }
      break;
    }
    case QEvent::KeyPress:
    case QEvent::Wheel:
    case QEvent::Shortcut:
      begin(true);
      break;
    default:
      break;
  }
  return QObject::eventFilter(watched, event);
}

void History::begin(bool by_keys) {
  if (is_pending_ || is_writing_) {
    return;
  }
  by_keys_ = by_keys;
  is_pending_ = true;
  before_ = state_.readUndone();
  QTimer::singleShot(0, this, &History::settle);
}

// What was set since is a step, once no button is down.
void History::settle() {
  if (is_pressed_) {
    if (QApplication::mouseButtons() == Qt::NoButton) {
      is_pressed_ = false;  // the release went elsewhere
    } else {
      QTimer::singleShot(20, this, &History::settle);
      return;
    }
  }
  is_pending_ = false;
  const QJsonObject now = state_.readUndone();
  QJsonObject before, after;
  for (auto at = now.begin(); at != now.end(); ++at) {
    if (before_[at.key()] != at.value()) {
      before[at.key()] = before_[at.key()];
      after[at.key()] = at.value();
    }
  }
  if (after.isEmpty()) {
    return;
  }
  Step* step = new Step(*this, before, after, by_keys_);
  step->setText(
      state_.titleOf(after.contains("points.filter") ? "points.filter" : after.begin().key()));
  stack_.push(step);
  Q_EMIT setByHand();
  Q_EMIT changed();
}

}  // namespace versieve::gui
