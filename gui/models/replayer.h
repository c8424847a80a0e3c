// What the planner's table is worth on texts that it was not made from: recorded requests played
// through it (engine/analyse/replay), on a worker, again for each plan and choice of texts.
#pragma once

#include <QObject>
#include <memory>
#include <string>

#include "engine/analyse/replay/cell.h"
#include "engine/analyse/replay/replay.h"
#include "gui/models/planner.h"

namespace versieve::gui {

struct Replayed {
  SnapshotPtr snapshot;  // whose walks were played
  std::string regime;    // of the texts; empty: all
  PlanPtr plan;
  std::shared_ptr<const engine::Walks> walks;
  engine::Replay replay;      // no rows: nothing could be played, the gaps say why
  std::string missing_walks;  // the sweep that records them; empty if none is missing
};
using ReplayedPtr = std::shared_ptr<const Replayed>;

class Replayer : public QObject {
  Q_OBJECT
 public:
  Replayer(Document& document, Planner& planner, QObject* parent = nullptr);

  // Nothing is planned or played before the first call.
  void need();
  void setRegime(const QString& regime);  // empty: all
  // Writes the sweep that records what this replay lacks; what went wrong as a sentence.
  QString writeMissingWalks(const QString& path) const;

  const ReplayedPtr& replayed() const { return replayed_; }  // may be null
  const QString& sentence() const { return sentence_; }      // why there is none
  bool isBusy() const { return planner_.isBusy() || job_.isRunning(); }

 Q_SIGNALS:
  void changed();

 private:
  void follow_plan();
  void start();

  Document& document_;
  Planner& planner_;
  std::string regime_;
  ReplayedPtr replayed_;
  PlanPtr asked_;  // the plan that was last sent to the worker
  QString sentence_;
  bool needed_ = false;
  Job job_;
};

// "183 requests …": means over all cells, in one or two sentences.
QString replay_summary(const Replayed& replayed);
// Gaps of classes that cannot be played anywhere, for one reason: said once, not cell by cell.
bool is_of_whole_class(const Replayed& replayed, const engine::ReplayGap& gap);
QString whole_classes_text(const Replayed& replayed);  // empty if there are none
QString gap_html(const Replayed& replayed, const engine::ReplayGap& gap);
// A cell: what was promised, what came, and which tuples the guard could reach.
QString replay_row_html(const Replayed& replayed, const engine::ReplayRow& row);
QString gain_text(double throughput, double baseline);  // "+26.3 %"

}  // namespace versieve::gui
