#include "kernels/cpu.h"

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/common/parallel_for.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// What lies at `least` or above. With least = 0 it is the row's whole sum, term by term the same.
template <class S>
double mass_from(std::span<const S> row, S least) {
  double mass = 0.0;
  for (const S weight : row) {
    mass += weight >= least ? static_cast<double>(weight) : 0.0;
  }
  return mass;
}

// The threshold after exactly `iterations` halvings, on the side whose mass is never too small.
template <class S>
S threshold(std::span<const S> row, double share, std::int64_t iterations) {
  S low = 0;
  S high = row.empty() ? S{0} : *std::max_element(row.begin(), row.end());
  const double wanted = share * mass_from(row, S{0});
  for (std::int64_t i = 0; i < iterations; ++i) {
    const S mid = low / 2 + high / 2;  // low + high could overflow
    if (mid == low) {
      break;  // no halving changes anything any more
    }
    (mass_from(row, mid) < wanted ? high : low) = mid;
  }
  return low;
}

// One list's mask and masses. REQUIRES: p.length is L itself.
template <class S>
void choose(const TopPParams<S>& p, int threads) {
  std::vector<S> least(static_cast<std::size_t>(p.rows));
  const auto row_at = [&](std::int64_t r) {
    return std::span<const S>(p.weights + r * p.row_stride, static_cast<std::size_t>(p.length));
  };
  parallel_for(p.rows, threads, [&](std::int64_t r) {
    least[static_cast<std::size_t>(r)] = threshold(row_at(r), p.p, p.iterations);
    p.mass[r] = static_cast<S>(mass_from(row_at(r), least[static_cast<std::size_t>(r)]));
  });
  for (std::int64_t token = 0; token < p.length; ++token) {
    p.mask[token] = 0;
    for (std::int64_t r = 0; r < p.rows; ++r) {
      p.mask[token] |=
          row_at(r)[static_cast<std::size_t>(token)] >= least[static_cast<std::size_t>(r)];
    }
  }
}

}  // namespace

template <class S>
void top_p_cpu(const TopPParams<S>& p, int threads) {
  VERSIEVE_ASSERT(p.p > 0.0 && p.p <= 1.0 && p.iterations >= 0, "a share and a count");
  TopPParams<S> own = p;
  own.row_stride = p.stride();
  own.length = p.counts == nullptr ? p.length : p.counts->context_len;
  VERSIEVE_ASSERT(own.length <= p.length, "a length on the device is below its bound");
  for (std::int64_t list = 0; list < p.lists; ++list) {
    own.weights = p.weights + list * p.between_lists();
    own.mask = p.mask + list * p.between_masks();
    own.mass = p.mass + list * p.rows;
    choose(own, threads);
  }
}

template void top_p_cpu<double>(const TopPParams<double>&, int);
template void top_p_cpu<float>(const TopPParams<float>&, int);

}  // namespace versieve::kernels
