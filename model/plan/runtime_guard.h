// The runtime guard: which of a cell's ranked tuples verifies a request's next step. It begins with
// the first and moves when the request accepts less than the table expects (Sparse Speculative
// Verification, section 6.3 and algorithm 1). Pure arithmetic, a few operations a step: what a
// serving engine embeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace versieve {

// Alpha and the drop ratio are lost in the paper's text; 0.2 and 0.85 stand in. How much each
// matters on recorded requests: `versieve replay --vary`.
struct GuardConstants {
  double alpha = 0.2;                // weight of the newest step in the smoothed yield
  double drop_ratio = 0.85;          // of the expected yield: below it a step counts as low
  std::int64_t warmup = 8;           // steps of a tuple before any counts
  std::int64_t hysteresis = 5;       // low steps in a row that make it move
  std::int64_t max_transitions = 2;  // to another tuple, in one request
};

// One sentence for the first constant that cannot be, or an empty text.
std::string invalid_because(const GuardConstants& constants);

// Steps as the table expects that a request's own are weighed against when it is judged by what it
// accepted: variance of a step's tokens over variance of texts' means, (0.331 / 0.081)^2 of the
// mean in the 24 cells of the calibration split whose walks ship.
inline constexpr double kPriorSteps = 17.0;

// Where a guard goes when the request accepts too little.
enum class GuardRule {
  kNextRanked,  // algorithm 1 of Sparse Speculative Verification: the next tuple of the ranking,
                // whatever it promises
  // The tuple that promises most tokens a second if this request accepts of each the share of
  // drafted tokens, against what the table expects, that it will accept of the active one, judged
  // by all its steps and by what texts do (a smoothed yield dips too often to judge by); the active
  // one if none promises more.
  kMostPromising,
};

const char* name_of(GuardRule rule);  // "ranked", "promise"
// Throws Error(kUsage), naming the rules.
GuardRule parse_guard_rule(const std::string& name);

// A tuple that the guard may choose, with what the table expects of its steps.
struct GuardedTuple {
  double expected_accepted = 1.0;  // tokens a step, bonus counted
  double step_us = 1.0;
};

class RuntimeGuard {
 public:
  // Best tuple first; plain decoding may stand last (one token a step). REQUIRES: at least one
  // tuple, times above 0, valid constants.
  RuntimeGuard(const GuardConstants& constants, GuardRule rule, std::vector<GuardedTuple> ranked);

  // Rank, from 0, of the tuple that verifies the next step.
  std::size_t active() const { return active_; }
  // A step of the active tuple yielded `tokens` (bonus counted) in `step_us`. True: another tuple
  // is active from now on.
  bool observe(double tokens, double step_us);

  // Moves to another tuple. Going back to the best one seen is none.
  std::int64_t transitions() const { return transitions_; }
  // It has chosen the best of the tuples seen, for the rest of the request.
  bool has_settled() const { return settled_; }

 private:
  struct Seen {
    double steps = 0.0;
    double tokens = 0.0;
    double microseconds = 0.0;
  };

  bool move_on();
  bool settle();
  std::size_t most_promising() const;
  double judged_mean() const;
  double promise(std::size_t rank, double share) const;
  void activate(std::size_t rank);

  GuardConstants constants_;
  GuardRule rule_;
  std::vector<GuardedTuple> ranked_;
  std::vector<Seen> seen_;
  std::size_t active_ = 0;
  double smoothed_ = 0.0;   // yield of the active tuple's steps
  std::int64_t steps_ = 0;  // of the active tuple since it became active
  std::int64_t low_steps_ = 0;
  std::int64_t transitions_ = 0;
  bool settled_ = false;
};

}  // namespace versieve
