#include "gui/pages/step/step_page.h"

#include <QCheckBox>
#include <QIconEngine>
#include <QLabel>
#include <QPainter>
#include <QSignalBlocker>
#include <QSplitter>
#include <QStackedWidget>
#include <QTabWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <array>

#include "gui/views/choice.h"
#include "gui/views/elided_text.h"
#include "gui/views/flow_row.h"
#include "gui/views/text.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kSaidLines = 2;
constexpr int kChars = 16;  // of a choice, where there is room for no more
constexpr int kMostPixels = 420;
// Of hundreds of thousands of steps the others are chosen where points are selected.
constexpr int kMostListed = 1000;

// Launches one after another, in the colours of the moment.
class TraceMark : public QIconEngine {
 public:
  void paint(QPainter* painter, const QRect& rect, QIcon::Mode, QIcon::State) override {
    const double unit = rect.width() / 12.0;
    for (const auto& [from, length, line] :
         {std::array{0.0, 5.0, 2.0}, {4.0, 5.0, 5.0}, {8.0, 4.0, 8.0}}) {
      painter->fillRect(
          QRectF(rect.x() + from * unit, rect.y() + line * unit, length * unit, 2.0 * unit),
          theme::colors().accent);
    }
  }
  QPixmap pixmap(const QSize& size, QIcon::Mode mode, QIcon::State state) override {
    QPixmap picture(size);
    picture.fill(Qt::transparent);
    QPainter painter(&picture);
    paint(&painter, picture.rect(), mode, state);
    return picture;
  }
  QIconEngine* clone() const override { return new TraceMark(*this); }
};

}  // namespace

StepPage::StepPage(Document& document, QWidget* parent)
    : QWidget(parent),
      document_(document),
      reader_(new StepReader(document, this)),
      first_(named_choice(tr("Step"), "stepFirst")),
      second_(named_choice(tr("Beside it"), "stepSecond")),
      aligned_(named_choice(tr("Aligned at"), "stepAligned")),
      traced_only_(new QCheckBox(tr("with a trace only"))),
      stack_(new QStackedWidget),
      message_(quiet_label({})),
      said_(new ElidedText(kSaidLines)),
      told_(new QLabel),
      missing_(quiet_label({})),
      trace_(new TraceTimeline),
      timeline_(new StepTimeline),
      parts_(nullptr),
      phases_(new PhaseBars),
      choice_(new ChoicePlot),
      roofline_(new Roofline),
      terms_(new TermBars),
      sharing_(new SharingPlot) {
  for (QComboBox* box : {first_, second_}) {
    box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    box->setMinimumContentsLength(kChars);
    box->setMaximumWidth(kMostPixels);
    connect(box, &QComboBox::currentIndexChanged, this, &StepPage::ask);
  }
  QWidget* row = new QWidget;
  FlowRow* choices = new FlowRow(row);
  choices->addNamed(quiet_label(tr("Step")), first_);
  choices->addNamed(quiet_label(tr("beside")), second_);
  choices->addNamed(quiet_label(tr("aligned at")), aligned_);
  traced_only_->setObjectName("stepTracedOnly");
  traced_only_->setAccessibleName(tr("List steps with a trace only"));
  choices->addWidget(traced_only_);
  connect(traced_only_, &QCheckBox::toggled, this, [this] {
    list_steps(first_->currentData(), second_->currentData());
    ask();
  });
  connect(aligned_, &QComboBox::currentIndexChanged, this,
          [this] { trace_->align(aligned_->currentData().toString()); });
  message_->setAlignment(Qt::AlignCenter);
  message_->setWordWrap(true);
  stack_->addWidget(message_);
  stack_->addWidget(make_answer());
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(12, 10, 12, 10);
  layout->addWidget(row);
  layout->addWidget(stack_, 1);
  connect(reader_, &StepReader::listed, this, [this] {
    list_steps({}, {});
    follow(document_.selected());
  });
  connect(reader_, &StepReader::changed, this, &StepPage::show_view);
  connect(&document, &Document::selectionChanged, this, &StepPage::follow);
  show_view();
}

void StepPage::resizeEvent(QResizeEvent* event) {
  share_line();
  QWidget::resizeEvent(event);
}

// The two steps have what the others leave of one line.
void StepPage::share_line() {
  const QLayout* row = first_->parentWidget()->parentWidget()->layout();
  const QMargins aside = layout()->contentsMargins();
  int room = width() - aside.left() - aside.right() - row->sizeHint().width();
  int least = 0;
  for (const QComboBox* box : {first_, second_}) {
    room += std::max(box->sizeHint().width(), box->minimumWidth());
    least = std::max(least, box->minimumSizeHint().width());
  }
  for (QComboBox* box : {first_, second_}) {
    box->setMinimumWidth(std::clamp(room / 2, least, kMostPixels));
  }
}

QTabWidget* StepPage::make_parts() {
  const auto beside = [](std::initializer_list<QWidget*> pictures) {
    QSplitter* row = new QSplitter(Qt::Horizontal);
    for (QWidget* picture : pictures) {
      row->addWidget(picture);
    }
    return row;
  };
  QTabWidget* parts = new QTabWidget;
  parts->setObjectName("stepParts");
  parts->setDocumentMode(true);
  parts->addTab(beside({roofline_, terms_}), tr("Roofs and bytes"));
  parts->addTab(phases_, tr("Phases"));
  QSplitter* blocks = beside({choice_, sharing_});
  blocks->setSizes({760, 420});
  parts->addTab(blocks, tr("Blocks"));
  return parts;
}

QWidget* StepPage::make_answer() {
  told_->setObjectName("stepTold");
  told_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  told_->setWordWrap(true);
  told_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  told_->setFixedHeight(2 * told_->fontMetrics().lineSpacing() + 6);
  missing_->setObjectName("stepMissing");
  missing_->setWordWrap(true);
  for (StepPicture* picture : std::initializer_list<StepPicture*>{timeline_, roofline_, terms_}) {
    connect(picture, &StepPicture::launchTold, this, &StepPage::tell);
  }
  connect(trace_, &TraceTimeline::launchTold, this, &StepPage::tell_traced);
  connect(phases_, &PhaseBars::phaseTold, trace_, &TraceTimeline::tell_phase);
  parts_ = make_parts();
  QWidget* answer = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(answer);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(said_);
  layout->addWidget(missing_);
  layout->addWidget(trace_);
  layout->addWidget(timeline_);
  layout->addWidget(told_);
  layout->addWidget(parts_, 1);
  return answer;
}

void StepPage::showEvent(QShowEvent*) {
  if (!reader_->view()) {
    ask();
  }
}

// These stay chosen, where they are listed.
void StepPage::list_steps(const QVariant& first, const QVariant& second) {
  const std::vector<std::int32_t>& steps = reader_->steps();
  const bool has_traces = std::any_of(steps.begin(), steps.end(),
                                      [this](int point) { return reader_->isTraced(point); });
  traced_only_->setEnabled(has_traces);
  traced_only_->setToolTip(has_traces ? QString()
                                      : tr("No step of this database is stored with a trace"));
  const QSignalBlocker quietly(first_), quietly_too(second_);
  first_->clear();
  second_->clear();
  second_->addItem(tr("nothing"), -1);
  for (const std::int32_t point : steps) {
    if (first_->count() == kMostListed) {
      break;
    }
    if (reader_->isTraced(point) || !has_traces || !traced_only_->isChecked()) {
      add_step(*first_, point);
      add_step(*second_, point);
    }
  }
  first_->setCurrentIndex(std::max(0, first_->findData(first)));
  second_->setCurrentIndex(std::max(0, second_->findData(second)));
}

void StepPage::add_step(QComboBox& box, int point) {
  const QString title = reader_->title(point);
  const bool is_traced = reader_->isTraced(point);
  box.addItem(is_traced ? QIcon(new TraceMark) : QIcon(), title, point);
  const QString told = is_traced ? tr("%1, with a trace").arg(title) : title;
  box.setItemData(box.count() - 1, told, Qt::AccessibleTextRole);
  box.setItemData(box.count() - 1, told, Qt::ToolTipRole);
}

// The point that is selected elsewhere, where it is a step.
void StepPage::follow(int point) {
  const std::vector<std::int32_t>& steps = reader_->steps();
  if (point >= 0 && std::find(steps.begin(), steps.end(), point) != steps.end()) {
    if (first_->findData(point) < 0) {
      add_step(*first_, point);
    }
    first_->setCurrentIndex(first_->findData(point));
  }
  if (isVisible()) {
    ask();
  }
}

void StepPage::ask() {
  for (QComboBox* box : {first_, second_}) {
    box->setToolTip(box->currentText());  // which may be wider than the choice
  }
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
  show_traces();
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

// The trace takes the place of launches by kind where there is one.
void StepPage::show_traces() {
  const StepViewPtr& view = reader_->view();
  const bool traced = view && view->first_trace;
  trace_->show_view(view);
  phases_->show_view(view);
  choice_->show_view(view);
  trace_->setVisible(traced);
  timeline_->setVisible(!traced);
  const QString missing = view ? missing_trace_text(*view) : QString();
  missing_->setText(missing);
  missing_->setVisible(!missing.isEmpty());
  list_alignments();
}

void StepPage::list_alignments() {
  const StepViewPtr& view = reader_->view();
  const bool is_pair = view && view->first_trace && view->second_trace;
  const QString kept = aligned_->currentData().toString();
  {
    const QSignalBlocker quietly(aligned_);
    aligned_->clear();
    aligned_->addItem(tr("the step's start"), QString());
    for (std::size_t i = 0; is_pair && i < view->first_trace->phases.size(); ++i) {
      const QString& name = view->first_trace->phases[i].name;
      if (view->second_trace->phase(name) >= 0) {
        aligned_->addItem(name, name);
      }
    }
    aligned_->setCurrentIndex(std::max(0, aligned_->findData(kept)));
  }
  aligned_->setEnabled(is_pair);  // one step alone is at its start
  share_line();
  trace_->align(aligned_->currentData().toString());
}

// All launches of a kind; of a trace the first of them.
void StepPage::tell(int kind) {
  for (StepPicture* picture : std::initializer_list<StepPicture*>{timeline_, roofline_, terms_}) {
    picture->tell(kind);
  }
  const StepViewPtr& view = reader_->view();
  if (!view || kind < 0) {
    told_->clear();
    return;
  }
  const StepLaunch& launch = view->first->launches[static_cast<std::size_t>(kind)];
  told_->setText(launch_text(launch, view->roofs).replace("\n", "   "));
  if (view->first_trace) {
    trace_->tell_phase(launch.name);
  }
}

void StepPage::tell_traced(int step, int launch) {
  const StepViewPtr& view = reader_->view();
  const TracedLaunches& trace = step == 0 ? *view->first_trace : *view->second_trace;
  const QString& phase =
      trace.phases[static_cast<std::size_t>(trace.phase_of[static_cast<std::size_t>(launch)])].name;
  told_->setText(trace_->told_text());
  phases_->tell(phase);
  const std::vector<StepLaunch>& kinds = view->first->launches;
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const StepLaunch& other) { return other.name == phase; });
  if (kind != kinds.end()) {
    for (StepPicture* picture : std::initializer_list<StepPicture*>{roofline_, terms_}) {
      picture->tell(static_cast<int>(kind - kinds.begin()));
    }
  }
}

}  // namespace versieve::gui
