// All commands of the menus by their words: what is typed narrows the list, Enter does the first or
// the chosen one. A command's id is its action's object name ("file.open"), the same for menu,
// shortcut, palette and tests.
#pragma once

#include <QDialog>
#include <QList>

class QAction;
class QLabel;
class QLineEdit;
class QListWidget;
class QMenuBar;

namespace versieve::gui {

// Those of a menu bar that have an id, as the menus list them.
QList<QAction*> commands_of(const QMenuBar& menus);
// Whether all letters that were typed stand in the text in this order, whatever their case.
bool matches_letters(const QString& typed, const QString& text);

class CommandPalette : public QDialog {
  Q_OBJECT
 public:
  CommandPalette(const QList<QAction*>& commands, QWidget* parent);

  QLineEdit& typed() { return *typed_; }
  QListWidget& list() { return *list_; }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void narrow();
  void run_chosen();

  QList<QAction*> commands_;
  QLineEdit* typed_;
  QLabel* none_;  // that nothing fits
  QListWidget* list_;
};

}  // namespace versieve::gui
