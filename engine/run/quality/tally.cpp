#include "engine/run/quality/tally.h"

#include <algorithm>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kStretchTokens = 32;

double mean_of(const std::vector<Stretch>& stretches) {
  double sum = 0.0, tokens = 0.0;
  for (const Stretch& stretch : stretches) {
    sum += stretch.sum;
    tokens += stretch.tokens;
  }
  return sum / tokens;
}

}  // namespace

void QualityTally::add_stretch(std::span<const TokenScore> own, std::span<const TokenScore> exact) {
  VERSIEVE_ASSERT(!own.empty() && own.size() == exact.size(), "both scored the same tokens");
  const double tokens = static_cast<double>(own.size());
  Stretch divergence{.sum = 0.0, .tokens = tokens}, rise = divergence, agreement = divergence;
  for (std::size_t i = 0; i < own.size(); ++i) {
    divergence.sum += own[i].divergence;
    rise.sum += own[i].loss - exact[i].loss;
    agreement.sum += own[i].likeliest == exact[i].likeliest ? 1.0 : 0.0;
    loss_ += own[i].loss;
  }
  divergence_.push_back(divergence);
  rise_.push_back(rise);
  agreement_.push_back(agreement);
}

void QualityTally::add_text(std::span<const TokenScore> own, std::span<const TokenScore> exact) {
  for (std::size_t at = 0; at < own.size(); at += kStretchTokens) {
    const std::size_t count = std::min(kStretchTokens, own.size() - at);
    add_stretch(own.subspan(at, count), exact.subspan(at, count));
  }
}

void QualityTally::add_answer(bool right, bool exact_right) {
  ++answers_.questions;
  answers_.right += right ? 1 : 0;
  answers_.gained += right && !exact_right ? 1 : 0;
  answers_.lost += exact_right && !right ? 1 : 0;
}

LossyQualityRow QualityTally::row(const std::string& strategy) const {
  VERSIEVE_ASSERT(!empty(), "a row is of something");
  double tokens = 0.0;
  for (const Stretch& stretch : divergence_) {
    tokens += stretch.tokens;
  }
  LossyQualityRow row{.strategy = strategy,
                      .read_as = {},
                      .tokens = static_cast<std::int64_t>(tokens),
                      .divergence = mean_of(divergence_),
                      .loss = loss_ / tokens,
                      .rise = mean_of(rise_),
                      .agreement = mean_of(agreement_),
                      .divergence_interval = mean_interval(divergence_),
                      .rise_interval = mean_interval(rise_),
                      .agreement_interval = mean_interval(agreement_),
                      .answers = {}};
  if (answers_.questions > 0) {
    row.answers = answers_;
  }
  return row;
}

}  // namespace versieve::engine
