#include "model/plan/lossy_space.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "model/plan/loss_prices.h"
#include "model/plan/planner.h"
#include "model/plan/system_grid.h"
#include "model/words/assert.h"
#include "model/words/loss_price.h"

namespace versieve {
namespace {

constexpr DraftChoice kTree{.depth = 6, .width = 8, .nodes = 64};
constexpr DraftChoice kShortChain{.depth = 3, .width = 1, .nodes = 4};
constexpr DraftChoice kLongChain{.depth = 7, .width = 1, .nodes = 8};

// The choices of a list, each once, in its order.
class Choices {
 public:
  void add(const std::vector<Strategy>& strategies) {
    for (const Strategy& strategy : strategies) {
      if (strategy.precision() == PrecisionClass::kStrict) {
        continue;
      }
      const Strategy measured = measured_for(strategy);
      if (known_.insert(measured.text()).second) {
        list.push_back(measured);
      }
    }
  }

  std::vector<Strategy> list;

 private:
  std::set<std::string> known_;
};

bool is_grouped(const Strategy& strategy) {
  return strategy.precision() == PrecisionClass::kApproxOnly ||
         strategy.precision() == PrecisionClass::kApproxReuse;
}

}  // namespace

Strategy measured_for(const Strategy& strategy) {
  VERSIEVE_ASSERT(strategy.precision() != PrecisionClass::kStrict,
                  "what changes nothing has no price to measure");
  Strategy out = lossy_part(strategy);
  if (is_grouped(strategy)) {
    out.draft = kTree;
  } else if (loses_by_draft(strategy)) {
    const double middle = std::sqrt(static_cast<double>(kShortChain.depth * kLongChain.depth));
    out.draft = static_cast<double>(strategy.draft.depth) < middle ? kShortChain : kLongChain;
  }
  return out;
}

std::vector<Strategy> lossy_space(const LlmShape& target,
                                  const std::vector<std::string>& schedules) {
  std::vector<std::string> all = {"F*"};
  std::copy_if(schedules.begin(), schedules.end(), std::back_inserter(all),
               [](const std::string& schedule) { return schedule != "F*"; });
  std::vector<Strategy> own = enumerate_space(target, all);
  std::erase_if(own, [&](const Strategy& strategy) {
    return !not_planned_because(strategy, target, NsaForm::kFused).empty();
  });
  std::stable_sort(own.begin(), own.end(), [](const Strategy& a, const Strategy& b) {
    return a.precision() < b.precision();
  });
  Choices choices;
  choices.add(own);
  for (const PrecisionClass precision : {PrecisionClass::kApproxSampling, PrecisionClass::kSparse,
                                         PrecisionClass::kSparseRectified}) {
    choices.add(system_space(precision));
  }
  return choices.list;
}

}  // namespace versieve
