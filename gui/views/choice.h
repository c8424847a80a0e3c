// A list to choose from that tells its name to screen readers and tests.
#pragma once

#include <QComboBox>

namespace versieve::gui {

QComboBox* named_choice(const QString& name, const QString& object_name);
// Lists these where other texts were listed, without a word of it; the choice stays if it is there.
void list_texts(QComboBox& box, const QStringList& texts);

}  // namespace versieve::gui
