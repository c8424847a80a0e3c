// The canonical texts of strategies, kernels, classes and workloads in plain words, and the system
// that a text belongs to.
#pragma once

#include <QString>
#include <string>

#include "model/words/measurement.h"
#include "model/words/strategy.h"

namespace versieve::gui {

// Beside what is shown, a table's cell may have another text for the clipboard.
inline constexpr int kCopyRole = Qt::UserRole + 100;

// What was built or measured: an attention method with its drafts, or a kernel alone.
enum class System {
  kNsa,
  kDense,
  kResa,
  kSpecAttn,
  kIndexer,
  kTopk,
  kSampling,
  kMachine,
  kUnknown
};
inline constexpr int kSystemCount = 8;

System system_of(const QString& text);  // by the first word of the text
const char* short_name(System system);  // "NSA", "top-k": without blanks, as filters want it
QString name_in_words(System system);   // "NSA: sparse attention with draft trees"
QString workload_in_words(WorkloadKind workload);
// What the point's L and N count.
QString length_name(WorkloadKind workload);
QString rows_name(WorkloadKind workload);
// The canonical text with long schedules told by runs: "FRRRRRRFR..." as "FR⁶FR…". For reading, not
// for commands.
QString compact(const QString& strategy);
// "tree of 48 nodes, depth 7 …"; empty if the text is none that this program knows.
QString text_in_words(const std::string& text);
QString promise_of(PrecisionClass precision);  // in three or four words
// "Approx-only: lossy: groups share blocks. Lost against plain decoding: …"
QString class_in_words(PrecisionClass precision);
// Of a fit's "decode resa", "topk radix", "sampling exact chain".
QString fitted_in_words(const std::string& name);

}  // namespace versieve::gui
