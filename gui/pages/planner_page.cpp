#include "gui/pages/planner_page.h"

#include <QComboBox>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QMessageBox>
#include <QPushButton>
#include <QScrollArea>
#include <QSignalBlocker>
#include <QSlider>
#include <QSplitter>
#include <QStackedWidget>
#include <QTabWidget>
#include <QTableView>
#include <QTextBrowser>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/analyse/plan/hardware_file.h"
#include "gui/models/batch_text.h"
#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/views/choice.h"
#include "gui/views/elided_text.h"
#include "gui/views/fit_wait.h"
#include "gui/views/interval_bar.h"
#include "gui/views/loss_knob.h"
#include "gui/views/save_dialog.h"
#include "gui/views/scope_knobs.h"
#include "gui/views/switch_plot.h"
#include "gui/views/table.h"
#include "gui/views/text.h"
#include "gui/views/theme.h"
#include "model/plan/loss_limit.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

// So that the grid stays where it is, whatever is said; more where the page is high.
constexpr int kSummaryLines = 2, kMoreSummaryLines = 4;
constexpr int kHighPage = 860;
constexpr int kLeastGrid = 180;
constexpr double kShownAlike = 0.005;  // TB/s: two decimals are shown

// What is selected is moved into sight.
QScrollArea* scrolled(PlanGrid& grid) {
  QScrollArea* scroll = new QScrollArea;
  scroll->setWidget(&grid);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setFocusPolicy(Qt::NoFocus);  // the grid has it
  scroll->setMinimumHeight(kLeastGrid);
  QObject::connect(&grid, &PlanGrid::cellSelected, scroll, [&grid, scroll](int column, int row) {
    const QRect cell = grid.cellRect(column, row);
    // The rows' titles lie over what is left of it.
    const int titles = column == 0 ? cell.left() : grid.cellRect(0, row).left();
    scroll->ensureVisible(cell.right(), cell.center().y(), 0, cell.height());
    scroll->ensureVisible(cell.left() - titles, cell.center().y(), 0, cell.height());
  });
  return scroll;
}

}  // namespace

PlannerPage::PlannerPage(Document& document, QWidget* parent)
    : QWidget(parent),
      planner_(new Planner(document, this)),
      entries_(new PlanEntries(this)),
      stack_(new QStackedWidget),
      wait_(new FitWait(*planner_, "plannerMessage")),
      summary_(new ElidedText(kSummaryLines)),
      planning_(quiet_label({})),
      goals_(warning_label()),
      model_(new QComboBox),
      hardware_(new QComboBox),
      machines_(hardware_catalogue().begin(), hardware_catalogue().end()),
      machine_files_(machines_.size()),
      bandwidth_(new QSlider(Qt::Horizontal)),
      typed_bandwidth_(new NumberKnob(tr("the memory bandwidth"))),
      acceptance_(new AcceptanceKnob),
      draft_vocab_(new QComboBox),
      max_loss_(new_loss_knob()),
      slice_(named_choice(tr("What the grid shows"), "plannerSlice")),
      slice_row_(new QWidget),
      more_(new QToolButton),
      scope_(new ScopeKnobs),
      reset_(new QPushButton(tr("As measured"))),
      export_(new QPushButton(tr("Export…"))),
      grid_(new PlanGrid),
      table_(new QTableView),
      ranks_(new MachineRanks(*planner_, this)),
      ranks_table_(new QTableView),
      tables_(new QStackedWidget),
      details_(new QTextBrowser),
      switches_(new SwitchPlot),
      beside_table_(new QTabWidget) {
  stack_->addWidget(wait_);
  stack_->addWidget(make_answer());
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(12, 10, 12, 10);
  layout->addWidget(make_knobs());
  layout->addWidget(scope_->parentWidget());  // what More shows
  layout->addWidget(make_classes());
  layout->addWidget(stack_, 1);
  connect(acceptance_, &AcceptanceKnob::turned, planner_, &Planner::setAcceptance);
  for (const NumberKnob* knob : {typed_bandwidth_, max_loss_, &acceptance_->typedRate()}) {
    connect(knob, &NumberKnob::refused, this, &PlannerPage::said);
  }
  connect(planner_, &Planner::changed, this, &PlannerPage::show_plan);
  connect(planner_, &Planner::progressed, this, &PlannerPage::show_wait);
  connect(grid_, &PlanGrid::cellSelected, this, [this] {
    table_->setCurrentIndex({});
    show_cell();
    table_->resizeColumnsToContents();
  });
  show_plan();
}

void PlannerPage::showEvent(QShowEvent*) {
  planner_->need();
}

void PlannerPage::resizeEvent(QResizeEvent* event) {
  summary_->setLines(height() < kHighPage ? kSummaryLines : kMoreSummaryLines);
  QWidget::resizeEvent(event);
}

void PlannerPage::recolor() {
  for (int i = 0; i < kPrecisionClassCount; ++i) {
    QPixmap mark(kMarkPixels, kMarkPixels);
    mark.fill(theme::category(i));
    classes_[static_cast<std::size_t>(i)]->setIcon(mark);
  }
  style_text(*details_);
  show_goals(planner_->plan());
  show_entry(table_->currentIndex().row());
}

QWidget* PlannerPage::make_answer() {
  style_table(*table_);
  table_->setModel(entries_);
  table_->setObjectName("entries");
  table_->setAccessibleName(tr("Ranking"));
  details_->setObjectName("strategyDetails");
  details_->setAccessibleName(tr("The selected strategy"));
  table_->setItemDelegateForColumn(PlanEntries::intervalColumn(), new IntervalBar(this));
  style_text(*details_);
  connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& index) { show_entry(index.isValid() ? index.row() : -1); });
  QSplitter* lower = new QSplitter(Qt::Horizontal);
  style_table(*ranks_table_);
  ranks_table_->setModel(ranks_);
  ranks_table_->setObjectName("machineRanks");
  ranks_table_->setAccessibleName(tr("Ranking on several machines"));
  connect(ranks_table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& index) { show_ranks_row(index.isValid() ? index.row() : -1); });
  connect(ranks_, &QAbstractItemModel::modelReset, this,
          [this] { ranks_table_->resizeColumnsToContents(); });
  connect(ranks_, &MachineRanks::refused, this, &PlannerPage::said);
  tables_->addWidget(table_);
  tables_->addWidget(ranks_table_);
  lower->addWidget(tables_);
  beside_table_->setDocumentMode(true);
  beside_table_->setTabBarAutoHide(true);
  beside_table_->addTab(details_, tr("Strategy"));
  beside_table_->setFocusProxy(details_);  // Tab would not get past a hidden bar
  switches_->hide();                       // until there are several requests at once
  switches_->setParent(this);
  lower->addWidget(beside_table_);
  lower->setStretchFactor(0, 7);  // at 1024 the interval is whole
  lower->setStretchFactor(1, 3);
  lower->setSizes({700, 300});
  QSplitter* whole = new QSplitter(Qt::Vertical);
  whole->addWidget(scrolled(*grid_));
  whole->addWidget(lower);
  whole->setStretchFactor(0, 3);
  whole->setStretchFactor(1, 2);
  whole->setSizes({380, 270});
  QWidget* answer = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(answer);
  layout->setContentsMargins(0, 0, 0, 0);
  QHBoxLayout* said = new QHBoxLayout;
  said->addWidget(summary_, 1);
  planning_->setFixedWidth(planning_->fontMetrics().horizontalAdvance(tr("Planning …")) + 4);
  planning_->setAlignment(Qt::AlignRight | Qt::AlignTop);
  said->addWidget(planning_);
  said->addWidget(slice_row_, 0, Qt::AlignTop);  // above what it slices
  layout->addLayout(said);
  layout->addWidget(whole, 1);
  return answer;
}

bool PlannerPage::showCell(int bucket, PrecisionClass precision) {
  const std::vector<PrecisionClass> classes = planner_->shownClasses();
  const auto found = std::find(classes.begin(), classes.end(), precision);
  if (found == classes.end()) {
    return false;
  }
  slice_->setCurrentIndex(0);  // all contexts of one request
  grid_->select(bucket, 1 + static_cast<int>(found - classes.begin()));
  return true;
}

void PlannerPage::setBandwidth(double terabytes_per_s) {
  typed_bandwidth_->setValue(terabytes_per_s);
}

// What the machine has itself, as it is shown, is no turn of it: its measured times count again.
void PlannerPage::turn_bandwidth(double terabytes_per_s) {
  const HardwareSpec* machine = planner_->machine();
  const double own = machine == nullptr ? 0.0 : machine->raw_bandwidth() / kBytesPerTerabyte;
  const QSignalBlocker quietly(bandwidth_);
  bandwidth_->setValue(static_cast<int>(std::lround(terabytes_per_s * kStepsPerTerabyte)));
  bandwidth_turned_ = std::fabs(terabytes_per_s - own) >= kShownAlike;
  show_bandwidth();
  planner_->setBandwidth(bandwidth_turned_ ? std::optional(terabytes_per_s) : std::nullopt);
}

void PlannerPage::ask_for_machine() {
  const QString path = QFileDialog::getOpenFileName(this, tr("Take a machine from a file"), {},
                                                    tr("Machines (*.json);;All files (*)"));
  const QString sentence = path.isEmpty() ? QString() : addMachine(path);
  if (!sentence.isEmpty()) {
    QMessageBox::warning(this, tr("Versieve"), sentence);
  }
}

void PlannerPage::askForExport() {
  const QString path = ask_where_to_save(
      this, tr("Export the shown classes"), "plan",
      tr("Table (*.json);;Spreadsheet (*.csv);;C++ header (*.h);;SGLang, longest contexts "
         "(*.sglang.yaml);;vLLM, longest contexts (*.vllm.yaml);;TensorRT-LLM, longest contexts "
         "(*.trtllm.yaml)"));
  const QString sentence = path.isEmpty() ? QString() : planner_->exportTo(path);
  if (!sentence.isEmpty()) {
    QMessageBox::warning(this, tr("Versieve"), sentence);
  } else if (!path.isEmpty()) {
    const QString line = planner_->commandLine(path);
    Q_EMIT written(path);
    if (!line.isEmpty() && path.endsWith(QLatin1String(".json"))) {
      Q_EMIT said(tr("%1 was written; the same by: %2").arg(path, line));
    }
  }
}

QString PlannerPage::addMachine(const QString& path) {
  try {
    machines_.push_back(engine::load_hardware(path.toStdString()));
    machine_files_.push_back(path.toStdString());
  } catch (const Error& error) {
    return QString::fromUtf8(error.what());
  }
  hardware_->addItem(QString::fromStdString(machines_.back().name));
  list_beside();
  hardware_->setCurrentIndex(hardware_->count() - 1);
  return {};
}

// Back to the machine's own, without planning yet.
void PlannerPage::reset_bandwidth() {
  bandwidth_turned_ = false;
  planner_->setBandwidth(std::nullopt);
}

void PlannerPage::show_bandwidth() {
  const HardwareSpec* machine = planner_->machine();
  if (!bandwidth_turned_ && machine != nullptr) {
    const QSignalBlocker quietly(bandwidth_), quietly_too(typed_bandwidth_);
    const double own = machine->raw_bandwidth() / kBytesPerTerabyte;
    bandwidth_->setValue(static_cast<int>(std::lround(own * kStepsPerTerabyte)));
    typed_bandwidth_->setValue(own);
  }
  // Without a machine a dash, whatever the number under it.
  typed_bandwidth_->setSpecialValueText(machine == nullptr ? QString(QChar(kAbsent)) : QString());
  bandwidth_->setEnabled(machine != nullptr);
  typed_bandwidth_->setEnabled(machine != nullptr);
}

void PlannerPage::show_wait() {
  const bool failed = !planner_->isBusy() && !planner_->sentence().isEmpty();
  wait_->say(failed ? tr("There is no plan: %1.").arg(planner_->sentence()) : planner_->waitText());
}

void PlannerPage::show_plan() {
  show_bandwidth();
  show_loss_limit(*max_loss_, planner_->maxLoss());  // the page of losses turns it too
  show_scope();
  const PlanPtr& plan = planner_->plan();
  export_->setEnabled(plan != nullptr);
  acceptance_->showPlan(plan);
  list_models(plan);
  list_drafts(plan);
  planning_->setText(plan && planner_->isBusy() ? tr("Planning …") : QString());
  show_goals(plan);
  if (!plan) {
    show_wait();
    stack_->setCurrentIndex(0);
    shown_.reset();
    entries_->show(nullptr, {}, {});
    list_texts(*slice_, {});  // a session's choice waits for what may be chosen
    return;
  }
  stack_->setCurrentIndex(1);
  if (plan != shown_ && !planner_->isBusy()) {
    const QString still = shown_ ? nothing_moved_text(*shown_, *plan) : QString();
    summary_->setText(compact(still.isEmpty() ? summary() : still + " " + summary()));
  }
  leave_out_own();
  list_slices(plan);
  scope_->offerContexts(planner_->longerContexts());
  const std::vector<PrecisionClass> classes = planner_->shownClasses();
  const PlanSlice slice = chosen_slice(plan);
  if (plan == shown_ && classes == shown_classes_ && slice == shown_slice_) {
    return;
  }
  shown_ = plan;
  shown_classes_ = classes;
  shown_slice_ = slice;
  grid_->show_plan(plan, classes, slice);
  show_cell();
}

// What the fit misses of what it is to reach stands beside every number that rests on it.
void PlannerPage::show_goals(const PlanPtr& plan) {
  const QString missed = plan ? missed_goals_text(*plan->fit) : QString();
  const qsizetype count = missed.count(';') + 1;
  goals_->setText(missed.isEmpty() ? QString()
                  : count == 1     ? tr("The fit misses a goal")
                                   : tr("The fit misses %1 goals").arg(count));
  goals_->setToolTip(missed.isEmpty() ? QString() : "<p>" + missed.toHtmlEscaped() + "</p>");
  goals_->setVisible(!missed.isEmpty());
}

QString PlannerPage::summary() const {
  const Plan& plan = *planner_->plan();
  const engine::FitReport& fit = *plan.fit;
  QString text = tr("%1, %2: %3.")
                     .arg(QString::fromStdString(plan.chosen.hardware),
                          QString::fromStdString(plan.chosen.model),
                          QString::fromStdString(plan.chosen.provenance_note));
  if (fit.latency.median_ape) {
    text += tr(" Held out: time off by %1 % (median of %2 points).")
                .arg(fixed(100.0 * *fit.latency.median_ape, 1))
                .arg(fit.points_holdout);
  }
  text += tr(" Acceptance: %1.").arg(QString::fromStdString(acceptance_text(plan.chosen)));
  if (plan.chosen.sources) {
    text += tr(" Evidence of %1.").arg(QString::fromStdString(sources_text(plan.chosen)));
  }
  text += QString(" %1").arg(QString::fromStdString(intervals_text(plan.chosen)));
  if (plan.chosen.max_loss) {
    text += QString(" %1.").arg(QString::fromStdString(loss_limit_text(plan.chosen)));
  }
  if (const QString batch = batch_summary(plan.chosen); !batch.isEmpty()) {
    text += " " + batch;
  }
  return text;
}

// The strategy that was looked at stays selected while it is ranked at all.
void PlannerPage::show_cell() {
  const PlanPtr& plan = planner_->plan();
  if (!plan) {
    return;
  }
  const PlanEntry* before = entries_->entryAt(table_->currentIndex().row());
  const QString strategy =
      before == nullptr ? QString() : QString::fromStdString(before->evaluation.strategy.text());
  const std::vector<PrecisionClass> classes = grid_->selectedClasses();
  const bool was_empty = entries_->rowCount() == 0;
  entries_->show(plan, grid_->place(), classes);
  ranks_->show(grid_->place(), classes);
  show_switches(plan);
  table_->resizeColumnToContents(0);
  if (was_empty) {
    table_->resizeColumnsToContents();
  }
  if (entries_->rowCount() == 0) {
    details_->setPlainText(classes.size() == 1
                               ? unavailable_text(table_of(plan->chosen, grid_->place().level),
                                                  grid_->bucket(), classes.front())
                               : tr("No class is shown."));
    return;
  }
  const int row = std::max(0, entries_->rowOf(strategy));
  table_->selectRow(row);
  show_entry(row);
}

// The row of the other table tells of the strategy where this machine ranks it.
void PlannerPage::show_ranks_row(int row) {
  const QString strategy = ranks_->strategyAt(row);
  if (strategy.isEmpty()) {
    return;
  }
  if (const int own = entries_->rowOf(strategy); own >= 0) {
    table_->selectRow(own);
    return;
  }
  QString html = "<p style='font-weight:600'>" + strategy.toHtmlEscaped() + "</p><p>" +
                 text_in_words(strategy.toStdString()).toHtmlEscaped() + ".</p>";
  for (int machine = 0; machine < ranks_->machineCount(); ++machine) {
    const PlanEntry* const entry = ranks_->entryAt(row, machine);
    const QString name = QString::fromStdString(ranks_->tableOf(machine).hardware).toHtmlEscaped();
    html += entry == nullptr
                ? tr("<p>%1: not among the first ones.</p>").arg(name)
                : tr("<p>%1: rank %2, %3 tokens/s; %4.</p>")
                      .arg(name, ranks_->rankText(row, machine),
                           fixed(entry->evaluation.throughput, 0), reason_text(*entry));
  }
  details_->setHtml(html);
}

void PlannerPage::show_entry(int row) {
  if (const PlanEntry* entry = entries_->entryAt(row)) {
    const Plan& plan = *planner_->plan();
    const int level = grid_->place().level;
    details_->setHtml(entry_html(plan, *entry, level) +
                      condition_html(table_of(plan.chosen, level), *entry) +
                      launches_html(plan, *entry, level));
  }
}

}  // namespace versieve::gui
