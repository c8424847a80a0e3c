#include "gui/views/view_saver.h"

#include <QAction>
#include <QApplication>
#include <QBuffer>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QFileInfo>
#include <QHeaderView>
#include <QImage>
#include <QMainWindow>
#include <QMenu>
#include <QMimeData>
#include <QPainter>
#include <QTableView>

#include "engine/io/atomic_file.h"
#include "gui/models/plain_words.h"
#include "gui/views/save_dialog.h"
#include "gui/views/saved_view.h"
#include "gui/views/scatter.h"
#include "gui/views/svg_picture.h"
#include "gui/views/table.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kMostRows = 50'000;  // of a table that is saved, in a moment

bool is_view(const QWidget* widget) {
  return dynamic_cast<const SavedView*>(widget) != nullptr ||
         qobject_cast<const QTableView*>(widget) != nullptr ||
         qobject_cast<const Scatter*>(widget) != nullptr;
}

// The view that the widget is, or lies in.
QWidget* view_around(QWidget* widget) {
  while (widget != nullptr && !is_view(widget)) {
    widget = widget->parentWidget();
  }
  return widget;
}

QImage picture_of(QWidget& view) {
  QImage image = view.grab().toImage();
  image.setDevicePixelRatio(1.0);
  return image;
}

std::shared_ptr<SvgPicture> drawing_of(QWidget& view) {
  const auto picture = std::make_shared<SvgPicture>(view.size());
  QPainter painter(picture.get());
  painter.fillRect(view.rect(), theme::colors().panel);
  view.render(&painter, {}, {}, QWidget::DrawChildren);
  return picture;
}

QByteArray png_file(QImage image, const QStringList& lines) {
  image.setText("Software", lines.first());
  image.setText("Description", lines.mid(1).join('\n'));
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  image.save(&buffer, "PNG");
  return bytes;
}

// A file's bytes, given where what is shown comes from.
using BytesOf = std::function<QByteArray(const QStringList& lines)>;

BytesOf svg_of(QWidget& view) {
  return [drawing = drawing_of(view)](const QStringList& lines) {
    return drawing->file(lines.value(1), lines.join('\n'));
  };
}

}  // namespace

QList<QStringList> rows_of(const QTableView& table) {
  const QAbstractItemModel& model = *table.model();
  const QList<int> columns = shown_columns(table);
  QList<QStringList> rows(1);
  for (const int column : columns) {
    rows.first() << model.headerData(column, Qt::Horizontal).toString();
  }
  for (int row = 0; row < model.rowCount(); ++row) {
    QStringList cells;
    for (const int column : columns) {
      const QModelIndex cell = model.index(row, column);
      const QVariant copied = cell.data(kCopyRole);
      cells << (copied.isValid() ? copied : cell.data()).toString();
    }
    rows << cells;
  }
  return rows;
}

ViewSaver::ViewSaver(QMainWindow& window, QMenu& menu, PageOf page, ProvenanceOf provenance)
    : QObject(&window),
      window_(window),
      page_(std::move(page)),
      provenance_(std::move(provenance)) {
  QAction* save = menu.addAction(tr("&Save view…"), this, [this] { ask_and_save(focused()); });
  save->setObjectName("view.save");
  save->setShortcut(QKeySequence("Ctrl+Shift+S"));
  save->setToolTip(tr("The picture or table that has the focus, as PNG, SVG or CSV"));
  QAction* copy = menu.addAction(tr("&Copy view"), this, [this] { copy_view(focused()); });
  copy->setObjectName("view.copy");
  copy->setShortcut(QKeySequence("Ctrl+Shift+C"));
  QMenu* one = menu.addMenu(tr("Save one &of this page"));
  connect(one, &QMenu::aboutToShow, this, [this, one] { list(*one, &ViewSaver::ask_and_save); });
  QMenu* other = menu.addMenu(tr("Copy o&ne of this page"));
  connect(other, &QMenu::aboutToShow, this, [this, other] { list(*other, &ViewSaver::copy_view); });
  qApp->installEventFilter(this);
}

void ViewSaver::list(QMenu& menu, void (ViewSaver::*act)(QWidget*)) {
  menu.clear();
  for (QWidget* view : views()) {
    menu.addAction(nameOf(*view), this,
                   [this, act, kept = QPointer<QWidget>(view)] { (this->*act)(kept); });
  }
  if (menu.isEmpty()) {
    menu.addAction(tr("Nothing is shown"))->setEnabled(false);
  }
}

QList<QWidget*> ViewSaver::views() const {
  QList<QWidget*> found;
  if (QWidget* page = page_()) {
    for (QWidget* widget : page->findChildren<QWidget*>()) {
      if (is_view(widget) && widget->isVisible()) {
        found << widget;
      }
    }
  }
  return found;
}

QWidget* ViewSaver::focused() const {
  const QList<QWidget*> all = views();
  QWidget* view = view_around(QApplication::focusWidget());
  return all.contains(view) ? view : all.value(0);
}

QString ViewSaver::nameOf(const QWidget& view) {
  return view.accessibleName().isEmpty() ? view.objectName() : view.accessibleName();
}

Provenance ViewSaver::provenance_of_view(const QWidget& view) const {
  Provenance p = provenance_();
  p.view = nameOf(view);
  return p;
}

const QTableView* ViewSaver::table_of(QWidget& view) const {
  if (const QTableView* table = qobject_cast<QTableView*>(&view)) {
    return table;
  }
  for (QWidget* other : views()) {
    if (const QTableView* table = qobject_cast<QTableView*>(other)) {
      return table;
    }
  }
  return window_.findChild<QTableView*>("points");
}

bool ViewSaver::has_too_many_rows(QWidget& view) const {
  const QTableView* table = table_of(view);
  return table != nullptr && table->model()->rowCount() > kMostRows;
}

QList<QStringList> ViewSaver::rows_of(QWidget& view) const {
  const SavedView* saved = dynamic_cast<SavedView*>(&view);
  QList<QStringList> rows = saved != nullptr ? saved->savedRows() : QList<QStringList>();
  const QTableView* table = rows.isEmpty() ? table_of(view) : nullptr;
  return table != nullptr && !has_too_many_rows(view) ? gui::rows_of(*table) : rows;
}

void ViewSaver::save(QWidget& view, const QString& path) {
  const QString ending = QFileInfo(path).suffix().toLower();
  BytesOf bytes;
  if (ending == QLatin1String("png")) {
    bytes = [image = picture_of(view)](const QStringList& lines) { return png_file(image, lines); };
  } else if (ending == QLatin1String("svg")) {
    bytes = svg_of(view);
  } else if (ending == QLatin1String("csv")) {
    const QList<QStringList> rows = rows_of(view);
    if (rows.isEmpty()) {
      Q_EMIT failed(
          has_too_many_rows(view)
              ? tr("More than %1 rows are not saved: narrow them by the filter").arg(kMostRows)
              : tr("%1 was not written: the view has no rows yet").arg(path));
      return;
    }
    bytes = [rows](const QStringList& lines) { return csv_file(rows, lines); };
  } else {
    Q_EMIT failed(tr("%1 was not written: a view is saved as .png, .svg or .csv").arg(path));
    return;
  }
  save_job_.start<bool>(
      [bytes, path, provenance = provenance_of_view(view)] {
        engine::write_file_atomically(path.toStdString(),
                                      bytes(lines_of(provenance)).toStdString());
        return true;
      },
      [this, path](bool) { Q_EMIT written(path); },
      [this](const QString& sentence) { Q_EMIT failed(sentence); });
}

void ViewSaver::copy(QWidget& view) {
  const QImage image = picture_of(view);
  const BytesOf svg = svg_of(view);
  using Bytes = QList<QByteArray>;
  copy_job_.start<Bytes>(
      [image, svg, rows = rows_of(view), provenance = provenance_of_view(view)] {
        const QStringList lines = lines_of(provenance);
        return Bytes{png_file(image, lines), svg(lines), csv_file(rows, lines)};
      },
      [this, image, name = nameOf(view)](const Bytes& bytes) {
        QMimeData* data = new QMimeData;
        data->setImageData(image);
        data->setData("image/png", bytes[0]);
        data->setData("image/svg+xml", bytes[1]);
        data->setData("text/csv", bytes[2]);
        data->setText(QString::fromUtf8(bytes[2]));
        QApplication::clipboard()->setMimeData(data);
        Q_EMIT copied(name);
      },
      [this](const QString& sentence) { Q_EMIT failed(sentence); });
}

void ViewSaver::copy_view(QWidget* view) {
  if (view != nullptr) {
    copy(*view);
  } else {
    Q_EMIT failed(tr("This page shows nothing to copy yet"));
  }
}

void ViewSaver::ask_and_save(QWidget* view) {
  if (view == nullptr) {
    Q_EMIT failed(tr("This page shows nothing to save yet"));
    return;
  }
  const bool is_table = qobject_cast<QTableView*>(view) != nullptr;
  const QString path =
      ask_where_to_save(&window_, tr("Save \"%1\"").arg(nameOf(*view)),
                        nameOf(*view).toLower().replace(' ', '-').remove(','),
                        is_table ? tr("Table (*.csv);;Picture (*.png);;Drawing (*.svg)")
                                 : tr("Picture (*.png);;Drawing (*.svg);;Table (*.csv)"));
  if (!path.isEmpty()) {
    save(*view, path);
  }
}

// A table keeps its own entries in front; its titles have a menu of their own.
bool ViewSaver::eventFilter(QObject* watched, QEvent* event) {
  QWidget* widget =
      event->type() == QEvent::ContextMenu ? qobject_cast<QWidget*>(watched) : nullptr;
  const bool is_title =
      widget != nullptr && (qobject_cast<QHeaderView*>(widget) != nullptr ||
                            qobject_cast<QHeaderView*>(widget->parentWidget()) != nullptr);
  QWidget* view = widget == nullptr || is_title ? nullptr : view_around(widget);
  if (view == nullptr || !views().contains(view)) {
    return false;
  }
  QMenu* menu = new QMenu(&window_);
  menu->setObjectName("viewMenu");
  menu->setAttribute(Qt::WA_DeleteOnClose);
  menu->addActions(view->actions());
  const QPointer<QWidget> kept(view);
  menu->addAction(tr("Save…"), this, [this, kept] { ask_and_save(kept); });
  menu->addAction(tr("Copy view"), this, [this, kept] { copy_view(kept); });
  menu->popup(static_cast<QContextMenuEvent*>(event)->globalPos());
  return true;
}

}  // namespace versieve::gui
