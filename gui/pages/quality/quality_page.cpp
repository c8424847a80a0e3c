#include "gui/pages/quality/quality_page.h"

#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QSplitter>
#include <QStackedWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/views/choice.h"
#include "gui/views/elided_text.h"
#include "gui/views/fit_wait.h"
#include "gui/views/flow_row.h"
#include "gui/views/interval_bar.h"
#include "gui/views/loss_knob.h"
#include "gui/views/table.h"
#include "gui/views/text.h"

namespace versieve::gui {
namespace {

constexpr int kSaidLines = 2;

}  // namespace

QualityPage::QualityPage(Planner& planner, QWidget* parent)
    : QWidget(parent),
      planner_(planner),
      bucket_(named_choice(tr("Context range"), "qualityBucket")),
      limit_(new_loss_knob()),
      export_(new QPushButton(tr("Export…"))),
      busy_(quiet_label({})),
      stack_(new QStackedWidget),
      wait_(new FitWait(planner, "qualityMessage")),
      plot_(new FrontPlot),
      said_(new ElidedText(kSaidLines)),
      entries_(new PlanEntries(this)),
      table_(new QTableView),
      point_(new QLabel) {
  lay_out_with_wait(*this, make_choices(), *stack_, *wait_, *make_answer());
  connect(&planner_, &Planner::changed, this, &QualityPage::show_plan);
  connect(&planner_, &Planner::progressed, this, &QualityPage::show_plan);
  connect(plot_, &FrontPlot::limitMoved, &planner_, &Planner::setMaxLoss);
  connect(plot_, &FrontPlot::pointOpened, this, &QualityPage::open_point);
  connect(plot_, &FrontPlot::pointSelected, this, [this](int point) {
    const QualityFront& front = plot_->front();
    point_->setText(point < 0
                        ? QString()
                        : front_point_text(front, front.points[static_cast<std::size_t>(point)]));
  });
  show_plan();
}

void QualityPage::showEvent(QShowEvent*) {
  planner_.need();
}

QWidget* QualityPage::make_choices() {
  connect(bucket_, &QComboBox::currentIndexChanged, this, &QualityPage::show_plan);
  limit_->setObjectName("qualityLimit");
  connect(limit_, &QDoubleSpinBox::valueChanged, this,
          [this](double nats) { planner_.setMaxLoss(loss_limit_of(nats)); });
  export_->setObjectName("qualityExport");
  export_->setToolTip(tr("Writes the plan within this limit, as the planner's page does"));
  connect(export_, &QPushButton::clicked, this, &QualityPage::exportRequested);
  QWidget* row = new QWidget;
  FlowRow* layout = new FlowRow(row);
  layout->addNamed(quiet_label(tr("Context")), bucket_);
  layout->addNamed(quiet_label(tr("Loss at most")), limit_);
  layout->addWidget(export_);
  layout->addWidget(busy_);
  return row;
}

QWidget* QualityPage::make_answer() {
  style_table(*table_);
  table_->setModel(entries_);
  table_->setObjectName("withinLimit");
  table_->setAccessibleName(tr("Ranking within the limit"));
  table_->setItemDelegateForColumn(PlanEntries::intervalColumn(), new IntervalBar(this));
  point_->setObjectName("qualityPoint");
  point_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  point_->setWordWrap(true);
  point_->setMinimumWidth(120);
  point_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  said_->setObjectName("qualitySaid");
  QScrollArea* told = new QScrollArea;  // low windows have no room for all of it
  told->setWidget(point_);
  told->setWidgetResizable(true);
  told->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  told->setFrameShape(QFrame::NoFrame);
  told->setAccessibleName(tr("What the chosen tuple is, yields and loses"));
  QSplitter* lower = new QSplitter(Qt::Horizontal);
  lower->addWidget(table_);
  lower->addWidget(told);
  lower->setStretchFactor(0, 7);  // at 1024 the interval is whole
  lower->setStretchFactor(1, 3);
  lower->setSizes({700, 300});
  QSplitter* whole = new QSplitter(Qt::Vertical);
  whole->addWidget(plot_);
  whole->addWidget(lower);
  whole->setStretchFactor(0, 3);
  whole->setStretchFactor(1, 2);
  whole->setSizes({430, 230});
  QWidget* answer = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(answer);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(said_);
  layout->addWidget(whole, 1);
  return answer;
}

void QualityPage::show_plan() {
  show_loss_limit(*limit_, planner_.maxLoss());
  const PlanPtr& plan = planner_.plan();
  export_->setEnabled(plan != nullptr);
  busy_->setText(plan && planner_.isBusy() ? tr("Planning …") : QString());
  stack_->setCurrentIndex(plan ? 1 : 0);
  if (!plan) {
    const bool failed = !planner_.isBusy() && !planner_.sentence().isEmpty();
    wait_->say(failed ? tr("There is no plan: %1.").arg(planner_.sentence()) : planner_.waitText());
    plot_->show_front({});
    entries_->show(nullptr, {}, {});
    return;
  }
  QStringList ranges;
  for (const ContextBucket& range : plan->chosen.buckets) {
    ranges << bucket_text(range);
  }
  list_texts(*bucket_, ranges);
  const std::int64_t bucket = std::max(0, bucket_->currentIndex());
  const std::vector<PrecisionClass> classes = planner_.shownClasses();
  const QualityFront front = quality_front(plan, bucket, classes);
  plot_->show_front(front);
  said_->setText(front_text(front));
  const bool was_empty = entries_->rowCount() == 0;
  entries_->show(plan, {0, static_cast<int>(bucket)}, classes);
  table_->resizeColumnToContents(0);
  if (was_empty) {
    table_->resizeColumnsToContents();
  }
}

void QualityPage::open_point(int point) {
  const QualityFront& front = plot_->front();
  Q_EMIT cellRequested(static_cast<int>(front.bucket),
                       front.points[static_cast<std::size_t>(point)].entry->precision);
}

}  // namespace versieve::gui
