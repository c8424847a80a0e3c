// Controls side by side, in as many lines as the width asks for: a label stays with what it names.
#pragma once

#include <QLayout>
#include <QList>

namespace versieve::gui {

class FlowRow : public QLayout {
 public:
  explicit FlowRow(QWidget* parent = nullptr);
  ~FlowRow() override;

  // A label and what it names, as one item.
  void addNamed(QWidget* label, QWidget* control);

  void addItem(QLayoutItem* item) override;
  int count() const override;
  QLayoutItem* itemAt(int index) const override;
  QLayoutItem* takeAt(int index) override;
  Qt::Orientations expandingDirections() const override;
  bool hasHeightForWidth() const override;
  int heightForWidth(int width) const override;
  QSize minimumSize() const override;
  QSize sizeHint() const override;
  void setGeometry(const QRect& rect) override;

 private:
  int lay_out(const QRect& rect, bool moves) const;  // height used

  QList<QLayoutItem*> items_;
};

}  // namespace versieve::gui
