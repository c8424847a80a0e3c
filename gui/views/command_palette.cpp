#include "gui/views/command_palette.h"

#include <QAction>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMenu>
#include <QMenuBar>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/views/text.h"

namespace versieve::gui {
namespace {

void add_commands(const QList<QAction*>& actions, QList<QAction*>& commands) {
  for (QAction* action : actions) {
    if (action->menu() != nullptr) {
      add_commands(action->menu()->actions(), commands);
    } else if (action->objectName().contains('.')) {
      commands << action;
    }
  }
}

QString words_of(const QAction& command) {
  return command.text().remove('&').remove(QString::fromUtf8("…"));
}

}  // namespace

QList<QAction*> commands_of(const QMenuBar& menus) {
  QList<QAction*> commands;
  add_commands(menus.actions(), commands);
  return commands;
}

bool matches_letters(const QString& typed, const QString& text) {
  qsizetype from = 0;
  for (const QChar letter : typed) {
    if (letter.isSpace()) {
      continue;
    }
    from = text.indexOf(letter, from, Qt::CaseInsensitive) + 1;
    if (from == 0) {
      return false;
    }
  }
  return true;
}

CommandPalette::CommandPalette(const QList<QAction*>& commands, QWidget* parent)
    : QDialog(parent),
      commands_(commands),
      typed_(new QLineEdit),
      none_(quiet_label({})),
      list_(new QListWidget) {
  setObjectName("palette");
  setWindowTitle(tr("Commands"));
  setAttribute(Qt::WA_DeleteOnClose);
  resize(440, 360);
  typed_->setPlaceholderText(tr("Some letters of a command"));
  typed_->setAccessibleName(tr("Command"));
  typed_->installEventFilter(this);
  list_->setAccessibleName(tr("Commands that fit"));
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->addWidget(typed_);
  layout->addWidget(none_);
  layout->addWidget(list_, 1);
  connect(typed_, &QLineEdit::textChanged, this, &CommandPalette::narrow);
  connect(typed_, &QLineEdit::returnPressed, this, &CommandPalette::run_chosen);
  connect(list_, &QListWidget::itemActivated, this, &CommandPalette::run_chosen);
  narrow();
}

// What begins with the letters stands before what has them together, and that before what has them
// apart, or together in its id ("plan.energy").
void CommandPalette::narrow() {
  list_->clear();
  const QString typed = typed_->text().trimmed();
  for (int rank = 0; rank < 3; ++rank) {
    for (const QAction* command : commands_) {
      const QString words = words_of(*command);
      const int of_command = words.startsWith(typed, Qt::CaseInsensitive) ? 0
                             : words.contains(typed, Qt::CaseInsensitive) ? 1
                                                                          : 2;
      const bool fits = matches_letters(typed, words) ||
                        command->objectName().contains(typed, Qt::CaseInsensitive);
      if (of_command != rank || !command->isEnabled() || !fits) {
        continue;
      }
      const QString keys = command->shortcut().toString(QKeySequence::NativeText);
      QListWidgetItem* item =
          new QListWidgetItem(words + (keys.isEmpty() ? QString() : "    " + keys), list_);
      item->setData(Qt::UserRole, command->objectName());
    }
  }
  list_->setCurrentRow(0);
  none_->setText(list_->count() == 0 ? tr("No command that can be run now has these letters.")
                                     : QString());
  none_->setVisible(list_->count() == 0);
}

// Gone before the command begins: it may open a dialog of its own.
void CommandPalette::run_chosen() {
  const QListWidgetItem* item = list_->currentItem();
  if (item == nullptr) {
    return;
  }
  const QString id = item->data(Qt::UserRole).toString();
  const auto found = std::find_if(commands_.begin(), commands_.end(), [&](const QAction* command) {
    return command->objectName() == id;
  });
  QAction* const command = *found;
  accept();
  command->trigger();
}

// Up and down choose while one types.
bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
  if (watched == typed_ && event->type() == QEvent::KeyPress) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if ((key == Qt::Key_Up || key == Qt::Key_Down) && list_->count() > 0) {
      list_->setCurrentRow(
          std::clamp(list_->currentRow() + (key == Qt::Key_Down ? 1 : -1), 0, list_->count() - 1));
      return true;
    }
  }
  return QDialog::eventFilter(watched, event);
}

}  // namespace versieve::gui
