#include "gui/pages/replay_page.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QMessageBox>
#include <QPushButton>
#include <QSplitter>
#include <QStackedWidget>
#include <QTableView>
#include <QTextBrowser>
#include <QVBoxLayout>
#include <algorithm>

#include "engine/measure/sweep/sweep.h"
#include "gui/views/fit_wait.h"
#include "gui/views/gain_marks.h"
#include "gui/views/save_dialog.h"
#include "gui/views/table.h"
#include "gui/views/text.h"

namespace versieve::gui {

ReplayPage::ReplayPage(Document& document, Planner& planner, QWidget* parent)
    : QWidget(parent),
      planner_(planner),
      replayer_(new Replayer(document, planner, this)),
      rows_(new ReplayTable(this)),
      texts_(new QComboBox),
      legend_(quiet_label({})),
      missing_(new QPushButton(tr("Record what is missing…"))),
      stack_(new QStackedWidget),
      wait_(new FitWait(planner, "replayMessage")),
      summary_(quiet_label({})),
      gaps_(quiet_label({})),
      table_(new QTableView),
      details_(new QTextBrowser) {
  lay_out_with_wait(*this, make_choices(), *stack_, *wait_, *make_answer());
  connect(replayer_, &Replayer::changed, this, &ReplayPage::show_replay);
  connect(&planner, &Planner::progressed, this, &ReplayPage::show_replay);
  recolor();
}

void ReplayPage::showEvent(QShowEvent*) {
  replayer_->need();
}

QWidget* ReplayPage::make_choices() {
  texts_->setAccessibleName(tr("Texts that are played"));
  texts_->addItem(tr("All texts"), QString());
  for (const std::string& regime : engine::text_regimes()) {
    texts_->addItem(QString::fromStdString(regime), QString::fromStdString(regime));
  }
  connect(texts_, &QComboBox::currentIndexChanged, this,
          [this] { replayer_->setRegime(texts_->currentData().toString()); });
  QWidget* row = new QWidget;
  QHBoxLayout* layout = new QHBoxLayout(row);
  layout->setContentsMargins(0, 0, 0, 4);
  layout->addWidget(quiet_label(tr("Texts")));
  layout->addWidget(texts_);
  layout->addSpacing(16);
  layout->addWidget(legend_);
  layout->addStretch();
  missing_->setToolTip(
      tr("Writes the sweep of the walks that this replay lacks: versieve profile --db F --sweep "
         "FILE records them, on any machine"));
  connect(missing_, &QPushButton::clicked, this, &ReplayPage::ask_for_missing);
  layout->addWidget(missing_);
  return row;
}

QWidget* ReplayPage::make_answer() {
  style_table(*table_);
  table_->setModel(rows_);
  table_->setObjectName("replay");
  table_->setItemDelegateForColumn(ReplayTable::gainColumn(), new GainMarks(this));
  table_->setAccessibleName(tr("Tokens a second by context range, class and policy"));
  details_->setAccessibleName(tr("The selected cell"));
  for (QLabel* label : {summary_, gaps_}) {
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  }
  connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& index) { show_row(index.isValid() ? index.row() : -1); });
  connect(table_, &QTableView::activated, this, [this](const QModelIndex& index) {
    const auto [bucket, precision] = rows_->cellAt(index.row());
    Q_EMIT cellRequested(static_cast<int>(bucket), precision);
  });
  QSplitter* splitter = new QSplitter(Qt::Horizontal);
  splitter->addWidget(table_);
  splitter->addWidget(details_);
  splitter->setStretchFactor(0, 1);
  splitter->setSizes({1000, 360});
  QWidget* answer = new QWidget;
  QVBoxLayout* layout = new QVBoxLayout(answer);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(summary_);
  layout->addWidget(splitter, 1);
  layout->addWidget(gaps_);
  return answer;
}

void ReplayPage::recolor() {
  legend_->setText(gain_legend());
  style_text(*details_);
  show_row(table_->currentIndex().row());
}

QString ReplayPage::message() const {
  const ReplayedPtr& replayed = replayer_->replayed();
  if (!replayed) {
    return replayer_->sentence().isEmpty()
               ? (planner_.plan() ? tr("Playing recorded texts …") : planner_.waitText())
               : tr("Nothing can be played: %1.").arg(replayer_->sentence());
  }
  const std::vector<engine::ReplayGap>& gaps = replayed->replay.gaps;
  const QString why = tr("Nothing can be played: %1.")
                          .arg(gaps.empty() ? tr("the planner's table has no cells")
                                            : QString::fromStdString(gaps.front().reason));
  return replayed->missing_walks.empty()
             ? why
             : why + tr("\n\nWalks along texts are recorded on any machine, without a GPU: “%1” "
                        "writes the sweep for versieve profile.")
                         .arg(missing_->text());
}

void ReplayPage::ask_for_missing() {
  const QString path =
      ask_where_to_save(this, tr("Record what is missing"), "walks", tr("Sweeps (*.json)"));
  const QString sentence = path.isEmpty() ? QString() : replayer_->writeMissingWalks(path);
  if (!sentence.isEmpty()) {
    QMessageBox::warning(this, tr("Versieve"), sentence);
  } else if (!path.isEmpty()) {
    Q_EMIT written(path);
  }
}

void ReplayPage::show_replay() {
  const ReplayedPtr& replayed = replayer_->replayed();
  const bool is_played = replayed && !replayed->replay.rows.empty();
  stack_->setCurrentIndex(is_played ? 1 : 0);
  missing_->setEnabled(replayed && !replayed->missing_walks.empty());
  if (!is_played) {
    wait_->say(message());
    shown_.reset();
    rows_->show(nullptr);
    return;
  }
  if (replayed == shown_) {
    return;
  }
  const int before = table_->currentIndex().row();
  shown_ = replayed;
  rows_->show(replayed);
  const int row = std::clamp(before, 0, rows_->rowCount() - 1);
  summary_->setText(replay_summary(*replayed));
  gaps_->setText(whole_classes_text(*replayed));
  gaps_->setVisible(!gaps_->text().isEmpty());
  table_->resizeColumnsToContents();  // another plan's texts may be longer
  table_->selectRow(row);
  show_row(row);
}

void ReplayPage::show_row(int row) {
  const ReplayTable::Line line = rows_->lineAt(row);
  details_->setHtml(line.played != nullptr ? replay_row_html(*shown_, *line.played)
                    : line.gap != nullptr  ? gap_html(*shown_, *line.gap)
                                           : QString());
}

}  // namespace versieve::gui
