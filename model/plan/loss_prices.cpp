#include "model/plan/loss_prices.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace versieve {
namespace {

using Rows = std::vector<const QualityPoint*>;

constexpr const char* kAllTexts = "texts: all";
constexpr const char* kTexts = "texts: ";

bool is_exact(const Strategy& strategy) {
  return strategy.precision() == PrecisionClass::kStrict;
}

double log_distance(const DraftChoice& a, const DraftChoice& b) {
  const auto part = [](std::int64_t x, std::int64_t y) {
    return std::fabs(std::log(static_cast<double>(std::max<std::int64_t>(1, x)) /
                              static_cast<double>(std::max<std::int64_t>(1, y))));
  };
  return part(a.nodes, b.nodes) + part(a.width, b.width) + part(a.depth, b.depth);
}

// Held-out text before what is not said, that before what a schedule was chosen on.
int rank_of(const std::string& split) {
  return split == "test" ? 0 : split.empty() ? 1 : split == "calibration" ? 3 : 2;
}

// The newest of each set, of the split that tells most.
Rows newest(const Rows& rows) {
  std::map<std::pair<std::string, std::string>, const QualityPoint*> by_set;
  std::string split = rows.front()->split;
  for (const QualityPoint* row : rows) {
    by_set[{row->set, row->split}] = row;
    split = rank_of(row->split) < rank_of(split) ? row->split : split;
  }
  Rows out;
  for (const auto& [key, row] : by_set) {
    if (key.second == split) {
      out.push_back(row);
    }
  }
  return out;
}

// All texts in one row, else the sets of texts, else the questions' true answers.
Rows headline(const Rows& rows) {
  Rows texts;
  for (const QualityPoint* row : rows) {
    if (row->set == kAllTexts) {
      return {row};
    }
    if (row->set.starts_with(kTexts)) {
      texts.push_back(row);
    }
  }
  return texts.empty() ? rows : texts;
}

// By tokens; the sets' errors are independent.
Estimate95 pooled(const Rows& rows, Estimate95 QualityPoint::*part) {
  double tokens = 0.0;
  for (const QualityPoint* row : rows) {
    tokens += static_cast<double>(row->tokens);
  }
  double below = 0.0, above = 0.0;
  Estimate95 out;
  for (const QualityPoint* row : rows) {
    const Estimate95& one = row->*part;
    const double weight = static_cast<double>(row->tokens) / tokens;
    out.value += weight * one.value;
    below = std::hypot(below, weight * (one.value - one.low));
    above = std::hypot(above, weight * (one.high - one.value));
  }
  out.low = out.value - below;
  out.high = out.value + above;
  return rows.size() == 1 ? rows.front()->*part : out;
}

LossPrice price_of_rows(const Rows& all, bool is_own) {
  const Rows rows = newest(all);
  const Rows counted = headline(rows);
  LossPrice out{.from = is_own ? PriceFrom::kOwn : PriceFrom::kBorrowed,
                .pair = rows.front()->pair,
                .split = rows.front()->split,
                .kl_nats = pooled(counted, &QualityPoint::kl_nats),
                .rise_nats = pooled(counted, &QualityPoint::rise_nats),
                .same_token = pooled(counted, &QualityPoint::same_token)};
  for (const QualityPoint* row : counted) {
    out.sets += (out.sets.empty() ? "" : " + ") + row->set;
    out.tokens += row->tokens;
  }
  for (const QualityPoint* row : rows) {
    if (row->answers) {
      out.tasks.push_back({row->set, *row->answers});
    }
  }
  return out;
}

// Hashes of the pair that is planned for and of its dense model; empty where there is none.
struct OwnPairs {
  std::string sparse, dense;

  const std::string& of(AttentionMethod attention) const {
    return attention == AttentionMethod::kNsa || dense.empty() ? sparse : dense;
  }
};

// Of each attention the one pair whose rows price it.
std::map<AttentionMethod, std::string> chosen_pairs(
    const std::vector<std::pair<Strategy, const QualityPoint*>>& rows, const OwnPairs& own_pairs,
    const std::string& lender) {
  std::map<AttentionMethod, std::map<std::string, std::int64_t>> tokens;
  for (const auto& [choice, row] : rows) {
    tokens[choice.attention][row->pair.sha256] += row->tokens;
  }
  std::map<AttentionMethod, std::string> out;
  for (const auto& [attention, pairs] : tokens) {
    const std::string& own = own_pairs.of(attention);
    const auto most =
        std::max_element(pairs.begin(), pairs.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    out[attention] = pairs.contains(own) && !own.empty() ? own
                     : pairs.contains(lender)            ? lender
                                                         : most->first;
  }
  return out;
}

}  // namespace

Strategy lossy_part(const Strategy& s) {
  Strategy out;
  out.attention = s.attention;
  if (s.attention == AttentionMethod::kResa) {
    out.resa_key_block = s.resa_key_block;
    out.resa_active_ratio = s.resa_active_ratio;
    out.resa_rectify_every = s.resa_rectify_every;
    out.resa_n_min = s.resa_n_min;
    out.resa_n_local = s.resa_n_local;
  }
  if (s.attention == AttentionMethod::kSpecAttn) {
    out.specattn_p = s.specattn_p;
  }
  if (s.attention == AttentionMethod::kIndexer) {
    out.indexer_k = s.indexer_k;
    out.indexer_window = s.indexer_window;
  }
  if (s.group_size > 1 && s.group_mode == GroupMode::kApprox) {
    out.group_size = s.group_size;
    out.group_mode = s.group_mode;
    out.order = s.order;
  }
  if (s.sampling == SamplingAlgorithm::kSigmoid) {
    out.sampling = s.sampling;
  }
  if (loses_by_draft(s)) {
    out.draft = s.draft;
  }
  out.schedule = s.schedule;
  return out;
}

LossPrices::LossPrices(const std::vector<QualityPoint>& rows, const PairId& own,
                       const std::string& lender, std::int64_t layers, const std::string& dense)
    : own_(own), layers_(layers) {
  std::vector<std::pair<Strategy, const QualityPoint*>> lossy;
  for (const QualityPoint& row : rows) {
    const Strategy strategy = Strategy::parse(row.strategy);
    if (row.distance.empty() && row.tokens > 0 && !is_exact(strategy)) {
      lossy.push_back({choice_of(strategy), &row});
    }
  }
  const OwnPairs own_pairs{own.sha256, dense};
  const std::map<AttentionMethod, std::string> pairs = chosen_pairs(lossy, own_pairs, lender);
  std::vector<std::pair<Strategy, Rows>> choices;
  for (const auto& [choice, row] : lossy) {
    if (row->pair.sha256 != pairs.at(choice.attention)) {
      continue;
    }
    const auto known = std::find_if(choices.begin(), choices.end(),
                                    [&](const auto& other) { return other.first == choice; });
    (known == choices.end() ? choices.emplace_back(choice, Rows{}) : *known).second.push_back(row);
  }
  for (const auto& [choice, of_choice] : choices) {
    const std::string& mine = own_pairs.of(choice.attention);
    const bool is_own = !mine.empty() && of_choice.front()->pair.sha256 == mine;
    measured_.push_back({choice, of_choice.back()->strategy, price_of_rows(of_choice, is_own)});
  }
}

// A pattern and its letters are one schedule of this target.
Strategy LossPrices::choice_of(const Strategy& strategy) const {
  Strategy out = lossy_part(strategy);
  if (out.schedule.ends_with("*")) {
    out.schedule = out.schedule_for(layers_);
  }
  return out;
}

const LossPrices::Measured* LossPrices::nearest(const Strategy& choice) const {
  const Measured* best = nullptr;
  Strategy like = choice;
  for (const Measured& m : measured_) {
    like.draft = m.choice.draft;
    const double distance = log_distance(m.choice.draft, choice.draft);
    if (m.choice == like &&
        (best == nullptr || distance < log_distance(best->choice.draft, choice.draft))) {
      best = &m;
    }
  }
  return best;
}

LossPrice LossPrices::of(const Strategy& strategy) const {
  if (is_exact(strategy)) {
    return price_by_construction();
  }
  const Strategy choice = choice_of(strategy);
  if (const Measured* measured = nearest(choice)) {
    LossPrice out = measured->price;
    out.price_of = measured->choice.draft == choice.draft ? std::string() : measured->strategy;
    return out;
  }
  LossPrice out;
  out.unmeasured_because = "what " + lossy_part(strategy).text() + " loses was not measured of " +
                           (own_.name.empty() ? "any pair" : text_of(own_));
  return out;
}

std::optional<double> LossPrices::most_kl_nats(const Strategy& strategy) const {
  if (is_exact(strategy)) {
    return 0.0;
  }
  const Measured* measured = nearest(choice_of(strategy));
  return measured == nullptr ? std::nullopt : std::optional<double>(measured->price.kl_nats.high);
}

}  // namespace versieve
