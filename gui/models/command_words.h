// A command as it is typed into a shell.
#pragma once

#include <QStringList>

namespace versieve::gui {

// The words with blanks between them, quoted where a POSIX shell asks for it.
QString command_line(const QStringList& words);

}  // namespace versieve::gui
