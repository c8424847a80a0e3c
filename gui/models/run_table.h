// The runs of a database as a table, newest first.
#pragma once

#include <QAbstractTableModel>

#include "gui/models/document.h"

namespace versieve::gui {

class RunTable : public QAbstractTableModel {
  Q_OBJECT
 public:
  explicit RunTable(Document& document, QObject* parent = nullptr);

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

  const db::StoredRun& runAt(int row) const;

 private:
  Document& document_;
};

}  // namespace versieve::gui
