#include "gui/views/save_dialog.h"

#include <QFileDialog>
#include <QRegularExpression>

namespace versieve::gui {

QString ending_of(const QString& filter) {
  static const QRegularExpression form("\\(\\*\\.([^ )]+)");
  return form.match(filter).captured(1);
}

QString ask_where_to_save(QWidget* parent, const QString& title, const QString& name,
                          const QString& filters) {
  QFileDialog dialog(parent, title);
  dialog.setAcceptMode(QFileDialog::AcceptSave);
  dialog.setNameFilters(filters.split(";;"));
  dialog.setDefaultSuffix(ending_of(dialog.selectedNameFilter()));
  dialog.selectFile(name);
  QObject::connect(
      &dialog, &QFileDialog::filterSelected, &dialog,
      [&dialog](const QString& filter) { dialog.setDefaultSuffix(ending_of(filter)); });
  return dialog.exec() == QDialog::Accepted ? dialog.selectedFiles().value(0) : QString();
}

}  // namespace versieve::gui
