// Undo and redo of all that a user may set. What was set is looked at before and after each press,
// key and turn of the wheel: what differs is one step back. Nothing has to tell of its changes, and
// what a worker or a file changes is no step.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QUndoStack>

#include "gui/views/ui_state.h"

namespace versieve::gui {

class History : public QObject {
  Q_OBJECT
 public:
  explicit History(UiState& state, QObject* parent = nullptr);

  QUndoStack& stack() { return stack_; }
  // Another document: nothing to go back to.
  void clear();
  // Sets without a step back.
  void write(const QJsonObject& values);

 Q_SIGNALS:
  void setByHand();  // by whoever sits before it, not by undo or a session
  void changed();    // by the user, undone or done again

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void begin(bool by_keys);
  void settle();

  UiState& state_;
  QUndoStack stack_;
  QJsonObject before_;
  bool is_pending_ = false;
  bool is_pressed_ = false;
  bool by_keys_ = false;
  bool is_writing_ = false;
};

}  // namespace versieve::gui
