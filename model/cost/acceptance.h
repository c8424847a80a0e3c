// How many tokens a step yields, the bonus token counted. Measured tuples answer for themselves;
// for the others a positional model fitted to them does. At depth i the best child is right with
// probability f = first decay^(i-1), and the right token is among the j best with probability
// 1 - (1 - f)^(1 + siblings ln j): the j - 1 next ones together are worth siblings ln j guesses
// like the best one. Up to kMostSiblings no child is likelier than the one before it. A step's
// tokens are the sum over the best-first tree of the tuple: they grow with f, depth, width and
// nodes, are 1 at f = 0 and depth + 1 at f = 1.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "model/cost/text_spread.h"
#include "model/words/block_sharing.h"
#include "model/words/evaluation.h"
#include "model/words/pair_id.h"
#include "model/words/strategy.h"

namespace versieve {

// Whose word the tokens a step are: measured by this project's engine, by another program, or
// nobody's (a rate that the user put in their place).
enum class AcceptanceOrigin { kMeasured, kImported, kAssumed };
inline constexpr std::size_t kAcceptanceOriginCount = 3;
const char* name_of(AcceptanceOrigin origin);  // "measured", ...

// 1 / ln 2: the second child is worth the first, given that the first is wrong.
inline constexpr double kMostSiblings = 1.4426950408889634;

struct AcceptanceModel {
  // Mean tokens a step (bonus counted) of one measured tuple in one context range.
  struct Measured {
    DraftChoice draft;
    Traversal order = Traversal::kBfs;
    std::string schedule;  // "F*"
    std::int64_t context_len = 0;
    double mean = 0.0;
    double standard_error = 0.0;  // of the mean over regimes
    std::int64_t steps = 0;
    bool looping = false;  // at least one prompt looped; its teacher-forced mean stands in
    // Some drafts were cut short and nothing tells which: this draft whole yields the mean or more.
    bool at_least = false;
    // C of an approximate group, whose `order` then matters. 1: none; exact groups of any size
    // accept what single queries accept.
    std::int64_t approximate_group = 1;
  };
  // What a schedule or approximate groups keep of the tokens that the same tree yields with all
  // layers refreshing and each query on its own, over the trees and contexts that were measured
  // both ways.
  struct Variant {
    std::string schedule;
    std::int64_t approximate_group = 1;
    Traversal order = Traversal::kBfs;  // matters for groups alone
    double log_ratio = 0.0;             // mean of log(tokens / tokens without)
    double log_error = 0.0;             // standard deviation of one such comparison
    std::int64_t comparisons = 0;
  };
  // What the selections of queries share that stand side by side in one order of the tree.
  struct OrderSharing {
    bool measured = false;
    double overlap = 0.6;  // of two neighbours
    // Distinct blocks of kSharingGroups[i] neighbours in blocks of one query: 1 (all alike) to the
    // group's size. 0: not measured; the law of overlap stands in (model/launches).
    std::array<double, kSharingGroups.size()> group{};

    bool operator==(const OrderSharing&) const = default;
  };
  // Of one context range.
  struct Positional {
    std::int64_t context_low = 0, context_high = 0;
    double first = 0.8;      // the best child is right
    double siblings = 0.55;  // how much more children help; 0 to kMostSiblings
    double decay = 1.0;      // of `first`, per level
    double log_error = 0.1;  // standard deviation of log(model / measured)
    double overlap = 0.6;    // measured mean overlap of adjacent queries, of whole trees
    // Covariance of first, siblings and decay, by rows: what too few measured tuples leave open, on
    // top of log_error. Zeros where they leave nothing.
    std::array<double, 9> covariance{};
    bool other_context = false;  // no tuple was measured here: first to decay are the nearest's
    std::array<OrderSharing, 2> orders{};  // [Traversal]
  };
  std::string pair;    // the trained pair it was measured on: "demo-nsa"
  std::string sha256;  // PairId::sha256 of it; empty: nobody's, or not known
  PairId overlap_of;   // whose blocks' overlap `positional` holds; without a name: a guess
  AcceptanceOrigin origin = AcceptanceOrigin::kMeasured;
  std::string note;  // what was not measured and where it comes from; empty if nothing
  std::vector<Measured> measured;
  std::vector<Positional> positional;
  std::vector<Variant> variants;
  TextSpread texts;  // without a rate: texts are not told apart
};

struct AcceptedTokens {
  double mean = 1.0;
  double log_error = 0.0;  // standard deviation of log(mean), on the texts that were measured
  // Of the mean over all texts beside it, since few were measured; and of one text.
  double few_texts_log_error = 0.0;
  double text_log_error = 0.0;
  Provenance source = Provenance::kPredicted;
  bool other_schedule = false;  // no evidence for this schedule: taken from all-F
  bool other_group = false;     // no evidence for these approximate groups: taken from exact ones
  bool other_tree = false;      // what this schedule or grouping keeps was measured on other trees
  bool other_order = false;     // these approximate groups were measured in the other order alone
  bool deeper = false;  // than every measured tree: decay goes on beyond what it was fitted to
  bool outside_data = false;  // the nearest context range stands in for one without evidence
};

// C if the strategy's groups are approximate, else 1.
std::int64_t approximate_group(const Strategy& strategy);
// A context range is (low, high], so that 4096 belongs to 0-4K; an empty context to the first.
bool in_range(std::int64_t context_len, std::int64_t low, std::int64_t high);
// Expected tokens a step of the best-first tree of that choice, bonus counted.
double positional_accepted(const AcceptanceModel::Positional& model, const DraftChoice& draft);
// Standard deviation of its logarithm.
double positional_log_error(const AcceptanceModel::Positional& model, const DraftChoice& draft);
// How fast its logarithm grows with `first`.
double log_tokens_per_rate(const AcceptanceModel::Positional& model, const DraftChoice& draft);
AcceptedTokens accepted_tokens(const AcceptanceModel& model, const Strategy& strategy,
                               std::int64_t context_low, std::int64_t context_high);
// Overlap of adjacent queries' selected blocks that the trained pair showed in that range.
double accepted_overlap(const AcceptanceModel& model, std::int64_t context_low,
                        std::int64_t context_high);
// What groups along that order share there, and whether it is the other order's, since this one was
// not measured.
struct AcceptedSharing {
  AcceptanceModel::OrderSharing order;
  bool other_order = false;
};
AcceptedSharing accepted_sharing(const AcceptanceModel& model, Traversal order,
                                 std::int64_t context_low, std::int64_t context_high);
// Whether the pair's selections are known along that order at any context.
bool knows_order(const AcceptanceModel& model, Traversal order);

}  // namespace versieve
