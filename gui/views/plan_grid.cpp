#include "gui/views/plan_grid.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>

#include "gui/models/numbers.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kRowTitle = 118;
constexpr int kColumnTitle = 28;
constexpr int kGap = 6;
constexpr int kInset = 10;

QFont sized(QFont font, int pixels, bool is_bold) {
  font.setPixelSize(pixels);
  font.setBold(is_bold);
  return font;
}

}  // namespace

PlanGrid::PlanGrid(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Best strategy by context length and precision class"));
}

void PlanGrid::show_plan(const PlanPtr& plan) {
  plan_ = plan;
  bucket_ = std::clamp(bucket_, 0, std::max(0, bucket_count() - 1));
  row_ = std::clamp(row_, 0, std::max(0, row_count() - 1));
  update();
}

void PlanGrid::select(int bucket, int row) {
  if (bucket < 0 || row < 0 || bucket >= bucket_count() || row >= row_count()) {
    return;
  }
  bucket_ = bucket;
  row_ = row;
  update();
  Q_EMIT cellSelected(bucket, row);
}

int PlanGrid::bucket_count() const {
  return plan_ ? static_cast<int>(plan_->chosen.buckets.size()) : 0;
}

int PlanGrid::row_count() const {
  return plan_ ? static_cast<int>(plan_->chosen.classes.size()) : 0;
}

QRect PlanGrid::cellRect(int bucket, int row) const {
  const int cell_width = (width() - kRowTitle) / std::max(1, bucket_count());
  const int cell_height = (height() - kColumnTitle) / std::max(1, row_count());
  return QRect(kRowTitle + bucket * cell_width, kColumnTitle + row * cell_height, cell_width - kGap,
               cell_height - kGap);
}

void PlanGrid::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  if (!plan_) {
    return;
  }
  draw_headers(painter);
  for (int row = 0; row < row_count(); ++row) {
    for (int bucket = 0; bucket < bucket_count(); ++bucket) {
      draw_cell(painter, bucket, row);
    }
  }
}

void PlanGrid::draw_headers(QPainter& painter) const {
  painter.setPen(theme::kQuietInk);
  painter.setFont(font());
  painter.drawText(QRect(0, 0, kRowTitle, kColumnTitle), Qt::AlignVCenter, tr("Context"));
  for (int bucket = 0; bucket < bucket_count(); ++bucket) {
    const QRect cell = cellRect(bucket, 0);
    painter.drawText(QRect(cell.left() + kInset, 0, cell.width(), kColumnTitle), Qt::AlignVCenter,
                     bucket_text(plan_->chosen.buckets[static_cast<std::size_t>(bucket)]));
  }
  for (int row = 0; row < row_count(); ++row) {
    const QRect cell = cellRect(0, row);
    painter.drawText(QRect(0, cell.top(), kRowTitle - kGap, cell.height()), Qt::AlignVCenter,
                     name_of(plan_->chosen.classes[static_cast<std::size_t>(row)]));
  }
}

void PlanGrid::draw_cell(QPainter& painter, int bucket, int row) const {
  const QRect cell = cellRect(bucket, row);
  const PrecisionClass precision = plan_->chosen.classes[static_cast<std::size_t>(row)];
  const PlanEntry* entry = best_entry(plan_->chosen, bucket, precision);
  const bool is_selected = bucket == bucket_ && row == row_;
  painter.setPen(is_selected ? QPen(theme::kAccent, 2.0) : QPen(theme::kLine, 1.0));
  painter.setBrush(entry == nullptr ? theme::kPage
                   : is_selected    ? theme::kAccentTint
                                    : theme::kPanel);
  painter.drawRoundedRect(QRectF(cell).adjusted(1, 1, -1, -1), 3, 3);
  if (entry != nullptr) {
    draw_entry(painter, cell, *entry, best_entry(plan_->own, bucket, precision));
    return;
  }
  painter.setPen(theme::kQuietInk);
  painter.setFont(font());
  painter.drawText(cell, Qt::AlignCenter, tr("not yet available"));
}

void PlanGrid::draw_entry(QPainter& painter, const QRect& cell, const PlanEntry& entry,
                          const PlanEntry* own) const {
  const Evaluation& evaluation = entry.evaluation;
  QRect line = cell.adjusted(kInset, 8, -kInset, 0);
  const auto write = [&painter, &line](const QFont& font, const QColor& color,
                                       const QString& text) {
    painter.setFont(font);
    painter.setPen(color);
    const QFontMetrics metrics(font);
    painter.drawText(QRect(line.left(), line.top(), line.width(), metrics.height()),
                     Qt::AlignLeft | Qt::AlignVCenter,
                     metrics.elidedText(text, Qt::ElideRight, line.width()));
    line.translate(0, metrics.height() + 2);
  };
  const QFont small = sized(font(), theme::kSmallPixels, false);
  write(sized(font(), theme::kTextPixels, true), theme::kInk,
        QString::fromStdString(evaluation.strategy.text()));
  write(sized(font(), 16, false), theme::kAccent,
        fixed(evaluation.throughput, 0) + tr(" tokens/s"));
  write(small, theme::kQuietInk,
        "90 %: " + fixed(evaluation.throughput_interval.low, 0) + " – " +
            fixed(evaluation.throughput_interval.high, 0) + ", " + name_of(evaluation.source));
  write(small, theme::kQuietInk, reason_text(entry));
  if (own != nullptr && !(own->evaluation.strategy == evaluation.strategy)) {
    write(small, theme::kWarning,
          tr("was %1").arg(QString::fromStdString(own->evaluation.strategy.text())));
  } else {
    write(small, theme::kQuietInk,
          fixed(entry.gain_over_ar, 2) + tr("× autoregressive, ") +
              fixed(entry.gain_over_baseline, 2) + tr("× fixed baseline"));
  }
}

void PlanGrid::mousePressEvent(QMouseEvent* event) {
  for (int row = 0; row < row_count(); ++row) {
    for (int bucket = 0; bucket < bucket_count(); ++bucket) {
      if (cellRect(bucket, row).contains(event->position().toPoint())) {
        select(bucket, row);
      }
    }
  }
}

void PlanGrid::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Left:
      select(bucket_ - 1, row_);
      break;
    case Qt::Key_Right:
      select(bucket_ + 1, row_);
      break;
    case Qt::Key_Up:
      select(bucket_, row_ - 1);
      break;
    case Qt::Key_Down:
      select(bucket_, row_ + 1);
      break;
    default:
      QWidget::keyPressEvent(event);
  }
}

}  // namespace versieve::gui
