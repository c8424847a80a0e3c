#include "kernels/topk/cut.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kMaxCounts = 12;  // passes before the search gives way to radix

// The hinted keys, each index once.
template <class Key>
std::vector<Key> hinted_keys(std::span<const Key> keys, std::span<const std::int32_t> hint) {
  std::vector<Key> hinted;
  std::vector<bool> seen(keys.size(), false);
  for (const std::int32_t index : hint) {
    const std::size_t i = static_cast<std::size_t>(index);
    if (index < 0 || i >= keys.size() || seen[i]) {
      continue;
    }
    seen[i] = true;
    hinted.push_back(keys[i]);
  }
  return hinted;
}

// Keys in [low, high]; at_low scores have a key of at least `low`, past_high one above `high`.
// The k-th largest lies inside: past_high < k <= at_low.
template <class Key>
struct Bracket {
  Key low = 0;
  Key high = std::numeric_limits<Key>::max();
  std::int64_t at_low = 0;
  std::int64_t past_high = 0;
};

// Where the straight line through the bracket's two counts meets `target`, in (low, high].
template <class Key>
Key secant(const Bracket<Key>& b, std::int64_t target) {
  const double share = static_cast<double>(b.at_low - target) /
                       static_cast<double>(std::max<std::int64_t>(b.at_low - b.past_high, 1));
  const double width = static_cast<double>(b.high - b.low);
  const double step = std::floor(std::clamp(share, 0.0, 1.0) * width);
  if (step >= width) {
    return b.high;
  }
  return std::max<Key>(static_cast<Key>(b.low + static_cast<Key>(step)),
                       static_cast<Key>(b.low + 1));
}

// The first threshold: the smallest hinted key if the hint names k scores, for then k scores at
// least reach it; the middle between it and the mean otherwise.
template <class Key>
Key guess(const std::vector<Key>& hinted, std::int64_t k) {
  const Key least = *std::min_element(hinted.begin(), hinted.end());
  if (static_cast<std::int64_t>(hinted.size()) >= k) {
    return least;
  }
  double above = 0.0;
  for (const Key key : hinted) {
    above += static_cast<double>(key - least);
  }
  const double mean = above / static_cast<double>(hinted.size());
  return static_cast<Key>(least + static_cast<Key>(mean / 2.0));
}

// The exact end: the k-th among the scores that reach the threshold.
template <class Key>
TopkCut<Key> rank_candidates(std::span<const Key> keys, Key threshold, std::int64_t k) {
  std::vector<Key> candidates;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(candidates),
               [threshold](Key key) { return key >= threshold; });
  const auto kth = candidates.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(candidates.begin(), kth, candidates.end(), std::greater<>());
  const Key key = *kth;
  const std::int64_t above =
      std::count_if(candidates.begin(), candidates.end(), [key](Key other) { return other > key; });
  return {key, k - above};
}

}  // namespace

std::int64_t gvr_slack(std::int64_t k) {
  return std::max<std::int64_t>(k / 2, 32);
}

template <class Key>
TopkCut<Key> radix_cut(std::span<const Key> keys, std::int64_t k) {
  VERSIEVE_ASSERT(k >= 1 && k <= static_cast<std::int64_t>(keys.size()), "1 <= k <= scores");
  std::vector<Key> left(keys.begin(), keys.end());
  std::int64_t wanted = k;
  Key prefix = 0;
  for (int shift = static_cast<int>(sizeof(Key)) * 8 - kDigitBits; shift >= 0;
       shift -= kDigitBits) {
    const auto digit_of = [shift](Key key) {
      return static_cast<std::size_t>(key >> shift) % kDigits;
    };
    std::array<std::int64_t, kDigits> count{};
    for (const Key key : left) {
      ++count[digit_of(key)];
    }
    std::size_t digit = kDigits - 1;
    while (count[digit] < wanted) {
      wanted -= count[digit--];
    }
    std::erase_if(left, [&](Key key) { return digit_of(key) != digit; });
    prefix = static_cast<Key>(prefix | static_cast<Key>(static_cast<Key>(digit) << shift));
  }
  return {prefix, wanted};
}

template <class Key>
TopkCut<Key> gvr_cut(std::span<const Key> keys, std::int64_t k, std::span<const std::int32_t> hint,
                     GvrTrace* trace) {
  VERSIEVE_ASSERT(k >= 1 && k <= static_cast<std::int64_t>(keys.size()), "1 <= k <= scores");
  GvrTrace unused;
  GvrTrace& t = trace != nullptr ? *trace : unused;
  t = {};
  const std::vector<Key> hinted = hinted_keys(keys, hint);
  t.hints = static_cast<std::int64_t>(hinted.size());
  const std::int64_t most = k + gvr_slack(k);
  Bracket<Key> b{.at_low = static_cast<std::int64_t>(keys.size())};
  if (b.at_low <= most) {
    return rank_candidates(keys, b.low, k);  // the whole row is few enough
  }
  Key threshold = hinted.empty() ? Key{0} : guess(hinted, k);
  while (!hinted.empty() && t.counts < kMaxCounts) {
    ++t.counts;
    const std::int64_t count =
        std::count_if(keys.begin(), keys.end(), [&](Key key) { return key >= threshold; });
    if (count >= k && count <= most) {
      return rank_candidates(keys, threshold, k);
    }
    if (count > most) {
      b.low = threshold;
      b.at_low = count;
    } else {
      b.high = static_cast<Key>(threshold - 1);  // threshold > 0, for all scores reach 0
      b.past_high = count;
    }
    if (b.low >= b.high) {
      break;  // a plateau wider than the slack
    }
    threshold = secant(b, k + gvr_slack(k) / 2);
  }
  t.finished_by_radix = true;
  return radix_cut(keys, k);
}

template TopkCut<std::uint16_t> radix_cut(std::span<const std::uint16_t>, std::int64_t);
template TopkCut<std::uint32_t> radix_cut(std::span<const std::uint32_t>, std::int64_t);
template TopkCut<std::uint64_t> radix_cut(std::span<const std::uint64_t>, std::int64_t);
template TopkCut<std::uint16_t> gvr_cut(std::span<const std::uint16_t>, std::int64_t,
                                        std::span<const std::int32_t>, GvrTrace*);
template TopkCut<std::uint32_t> gvr_cut(std::span<const std::uint32_t>, std::int64_t,
                                        std::span<const std::int32_t>, GvrTrace*);
template TopkCut<std::uint64_t> gvr_cut(std::span<const std::uint64_t>, std::int64_t,
                                        std::span<const std::int32_t>, GvrTrace*);

}  // namespace versieve::kernels
