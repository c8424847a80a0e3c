// How much of a context SpecAttn reads, by points that walked a pair along texts (sweep
// `selections`), in the place of the sweeps' synthetic weights.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/words/measurement.h"
#include "model/words/strategy.h"

namespace versieve::engine {

class MeasuredChoice {
 public:
  // Of these points those of SpecAttn that say how many runs of tokens were chosen.
  explicit MeasuredChoice(const std::vector<PointMeasurement>& points);

  bool empty() const { return chosen_.empty(); }
  // The mean share of the runs of points of the same p and chain, at the context nearest by its
  // logarithm; none: nobody measured them.
  std::optional<double> share(const Strategy& strategy, std::int64_t context_len) const;

 private:
  struct Chosen {
    double p = 0.0;
    std::int64_t levels = 1;
    std::int64_t context_len = 0;
    double share = 0.0;
  };
  std::vector<Chosen> chosen_;
};

// Tokens of so large a share of a context, in whole runs drawn by the seed, ascending.
std::vector<std::int32_t> tokens_of_share(double share, std::int64_t context_len,
                                          std::uint64_t seed);

}  // namespace versieve::engine
