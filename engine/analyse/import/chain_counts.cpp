#include "engine/analyse/import/chain_counts.h"

#include <algorithm>
#include <cmath>

#include "engine/io/formatted.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// No more than a positional form misses anyway.
constexpr double kFewLost = 0.03;
constexpr double kTimedWhole = 0.97;
constexpr std::int64_t kMaxDrafts = 1'000'000'000'000'000;

std::int64_t positions_of(const ChainCounts& counts) {
  return static_cast<std::int64_t>(counts.accepted.size());
}

std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) {
    sum += count;
  }
  return sum;
}

void add_by_position(std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from) {
  to.resize(std::max(to.size(), from.size()));
  for (std::size_t p = 0; p < from.size(); ++p) {
    to[p] += from[p];
  }
}

void add_known(std::optional<std::int64_t>& to, const std::optional<std::int64_t>& from) {
  to = to && from ? std::optional(*to + *from) : std::nullopt;
}

// The counts of drafts, and sentences about them.
class Chains {
 public:
  Chains(const ChainCounts& counts, const std::string& source) : c_(counts), source_(source) {}

  // The counts are of one thing, and none rises with its position.
  void check() const {
    if (c_.drafts < 1) {
      refuse("counts no draft: nothing was speculated");
    }
    if (c_.drafts > kMaxDrafts) {
      refuse("counts " + std::to_string(c_.drafts) + " drafts, more than any server makes");
    }
    check_accepted();
    check_reached();
    const double slack = 1.0 + kTornRead;
    const double sum = static_cast<double>(sum_of(c_.accepted));
    const double accepted = static_cast<double>(c_.accepted_tokens.value_or(sum_of(c_.accepted)));
    if (accepted > slack * sum || slack * accepted < sum) {
      refuse("counts " + std::to_string(*c_.accepted_tokens) + " accepted tokens, but " +
             std::to_string(sum_of(c_.accepted)) + " over the positions");
    }
    const double most = static_cast<double>(c_.drafts) * static_cast<double>(positions_of(c_));
    if (static_cast<double>(c_.draft_tokens.value_or(0)) > slack * most) {
      refuse("counts more draft tokens than drafts times positions");
    }
    if (c_.draft_tokens && sum > slack * static_cast<double>(*c_.draft_tokens)) {
      refuse("counts " + std::to_string(sum_of(c_.accepted)) + " accepted tokens of " +
             std::to_string(*c_.draft_tokens) + " draft tokens");
    }
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::kBadInput, source_ + ": " + what);
  }

 private:
  void check_accepted() const {
    std::int64_t before = c_.drafts;
    for (std::int64_t p = 0; p < positions_of(c_); ++p) {
      const std::int64_t count = c_.accepted[static_cast<std::size_t>(p)];
      // A scrape reads one counter after the other while the server counts on.
      if (static_cast<double>(count) > (1.0 + kTornRead) * static_cast<double>(before)) {
        refuse("position " + std::to_string(p) + " was accepted " + std::to_string(count) +
               " times, more often than what comes before it (" + std::to_string(before) + ")");
      }
      before = count;
    }
  }
  void check_reached() const {
    std::int64_t before = c_.drafts;
    for (std::size_t p = 0; p < c_.reached.size(); ++p) {
      const std::int64_t count = c_.reached[p];
      const double slack = 1.0 + kTornRead;
      const std::int64_t accepted = p < c_.accepted.size() ? c_.accepted[p] : 0;
      if (static_cast<double>(count) > slack * static_cast<double>(before) ||
          static_cast<double>(accepted) > slack * static_cast<double>(count)) {
        refuse("position " + std::to_string(p) + " was drafted " + std::to_string(count) +
               " times, which neither the position before it nor its acceptance allows");
      }
      before = count;
    }
  }

  const ChainCounts& c_;
  const std::string& source_;
};

// [p]: share of the drafts that had position p; and what that rests on.
struct Lengths {
  enum class From { kWhole, kFewCut, kCounted, kTwoLengths, kUnknown };
  From from = From::kWhole;
  std::vector<double> share;
};

// The most that a step's mean may lack for drafts that were cut short, as a share of it: each token
// that they did not have would have been right no more often than the first one is.
double most_lost(const ChainCounts& c) {
  const double drafts = static_cast<double>(c.drafts);
  const double missing = static_cast<double>(positions_of(c)) -
                         static_cast<double>(c.draft_tokens.value_or(0)) / drafts;
  const double first = static_cast<double>(c.accepted.front()) / drafts;
  return missing * first / (1.0 + static_cast<double>(sum_of(c.accepted)) / drafts);
}

// Drafts of `low` tokens and of all of them, if the counts allow both: whoever had a position was
// not accepted there more often than always.
std::optional<std::vector<double>> two_lengths(const ChainCounts& c, std::int64_t low) {
  const double drafts = static_cast<double>(c.drafts);
  const double longer = (static_cast<double>(*c.draft_tokens) - drafts * static_cast<double>(low)) /
                        (drafts * static_cast<double>(positions_of(c) - low));
  const std::size_t at = static_cast<std::size_t>(low);
  const double needed = c.accepted[at - 1] == 0 ? 0.0
                                                : static_cast<double>(c.accepted[at]) /
                                                      static_cast<double>(c.accepted[at - 1]);
  if (!(longer > 0.0 && longer < 1.0) || needed > longer) {
    return {};
  }
  std::vector<double> share(c.accepted.size(), longer);
  std::fill(share.begin(), share.begin() + static_cast<std::ptrdiff_t>(low), 1.0);
  return share;
}

Lengths lengths_of(const ChainCounts& c) {
  if (is_whole(c)) {
    return {Lengths::From::kWhole, std::vector<double>(c.accepted.size(), 1.0)};
  }
  Lengths out{.from = Lengths::From::kUnknown};
  if (!c.reached.empty()) {
    for (const std::int64_t count : c.reached) {
      out.share.push_back(
          std::min(1.0, static_cast<double>(count) / static_cast<double>(c.drafts)));
    }
    out.share.resize(c.accepted.size());
    out.from = Lengths::From::kCounted;
    return out;
  }
  if (most_lost(c) <= kFewLost) {
    return {Lengths::From::kFewCut, std::vector<double>(c.accepted.size(), 1.0)};
  }
  int fitting = 0;
  for (std::int64_t low = 1; low < positions_of(c); ++low) {
    if (const std::optional<std::vector<double>> share = two_lengths(c, low)) {
      out.share = *share;
      fitting += 1;
    }
  }
  out.from = fitting == 1 ? Lengths::From::kTwoLengths : Lengths::From::kUnknown;
  return out;
}

// Probability that positions 0 to p are accepted in a draft that has them: the product of what each
// was among those that had it (the product-limit estimate of Kaplan and Meier).
std::vector<double> survival_of(const ChainCounts& c, const std::vector<double>& share) {
  std::vector<double> out;
  double all = 1.0;
  double before = static_cast<double>(c.drafts);
  double had = 1.0;
  for (std::size_t p = 0; p < c.accepted.size(); ++p) {
    const double count = static_cast<double>(c.accepted[p]);
    all *= before > 0.0 ? std::min(1.0, count * had / (before * share[p])) : 0.0;
    before = count;
    had = share[p];
    out.push_back(all);
  }
  return out;
}

// [a]: of `steps` steps those that emitted a tokens, the bonus counted.
std::vector<std::int64_t> histogram_of(const std::vector<double>& survival, std::int64_t steps) {
  std::vector<std::int64_t> histogram = {0};
  std::int64_t before = steps;
  for (const double probability : survival) {
    const std::int64_t count =
        std::min<std::int64_t>(before, std::llround(probability * static_cast<double>(steps)));
    histogram.push_back(before - count);
    before = count;
  }
  histogram.push_back(before);
  return histogram;
}

PointMeasurement chain_point(const Chains& chains, const ImportText& input,
                             std::int64_t context_len, std::vector<double> survival,
                             std::int64_t steps) {
  const std::int64_t positions = static_cast<std::int64_t>(survival.size());
  try {
    return imported_acceptance(imported_strategy(input.attention, {positions, 1, positions + 1}),
                               context_len, acceptance_of(histogram_of(survival, steps)));
  } catch (const Error& error) {
    chains.refuse(error.what());
  }
}

std::vector<double> shares_of(const std::vector<std::int64_t>& counts, std::int64_t drafts) {
  std::vector<double> out;
  for (const std::int64_t count : counts) {
    out.push_back(static_cast<double>(count) / static_cast<double>(drafts));
  }
  return out;
}

std::string mean_length(const ChainCounts& c) {
  const std::int64_t tokens = c.draft_tokens.value_or(sum_of(c.reached));
  return formatted("drafts were %.2f tokens long in the mean, not %lld",
                   static_cast<double>(tokens) / static_cast<double>(c.drafts),
                   static_cast<long long>(positions_of(c)));
}

std::string known_remark(const ChainCounts& c, const Lengths& lengths, std::size_t first_cut) {
  if (lengths.from == Lengths::From::kTwoLengths) {
    return mean_length(c) +
           formatted(
               ": the counts allow drafts of %zu and of %lld tokens, so positions from %zu on "
               "are estimated from the %.0f drafts that had them",
               first_cut, static_cast<long long>(positions_of(c)), first_cut + 1,
               lengths.share.back() * static_cast<double>(c.drafts));
  }
  return mean_length(c) +
         formatted(
             ": each position is estimated from the drafts that had it (%.0f of %lld had the "
             "last), as if what cut the others had not been doubt of their tokens",
             lengths.share.back() * static_cast<double>(c.drafts),
             static_cast<long long>(c.drafts));
}

// Positions that no draft had are not positions of this chain.
ChainCounts trimmed(ChainCounts c) {
  while (!c.reached.empty() && c.reached.size() >= c.accepted.size() && c.accepted.size() > 1 &&
         c.reached[c.accepted.size() - 1] == 0) {
    c.reached.resize(c.accepted.size() - 1);
    c.accepted.pop_back();
  }
  return c;
}

// Of every draft, as far as all of them go; and of those that go on to the end.
void add_known_points(const Chains& chains, const ChainCounts& c, const Lengths& lengths,
                      const ImportText& input, std::int64_t context_len, ImportedPoints& out) {
  const auto cut = std::find_if(lengths.share.begin(), lengths.share.end(),
                                [](double share) { return share < 1.0 - kTornRead; });
  const std::size_t whole = static_cast<std::size_t>(cut - lengths.share.begin());
  std::vector<double> survival = survival_of(c, lengths.share);
  const std::string remark = known_remark(c, lengths, whole);
  out.remarks.push_back(remark);
  if (whole > 0) {
    out.points.push_back(chain_point(
        chains, input, context_len,
        {survival.begin(), survival.begin() + static_cast<std::ptrdiff_t>(whole)}, c.drafts));
  }
  const std::int64_t steps =
      std::max<std::int64_t>(1, std::llround(lengths.share.back() * static_cast<double>(c.drafts)));
  out.points.push_back(chain_point(chains, input, context_len, std::move(survival), steps));
  out.points.back().reason = remark;
}

// The first token of a draft is known, since every draft has it; the whole is a lower bound.
void add_bounds(const Chains& chains, const ChainCounts& c, const ImportText& input,
                std::int64_t context_len, ImportedPoints& out) {
  const std::string remark = mean_length(c) +
                             ", and nothing counts how many had each position: deeper positions "
                             "than the first are a lower bound";
  out.remarks.push_back(remark);
  std::vector<double> survival = shares_of(c.accepted, c.drafts);
  if (positions_of(c) > 1) {
    out.points.push_back(chain_point(chains, input, context_len, {survival.front()}, c.drafts));
  }
  out.points.push_back(chain_point(chains, input, context_len, std::move(survival), c.drafts));
  out.points.back().reason = remark;
  out.points.back().reliability = Reliability::kAtLeast;
}

}  // namespace

void ChainCounts::add(const ChainCounts& other) {
  if (drafts == 0) {
    *this = other;
    return;
  }
  const bool both = !reached.empty() && !other.reached.empty();
  drafts += other.drafts;
  add_by_position(accepted, other.accepted);
  add_by_position(reached, other.reached);
  if (!both) {
    reached.clear();
  }
  add_known(draft_tokens, other.draft_tokens);
  add_known(accepted_tokens, other.accepted_tokens);
}

bool is_whole(const ChainCounts& c) {
  const double all = static_cast<double>(c.drafts) / (1.0 + kTornRead);
  if (!c.reached.empty()) {
    return c.reached.size() >= c.accepted.size() &&
           static_cast<double>(c.reached[c.accepted.size() - 1]) >= all;
  }
  return !c.draft_tokens ||
         static_cast<double>(*c.draft_tokens) >= all * static_cast<double>(c.accepted.size());
}

bool is_timed_whole(const ChainCounts& c) {
  return static_cast<double>(c.draft_tokens.value_or(c.drafts * positions_of(c))) >=
         kTimedWhole * static_cast<double>(c.drafts) * static_cast<double>(positions_of(c));
}

ImportedPoints chain_points(const ChainCounts& counts, const ImportText& input,
                            std::int64_t context_len, const std::string& source) {
  const ChainCounts c = trimmed(counts);
  const Chains chains(c, source);
  chains.check();
  ImportedPoints out;
  const Lengths lengths = lengths_of(c);
  switch (lengths.from) {
    case Lengths::From::kWhole:
      out.points = {
          chain_point(chains, input, context_len, shares_of(c.accepted, c.drafts), c.drafts)};
      break;
    case Lengths::From::kFewCut:
      out.points = {
          chain_point(chains, input, context_len, shares_of(c.accepted, c.drafts), c.drafts)};
      out.remarks = {mean_length(c) +
                     formatted(": some were cut short, which costs the length at most %.1f %%",
                               100.0 * most_lost(c))};
      out.points.back().reason = out.remarks.back();
      break;
    case Lengths::From::kCounted:
    case Lengths::From::kTwoLengths:
      add_known_points(chains, c, lengths, input, context_len, out);
      break;
    case Lengths::From::kUnknown:
      add_bounds(chains, c, input, context_len, out);
      break;
  }
  if (c.accepted.size() < counts.accepted.size()) {
    out.remarks.push_back("positions from " + std::to_string(c.accepted.size() + 1) +
                          " on were never drafted");
  }
  return out;
}

}  // namespace versieve::engine
