#include "gui/pages/sensitivity/sensitivity_page.h"

#include <QComboBox>
#include <QGridLayout>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QSlider>
#include <QSplitter>
#include <QStackedWidget>
#include <QVBoxLayout>
#include <cmath>

#include "gui/models/machine_bench.h"
#include "gui/models/plain_words.h"
#include "gui/models/plan_slice.h"
#include "gui/views/choice.h"
#include "gui/views/elided_text.h"
#include "gui/views/fit_wait.h"
#include "gui/views/flow_row.h"
#include "gui/views/text.h"

namespace versieve::gui {
namespace {

constexpr int kSliderSteps = 40;  // to four times, and to a quarter
constexpr int kValueWidth = 104;

// What the plan is after and no other machine can be asked for.
QString unheld_text(const PlanAims& aims) {
  QString text;
  if (aims.ttft_ms) {
    text = SensitivityPage::tr(
        " Its bound to the first token is not held to here: prompts were timed on one machine.");
  }
  if (aims.objective == Objective::kEnergy) {
    text += SensitivityPage::tr(
        " By tokens a second, not by tokens a joule: power was sampled on one machine.");
  }
  return text;
}

}  // namespace

SensitivityPage::SensitivityPage(Planner& planner, QWidget* parent)
    : QWidget(parent),
      model_(new SensitivityModel(planner, this)),
      bucket_(named_choice(tr("Context range"), "sensitivityBucket")),
      precision_(named_choice(tr("Class"), "sensitivityClass")),
      requests_(named_choice(tr("Requests at once"), "sensitivityRequests")),
      requests_row_(new QWidget),
      x_(named_choice(tr("Horizontal knob"), "sensitivityX")),
      y_(named_choice(tr("Vertical knob"), "sensitivityY")),
      reset_(new QPushButton(tr("As planned"))),
      told_(new QLabel),
      how_(quiet_label({})),
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
  fill_classes(PlanOptions{}.classes);
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
  QWidget* turned = new QWidget;
  QVBoxLayout* column = new QVBoxLayout(turned);
  column->setContentsMargins(0, 0, 8, 0);
  column->addWidget(tornado_);
  column->addWidget(make_sliders());
  column->addStretch(1);
  QScrollArea* scroll = new QScrollArea;
  scroll->setWidget(turned);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setFocusPolicy(Qt::NoFocus);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setMinimumWidth(tornado_->minimumSizeHint().width() + 24);
  splitter->addWidget(scroll);
  splitter->addWidget(map_);
  splitter->setStretchFactor(0, 2);
  splitter->setStretchFactor(1, 3);
  splitter->setSizes({440, 660});
  how_->setWordWrap(true);
  QWidget* answer = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(answer);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(how_);
  layout->addWidget(splitter, 1);
  layout->addWidget(cell_);
  layout->addWidget(borders_);
  return answer;
}

// A knob each, from a quarter to four times the planner's machine.
QWidget* SensitivityPage::make_sliders() {
  QWidget* rows = new QWidget;
  QGridLayout* grid = new QGridLayout(rows);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setVerticalSpacing(2);
  for (int i = 0; i < kKnobCount; ++i) {
    const std::size_t at = static_cast<std::size_t>(i);
    QSlider* slider = new QSlider(Qt::Horizontal);
    slider->setRange(-kSliderSteps, kSliderSteps);
    slider->setObjectName("turn" + name_of(static_cast<Knob>(i)).remove(' '));
    slider->setAccessibleName(tr("%1 of the machine").arg(name_of(static_cast<Knob>(i))));
    slider->setToolTip(
        tr("Turns the planner's machine, from a quarter to four times; bars and map "
           "are around what is turned here"));
    connect(slider, &QSlider::valueChanged, this, &SensitivityPage::ask);
    sliders_[at] = slider;
    values_[at] = quiet_label({});
    values_[at]->setMinimumWidth(kValueWidth);
    values_[at]->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
    grid->addWidget(new QLabel(name_of(static_cast<Knob>(i))), i, 0);
    grid->addWidget(slider, i, 1);
    grid->addWidget(values_[at], i, 2);
  }
  grid->setColumnStretch(1, 1);
  reset_->setObjectName("asPlanned");
  reset_->setToolTip(tr("Back to the planner's machine"));
  connect(reset_, &QPushButton::clicked, this, [this] {
    for (QSlider* slider : sliders_) {
      slider->setValue(0);
    }
  });
  told_->setWordWrap(true);
  told_->setObjectName("turnedMachine");
  grid->addWidget(reset_, kKnobCount, 2);
  grid->addWidget(told_, kKnobCount, 0, 1, 2);
  return rows;
}

std::array<double, kKnobCount> SensitivityPage::factors() const {
  std::array<double, kKnobCount> out = kUnturned;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int at = sliders_[i] == nullptr ? 0 : sliders_[i]->value();
    out[i] = at == 0 ? 1.0 : std::pow(kMapReach, static_cast<double>(at) / kSliderSteps);
  }
  return out;
}

void SensitivityPage::show_sliders() {
  const SensitivityPtr& answer = model_->answer();
  bool is_turned = false;
  for (int i = 0; i < kKnobCount; ++i) {
    const std::size_t at = static_cast<std::size_t>(i);
    const Knob knob = static_cast<Knob>(i);
    values_[at]->setText(answer ? knob_text(knob, value_of(knob, answer->situation)) : QString());
    is_turned = is_turned || sliders_[at]->value() != 0;
  }
  reset_->setEnabled(is_turned);
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

void SensitivityPage::fill_classes(const std::vector<PrecisionClass>& classes) {
  QStringList texts = {tr("best of the target's own")};
  for (const PrecisionClass precision : classes) {
    texts << name_of(precision);
  }
  list_texts(*precision_, texts);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const int at = static_cast<int>(i) + 1;
    precision_->setItemData(at, static_cast<int>(classes[i]));
    precision_->setItemData(at, class_in_words(classes[i]), Qt::ToolTipRole);
  }
}

// Those of which a map of the planner's model can be.
void SensitivityPage::list_classes() {
  if (const PlanPtr& plan = model_->planner().plan()) {
    const QString before = precision_->currentText();
    fill_classes(mapped_classes(*plan));
    if (precision_->currentText() != before) {
      ask();
    }
  }
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
              std::max<std::int64_t>(1, requests_->currentText().toLongLong()), factors());
}

// What times of several requests rest on.
QString SensitivityPage::several_text(const Plan& plan) {
  const BatchFit& batch = plan.basis->fit.batch;
  return (batch.measured(plan.target().attention)
              ? tr(" Steps of several requests rest on %1 measured ones").arg(batch.points)
              : tr(" No step of several requests was measured")) +
         (plan.chosen.aims.itl_ms
              ? tr("; cells without colour do not fit into memory or do not keep the bound.")
              : tr("; cells without colour do not fit into memory."));
}

void SensitivityPage::show_answer() {
  list_buckets();
  list_classes();
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
  told_->setText(answer ? turned_text(*answer) : QString());
  const bool several =
      answer && (answer->question.requests > 1 || answer->question.x == Knob::kRequests ||
                 answer->question.y == Knob::kRequests);
  how_->setText(
      (answer && answer->question.plan->chosen.aims.itl_ms
           ? tr("Predicted by the planner's fit for its model, draft, limit of losses and bound of "
                "%1 ms between tokens, as if nothing had been timed on any of these machines.")
                 .arg(*answer->question.plan->chosen.aims.itl_ms)
           : tr("Predicted by the planner's fit for its model, draft and limit of losses, as if "
                "nothing had been timed on any of these machines.")) +
      tr(" SMs and clock bring their tensor rate along.") +
      (several ? several_text(*answer->question.plan) : QString()) +
      (answer ? unheld_text(answer->question.plan->chosen.aims) : QString()));
  show_sliders();
}

}  // namespace versieve::gui
