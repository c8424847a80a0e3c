// The planner page's knobs: what is planned for, on which machine, with whose tokens and draft,
// within which loss, and which classes are shown.
#include <QComboBox>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSlider>
#include <QStackedWidget>
#include <QStandardItemModel>
#include <QTabWidget>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "gui/models/plain_words.h"
#include "gui/pages/planner_page.h"
#include "gui/views/choice.h"
#include "gui/views/flow_row.h"
#include "gui/views/loss_knob.h"
#include "gui/views/objective_knobs.h"
#include "gui/views/scope_knobs.h"
#include "gui/views/switch_plot.h"
#include "gui/views/text.h"
#include "model/words/hardware_limits.h"

namespace versieve::gui {
namespace {

// Tokens that a draft may propose beside those that the model's own does.
constexpr std::int64_t kDraftVocabs[] = {64000, kPublishedDraftVocab, 16000, 8000};
constexpr int kModelChars = 14;  // at least seen of a choice

}  // namespace

void PlannerPage::set_up_model() {
  model_->setObjectName("model");
  model_->setAccessibleName(tr("Model"));
  model_->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  model_->setMinimumContentsLength(kModelChars);
  model_->setToolTip(
      tr("What is planned for: a trained pair that the database holds, by its own measurements, or "
         "a geometry with synthetic weights, whose tokens a step and losses are a pair's; or a "
         "model's folder, sparse or dense, with a draft head, a draft model or no draft"));
  connect(model_, &QComboBox::activated, this, [this] {
    const QString name = model_->currentData().toString();
    if (name.isEmpty()) {
      list_models(planner_->plan());  // as it was, until a folder is chosen
      askForFolder();
      return;
    }
    acceptance_->reset();
    planner_->setModel(name.toStdString());
  });
}

void PlannerPage::askForFolder() {
  const QString path = QFileDialog::getExistingDirectory(
      this, tr("A folder with config.json, and a draft in draft/"));
  if (!path.isEmpty()) {
    acceptance_->reset();
    planner_->setModel(path.toStdString());
  }
}

// The pairs first.
void PlannerPage::list_models(const PlanPtr& plan) {
  const QSignalBlocker quietly(model_);
  model_->setEnabled(plan != nullptr);
  if (!plan) {
    model_->clear();
    return;
  }
  const int folder = 1;  // the last choice: to be asked for
  if (model_->count() != static_cast<int>(plan->models.size()) + folder ||
      model_->itemData(0).toString().toStdString() != plan->models.front().name) {
    model_->clear();
    for (const ModelChoice& choice : plan->models) {
      model_->addItem(QString::fromStdString(choice.text), QString::fromStdString(choice.name));
    }
    model_->addItem(tr("a model's folder…"));
  }
  model_->setCurrentIndex(model_->findData(QString::fromStdString(plan->basis->model)));
}

// The model's own draft first; of few tokens there is nothing to choose.
void PlannerPage::list_drafts(const PlanPtr& plan) {
  const QSignalBlocker quietly(draft_vocab_);
  const std::int64_t own = plan ? plan->own_draft().vocab : 0;
  const std::int64_t all = plan ? plan->target().vocab : 0;
  const bool is_head = plan && plan->hasDraftHead();
  if (draft_vocab_->property("own").toLongLong() != own ||
      draft_vocab_->property("all").toLongLong() != all ||
      draft_vocab_->property("head").toBool() != is_head) {
    draft_vocab_->setProperty("head", is_head);
    draft_vocab_->setProperty("own", QVariant::fromValue<qlonglong>(own));
    draft_vocab_->setProperty("all", QVariant::fromValue<qlonglong>(all));
    draft_vocab_->clear();
    const bool drafts = plan && plan->basis->grounds.shape.drafts;
    draft_vocab_->addItem(is_head || !plan ? tr("%1 tokens").arg(own)
                          : drafts         ? tr("all tokens, a model of its own")
                                           : tr("nothing: no draft"));
    if (is_head && all > own) {
      draft_vocab_->addItem(tr("all %1 tokens").arg(all), QVariant::fromValue<qlonglong>(all));
    }
    for (const std::int64_t tokens : kDraftVocabs) {
      if (is_head && tokens < all && tokens != own) {
        draft_vocab_->addItem(tr("%1 tokens").arg(tokens), QVariant::fromValue<qlonglong>(tokens));
      }
    }
  }
  const int chosen = plan && plan->draft.vocab != own
                         ? draft_vocab_->findData(QVariant::fromValue<qlonglong>(plan->draft.vocab))
                         : 0;
  if (!planner_->isBusy()) {
    draft_vocab_->setCurrentIndex(std::max(0, chosen));
  }
  draft_vocab_->setEnabled(draft_vocab_->count() > 1);
}

void PlannerPage::set_up_machine() {
  hardware_->addItem(tr("the measured machine"));
  for (const HardwareSpec& machine : machines_) {
    hardware_->addItem(QString::fromStdString(machine.name));
  }
  hardware_->setAccessibleName(tr("Machine"));
  connect(hardware_, &QComboBox::currentIndexChanged, this, [this] {
    reset_bandwidth();
    const int chosen = hardware_->currentIndex();
    if (chosen <= 0) {
      planner_->setHardware(std::nullopt);
    } else {
      planner_->setHardware(machines_[static_cast<std::size_t>(chosen - 1)],
                            machine_files_[static_cast<std::size_t>(chosen - 1)]);
    }
  });
}

// Two more machines at most: a table of more is not read.
void PlannerPage::set_up_beside() {
  for (std::size_t place = 0; place < beside_.size(); ++place) {
    QComboBox* box = new QComboBox;
    box->setSizeAdjustPolicy(QComboBox::AdjustToContents);
    box->setObjectName(QString("beside%1").arg(place + 1));
    box->setAccessibleName(place == 0 ? tr("Machine beside it") : tr("Second machine beside it"));
    box->setToolTip(tr("Ranks this range on this machine too, in one table with the chosen one"));
    connect(box, &QComboBox::currentIndexChanged, this, &PlannerPage::turn_beside);
    beside_[place] = box;
  }
  list_beside();
}

void PlannerPage::list_beside() {
  for (QComboBox* box : beside_) {
    const QSignalBlocker quietly(box);
    if (box->count() == 0) {
      box->addItem(tr("none"));
    }
    for (std::size_t i = static_cast<std::size_t>(box->count()) - 1; i < machines_.size(); ++i) {
      box->addItem(QString::fromStdString(machines_[i].name));
    }
  }
}

// The machine that is planned for has its columns already.
void PlannerPage::leave_out_own() {
  const HardwareSpec* own = planner_->machine();
  const std::string key = own == nullptr || bandwidth_turned_ ? std::string() : own->key;
  for (QComboBox* box : beside_) {
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      const bool is_own = machines_[i].key == key;
      const int item = static_cast<int>(i) + 1;
      QStandardItemModel& items = *qobject_cast<QStandardItemModel*>(box->model());
      items.item(item)->setEnabled(!is_own);
      if (is_own && box->currentIndex() == item) {
        box->setCurrentIndex(0);
        Q_EMIT said(tr("%1 is the machine that is planned for; it is ranked once.")
                        .arg(QString::fromStdString(machines_[i].name)));
      }
    }
  }
}

// Contexts of a number of requests at once, or requests of a range.
void PlannerPage::set_up_slice() {
  slice_->setToolTip(
      tr("What stands side by side in the grid: all context ranges at one number of requests at "
         "once, or all numbers of requests of one range"));
  QHBoxLayout* row = new QHBoxLayout(slice_row_);
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(quiet_label(tr("Shown")));
  row->addWidget(slice_);
  slice_row_->setVisible(false);
  connect(slice_, &QComboBox::currentIndexChanged, this, &PlannerPage::show_plan);
}

void PlannerPage::list_slices(const PlanPtr& plan) {
  QStringList texts;
  for (const PlanSlice& slice : slices_of(plan->chosen)) {
    texts << slice_text(plan->chosen, slice);
  }
  list_texts(*slice_, texts);
  slice_row_->setVisible(texts.size() > 1);
}

PlanSlice PlannerPage::chosen_slice(const PlanPtr& plan) const {
  const std::vector<PlanSlice> slices = slices_of(plan->chosen);
  const std::size_t chosen = static_cast<std::size_t>(std::max(0, slice_->currentIndex()));
  return chosen < slices.size() ? slices[chosen] : PlanSlice();
}

// Of the class that is selected; of all of them the strictest.
void PlannerPage::show_switches(const PlanPtr& plan) {
  const bool several = plan && !plan->chosen.batched.empty();
  const std::vector<PrecisionClass> classes = grid_->selectedClasses();
  switches_->show_plan(plan, classes.empty() ? PrecisionClass::kStrict : classes.front(),
                       grid_->bucket());
  if (several != (beside_table_->count() > 1)) {
    if (several) {
      beside_table_->addTab(switches_, tr("By requests"));
    } else {
      beside_table_->removeTab(1);
      switches_->setParent(this);
      switches_->hide();
    }
  }
}

void PlannerPage::turn_beside() {
  std::vector<HardwareSpec> machines;
  int first = 0;
  for (const QComboBox* box : beside_) {
    if (const int chosen = box->currentIndex(); chosen > 0 && chosen != first) {
      machines.push_back(machines_[static_cast<std::size_t>(chosen - 1)]);
      first = chosen;
    }
  }
  tables_->setCurrentIndex(machines.empty() ? 0 : 1);
  ranks_->setBeside(std::move(machines));
}

void PlannerPage::set_up_bandwidth() {
  bandwidth_->setRange(1 * kStepsPerTerabyte, 10 * kStepsPerTerabyte);
  bandwidth_->setMinimumWidth(120);
  bandwidth_->setMaximumWidth(260);
  bandwidth_->setAccessibleName(tr("Memory bandwidth"));
  const HardwareLimits limits = limits_of(HardwareField::kRawBandwidthGbps);
  typed_bandwidth_->setRange(limits.low * 1e9 / kBytesPerTerabyte,
                             limits.high * 1e9 / kBytesPerTerabyte);
  typed_bandwidth_->setSingleStep(1.0 / kStepsPerTerabyte);
  typed_bandwidth_->setSuffix(tr(" TB/s"));
  typed_bandwidth_->setAccessibleName(tr("Memory bandwidth in TB/s"));
  connect(bandwidth_, &QSlider::valueChanged, this, [this](int position) {
    const HardwareSpec* machine = planner_->machine();
    const double own = machine == nullptr ? 0.0 : machine->raw_bandwidth() / kBytesPerTerabyte;
    const bool is_own = position == static_cast<int>(std::lround(own * kStepsPerTerabyte));
    typed_bandwidth_->setValue(is_own ? own : static_cast<double>(position) / kStepsPerTerabyte);
  });
  connect(typed_bandwidth_, &QDoubleSpinBox::valueChanged, this, &PlannerPage::turn_bandwidth);
}

void PlannerPage::set_up_max_loss() {
  connect(max_loss_, &QDoubleSpinBox::valueChanged, this,
          [this](double nats) { planner_->setMaxLoss(loss_limit_of(nats)); });
}

void PlannerPage::set_up_scope() {
  more_->setObjectName("more");
  more_->setText(tr("More"));
  more_->setCheckable(true);
  more_->setFocusPolicy(Qt::StrongFocus);
  more_->setToolTip(
      tr("Machines side by side; context ranges, baseline, schedules, settings of ReSA and "
         "SpecAttn, requests, "
         "temperature; and the command of this plan"));
  set_up_beside();
  QWidget* beside = new QWidget;
  FlowRow* machines = new FlowRow(beside);
  machines->addNamed(quiet_label(tr("Ranked beside the machine")), beside_[0]);
  machines->addWidget(beside_[1]);
  QWidget* panel = new QWidget;
  QVBoxLayout* both = new QVBoxLayout(panel);
  both->setContentsMargins(0, 0, 0, 0);
  both->addWidget(beside);
  both->addWidget(scope_);
  panel->setVisible(false);
  connect(more_, &QToolButton::toggled, panel, &QWidget::setVisible);
  connect(more_, &QToolButton::toggled, this, &PlannerPage::show_objective);
  connect(&scope_->objective().aims(), &QComboBox::currentIndexChanged, this,
          &PlannerPage::show_objective);
  connect(scope_, &ScopeKnobs::turned, planner_, &Planner::setScope);
  connect(scope_, &ScopeKnobs::refused, this, &PlannerPage::said);
  connect(scope_, &ScopeKnobs::said, this, &PlannerPage::said);
  connect(planner_, &Planner::refused, this, &PlannerPage::said);
  connect(planner_, &Planner::refused, this, &PlannerPage::follow_machine);
}

// What a plan is after matters to a server, and to whoever has chosen it.
void PlannerPage::show_objective() {
  const bool several = !planner_->scope().concurrency.empty();
  scope_->objective().setVisible(several || more_->isChecked() ||
                                 scope_->objective().aim() != ObjectiveKnobs::kTokens);
}

// A machine that was refused is not the planner's.
void PlannerPage::follow_machine() {
  const QSignalBlocker quietly(hardware_);
  const HardwareSpec* own = planner_->hardware();
  int chosen = 0;
  for (std::size_t i = 0; own != nullptr && i < machines_.size(); ++i) {
    chosen = machines_[i].key == own->key ? static_cast<int>(i) + 1 : chosen;
  }
  hardware_->setCurrentIndex(chosen);
  bandwidth_turned_ = planner_->bandwidth().has_value();
  if (bandwidth_turned_) {
    const QSignalBlocker as_quietly(bandwidth_), without_a_word(typed_bandwidth_);
    typed_bandwidth_->setValue(*planner_->bandwidth());
    bandwidth_->setValue(static_cast<int>(std::lround(*planner_->bandwidth() * kStepsPerTerabyte)));
  }
  show_bandwidth();
}

void PlannerPage::show_scope() {
  scope_->showScope(planner_->scope());
  show_objective();
  const PlanCommand command = planner_->command("plan.json");
  scope_->showCommand(command.line, command.missing);
}

QWidget* PlannerPage::make_knobs() {
  set_up_model();
  set_up_draft();
  set_up_max_loss();
  set_up_scope();
  set_up_machine();
  set_up_slice();
  set_up_bandwidth();
  QPushButton* file = new QPushButton(tr("From a file…"));
  file->setToolTip(
      tr("A machine that versieve profile --sweep calibrate --hardware-out has written"));
  connect(file, &QPushButton::clicked, this, &PlannerPage::ask_for_machine);
  reset_->setObjectName("asMeasured");
  reset_->setToolTip(
      tr("Back to the measured machine, its memory bandwidth, the model's own tokens a step and "
         "draft, without a limit of losses"));
  connect(reset_, &QPushButton::clicked, this, [this] {
    reset_bandwidth();
    hardware_->setCurrentIndex(0);
    acceptance_->reset();
    draft_vocab_->setCurrentIndex(0);
    max_loss_->setValue(max_loss_->minimum());
    for (QComboBox* box : beside_) {
      box->setCurrentIndex(0);
    }
    scope_->objective().choose(ObjectiveKnobs::kTokens);
    planner_->setScope({});
    planner_->setAcceptance({});
    planner_->setBandwidth(std::nullopt);
  });
  export_->setObjectName("export");
  export_->setToolTip(
      tr("Writes the shown classes for this machine as JSON, CSV or a C++ header; of the strictest "
         "shown class the settings of SGLang, vLLM or TensorRT-LLM"));
  connect(export_, &QPushButton::clicked, this, &PlannerPage::askForExport);
  QWidget* bandwidth = new QWidget;
  QHBoxLayout* both = new QHBoxLayout(bandwidth);
  both->setContentsMargins(0, 0, 0, 0);
  both->addWidget(bandwidth_);
  both->addWidget(typed_bandwidth_);
  QWidget* row = new QWidget;
  FlowRow* layout = new FlowRow(row);
  layout->addNamed(quiet_label(tr("Model")), model_);
  layout->addNamed(quiet_label(tr("Machine")), hardware_);
  layout->addWidget(file);
  layout->addNamed(quiet_label(tr("Memory bandwidth")), bandwidth);
  layout->addWidget(acceptance_);
  layout->addNamed(quiet_label(tr("The draft proposes")), draft_vocab_);
  layout->addNamed(quiet_label(tr("Loss at most")), max_loss_);
  layout->addNamed(quiet_label(tr("Requests at once")), &scope_->concurrency());
  layout->addWidget(&scope_->objective());
  layout->addWidget(reset_);
  layout->addWidget(export_);
  return row;
}

// How many different tokens the draft can propose.
void PlannerPage::set_up_draft() {
  draft_vocab_->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  draft_vocab_->setAccessibleName(tr("Tokens that the draft proposes"));
  draft_vocab_->setToolTip(
      tr("The rows of the draft's head, which is read at every level; published EAGLE-3 drafts "
         "for Llama 3 have 32000. Tokens a step stay those of the pair"));
  connect(draft_vocab_, &QComboBox::currentIndexChanged, this, [this] {
    const QVariant tokens = draft_vocab_->currentData();
    planner_->setDraftVocab(tokens.isValid() ? std::optional<std::int64_t>(tokens.toLongLong())
                                             : std::nullopt);
  });
}

// The legend of the classes is what shows and hides them.
QWidget* PlannerPage::make_classes() {
  QWidget* row = new QWidget;
  FlowRow* layout = new FlowRow(row);
  layout->addWidget(quiet_label(tr("Classes")));
  for (int i = 0; i < kPrecisionClassCount; ++i) {
    const PrecisionClass precision = static_cast<PrecisionClass>(i);
    QToolButton* button = new QToolButton;
    button->setText(QString(" ") + name_of(precision));
    button->setIconSize({kMarkPixels, kMarkPixels});
    button->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    button->setCheckable(true);
    button->setChecked(true);
    button->setFocusPolicy(Qt::StrongFocus);
    button->setToolTip(class_in_words(precision));
    connect(button, &QToolButton::toggled, this,
            [this, precision](bool is_shown) { planner_->setShown(precision, is_shown); });
    layout->addWidget(button);
    classes_[static_cast<std::size_t>(i)] = button;
  }
  layout->addWidget(more_);
  goals_->setObjectName("missedGoals");
  layout->addWidget(goals_);
  recolor();
  return row;
}

}  // namespace versieve::gui
