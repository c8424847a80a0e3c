// Saves and copies what a page shows: its pictures as PNG and SVG, its tables and what its pictures
// draw as CSV, each with where it comes from in the file. One mechanism for all pages: the View
// menu lists what the page shows, the right mouse button offers the view under it, Ctrl+Shift+S
// saves the one that has the focus.
#pragma once

#include <QList>
#include <QObject>
#include <QPointer>
#include <functional>

#include "gui/models/jobs.h"
#include "gui/models/provenance.h"

class QMainWindow;
class QMenu;
class QTableView;
class QWidget;

namespace versieve::gui {

class ViewSaver : public QObject {
  Q_OBJECT
 public:
  using PageOf = std::function<QWidget*()>;          // that is shown; may be null
  using ProvenanceOf = std::function<Provenance()>;  // of it; `view` is filled in here
  ViewSaver(QMainWindow& window, QMenu& menu, PageOf page, ProvenanceOf provenance);

  // What can be saved of the page, as it is laid out: pictures and tables that are seen.
  QList<QWidget*> views() const;
  // The one with the focus, else the first; null where nothing is shown.
  QWidget* focused() const;
  static QString nameOf(const QWidget& view);
  // By the path's ending: png, svg, csv; another is refused, and a table of more rows than are
  // made in a moment. `written` or `failed` follow.
  void save(QWidget& view, const QString& path);
  // Picture and table at once: who pastes takes what he can.
  void copy(QWidget& view);

 Q_SIGNALS:
  void written(const QString& path);
  void copied(const QString& name);
  void failed(const QString& sentence);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;  // of the application

 private:
  void ask_and_save(QWidget* view);
  void list(QMenu& menu, void (ViewSaver::*act)(QWidget*));
  void copy_view(QWidget* view);
  // Whose rows are saved with a view that tells none itself.
  const QTableView* table_of(QWidget& view) const;
  bool has_too_many_rows(QWidget& view) const;
  QList<QStringList> rows_of(QWidget& view) const;
  Provenance provenance_of_view(const QWidget& view) const;

  QMainWindow& window_;
  PageOf page_;
  ProvenanceOf provenance_;
  Job save_job_;
  Job copy_job_;
};

// All rows of a table with its titles, as its columns stand.
QList<QStringList> rows_of(const QTableView& table);

}  // namespace versieve::gui
