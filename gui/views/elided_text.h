// A sentence in a fixed number of lines, whatever its length: the last line ends in "…" where more
// would follow, and the whole is the tool tip. What stands below it never moves while the window
// keeps its size; whoever has room for more lines says so.
#pragma once

#include <QWidget>

namespace versieve::gui {

class ElidedText : public QWidget {
 public:
  explicit ElidedText(int lines, QWidget* parent = nullptr);

  void setText(const QString& text);
  void setLines(int lines);
  const QString& text() const { return text_; }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {80, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  int lines_;
  QString text_;
};

}  // namespace versieve::gui
