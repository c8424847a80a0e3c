// What stands beside a point under the pointer.
#pragma once

#include <QPainter>
#include <QStringList>

#include "gui/models/snapshot.h"

namespace versieve::gui {

QStringList card_lines(const Snapshot& snapshot, int point);
// Beside `place`, inside of `within`.
void draw_card(QPainter& painter, const QStringList& lines, const QPointF& place,
               const QSize& within);

// A pinned point's number, above its place; nothing where that is null.
void draw_pin(QPainter& painter, const QPointF& place, int number);

}  // namespace versieve::gui
