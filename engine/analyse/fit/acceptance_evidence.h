// Which trained pairs' tokens a step are known from which points, and the means of one pair's
// tuples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/cost/acceptance.h"
#include "model/words/measurement.h"

namespace versieve::engine {

// A pair as its points name it. What another program measured is of another pair, whatever its
// name.
struct AcceptancePair {
  std::string name;
  AcceptanceOrigin origin = AcceptanceOrigin::kMeasured;  // or imported
  std::int64_t points = 0;
  std::string sha256;  // PairId::sha256; pairs of one name and other weights are two

  PairId id() const { return {name, sha256}; }
};

struct AcceptanceEvidence {
  AcceptancePair pair;
  std::vector<AcceptanceModel::Measured> tuples;  // ascending in context
  // [tuple]: tokens a step along the author's own texts, the same for all tuples; none where a
  // point lacks them.
  std::vector<std::optional<double>> along;
  // [tuple]: text by text.
  struct Counted {
    TextEvidence kind = TextEvidence::kLaw;  // that: nobody counted so
    std::int64_t texts = 0;
    std::int64_t sources = 0;  // files that they are of
    double log_error = 0.0;    // TextRatio::log_error
  };
  std::vector<Counted> counted;
  // Chains cut from deeper imported ones, which draft the same tokens: of a histogram alone.
  std::vector<AcceptanceModel::Measured> cut_chains;
  std::vector<std::string> remarks;  // what the points' sources leave open, a sentence each
  // Overlap of adjacent queries' own choices at a context: points of approximate groups, whose rows
  // share theirs, left out.
  struct Overlap {
    std::int64_t context_len = 0;
    double value = 0.0;
  };
  std::vector<Overlap> overlaps;
  // The same along an order of the tree, mean over layers, with what groups of neighbours load.
  struct Sharing {
    std::int64_t context_len = 0;
    Traversal order = Traversal::kBfs;
    bool of_tree = false;  // a chain is the same in both orders
    AcceptanceModel::OrderSharing value;
  };
  std::vector<Sharing> sharing;
};

// By its hash, whatever the point calls it; by its name where no hash is known.
bool is_of(const PointMeasurement& point, const AcceptancePair& pair);
// Of points sampled at that temperature: the measured ones first, each kind by its number of
// points.
std::vector<AcceptancePair> acceptance_pairs(const std::vector<PointMeasurement>& measured,
                                             double temperature = 0.0);
// That the points were sampled at, ascending: "0, 0.6, 1"; empty of none.
std::string temperatures_text(const std::vector<PointMeasurement>& measured);
// "demo-nsa (measured, 690 points, sha256 b795a4c58339), llama (imported, 3 points)"; "no
// acceptance at all".
std::string listed(const std::vector<AcceptancePair>& pairs);

// Of points of the calibration split when the pair has any (the test split then stays unseen).
// A tuple that was counted text by text is known by those points alone: all tokens of its texts,
// each kind as many, over all steps. Of others looping output counts by its teacher-forced mean, or
// not at all. Tokens are those at that temperature; what queries share is of greedy points at all.
AcceptanceEvidence acceptance_evidence(const std::vector<PointMeasurement>& measured,
                                       const AcceptancePair& pair, double temperature = 0.0);

}  // namespace versieve::engine
