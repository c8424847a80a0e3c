// A sentence in a fixed number of lines, whatever its length: what stands below it never moves
// while the window keeps its size; whoever has room for more lines says so. Where more would follow
// the last line ends in "… more": a click or Space shows all of it, and again what it was. The
// whole is the tool tip, too.
#pragma once

#include <QWidget>

namespace versieve::gui {

class ElidedText : public QWidget {
 public:
  explicit ElidedText(int lines, QWidget* parent = nullptr);

  void setText(const QString& text);
  void setLines(int lines);
  const QString& text() const { return text_; }
  bool isCut() const { return needed_ > lines_; }  // in the lines that it has
  bool showsAll() const { return shows_all_ && isCut(); }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {80, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void measure();
  void toggle();
  int shown_lines() const { return showsAll() ? needed_ : lines_; }
  void draw_last(QPainter& painter, const QString& rest, int top) const;

  int lines_;
  int needed_ = 1;  // of the text in this width, with the word that folds it
  bool shows_all_ = false;
  QString text_;
};

}  // namespace versieve::gui
