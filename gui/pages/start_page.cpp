#include "gui/pages/start_page.h"

#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

#include "gui/models/snapshot.h"
#include "gui/views/theme.h"

namespace versieve::gui {

StartPage::StartPage(QWidget* parent)
    : QWidget(parent), title_(new QLabel), text_(new QLabel), shipped_(new QPushButton) {
  QFont title_font = font();
  title_font.setPixelSize(theme::kTitlePixels);
  title_->setFont(title_font);
  title_->setObjectName("startTitle");
  text_->setObjectName("startText");
  text_->setWordWrap(true);
  text_->setMaximumWidth(620);
  text_->setMinimumWidth(480);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  QPushButton* open = new QPushButton(tr("Open a database…"));
  const QString path = shipped_database();
  shipped_->setText(tr("Open the shipped measurements (%1)").arg(QFileInfo(path).fileName()));
  shipped_->setVisible(!path.isEmpty());
  QPushButton* measure = new QPushButton(tr("Measure this machine"));
  measure->setObjectName("startMeasure");
  measure->setToolTip(tr("What this machine has, and sweeps that measure it into a new database"));
  connect(measure, &QPushButton::clicked, this, &StartPage::measureRequested);
  connect(open, &QPushButton::clicked, this, &StartPage::openRequested);
  connect(shipped_, &QPushButton::clicked, this, [this, path] { Q_EMIT shippedRequested(path); });

  QHBoxLayout* buttons = new QHBoxLayout;
  buttons->addWidget(open);
  buttons->addWidget(shipped_);
  buttons->addWidget(measure);
  buttons->addStretch();
  QVBoxLayout* column = new QVBoxLayout;
  column->addStretch(2);
  column->addWidget(title_);
  column->addSpacing(6);
  column->addWidget(text_);
  column->addSpacing(14);
  column->addLayout(buttons);
  column->addStretch(3);
  QHBoxLayout* row = new QHBoxLayout(this);
  row->addStretch();
  row->addLayout(column);
  row->addStretch();
  showWelcome();
}

void StartPage::showWelcome() {
  title_->setText(tr("Open a database of measurements"));
  text_->setText(
      tr("Versieve shows what sparse speculative verification costs and yields: every measured or "
         "simulated point, the fitted model's predictions, and the best strategy for each context "
         "length and precision class.\n\nOpen a database written by \"versieve profile\", or drop "
         "it on this window."));
}

void StartPage::showLoading(const QString& path) {
  title_->setText(tr("Reading %1 …").arg(QFileInfo(path).fileName()));
  text_->setText(path);
}

void StartPage::showFailure(const QString& path, const QString& sentence) {
  title_->setText(tr("%1 was not opened").arg(QFileInfo(path).fileName()));
  text_->setText(sentence + tr(".\n\nThe file was not changed. Open another database, or drop one "
                               "on this window."));
}

}  // namespace versieve::gui
