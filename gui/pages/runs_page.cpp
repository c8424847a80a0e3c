#include "gui/pages/runs_page.h"

#include <QHeaderView>
#include <QSplitter>
#include <QTableView>
#include <QTextBrowser>
#include <QVBoxLayout>

#include "gui/models/point_text.h"
#include "gui/views/table.h"
#include "gui/views/text.h"

namespace versieve::gui {

RunsPage::RunsPage(Document& document, QWidget* parent)
    : QWidget(parent),
      document_(document),
      runs_(new RunTable(document, this)),
      table_(new QTableView),
      details_(new QTextBrowser) {
  style_table(*table_);
  table_->setModel(runs_);
  table_->setObjectName("runs");
  table_->setAccessibleName(tr("Runs"));
  details_->setAccessibleName(tr("The selected run"));
  style_text(*details_);
  connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          [this](const QModelIndex& index) { show_run(index.isValid() ? index.row() : -1); });
  connect(table_, &QTableView::activated, this, [this](const QModelIndex& index) {
    Q_EMIT pointsOfRunRequested(runs_->runAt(index.row()).id);
  });
  connect(&document, &Document::loaded, this, [this] {
    table_->resizeColumnsToContents();
    table_->selectRow(0);
    show_run(runs_->rowCount() > 0 ? 0 : -1);
  });

  QSplitter* splitter = new QSplitter(Qt::Horizontal);
  splitter->addWidget(table_);
  splitter->addWidget(details_);
  splitter->setStretchFactor(0, 3);
  splitter->setStretchFactor(1, 2);
  splitter->setSizes({840, 480});
  QVBoxLayout* layout = new QVBoxLayout(this);
  layout->setContentsMargins(12, 12, 12, 12);
  layout->addWidget(splitter);
}

void RunsPage::recolor() {
  style_text(*details_);
  show_run(table_->currentIndex().row());
}

void RunsPage::show_run(int row) {
  if (row < 0 || row >= runs_->rowCount()) {
    details_->setHtml(
        tr("This database holds no run yet: versieve profile measures one, here on the page "
           "Measure."));
    return;
  }
  const Snapshot& snapshot = *document_.snapshot();
  const std::size_t index = snapshot.runs.size() - 1 - static_cast<std::size_t>(row);
  details_->setHtml(run_html(snapshot.runs[index], snapshot.diagnostics[index]));
}

}  // namespace versieve::gui
