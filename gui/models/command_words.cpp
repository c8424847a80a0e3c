#include "gui/models/command_words.h"

#include <QRegularExpression>

namespace versieve::gui {
namespace {

QString quoted(const QString& word) {
  static const QRegularExpression plain("^[A-Za-z0-9_./:,+@%-]+$");
  return plain.match(word).hasMatch() ? word : "'" + QString(word).replace("'", "'\\''") + "'";
}

}  // namespace

QString command_line(const QStringList& words) {
  QStringList quotes;
  for (const QString& word : words) {
    quotes << quoted(word);
  }
  return quotes.join(' ');
}

}  // namespace versieve::gui
