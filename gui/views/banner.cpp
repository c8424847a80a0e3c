#include "gui/views/banner.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>

namespace versieve::gui {

Banner::Banner(QWidget* parent) : QFrame(parent), text_(new QLabel), action_(new QPushButton) {
  setObjectName("banner");
  text_->setObjectName("bannerText");
  text_->setWordWrap(true);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  text_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  action_->setObjectName("bannerAction");
  QPushButton* away = new QPushButton(tr("Dismiss"));
  away->setObjectName("bannerAway");
  QHBoxLayout* layout = new QHBoxLayout(this);
  layout->setContentsMargins(14, 4, 8, 4);
  layout->addWidget(text_, 1);
  layout->addWidget(action_);
  layout->addWidget(away);
  connect(action_, &QPushButton::clicked, this, [this] {
    hide();
    Q_EMIT acted();
  });
  connect(away, &QPushButton::clicked, this, &QWidget::hide);
  hide();
}

void Banner::say(const QString& sentence, const QString& action) {
  text_->setText(sentence);
  action_->setText(action);
  action_->setVisible(!action.isEmpty());
  show();
}

}  // namespace versieve::gui
