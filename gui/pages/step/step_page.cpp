#include "gui/pages/step/step_page.h"

#include <QLabel>
#include <QSignalBlocker>
#include <QSplitter>
#include <QStackedWidget>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/views/choice.h"
#include "gui/views/elided_text.h"
#include "gui/views/flow_row.h"
#include "gui/views/text.h"

namespace versieve::gui {
namespace {

constexpr int kSaidLines = 2;
constexpr int kChars = 30;  // of a choice
// Of hundreds of thousands of steps the others are chosen where points are selected.
constexpr int kMostListed = 1000;

}  // namespace

StepPage::StepPage(Document& document, QWidget* parent)
    : QWidget(parent),
      document_(document),
      reader_(new StepReader(document, this)),
      first_(named_choice(tr("Step"), "stepFirst")),
      second_(named_choice(tr("Beside it"), "stepSecond")),
      stack_(new QStackedWidget),
      message_(quiet_label({})),
      said_(new ElidedText(kSaidLines)),
      told_(new QLabel),
      timeline_(new StepTimeline),
      roofline_(new Roofline),
      terms_(new TermBars),
      sharing_(new SharingPlot) {
  for (QComboBox* box : {first_, second_}) {
    box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    box->setMinimumContentsLength(kChars);
    connect(box, &QComboBox::currentIndexChanged, this, &StepPage::ask);
  }
  QWidget* row = new QWidget;
  FlowRow* choices = new FlowRow(row);
  choices->addNamed(quiet_label(tr("Step")), first_);
  choices->addNamed(quiet_label(tr("beside")), second_);
  message_->setAlignment(Qt::AlignCenter);
  message_->setWordWrap(true);
  stack_->addWidget(message_);
  stack_->addWidget(make_answer());
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(12, 10, 12, 10);
  layout->addWidget(row);
  layout->addWidget(stack_, 1);
  connect(reader_, &StepReader::listed, this, &StepPage::list_steps);
  connect(reader_, &StepReader::changed, this, &StepPage::show_view);
  connect(&document, &Document::selectionChanged, this, &StepPage::follow);
  show_view();
}

QWidget* StepPage::make_answer() {
  told_->setObjectName("stepTold");
  told_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  told_->setMinimumHeight(told_->fontMetrics().height());
  for (StepPicture* picture : std::initializer_list<StepPicture*>{timeline_, roofline_, terms_}) {
    connect(picture, &StepPicture::launchTold, this, &StepPage::tell);
  }
  QSplitter* lower = new QSplitter(Qt::Horizontal);
  lower->addWidget(roofline_);
  lower->addWidget(terms_);
  lower->addWidget(sharing_);
  lower->setSizes({460, 420, 320});
  QWidget* answer = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(answer);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(said_);
  layout->addWidget(timeline_);
  layout->addWidget(told_);
  layout->addWidget(lower, 1);
  return answer;
}

void StepPage::showEvent(QShowEvent*) {
  if (!reader_->view()) {
    ask();
  }
}

void StepPage::list_steps() {
  const QSignalBlocker quietly(first_), quietly_too(second_);
  first_->clear();
  second_->clear();
  second_->addItem(tr("nothing"), -1);
  for (const std::int32_t point : reader_->steps()) {
    if (first_->count() == kMostListed) {
      break;
    }
    first_->addItem(reader_->title(point), point);
    second_->addItem(reader_->title(point), point);
  }
  follow(document_.selected());
}

// The point that is selected elsewhere, where it is a step.
void StepPage::follow(int point) {
  const std::vector<std::int32_t>& steps = reader_->steps();
  if (point >= 0 && std::find(steps.begin(), steps.end(), point) != steps.end()) {
    if (first_->findData(point) < 0) {
      first_->addItem(reader_->title(point), point);
    }
    first_->setCurrentIndex(first_->findData(point));
  }
  if (isVisible()) {
    ask();
  }
}

void StepPage::ask() {
  if (first_->currentIndex() >= 0) {
    reader_->show(first_->currentData().toInt(), second_->currentData().toInt());
  }
}

void StepPage::show_view() {
  const StepViewPtr& view = reader_->view();
  stack_->setCurrentIndex(view ? 1 : 0);
  if (!view) {
    message_->setText(reader_->sentence().isEmpty()
                          ? tr("Reading …")
                          : tr("There is nothing to show: %1.").arg(reader_->sentence()));
  }
  for (StepPicture* picture :
       std::initializer_list<StepPicture*>{timeline_, roofline_, terms_, sharing_}) {
    picture->show_view(view);
  }
  if (view) {
    QString text = step_text(*view->first, view->roofs);
    if (view->second) {
      text += " " + step_text(*view->second, view->roofs);
    }
    said_->setText(text);
    const std::vector<StepLaunch>& launches = view->first->launches;
    const auto longest = std::max_element(launches.begin(), launches.end(),
                                          [](const StepLaunch& a, const StepLaunch& b) {
                                            return a.us.value_or(0.0) < b.us.value_or(0.0);
                                          });
    tell(launches.empty() ? -1 : static_cast<int>(longest - launches.begin()));
  }
}

void StepPage::tell(int launch) {
  for (StepPicture* picture : std::initializer_list<StepPicture*>{timeline_, roofline_, terms_}) {
    picture->tell(launch);
  }
  const StepViewPtr& view = reader_->view();
  told_->setText(
      view && launch >= 0
          ? launch_text(view->first->launches[static_cast<std::size_t>(launch)], view->roofs)
                .replace("\n", "   ")
          : QString());
}

}  // namespace versieve::gui
