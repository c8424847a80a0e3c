// What if the machine were another, or served more at once? How tokens a second hang on each knob
// of the hardware, and which strategy wins over two of them, or over requests at once, around the
// machine of the planner.
#pragma once

#include <QWidget>

#include "gui/models/sensitivity.h"
#include "gui/views/tornado.h"
#include "gui/views/winner_map.h"

class QComboBox;
class QLabel;
class QPushButton;
class QSlider;
class QStackedWidget;

namespace versieve::gui {

class ElidedText;
class FitWait;

class SensitivityPage : public QWidget {
  Q_OBJECT
 public:
  explicit SensitivityPage(Planner& planner, QWidget* parent = nullptr);

  SensitivityModel& model() { return *model_; }
  Tornado& tornado() { return *tornado_; }
  WinnerMap& map() { return *map_; }
  QComboBox& bucket() { return *bucket_; }
  QComboBox& precision() { return *precision_; }
  QComboBox& requests() { return *requests_; }  // at once
  QSlider& slider(Knob knob) { return *sliders_[static_cast<std::size_t>(knob)]; }
  QLabel& told() { return *told_; }  // of the turned machine
  QComboBox& x() { return *x_; }
  QComboBox& y() { return *y_; }
  QLabel& borders() { return *borders_; }

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  QWidget* make_choices();
  QWidget* make_answer();
  QWidget* make_sliders();
  void show_sliders();
  std::array<double, kKnobCount> factors() const;
  void list_buckets();
  void fill_classes(const std::vector<PrecisionClass>& classes);
  void list_classes();
  void list_requests();
  void ask();
  void show_answer();
  static QString several_text(const Plan& plan);

  SensitivityModel* model_;
  QComboBox* bucket_;
  QComboBox* precision_;
  QComboBox* requests_;
  QWidget* requests_row_;  // shown of plans of several
  QComboBox* x_;
  QComboBox* y_;
  std::array<QSlider*, kKnobCount> sliders_{};
  std::array<QLabel*, kKnobCount> values_{};
  QPushButton* reset_;
  QLabel* told_;
  QLabel* how_;
  QLabel* busy_;
  QStackedWidget* stack_;
  FitWait* wait_;
  Tornado* tornado_;
  WinnerMap* map_;
  QLabel* borders_;
  ElidedText* cell_;
};

}  // namespace versieve::gui
