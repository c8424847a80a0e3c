// A picture that can tell what it draws as a table; one that cannot is saved with the table of its
// page, or of the points where its page has none.
#pragma once

#include <QStringList>

namespace versieve::gui {

class SavedView {
 public:
  virtual ~SavedView() = default;
  // Titles, then a row a mark.
  virtual QList<QStringList> savedRows() const { return {}; }
};

}  // namespace versieve::gui
