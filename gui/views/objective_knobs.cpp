#include "gui/views/objective_knobs.h"

#include <QComboBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QSignalBlocker>

#include "gui/views/choice.h"
#include "gui/views/flow_row.h"
#include "gui/views/number_knob.h"
#include "gui/views/text.h"
#include "gui/views/ui_state.h"

namespace versieve::gui {
namespace {

constexpr double kMostBound = 1e6;  // ms

NumberKnob* new_bound(const QString& what, const QString& object_name, const QString& name,
                      const QString& tip, double step) {
  NumberKnob* knob = new NumberKnob(what);
  knob->setObjectName(object_name);
  knob->setAccessibleName(name);
  knob->setToolTip(tip);
  knob->setDecimals(2);
  knob->setSingleStep(step);
  knob->setRange(0.0, kMostBound);
  knob->setSpecialValueText(ObjectiveKnobs::tr("any"));
  knob->setSuffix(ObjectiveKnobs::tr(" ms"));
  knob->setKeyboardTracking(false);
  knob->setProperty(kFollowsProperty, true);  // the scope is what is set
  return knob;
}

}  // namespace

ObjectiveKnobs::ObjectiveKnobs(QWidget* parent)
    : QWidget(parent),
      aims_(named_choice(tr("Objective"), "scopeObjective")),
      bound_(new_bound(
          tr("the bound between tokens"), "scopeBound", tr("Most ms between tokens"),
          tr("Only tuples of which nine of ten such requests have at most so many ms between "
             "tokens, in the mean of them; of several numbers of requests the one with most tokens "
             "a second within it is marked"),
          0.1)),
      first_(new_bound(tr("the bound to the first token"), "scopeFirstToken",
                       tr("Most ms to the first token"),
                       tr("Likewise: from when a request finds a place to its first token, of a "
                          "prompt as long as the range's longest context; it needs measured "
                          "prompts"),
                       10.0)),
      prompts_(new QPushButton),
      bounds_(new QWidget) {
  aims_->addItems({tr("most tokens a second"), tr("within a latency"), tr("most tokens a joule")});
  aims_->setToolTip(
      tr("What ranks: tokens a second, those within bounds of time, or tokens a joule where power "
         "was sampled"));
  aims_->setProperty(kFollowsProperty, true);
  prompts_->setObjectName("scopePrompts");
  FlowRow* row = new FlowRow(bounds_);
  row->addNamed(quiet_label(tr("Token within")), bound_);
  row->addNamed(quiet_label(tr("First token within")), first_);
  row->addWidget(prompts_);
  FlowRow* all = new FlowRow(this);
  all->addNamed(quiet_label(tr("Objective")), aims_);
  all->addWidget(bounds_);
  connect(aims_, &QComboBox::currentIndexChanged, this, [this] {
    show_bounds();
    Q_EMIT turned();
  });
  for (const NumberKnob* knob : {bound_, first_}) {
    connect(knob, &QDoubleSpinBox::valueChanged, this, &ObjectiveKnobs::turned);
    connect(knob, &NumberKnob::refused, this, &ObjectiveKnobs::refused);
  }
  connect(prompts_, &QPushButton::clicked, this, &ObjectiveKnobs::askForPrompts);
  show_bounds();
}

ObjectiveKnobs::Aim ObjectiveKnobs::aim() const {
  return static_cast<Aim>(aims_->currentIndex());
}

void ObjectiveKnobs::choose(Aim aim) {
  aims_->setCurrentIndex(aim);
}

// Without an aim there are no bounds, and without prompts none to a first token.
void ObjectiveKnobs::show_bounds() {
  bounds_->setVisible(aim() != kTokens);
  first_->setEnabled(!prompts_path_.isEmpty());
  prompts_->setText(prompts_path_.isEmpty() ? tr("Prompts…") : QFileInfo(prompts_path_).fileName());
  prompts_->setAccessibleName(tr("Prompts from a file"));
  prompts_->setToolTip(
      prompts_path_.isEmpty()
          ? tr("How long prompts take on this machine: a file of versieve bench prefill --out")
          : prompts_path_);
}

void ObjectiveKnobs::askForPrompts() {
  const QString path = QFileDialog::getOpenFileName(
      this, tr("How long prompts take, as versieve bench prefill wrote it"), {},
      tr("Prompts (*.json);;All files (*)"));
  if (!path.isEmpty()) {
    setPrompts(path);
  }
}

// Somebody who names prompts is after a latency.
void ObjectiveKnobs::setPrompts(const QString& path) {
  prompts_path_ = path;
  if (aim() == kTokens && !path.isEmpty()) {
    const QSignalBlocker quietly(aims_);
    choose(kLatency);
  }
  show_bounds();
  Q_EMIT turned();
}

void ObjectiveKnobs::showScope(const PlanScope& scope) {
  const QSignalBlocker quietly(aims_), and_these(bound_), those_too(first_);
  bound_->setValue(scope.itl_ms.value_or(0.0));
  first_->setValue(scope.ttft_ms.value_or(0.0));
  prompts_path_ = QString::fromStdString(scope.prefill);
  const bool is_bounded = scope.itl_ms || scope.ttft_ms || !scope.prefill.empty();
  choose(scope.objective == Objective::kEnergy ? kEnergy : is_bounded ? kLatency : kTokens);
  show_bounds();
}

void ObjectiveKnobs::writeTo(PlanScope& scope) const {
  const auto bound_of = [](const NumberKnob& knob) {
    return knob.value() > 0.0 ? std::optional(knob.value()) : std::nullopt;
  };
  scope.objective = aim() == kEnergy ? Objective::kEnergy : Objective::kTokens;
  if (aim() != kTokens) {
    scope.itl_ms = bound_of(*bound_);
    scope.prefill = prompts_path_.toStdString();
    scope.ttft_ms = scope.prefill.empty() ? std::nullopt : bound_of(*first_);
  }
}

}  // namespace versieve::gui
