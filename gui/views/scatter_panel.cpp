#include "gui/views/scatter_panel.h"

#include <QCheckBox>
#include <QComboBox>
#include <QLabel>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/models/filter_terms.h"
#include "gui/models/point_column.h"
#include "gui/models/point_filter.h"
#include "gui/views/flow_row.h"
#include "gui/views/text.h"

namespace versieve::gui {
namespace {

constexpr int kAxisChars = 9;  // at least seen of a choice

// All columns of a kind, each with its index as data.
QComboBox* column_box(ColumnKind kind, const char* chosen, const QString& accessible_name,
                      const QString& object_name) {
  QComboBox* box = new QComboBox;
  box->setAccessibleName(accessible_name);
  box->setObjectName(object_name);
  int index = 0;
  for (const PointColumn& column : point_columns()) {
    if (column.kind == kind) {
      box->addItem(column.title, index);
    }
    ++index;
  }
  box->setCurrentIndex(box->findData(column_index(chosen)));
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(kAxisChars);
  return box;
}

QCheckBox* check_box(const QString& text, const QString& name, const QString& object_name) {
  QCheckBox* box = new QCheckBox(text);
  box->setAccessibleName(name);
  box->setObjectName(object_name);
  return box;
}

}  // namespace

ScatterPanel::ScatterPanel(Document& document, const QString& name, QWidget* parent)
    : QWidget(parent),
      document_(document),
      scatter_(new Scatter(document)),
      x_(column_box(ColumnKind::kNumber, "L", tr("Horizontal axis"), name + "X")),
      y_(column_box(ColumnKind::kNumber, "time", tr("Vertical axis"), name + "Y")),
      color_(column_box(ColumnKind::kText, "system", tr("Colour"), name + "Color")),
      x_log_(check_box(tr("log"), tr("Horizontal axis logarithmic"), name + "XLog")),
      y_log_(check_box(tr("log"), tr("Vertical axis logarithmic"), name + "YLog")),
      front_(check_box(tr("front"), tr("Line of the points that nothing beats"), name + "Front")) {
  x_log_->setChecked(true);
  y_log_->setChecked(true);
  front_->setChecked(false);
  scatter_->setFront(false);
  front_->setToolTip(
      tr("Joins the shown points that no shown one beats in both axes at once, where both have a "
         "better end: less time and bytes, more tokens, longer contexts"));
  FlowRow* choices = new FlowRow;
  choices->addNamed(quiet_label(tr("Vertical")), y_);
  choices->addWidget(y_log_);
  choices->addNamed(quiet_label(tr("Horizontal")), x_);
  choices->addWidget(x_log_);
  choices->addNamed(quiet_label(tr("Colour")), color_);
  choices->addWidget(front_);
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addLayout(choices);
  layout->addWidget(scatter_, 1);
  for (QComboBox* box : {x_, y_, color_}) {
    connect(box, &QComboBox::currentIndexChanged, this, &ScatterPanel::set_axes);
  }
  for (QCheckBox* box : {x_log_, y_log_}) {
    connect(box, &QCheckBox::toggled, this, &ScatterPanel::set_axes);
  }
  connect(front_, &QCheckBox::toggled, scatter_, &Scatter::setFront);
  connect(scatter_, &Scatter::brushed, this, &ScatterPanel::brush);
  connect(&document, &Document::loaded, this, &ScatterPanel::choose_for_data);
}

void ScatterPanel::chooseX(int column) {
  x_->setCurrentIndex(x_->findData(column));
}

void ScatterPanel::chooseY(int column) {
  y_->setCurrentIndex(y_->findData(column));
}

void ScatterPanel::set_axes() {
  scatter_->setX(x_->currentData().toInt());
  scatter_->setY(y_->currentData().toInt());
  scatter_->setColor(color_->currentData().toInt());
  scatter_->setLog(x_log_->isChecked(), y_log_->isChecked());
}

void ScatterPanel::brush(const QRectF& values) {
  const auto key_of = [](int column) {
    return QString(point_columns()[static_cast<std::size_t>(column)].key);
  };
  const QString x_brushed = with_range(document_.filterText(), key_of(scatter_->xColumn()),
                                       values.left(), values.right());
  document_.setFilter(
      with_range(x_brushed, key_of(scatter_->yColumn()), values.top(), values.bottom()));
}

// A database without times (acceptance only) starts with what it has.
void ScatterPanel::choose_for_data() {
  const std::vector<db::PointOverview>& points = document_.snapshot()->overview.points;
  const bool has_times =
      points.empty() || std::any_of(points.begin(), points.end(), [](const db::PointOverview& p) {
        return p.median_ns.has_value();
      });
  if (has_times && y_follows_data_) {
    chooseY(column_index("time"));
  } else if (!has_times) {
    chooseY(column_index("accepted"));
  }
  y_follows_data_ = !has_times;
}

}  // namespace versieve::gui
