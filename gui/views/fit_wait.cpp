#include "gui/views/fit_wait.h"

#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QStackedWidget>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/views/text.h"

namespace versieve::gui {
namespace {

constexpr int kBarWidth = 320;
constexpr int kTextWidth = 640;
constexpr int kHundred = 100;

}  // namespace

FitWait::FitWait(Planner& planner, const QString& message_name, QWidget* parent)
    : QWidget(parent),
      planner_(planner),
      message_(quiet_label({})),
      advice_(quiet_label(tr("Steps and attention are measured on the page Measure, or by "
                             "\"versieve profile --db FILE "
                             "--sweep survey\"; File, Open opens what was measured before."))),
      bar_(new QProgressBar),
      end_(new QPushButton) {
  message_->setObjectName(message_name);
  advice_->setObjectName(message_name + "Advice");
  for (QLabel* label : {message_, advice_}) {
    label->setAlignment(Qt::AlignCenter);
    label->setWordWrap(true);
    label->setFixedWidth(kTextWidth);
  }
  bar_->setObjectName("fitBar");
  bar_->setAccessibleName(tr("Progress of the fit"));
  bar_->setTextVisible(false);
  bar_->setFixedWidth(kBarWidth);
  end_->setObjectName("endFit");
  connect(end_, &QPushButton::clicked, this, [this] {
    if (planner_.isBusy()) {
      planner_.endFit();
    } else {
      planner_.fitAgain();
    }
  });
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->addStretch();
  layout->addWidget(message_, 0, Qt::AlignHCenter);
  layout->addWidget(advice_, 0, Qt::AlignHCenter);
  layout->addWidget(bar_, 0, Qt::AlignHCenter);
  layout->addWidget(end_, 0, Qt::AlignHCenter);
  layout->addStretch();
  say({});
}

void FitWait::say(const QString& text) {
  const std::optional<double> share = planner_.share();
  message_->setText(text);
  for (QLabel* label : {message_, advice_}) {  // no layout asks a centred text for its height
    label->setFixedHeight(std::max(0, label->heightForWidth(kTextWidth)));  // -1 of no text
  }
  advice_->setVisible(!planner_.isBusy() && !planner_.plan() && !planner_.sentence().isEmpty() &&
                      !planner_.wasEnded());
  bar_->setVisible(planner_.isBusy());
  bar_->setRange(0, share ? kHundred : 0);  // of an unknown length before a fit begins
  bar_->setValue(share ? qRound(kHundred * *share) : -1);
  end_->setText(planner_.isBusy() ? tr("Cancel") : tr("Fit again"));
  end_->setVisible(planner_.isBusy() || planner_.wasEnded());
}

void lay_out_with_wait(QWidget& page, QWidget* choices, QStackedWidget& stack, FitWait& wait,
                       QWidget& answer) {
  stack.addWidget(&wait);
  stack.addWidget(&answer);
  QVBoxLayout* layout = new QVBoxLayout(&page);
  layout->setContentsMargins(12, 10, 12, 10);
  layout->addWidget(choices);
  layout->addWidget(&stack, 1);
}

}  // namespace versieve::gui
