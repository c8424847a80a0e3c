// Where what is shown comes from, as it stands in every picture and table that leaves the window:
// program, page, files with their hashes and the dates of their data, filter, command.
#pragma once

#include <QStringList>

#include "gui/models/snapshot.h"

namespace versieve::gui {

struct Provenance {
  QString page;
  QString view;
  QStringList files;              // databases and tables that are shown, the first the open one
  QString data_from, data_until;  // of the open database's runs
  QString filter;
  QString command;  // that shows or computes the same
};

// `snapshot` may be null.
Provenance provenance_of(const SnapshotPtr& snapshot, const QString& filter);
// A line a fact; reads the files for their hashes: for a worker.
QStringList lines_of(const Provenance& provenance);

// Rows as CSV (RFC 4180) behind the lines as comments.
QByteArray csv_file(const QList<QStringList>& rows, const QStringList& lines);

}  // namespace versieve::gui
