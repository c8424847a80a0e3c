// The points that the open database took last, newest first, whatever the filter hides: what a
// sweep has just measured.
#pragma once

#include <QAbstractTableModel>

#include "gui/models/document.h"

namespace versieve::gui {

class NewestPoints : public QAbstractTableModel {
  Q_OBJECT
 public:
  static constexpr int kMost = 200;  // rows

  explicit NewestPoints(Document& document, QObject* parent = nullptr);

  // What the column wants, in characters.
  static int columnWidth(int section);

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  Document& document_;
  SnapshotPtr snapshot_;  // that the rows are of
};

}  // namespace versieve::gui
