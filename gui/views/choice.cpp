#include "gui/views/choice.h"

#include <QSignalBlocker>
#include <algorithm>

namespace versieve::gui {

QComboBox* named_choice(const QString& name, const QString& object_name) {
  QComboBox* box = new QComboBox;
  box->setAccessibleName(name);
  box->setObjectName(object_name);
  box->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  return box;
}

void list_texts(QComboBox& box, const QStringList& texts) {
  QStringList shown;
  for (int i = 0; i < box.count(); ++i) {
    shown << box.itemText(i);
  }
  if (texts != shown) {
    const QSignalBlocker quietly(box);
    const QString chosen = box.currentText();
    box.clear();
    box.addItems(texts);
    box.setCurrentIndex(texts.isEmpty() ? -1 : std::max(0, box.findText(chosen)));
  }
}

}  // namespace versieve::gui
