// Asks where to save, with the ending that the chosen form has: a name typed without one gets it
// before an existing file of that name is asked about.
#pragma once

#include <QString>

class QWidget;

namespace versieve::gui {

QString ending_of(const QString& filter);  // "vllm.yaml" of "vLLM (*.vllm.yaml)"
// Empty if nothing is to be saved. `filters` as of QFileDialog, the first chosen.
QString ask_where_to_save(QWidget* parent, const QString& title, const QString& name,
                          const QString& filters);

}  // namespace versieve::gui
