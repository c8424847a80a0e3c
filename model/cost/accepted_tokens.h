// Tokens a step of many strategies in one range of contexts: what depends on their draft alone is
// worked out once. acceptance.h's accepted_tokens asks for one of them.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "model/cost/acceptance.h"

namespace versieve {

// One context range without any evidence of its own borrows the nearest one's; none of a model
// without evidence.
const AcceptanceModel::Positional* nearest_range(const AcceptanceModel& model, std::int64_t low,
                                                 std::int64_t high);

inline Traversal other(Traversal order) {
  return order == Traversal::kBfs ? Traversal::kDfs : Traversal::kBfs;
}

class TokensInRange {
 public:
  // Keeps a reference to the model.
  TokensInRange(const AcceptanceModel& model, std::int64_t context_low, std::int64_t context_high)
      : model_(model),
        low_(context_low),
        high_(context_high),
        range_(nearest_range(model, context_low, context_high)) {}

  AcceptedTokens of(const Strategy& strategy);

 private:
  // Of a draft with all layers refreshing and no sharing, as evidence for what shares or reuses.
  struct OfDraft {
    AcceptedTokens plain;
    double per_rate = 0.0;  // log_tokens_per_rate, where texts differ
  };
  const OfDraft& of_draft(const DraftChoice& draft);
  AcceptedTokens plain_tokens(const DraftChoice& draft) const;
  bool measured_mean(const DraftChoice& draft, Traversal order, const std::string& schedule,
                     std::int64_t group, AcceptedTokens& out) const;
  bool measured_in(Traversal order, const Strategy& strategy, AcceptedTokens& out);
  AcceptedTokens mean_tokens(const Strategy& strategy);
  void add_texts(const DraftChoice& draft, AcceptedTokens& out);

  const AcceptanceModel& model_;
  std::int64_t low_, high_;
  const AcceptanceModel::Positional* range_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, OfDraft> drafts_;
};

}  // namespace versieve
