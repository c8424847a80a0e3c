#include "gui/pages/validation_page.h"

#include <QGridLayout>
#include <QLabel>
#include <QRegularExpression>
#include <QScrollArea>
#include <QSplitter>
#include <QStackedWidget>
#include <QTextBrowser>
#include <QVBoxLayout>

#include "engine/analyse/fit/fit_report.h"
#include "gui/models/numbers.h"
#include "gui/views/fit_wait.h"
#include "gui/views/text.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kColumns = 2;
constexpr double kMargin = 16.0;
constexpr int kHeadingAbove = 8;

}  // namespace

ValidationPage::ValidationPage(Planner& planner, QWidget* parent)
    : QWidget(parent),
      planner_(planner),
      stack_(new QStackedWidget),
      wait_(new FitWait(planner, "validationMessage")),
      tables_(new QTextBrowser),
      systems_(new SystemErrors),
      grid_(new QGridLayout) {
  QLabel* heading = new QLabel(tr("NSA's attention and steps, point by point"));
  QFont heavy = heading->font();
  heavy.setWeight(QFont::DemiBold);
  heading->setFont(heavy);
  heading->setContentsMargins(0, kHeadingAbove, 0, 0);
  QWidget* plots = new QWidget;
  QVBoxLayout* column = new QVBoxLayout(plots);
  column->addWidget(systems_);
  column->addWidget(heading);
  column->addLayout(grid_, 1);
  tables_->setFrameShape(QFrame::NoFrame);
  tables_->document()->setDocumentMargin(kMargin);
  tables_->document()->setDefaultStyleSheet(theme::report_sheet());
  tables_->setAccessibleName(tr("Report of the fit"));
  QScrollArea* scroll = new QScrollArea;
  scroll->setWidget(plots);
  scroll->setWidgetResizable(true);
  scroll->setAccessibleName(tr("Predicted against measured"));
  QSplitter* splitter = new QSplitter;
  splitter->addWidget(tables_);
  splitter->addWidget(scroll);
  splitter->setSizes({620, 700});
  stack_->addWidget(wait_);
  stack_->addWidget(splitter);
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(stack_);
  connect(&planner_, &Planner::changed, this, &ValidationPage::show_fit);
  connect(&planner_, &Planner::progressed, this, &ValidationPage::show_fit);
}

// In the app's own style instead of the report's, which is for white paper.
void ValidationPage::show_tables() {
  static const QRegularExpression style("<style>.*</style>");
  tables_->setHtml(
      with_micro(QString::fromStdString(engine::fit_tables_html(*shown_)).remove(style))
          .replace(" %", QChar(QChar::Nbsp) + QString("%")));  // no sign alone in a line
}

void ValidationPage::showEvent(QShowEvent*) {
  planner_.need();
  show_fit();
}

void ValidationPage::show_fit() {
  const PlanPtr& plan = planner_.plan();
  stack_->setCurrentIndex(plan ? 1 : 0);
  if (!plan) {
    shown_.reset();
    wait_->say(!planner_.isBusy() && !planner_.sentence().isEmpty()
                   ? tr("There is no fit: %1.").arg(planner_.sentence())
                   : planner_.waitText());
    return;
  }
  if (plan->fit == shown_ || !isVisible()) {
    return;
  }
  shown_ = plan->fit;
  show_tables();
  systems_->show_fit(shown_);
  show_plots(*shown_);
}

void ValidationPage::show_plots(const engine::FitReport& fit) {
  for (ReportPlot* plot : plots_) {
    delete plot;
  }
  plots_.clear();
  for (engine::Plot& plot : engine::fit_plots(fit)) {
    const int index = static_cast<int>(plots_.size());
    plots_.push_back(new ReportPlot(std::move(plot)));
    grid_->addWidget(plots_.back(), index / kColumns, index % kColumns);
  }
}

}  // namespace versieve::gui
