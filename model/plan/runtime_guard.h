// The runtime guard: which of a cell's ranked tuples verifies a request's next step. It begins with
// the first and moves when the request accepts less than the table expects (Sparse Speculative
// Verification, section 6.3 and algorithm 1), and goes on with the next bucket's tuples when the
// context grows into it. Pure arithmetic, a few operations a step: what a serving engine embeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace versieve {

// Alpha and the drop ratio are lost in the paper's text; 0.2 and 0.85 stand in. How much each
// matters on recorded requests: `versieve replay --sweep-guard`.
struct GuardConstants {
  double alpha = 0.2;                // weight of the newest step in the smoothed yield
  double drop_ratio = 0.85;          // of the expected yield: below it a step counts as low
  std::int64_t warmup = 8;           // steps of a tuple before any counts
  std::int64_t hysteresis = 5;       // low steps in a row that make it move
  std::int64_t max_transitions = 2;  // to another tuple, in one request
};

// One sentence for the first constant that cannot be, or an empty text.
std::string invalid_because(const GuardConstants& constants);
// These constants with those that the text names, as "alpha=0.3,warmup=4". Throws Error(kUsage) for
// other names, a name twice, what is not a number and what cannot be.
GuardConstants with_constants(GuardConstants constants, const std::string& text);
std::string text_of(const GuardConstants& constants);  // all five, as with_constants reads them

// The constants with one of them changed, at which whoever asks how much each matters looks (table
// 4 of Sparse Speculative Verification): alpha, drop ratio, warm-up and hysteresis, the lower value
// first.
struct VariedGuard {
  std::string name;  // "alpha 0.1", ...
  GuardConstants constants;
};
std::vector<VariedGuard> one_factor_settings(const GuardConstants& given);

// Steps as the table expects that a request's own are weighed against when it is judged by what it
// accepted: variance of a step's tokens over variance of texts' means, (0.331 / 0.081)^2 of the
// mean in the 24 cells of the calibration split whose walks ship.
inline constexpr double kPriorSteps = 17.0;

// Within the warm-up a request counts as another kind than the table's where its steps so far would
// come as low less than once in a thousand times (an assumption) if steps yielded as much as counts
// as not low, geometrically: which of all with that mean is the least certain. A hard passage looks
// alike, so the tuple that was left is tried again after kPriorSteps steps.
inline constexpr double kEarlyChance = 1e-3;

// Where a guard goes when the request accepts too little.
enum class GuardRule {
  kNextRanked,  // algorithm 1 of Sparse Speculative Verification: the next tuple of the ranking,
                // whatever it promises, and never within the warm-up
  // The tuple that promises most tokens a second if this request accepts of each the share of
  // drafted tokens, against what the table expects, that it will accept of the active one, judged
  // by all its steps and by what texts do (a smoothed yield dips too often to judge by); the active
  // one if none promises more. Within the warm-up it moves for a request of another kind, which is
  // judged by its own steps alone, once; and goes back once, to see whether it was a passage.
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

// The ranked tuples of contexts beyond `after` tokens.
struct GuardStage {
  std::int64_t after = 0;
  std::vector<GuardedTuple> ranked;
};

class RuntimeGuard {
 public:
  // Best tuple first; plain decoding may stand last (one token a step). REQUIRES: at least one
  // tuple, times above 0, valid constants.
  RuntimeGuard(const GuardConstants& constants, GuardRule rule, std::vector<GuardedTuple> ranked);

  // The same for a request whose context of `context_len` tokens grows from the first stage into
  // the others. There it goes on at the rank that it had, or with plain decoding if it had come to
  // that; moves and a choice that is settled stay so. REQUIRES: stages ascending, each with a
  // tuple.
  RuntimeGuard(const GuardConstants& constants, GuardRule rule, std::vector<GuardStage> stages,
               std::int64_t context_len);

  // Index, from 0, of the tuple that verifies the next step: its rank, behind all tuples of the
  // stages before.
  std::size_t active() const { return before_ + active_; }
  // A step of the active tuple yielded `tokens` (bonus counted) in `step_us`. True: another tuple
  // is active from now on.
  bool observe(double tokens, double step_us);
  // Tokens of a step that says nothing of the active tuple.
  bool pass(double tokens);

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

  const std::vector<GuardedTuple>& ranked() const { return stages_[stage_].ranked; }
  bool grow(double tokens);
  void enter(std::size_t stage);
  bool is_another_kind() const;
  bool leave_early();
  bool come_back();
  bool move_on();
  bool settle();
  std::size_t most_promising() const;
  double judged_mean() const;
  double promise(std::size_t rank, double share) const;
  void activate(std::size_t rank);

  GuardConstants constants_;
  GuardRule rule_;
  std::vector<GuardStage> stages_;
  std::size_t stage_ = 0;
  std::size_t before_ = 0;           // tuples of the stages before
  double context_ = 0.0;             // tokens
  std::vector<Seen> seen_;           // of this stage's tuples
  std::size_t active_ = 0;           // rank in this stage
  std::optional<std::size_t> left_;  // within the warm-up, to be tried again
  bool left_early_ = false;          // which happens once in a request
  bool another_kind_ = false;        // than the table's: the request's own steps alone judge it
  double smoothed_ = 0.0;            // yield of the active tuple's steps
  std::int64_t steps_ = 0;           // of the active tuple since it became active
  std::int64_t low_steps_ = 0;
  std::int64_t transitions_ = 0;
  bool settled_ = false;
};

}  // namespace versieve
