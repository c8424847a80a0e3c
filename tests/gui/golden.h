// Whether a picture looks as it did: of the cells of a coarse grid their mean lightness, which a
// change of fonts or of one line leaves, and a change of the page does not.
#pragma once

#include <QFile>
#include <QImage>
#include <cstdlib>

namespace versieve::gui {

inline QByteArray lightness_grid(const QImage& picture) {
  constexpr int kColumns = 24, kRows = 15;
  const QImage small =
      picture.convertToFormat(QImage::Format_RGB32)
          .scaled(kColumns, kRows, Qt::IgnoreAspectRatio, Qt::SmoothTransformation);
  QByteArray text;
  for (int y = 0; y < kRows; ++y) {
    for (int x = 0; x < kColumns; ++x) {
      text += QByteArray::number(qGray(small.pixel(x, y))).rightJustified(4);
    }
    text += '\n';
  }
  return text;
}

// Against tests/gui/golden/<name>.txt, which is written anew where VERSIEVE_GOLDEN is set. The
// first difference; empty if it looks as it did.
inline QString golden_difference(const QString& name, const QImage& picture) {
  const QByteArray now = lightness_grid(picture);
  QFile file(QString(VERSIEVE_SOURCE_DIR "/tests/gui/golden/%1.txt").arg(name));
  if (qEnvironmentVariableIsSet("VERSIEVE_GOLDEN")) {
    return file.open(QIODevice::WriteOnly) && file.write(now) > 0
               ? QString()
               : file.fileName() + " cannot be written";
  }
  if (!file.open(QIODevice::ReadOnly)) {
    return file.fileName() + " cannot be read";
  }
  const QList<QByteArray> was = file.readAll().simplified().split(' ');
  const QList<QByteArray> is = now.simplified().split(' ');
  if (is.size() != was.size()) {
    return file.fileName() + " is of another grid";
  }
  constexpr int kNear = 8;  // of 255
  for (qsizetype cell = 0; cell < is.size(); ++cell) {
    if (std::abs(is[cell].toInt() - was[cell].toInt()) > kNear) {
      return QString("%1, cell %2: %3, was %4").arg(name).arg(cell).arg(is[cell], was[cell]);
    }
  }
  return {};
}

}  // namespace versieve::gui
