#include "gui/pages/sensitivity/sensitivity_page.h"

#include <QComboBox>
#include <QLabel>
#include <QSignalBlocker>
#include <QSplitter>
#include <QStackedWidget>
#include <QVBoxLayout>

#include "gui/models/plain_words.h"
#include "gui/models/plan_slice.h"
#include "gui/views/choice.h"
#include "gui/views/elided_text.h"
#include "gui/views/fit_wait.h"
#include "gui/views/flow_row.h"
#include "gui/views/text.h"

namespace versieve::gui {
SensitivityPage::SensitivityPage(Planner& planner, QWidget* parent)
    : QWidget(parent),
      model_(new SensitivityModel(planner, this)),
      bucket_(named_choice(tr("Context range"), "sensitivityBucket")),
      precision_(named_choice(tr("Class"), "sensitivityClass")),
      requests_(named_choice(tr("Requests at once"), "sensitivityRequests")),
      requests_row_(new QWidget),
      x_(named_choice(tr("Horizontal knob"), "sensitivityX")),
      y_(named_choice(tr("Vertical knob"), "sensitivityY")),
      busy_(quiet_label({})),
      stack_(new QStackedWidget),
      wait_(new FitWait(planner, "sensitivityMessage")),
      tornado_(new Tornado),
      map_(new WinnerMap),
      borders_(new QLabel),
      cell_(new ElidedText(1)) {
  lay_out_with_wait(*this, make_choices(), *stack_, *wait_, *make_answer());
  connect(model_, &SensitivityModel::changed, this, &SensitivityPage::show_answer);
  connect(&planner, &Planner::progressed, this, &SensitivityPage::show_answer);
  connect(map_, &WinnerMap::cellTold, cell_, &ElidedText::setText);
}

void SensitivityPage::showEvent(QShowEvent*) {
  model_->need();
}

QWidget* SensitivityPage::make_choices() {
  precision_->addItem(tr("best of the target's own"));
  for (int i = 0; i < static_cast<int>(PrecisionClass::kSparseRectified); ++i) {
    precision_->addItem(name_of(static_cast<PrecisionClass>(i)), i);
    precision_->setItemData(precision_->count() - 1, class_in_words(static_cast<PrecisionClass>(i)),
                            Qt::ToolTipRole);
  }
  for (int i = 0; i < kMapKnobCount; ++i) {
    for (QComboBox* box : {x_, y_}) {
      box->addItem(name_of(static_cast<Knob>(i)), i);
    }
  }
  y_->setCurrentIndex(static_cast<int>(Knob::kSms));
  for (QComboBox* box : {bucket_, precision_, requests_, x_, y_}) {
    connect(box, &QComboBox::currentIndexChanged, this, &SensitivityPage::ask);
  }
  QWidget* row = new QWidget;
  FlowRow* layout = new FlowRow(row);
  layout->addNamed(quiet_label(tr("Context")), bucket_);
  layout->addNamed(quiet_label(tr("Class")), precision_);
  FlowRow* requests = new FlowRow(requests_row_);
  requests->addNamed(quiet_label(tr("Requests at once")), requests_);
  requests_row_->setVisible(false);
  requests_->addItem("1");
  layout->addWidget(requests_row_);
  layout->addNamed(quiet_label(tr("Horizontal")), x_);
  layout->addNamed(quiet_label(tr("Vertical")), y_);
  layout->addWidget(busy_);
  ask();
  return row;
}

QWidget* SensitivityPage::make_answer() {
  borders_->setObjectName("borders");
  borders_->setWordWrap(true);
  borders_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  QSplitter* splitter = new QSplitter(Qt::Horizontal);
  splitter->addWidget(tornado_);
  splitter->addWidget(map_);
  splitter->setStretchFactor(0, 2);
  splitter->setStretchFactor(1, 3);
  splitter->setSizes({440, 660});
  QLabel* how = quiet_label(
      tr("Predicted by the planner's fit for its model, draft and limit of losses, as if nothing "
         "had been timed on any of these machines. SMs and clock bring their tensor rate along. "
         "No step of several requests was measured; cells without colour do not fit into memory."));
  how->setWordWrap(true);
  QWidget* answer = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(answer);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(how);
  layout->addWidget(splitter, 1);
  layout->addWidget(cell_);
  layout->addWidget(borders_);
  return answer;
}

void SensitivityPage::list_buckets() {
  const PlanPtr& plan = model_->planner().plan();
  const std::size_t count = plan ? plan->chosen.buckets.size() : 0;
  QStringList texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts << bucket_text(plan->chosen.buckets[i]);
  }
  list_texts(*bucket_, texts);
}

// Those that the planner plans for.
void SensitivityPage::list_requests() {
  const PlanPtr& plan = model_->planner().plan();
  QStringList texts = {"1"};
  for (int level = 1; plan && level < level_count(plan->chosen); ++level) {
    texts << QString::number(table_of(plan->chosen, level).concurrency);
  }
  const QString before = requests_->currentText();
  list_texts(*requests_, texts);
  requests_row_->setVisible(texts.size() > 1);
  if (requests_->currentText() != before) {
    ask();
  }
}

void SensitivityPage::ask() {
  const QVariant precision = precision_->currentData();
  model_->ask(std::max(0, bucket_->currentIndex()),
              precision.isValid() ? std::optional(static_cast<PrecisionClass>(precision.toInt()))
                                  : std::nullopt,
              static_cast<Knob>(x_->currentData().toInt()),
              static_cast<Knob>(y_->currentData().toInt()),
              std::max<std::int64_t>(1, requests_->currentText().toLongLong()));
}

void SensitivityPage::show_answer() {
  list_buckets();
  list_requests();
  const SensitivityPtr& answer = model_->answer();
  const bool has_plan = model_->planner().plan() != nullptr;
  busy_->setText(has_plan && model_->isBusy() ? tr("Trying machines …") : QString());
  stack_->setCurrentIndex(answer ? 1 : 0);
  if (!answer) {
    wait_->say(!model_->sentence().isEmpty()
                   ? tr("There is nothing to show: %1.").arg(model_->sentence())
               : has_plan ? tr("Trying machines …")
                          : model_->planner().waitText());
  }
  tornado_->show_answer(answer);
  map_->show_answer(answer);
  borders_->setText(answer ? borders_text(*answer) : QString());
}

}  // namespace versieve::gui
