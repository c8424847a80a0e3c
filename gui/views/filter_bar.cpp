#include "gui/views/filter_bar.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/models/filter_terms.h"
#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/models/point_filter.h"
#include "gui/views/flow_row.h"
#include "gui/views/text.h"
#include "gui/views/ui_state.h"

namespace versieve::gui {
namespace {

const QString kSystemTerm = QStringLiteral("system=");
const QString kAway = QStringLiteral("  \u00d7");

QString part(const QString& name, QString of) {
  if (!name.isEmpty()) {
    of[0] = of[0].toUpper();
  }
  return name + of;
}

}  // namespace

FilterBar::FilterBar(Document& document, const QString& name, QWidget* parent)
    : QWidget(parent),
      document_(document),
      system_(new QComboBox),
      filter_(new QLineEdit),
      count_(quiet_label({})),
      error_(warning_label()),
      chip_row_(new QWidget),
      chip_layout_(new FlowRow(chip_row_)) {
  filter_->setPlaceholderText(
      tr("Filter: words, -words, and columns such as  %1").arg(filterExample()));
  filter_->setClearButtonEnabled(true);
  filter_->setAccessibleName(tr("Filter"));
  filter_->setObjectName(part(name, "filter"));
  error_->setObjectName(part(name, "filterError"));
  error_->setWordWrap(true);
  error_->hide();
  count_->setObjectName(part(name, "shownCount"));
  system_->setAccessibleName(tr("System"));
  system_->setObjectName(part(name, "system"));
  system_->setProperty(kFollowsProperty, true);  // the filter's text
  system_->addItem(tr("All systems"), QString());
  for (int i = 0; i < kSystemCount - 1; ++i) {
    const System system = static_cast<System>(i);
    system_->addItem(name_in_words(system), short_name(system));
  }
  chip_row_->hide();
  QHBoxLayout* row = new QHBoxLayout;
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(system_);
  row->addWidget(filter_, 1);
  row->addSpacing(8);
  row->addWidget(count_);
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addLayout(row);
  layout->addWidget(error_);
  layout->addWidget(chip_row_);
  connect(filter_, &QLineEdit::textChanged, this, [this](const QString& text) {
    if (text != document_.filterText()) {  // typed, not shown
      document_.setFilter(text);
    }
  });
  connect(system_, &QComboBox::activated, this, &FilterBar::choose_system);
  connect(&document, &Document::filterChanged, this, &FilterBar::show_filter);
  connect(&document, &Document::pinsChanged, this, &FilterBar::show_chips);
}

QList<QToolButton*> FilterBar::chips() const {
  QList<QToolButton*> seen;
  for (QToolButton* chip : chips_) {
    if (!chip->isHidden()) {
      seen << chip;
    }
  }
  return seen;
}

// One more way to write a term of the filter.
void FilterBar::choose_system() {
  QStringList terms = terms_of(document_.filterText());
  terms.removeIf([](const QString& term) { return term.startsWith(kSystemTerm); });
  const QString system = system_->currentData().toString();
  if (!system.isEmpty()) {
    terms.prepend(kSystemTerm + system);
  }
  document_.setFilter(terms.join(' '));
}

void FilterBar::show_system() {
  int shown = 0;
  for (const QString& term : terms_of(document_.filterText())) {
    if (term.startsWith(kSystemTerm)) {
      const QString name = term.mid(kSystemTerm.size());
      shown = std::max(0, system_->findData(name, Qt::UserRole, Qt::MatchFixedString));
    }
  }
  system_->setCurrentIndex(shown);
}

void FilterBar::show_filter() {
  if (filter_->text() != document_.filterText()) {
    filter_->setText(document_.filterText());
  }
  show_system();
  const QString& error = document_.filterError();
  const std::size_t all = document_.mask().size();
  count_->setText(tr("%1 of %2 points")
                      .arg(fixed(static_cast<double>(document_.shown().size()), 0),
                           fixed(static_cast<double>(all), 0)));
  QString sentence = error.isEmpty() ? error : tr("Not filtered: %1.").arg(error);
  if (error.isEmpty() && all > 0 && document_.shown().empty()) {
    sentence =
        tr("No point is left: %1.")
            .arg(PointFilter::parse(document_.filterText()).emptyBecause(*document_.snapshot()));
  }
  if (sentence != error_->text()) {
    error_->setText(sentence);
    error_->setVisible(!sentence.isEmpty());
  }
  show_chips();
}

QToolButton* FilterBar::chip(qsizetype index) {
  while (chips_.size() <= index) {
    QToolButton* made = new QToolButton;
    made->setFocusPolicy(Qt::StrongFocus);
    const int number = static_cast<int>(chips_.size());
    connect(made, &QToolButton::clicked, this, [this, number] { take_away(number); });
    chip_layout_->addWidget(made);
    chips_ << made;
  }
  return chips_[index];
}

void FilterBar::show_chips() {
  const QStringList terms =
      document_.filterError().isEmpty() ? plain_terms_of(document_.filterText()) : QStringList();
  qsizetype used = 0;
  for (const QString& term : terms) {
    QToolButton* const button = chip(used++);
    button->setText(QString(term).replace('&', "&&") + kAway);
    button->setAccessibleName(tr("Take %1 out of the filter").arg(term));
    button->setToolTip(button->accessibleName());
    button->show();
  }
  for (std::size_t pin = 0; pin < document_.pins().size(); ++pin) {
    QToolButton* const button = chip(used++);
    const db::PointOverview& point =
        document_.snapshot()->overview.points[static_cast<std::size_t>(document_.pins()[pin])];
    const QString name = compact(document_.snapshot()->word(point.strategy));
    button->setText(tr("pin %1: %2").arg(pin + 1).arg(name.left(24)).replace('&', "&&") + kAway);
    button->setAccessibleName(tr("Unpin %1").arg(pin + 1));
    button->setToolTip(document_.snapshot()->word(point.strategy));
    button->show();
  }
  for (qsizetype rest = used; rest < chips_.size(); ++rest) {
    chips_[rest]->hide();
  }
  chip_row_->setVisible(used > 0);
}

// The filter's part, or the pin, of that chip.
void FilterBar::take_away(int index) {
  QStringList terms = plain_terms_of(document_.filterText());
  if (index < terms.size()) {
    terms.removeAt(index);
    document_.setFilter(terms.join(' '));
    return;
  }
  const std::size_t pin = static_cast<std::size_t>(index - static_cast<int>(terms.size()));
  if (pin < document_.pins().size()) {
    document_.togglePin(document_.pins()[pin]);
  }
}

}  // namespace versieve::gui
