// Where do the measurements come from? All runs, and everything that was recorded about one.
#pragma once

#include <QWidget>

#include "gui/models/document.h"
#include "gui/models/run_table.h"

class QTableView;
class QTextBrowser;

namespace versieve::gui {

class RunsPage : public QWidget {
  Q_OBJECT
 public:
  explicit RunsPage(Document& document, QWidget* parent = nullptr);

  void recolor();  // the palette has changed

 Q_SIGNALS:
  // A run was activated: its points are wanted.
  void pointsOfRunRequested(qint64 run_id);

 private:
  void show_run(int row);

  Document& document_;
  RunTable* runs_;
  QTableView* table_;
  QTextBrowser* details_;
};

}  // namespace versieve::gui
