#include "model/plan/loss_limit.h"

#include <algorithm>
#include <utility>

#include "model/words/assert.h"
#include "model/words/formatted.h"

namespace versieve {
namespace {

constexpr const char* kDearer = "may lose more than the limit of losses allows";
constexpr const char* kUnmeasured = "its loss was not measured, and there is a limit of losses";

std::int64_t tuples_of(const std::vector<ExclusionCount>& excluded, const std::string& reason) {
  const auto found = std::find_if(excluded.begin(), excluded.end(),
                                  [&](const auto& e) { return e.reason == reason; });
  return found == excluded.end() ? 0 : found->tuples;
}

}  // namespace

WithinLoss within_loss(const std::vector<Strategy>& tuples, const PlanOptions& options) {
  WithinLoss out{.kept = std::vector<bool>(tuples.size(), true), .excluded = {}};
  if (!options.loss.most_nats) {
    return out;
  }
  const Strategy autoregressive;
  const Strategy fixed = Strategy::parse(options.baseline);
  std::int64_t dearer = 0, unmeasured = 0;
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    const Strategy& tuple = tuples[i];
    const PrecisionClass precision = tuple.precision();
    if (precision == PrecisionClass::kStrict || tuple == autoregressive || tuple == fixed) {
      continue;
    }
    const std::optional<double> most = options.loss.prices.most_kl_nats(tuple);
    out.kept[i] = most && *most <= *options.loss.most_nats;
    const bool counts = !out.kept[i] && std::find(options.classes.begin(), options.classes.end(),
                                                  precision) != options.classes.end();
    dearer += counts && most ? 1 : 0;
    unmeasured += counts && !most ? 1 : 0;
  }
  add_excluded({{kDearer, dearer}, {kUnmeasured, unmeasured}}, out.excluded);
  return out;
}

std::vector<Strategy> kept_of(std::vector<Strategy> tuples, const WithinLoss& within) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    if (within.kept[i]) {
      std::swap(tuples[kept++], tuples[i]);
    }
  }
  tuples.resize(kept);
  return tuples;
}

void add_excluded(const std::vector<ExclusionCount>& more, std::vector<ExclusionCount>& excluded) {
  for (const ExclusionCount& one : more) {
    const auto known = std::find_if(excluded.begin(), excluded.end(),
                                    [&](const auto& e) { return e.reason == one.reason; });
    if (known != excluded.end()) {
      known->tuples += one.tuples;
    } else if (one.tuples > 0) {
      excluded.push_back(one);
    }
  }
}

Candidates candidates_within_loss(Candidates candidates, const PlanOptions& options) {
  VERSIEVE_ASSERT(candidates.strategies.size() == 1, "tuples are counted once, not by bucket");
  std::vector<Strategy>& all = candidates.strategies.front();
  const WithinLoss within = within_loss(all, options);
  all = kept_of(std::move(all), within);
  add_excluded(within.excluded, candidates.excluded);
  return candidates;
}

std::string loss_limit_text(const PlanTable& table) {
  if (!table.max_loss) {
    return {};
  }
  return formatted("At most %g nats a token", *table.max_loss) +
         " of KL are lost, by the upper end of the 95 % interval: left out are " +
         std::to_string(tuples_of(table.excluded, kDearer)) + " tuples that may lose more and " +
         std::to_string(tuples_of(table.excluded, kUnmeasured)) + " whose loss was not measured";
}

std::string losses_text(const PlanTable& table) {
  bool own = false, unmeasured = false;
  std::vector<std::string> lenders;
  for (const PlanEntry& e : table.entries) {
    own = own || e.price.from == PriceFrom::kOwn;
    unmeasured = unmeasured || !e.price.is_known();
    const std::string lender = text_of(e.price.pair);
    if (e.price.from == PriceFrom::kBorrowed &&
        std::find(lenders.begin(), lenders.end(), lender) == lenders.end()) {
      lenders.push_back(lender);
    }
  }
  std::string whose = own ? "own" : "";
  for (const std::string& lender : lenders) {
    whose += std::string(whose.empty() ? "" : " and ") + "borrowed from " + lender;
  }
  if (whose.empty()) {
    return unmeasured ? "losses not measured" : "";
  }
  return "losses " + whose + (unmeasured ? ", in part not measured" : "");
}

}  // namespace versieve
