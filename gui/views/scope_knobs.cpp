#include "gui/views/scope_knobs.h"

#include <QClipboard>
#include <QDoubleSpinBox>
#include <QFileDialog>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QPushButton>
#include <QRegularExpression>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "engine/measure/sweep/sweep.h"
#include "gui/models/numbers.h"
#include "gui/views/elided_text.h"
#include "gui/views/flow_row.h"
#include "gui/views/objective_knobs.h"
#include "gui/views/text.h"
#include "model/plan/concurrency.h"
#include "model/plan/planner.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

constexpr int kLineChars = 22;
constexpr int kSettingChars = 10;

QString schedules_text(const std::vector<std::string>& schedules) {
  QStringList words;
  for (const std::string& schedule : schedules) {
    words << QString::fromStdString(schedule);
  }
  return words.join(", ");
}

// As the command takes it: 1 is left out where it is alone. Throws Error(kUsage).
std::string concurrency_text(const QString& typed) {
  if (typed.isEmpty()) {
    return {};
  }
  const std::vector<std::int64_t> numbers = parse_concurrency(typed.toStdString());
  QStringList words;
  for (const std::int64_t number : numbers) {
    words << QString::number(number);
  }
  return numbers.size() == 1 ? std::string() : words.join(',').toStdString();
}

}  // namespace

ScopeKnobs::ScopeKnobs(QWidget* parent)
    : QWidget(parent),
      buckets_(new_line(tr("Context ranges"), "scopeBuckets",
                        tr("As 0-4096,4096-8192, to 262144 tokens; empty: 4096 each up to 16384, "
                           "of a pair to its positions"),
                        kLineChars)),
      longer_(new QToolButton),
      baseline_(new_line(tr("Baseline"), "scopeBaseline",
                         tr("A strategy that every other one is compared with, as "
                            "nsa/d8k8n128/bfs/c1/F*, which stands where this is empty"),
                         kLineChars)),
      schedules_(new_line(tr("Schedules"), "scopeSchedules",
                          tr("Layers that refresh and reuse, as FRRF or (FR)*, or files of "
                             "versieve calibrate; several with commas. Empty: those that the "
                             "pair's tokens were measured with"),
                          kLineChars)),
      requests_(new QSpinBox),
      concurrency_(new_line(tr("Requests at once"), "scopeConcurrency",
                            tr("How many requests a server runs in one step, one number or several "
                               "in ascending order, to 256; the first is always 1. More fields "
                               "then show when speculation pays and how many requests fit"),
                            kSettingChars)),
      objective_(new ObjectiveKnobs),
      temperature_(new QDoubleSpinBox),
      copy_(new QPushButton(tr("Copy command"))),
      command_(new ElidedText(1)) {
  requests_->setObjectName("scopeRequests");
  requests_->setAccessibleName(tr("Requests that intervals are of"));
  requests_->setToolTip(
      tr("Nine times of ten the mean over so many requests lies within an interval"));
  requests_->setRange(1, static_cast<int>(kMostRequests));
  requests_->setValue(static_cast<int>(kUsualRequests));
  requests_->setKeyboardTracking(false);
  connect(requests_, &QSpinBox::valueChanged, this, &ScopeKnobs::take);
  temperature_->setObjectName("scopeTemperature");
  temperature_->setAccessibleName(tr("Temperature of the texts"));
  temperature_->setToolTip(
      tr("That texts are sampled at, one that the pair's tokens were measured at; 0: greedily"));
  temperature_->setRange(0.0, engine::kMostTemperature);
  temperature_->setSingleStep(0.1);
  temperature_->setKeyboardTracking(false);
  connect(temperature_, &QDoubleSpinBox::valueChanged, this, &ScopeKnobs::take);
  concurrency_->setPlaceholderText("1");
  fit_concurrency();
  connect(objective_, &ObjectiveKnobs::turned, this, &ScopeKnobs::take);
  connect(objective_, &ObjectiveKnobs::refused, this, &ScopeKnobs::refused);
  longer_->setObjectName("scopeLonger");
  longer_->setText(tr("Longer"));
  longer_->setFocusPolicy(Qt::StrongFocus);
  longer_->setPopupMode(QToolButton::InstantPopup);
  longer_->setMenu(new QMenu(this));
  longer_->setToolTip(tr("Ranges as far as the measured points reach"));
  QPushButton* file = new QPushButton(tr("From a file…"));
  file->setObjectName("scopeFile");
  file->setToolTip(tr("A schedule that versieve calibrate has written"));
  connect(file, &QPushButton::clicked, this, &ScopeKnobs::add_file);
  copy_->setObjectName("scopeCopy");
  connect(copy_, &QPushButton::clicked, this, [this] {
    QGuiApplication::clipboard()->setText(command_line_);
    Q_EMIT said(tr("Copied: %1").arg(command_line_));
  });
  command_->setObjectName("scopeCommand");
  QWidget* row = new QWidget;
  FlowRow* fields = new FlowRow(row);
  fields->addNamed(quiet_label(tr("Context ranges")), buckets_);
  fields->addWidget(longer_);
  fields->addNamed(quiet_label(tr("Baseline")), baseline_);
  fields->addNamed(quiet_label(tr("Schedules")), schedules_);
  fields->addWidget(file);
  for (const engine::SystemOption& option : engine::system_options()) {
    systems_.push_back(new_line(tr("%1 of the plan").arg(option.label),
                                QString("scope") + QString(option.flag).mid(1),
                                tr(option.help).replace("left out", "empty"), kSettingChars));
    fields->addNamed(quiet_label(option.label), systems_.back());
  }
  fields->addNamed(quiet_label(tr("Intervals of, requests")), requests_);
  fields->addNamed(quiet_label(tr("Temperature")), temperature_);
  QHBoxLayout* command = new QHBoxLayout;
  command->addWidget(copy_);
  command->addWidget(command_, 1);
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(row);
  layout->addLayout(command);
  showCommand({}, {});
}

QLineEdit* ScopeKnobs::new_line(const QString& name, const QString& object_name, const QString& tip,
                                int chars) {
  QLineEdit* line = new QLineEdit;
  line->setAccessibleName(name);
  line->setObjectName(object_name);
  line->setToolTip(tip);
  line->setPlaceholderText(tr("as usual"));
  line->setMinimumWidth(line->fontMetrics().averageCharWidth() * chars);
  connect(line, &QLineEdit::editingFinished, this, &ScopeKnobs::take);
  return line;
}

void ScopeKnobs::add_file() {
  const QString path = QFileDialog::getOpenFileName(this, tr("Take a schedule from a file"), {},
                                                    tr("Schedules (*.json);;All files (*)"));
  if (!path.isEmpty()) {
    schedules_->setText(schedules_->text().isEmpty() ? path : schedules_->text() + ", " + path);
    take();
  }
}

// What is read at once is refused at once; the rest by whoever plans.
void ScopeKnobs::take() {
  PlanScope scope;
  try {
    scope.buckets = buckets_->text().remove(' ').toStdString();
    if (!scope.buckets.empty()) {
      parse_buckets(scope.buckets);
    }
    const std::string baseline = baseline_->text().trimmed().toStdString();
    scope.baseline = baseline.empty() ? baseline : Strategy::parse(baseline).text();
    for (std::size_t i = 0; i < systems_.size(); ++i) {
      if (const QString text = systems_[i]->text().remove(' '); !text.isEmpty()) {
        scope.systems.*engine::system_options()[i].given = text.toStdString();
      }
    }
    engine::planned_systems(scope.systems);
    scope.concurrency = concurrency_text(concurrency_->text().remove(' '));
    concurrency_->setText(QString::fromStdString(scope.concurrency));
    fit_concurrency();
  } catch (const Error& error) {
    Q_EMIT refused(QString::fromUtf8(error.what()));
    write();
    return;
  }
  for (const QString& word : schedules_->text().split(',', Qt::SkipEmptyParts)) {
    if (!word.trimmed().isEmpty()) {
      scope.schedules.push_back(word.trimmed().toStdString());
    }
  }
  if (requests_->value() != kUsualRequests) {
    scope.requests = requests_->value();
  }
  scope.temperature = temperature_->value();
  objective_->writeTo(scope);
  if (scope != shown_) {
    shown_ = scope;
    Q_EMIT turned(scope);
  }
}

// What is being typed stays where nothing has changed.
void ScopeKnobs::showScope(const PlanScope& scope) {
  if (scope != shown_) {
    shown_ = scope;
    write();
  }
}

void ScopeKnobs::write() {
  const PlanScope& scope = shown_;
  const QSignalBlocker quietly(requests_);
  const QSignalBlocker as_quietly(temperature_);
  std::vector<std::pair<QLineEdit*, QString>> lines = {
      {buckets_, QString::fromStdString(scope.buckets)},
      {baseline_, QString::fromStdString(scope.baseline)},
      {schedules_, schedules_text(scope.schedules)},
      {concurrency_, QString::fromStdString(scope.concurrency)}};
  for (std::size_t i = 0; i < systems_.size(); ++i) {
    const std::optional<std::string>& given = scope.systems.*engine::system_options()[i].given;
    lines.emplace_back(systems_[i], QString::fromStdString(given.value_or("")));
  }
  for (const auto& [line, text] : lines) {
    if (line->text() != text) {
      line->setText(text);
      line->setCursorPosition(0);  // of a long text the beginning is seen
    }
  }
  fit_concurrency();
  requests_->setValue(static_cast<int>(scope.requests.value_or(kUsualRequests)));
  temperature_->setValue(scope.temperature);
  objective_->showScope(scope);
}

// As wide as its numbers need, since one that is hidden is planned for as well.
void ScopeKnobs::fit_concurrency() {
  const QFontMetrics metrics = concurrency_->fontMetrics();
  const int letter = metrics.averageCharWidth();
  const int needed = metrics.horizontalAdvance(concurrency_->text()) + 2 * letter;
  concurrency_->setMaximumWidth(
      std::clamp(needed, (kSettingChars + 2) * letter, (kLineChars + 4) * letter));
  concurrency_->setMinimumWidth(
      std::max(kSettingChars * letter, std::min(needed, concurrency_->maximumWidth())));
}

// The usual ones, then each twice as long as the one before.
void ScopeKnobs::offerContexts(const std::vector<std::int64_t>& longest) {
  QMenu& menu = *longer_->menu();
  menu.clear();
  std::vector<ContextBucket> ranges = default_buckets();
  for (const std::int64_t end : longest) {
    ranges.push_back({ranges.back().high, end});
    QStringList words;
    for (const ContextBucket& range : ranges) {
      words << QString::fromStdString(name_of(range));
    }
    menu.addAction(tr("to %1").arg(tokens(end)), this, [this, words] {
      buckets_->setText(words.join(','));
      take();
    });
  }
  longer_->setVisible(!longest.empty());
}

void ScopeKnobs::showCommand(const QString& line, const QString& why) {
  command_line_ = line;
  command_->setText(line.isEmpty() ? why : line);
  copy_->setEnabled(!line.isEmpty());
}

}  // namespace versieve::gui
