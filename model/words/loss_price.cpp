#include "model/words/loss_price.h"

#include "model/words/assert.h"
#include "model/words/formatted.h"

namespace versieve {
namespace {

// Two digits, and none below what a text of some thousand tokens tells.
std::string nats_text(double nats) {
  constexpr double kLeast = 1e-4;
  return nats < kLeast ? "under 0.0001" : formatted(nats < 0.0995 ? "%.2g" : "%.2f", nats);
}

// No share but the whole reads 100.
std::string share_text(double share) {
  const double percent = 100.0 * share;
  return share < 1.0 && percent > 98.95
             ? (percent < 99.95 ? formatted("%.1f", percent) : "over 99.9")
             : formatted("%.0f", percent);
}

}  // namespace

const char* name_of(PriceFrom from) {
  switch (from) {
    case PriceFrom::kConstruction:
      return "construction";
    case PriceFrom::kOwn:
      return "own";
    case PriceFrom::kBorrowed:
      return "borrowed";
    case PriceFrom::kUnmeasured:
      return "not measured";
  }
  VERSIEVE_ASSERT(false, "every price has an origin");
}

LossPrice price_by_construction() {
  return {.from = PriceFrom::kConstruction};
}

std::string short_text(const LossPrice& price) {
  if (price.from == PriceFrom::kConstruction) {
    return "exact";
  }
  if (!price.is_known()) {
    return name_of(PriceFrom::kUnmeasured);
  }
  std::string of = price.from == PriceFrom::kBorrowed ? "of " + price.pair.name : "";
  for (const std::string& part :
       {price.price_of.empty() ? "" : "at " + price.price_of,
        std::string(price.split == "calibration" ? "of the calibration split" : "")}) {
    of += (of.empty() || part.empty() ? "" : ", ") + part;
  }
  return "KL " + nats_text(price.kl_nats.value) + " nats, " + share_text(price.same_token.value) +
         " % same" + (of.empty() ? "" : " (" + of + ")");
}

bool loses_by_draft(const Strategy& strategy) {
  const bool shares_blocks = strategy.group_size > 1 && strategy.group_mode == GroupMode::kApprox;
  // A tree's nodes all read what an indexer chose for its root.
  const bool shares_choice =
      strategy.attention == AttentionMethod::kIndexer && strategy.draft.speculates();
  return shares_blocks || shares_choice || strategy.attention == AttentionMethod::kSpecAttn ||
         strategy.sampling == SamplingAlgorithm::kSigmoid;
}

}  // namespace versieve
