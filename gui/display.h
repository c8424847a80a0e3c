// Can a window be opened here? Qt aborts where it cannot, so it is asked in a child first.
#pragma once

#include <QString>

namespace versieve::gui {

// Why not, as one sentence; empty: it can. REQUIRES: neither an application object nor a thread
// yet.
QString window_impossible_because(int argc, char** argv);

}  // namespace versieve::gui
