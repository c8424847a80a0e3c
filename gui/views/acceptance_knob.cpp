#include "gui/views/acceptance_knob.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QSlider>
#include <algorithm>
#include <cmath>
#include <set>

#include "gui/views/text.h"

namespace versieve::gui {
namespace {

constexpr double kHundred = 100.0;  // steps of the slider

QString pair_text(const std::string& name, AcceptanceOrigin origin) {
  return QString("%1 (%2)").arg(QString::fromStdString(name), name_of(origin));
}

}  // namespace

AcceptanceKnob::AcceptanceKnob(QWidget* parent)
    : QWidget(parent),
      pairs_(new QComboBox),
      rate_(new QSlider(Qt::Horizontal)),
      typed_rate_(new NumberKnob(tr("the assumed rate"))) {
  pairs_->setAccessibleName(tr("Tokens a step of"));
  pairs_->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  pairs_->setToolTip(
      tr("The pair whose accepted tokens the plan counts on: measured here, or imported from a "
         "server; or a rate that you assume"));
  rate_->setRange(5, 99);
  rate_->setMinimumWidth(80);
  rate_->setMaximumWidth(260);
  rate_->setAccessibleName(tr("Assumed acceptance rate"));
  typed_rate_->setRange(0.05, 0.99);
  typed_rate_->setSingleStep(0.01);
  typed_rate_->setValue(kFirstAssumedRate);
  rate_->setValue(static_cast<int>(std::lround(kHundred * kFirstAssumedRate)));
  typed_rate_->setAccessibleName(tr("Assumed acceptance rate as a number"));
  typed_rate_->setToolTip(
      tr("Probability that the draft's best child is right, the same at every depth"));
  connect(pairs_, &QComboBox::currentIndexChanged, this, &AcceptanceKnob::choose);
  connect(rate_, &QSlider::valueChanged, this,
          [this](int position) { typed_rate_->setValue(position / kHundred); });
  connect(typed_rate_, &QDoubleSpinBox::valueChanged, this, &AcceptanceKnob::turn_rate);
  QHBoxLayout* layout = new QHBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(quiet_label(tr("Tokens a step of")));
  layout->addWidget(pairs_);
  layout->addWidget(rate_);
  layout->addWidget(typed_rate_);
  showPlan(nullptr);
}

void AcceptanceKnob::showPlan(const PlanPtr& plan) {
  const QSignalBlocker quietly(pairs_);
  setEnabled(plan != nullptr);
  const QString own =
      plan ? pair_text(plan->own.acceptance_pair, plan->own.acceptance_origin) : QString();
  std::set<std::string> named;
  std::vector<std::string> names;
  QStringList texts = {own};
  for (const engine::AcceptancePair& pair :
       plan ? plan->pairs : std::vector<engine::AcceptancePair>()) {
    // Of a name's measured and imported pair the measured one is planned with; measured ones of
    // other weights are told apart by their hash.
    const std::string name = pair.sha256.empty() ? pair.name : pair.sha256;
    const bool shared = pair.name == plan->own.acceptance_pair || named.contains(pair.name);
    const bool shadowed =
        pair.id() == acceptance_pair(plan->own) ||
        (shared && (pair.sha256.empty() || pair.origin == AcceptanceOrigin::kImported));
    if (!shadowed) {
      named.insert(pair.name);
      names.push_back(name);
      texts << pair_text(shared ? text_of(pair.id()) : pair.name, pair.origin);
    }
  }
  if (own != own_ || names != names_) {  // another database
    own_ = own;
    names_ = names;
    pairs_->clear();
    pairs_->addItems(texts);
    pairs_->addItem(tr("an assumed rate"));
  }
  const bool assumes = pairs_->currentIndex() == pairs_->count() - 1 && pairs_->count() > 1;
  rate_->setVisible(assumes);
  typed_rate_->setVisible(assumes);
}

void AcceptanceKnob::reset() {
  const QSignalBlocker quietly(pairs_);
  pairs_->setCurrentIndex(0);
}

void AcceptanceKnob::choose() {
  const int index = pairs_->currentIndex();
  AcceptanceChoice choice;
  if (index == pairs_->count() - 1) {
    choice.rate = typed_rate_->value();
  } else if (index > 0) {
    choice.pair = names_[static_cast<std::size_t>(index - 1)];
  }
  rate_->setVisible(choice.rate.has_value());
  typed_rate_->setVisible(choice.rate.has_value());
  Q_EMIT turned(choice);
}

void AcceptanceKnob::turn_rate(double rate) {
  const QSignalBlocker quietly(rate_);
  rate_->setValue(static_cast<int>(std::lround(kHundred * rate)));
  Q_EMIT turned({.pair = {}, .rate = rate});
}

}  // namespace versieve::gui
