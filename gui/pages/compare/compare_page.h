// What changed between two files? Databases matched by tuple, or planner tables by cell: a plot of
// ratios, a list with what got worse first, what differs around them, and the command that prints
// the same. Files are added by a button, by dropping them here, and removed; the filter of the
// points narrows the tuples where the open database is one of the two.
#pragma once

#include <QWidget>

#include "gui/models/comparer.h"
#include "gui/models/comparison_rows.h"
#include "gui/models/document.h"

class QComboBox;
class QLabel;
class QPushButton;
class QStackedWidget;
class QTableView;
class QTextBrowser;

namespace versieve::gui {

class ElidedText;
class NumberKnob;
class RatioPlot;

class ComparePage : public QWidget {
  Q_OBJECT
 public:
  explicit ComparePage(Document& document, QWidget* parent = nullptr);

  Comparer& comparer() { return *comparer_; }
  ComparisonRows& rows() { return *rows_; }
  RatioPlot& plot() { return *plot_; }
  QTableView& table() { return *table_; }
  ElidedText& summary() { return *said_; }
  QComboBox& figure() { return *figure_; }
  NumberKnob& noise() { return *noise_; }
  // Beside the open database, or in the place of files of the other kind.
  void addFile(const QString& path);
  void recolor();

 Q_SIGNALS:
  void said(const QString& sentence);

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  QWidget* make_choices();
  QWidget* make_empty();
  QWidget* make_answer();
  void take_document();
  void ask_for_file();
  void show_files();
  void show_rows();
  void select_row(int row);
  void copy_command();

  Document& document_;
  Comparer* comparer_;
  ComparisonRows* rows_;
  QLabel* first_;
  QComboBox* against_;
  QPushButton* add_;
  QPushButton* remove_;
  QPushButton* swap_;
  QComboBox* figure_;
  NumberKnob* noise_;
  QPushButton* command_;
  QStackedWidget* stack_;
  QLabel* message_;
  QPushButton* shipped_;
  QString shipped_path_;
  ElidedText* said_;
  RatioPlot* plot_;
  QTableView* table_;
  QTextBrowser* details_;
  QString document_path_;  // of the database that the page took from the document
};

}  // namespace versieve::gui
