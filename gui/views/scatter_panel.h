// A scatter plot with the choice of its axes, its colour and the line of what nothing beats.
#pragma once

#include <QWidget>

#include "gui/views/scatter.h"

class QCheckBox;
class QComboBox;

namespace versieve::gui {

class ScatterPanel : public QWidget {
  Q_OBJECT
 public:
  // name: begins the object names of its controls.
  ScatterPanel(Document& document, const QString& name, QWidget* parent = nullptr);

  Scatter& scatter() { return *scatter_; }
  // Columns of point_columns(), chosen as by hand.
  void chooseX(int column);
  void chooseY(int column);
  QCheckBox& front() { return *front_; }

 private:
  void set_axes();
  // What was brushed stands in the filter, where it can be read, changed and copied.
  void brush(const QRectF& values);
  void choose_for_data();

  Document& document_;
  Scatter* scatter_;
  QComboBox* x_;
  QComboBox* y_;
  QComboBox* color_;
  QCheckBox* x_log_;
  QCheckBox* y_log_;
  QCheckBox* front_;
  bool y_follows_data_ = false;  // chosen for a database without times
};

}  // namespace versieve::gui
