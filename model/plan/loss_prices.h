// What each choice of a plan costs in quality, out of measured rows. A schedule is priced by rows
// of that schedule, whatever is drafted; an approximate group by rows of its size, order and
// schedule, a chain that is tested by sigmoids and SpecAttn by rows of their settings: of the same
// draft, else of the nearest, which the price then names. ReSA is priced by rows of its settings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/words/loss_price.h"

namespace versieve {

// All of a strategy that changes what the target computes, in one form: its draft where losses
// depend on it.
Strategy lossy_part(const Strategy& strategy);

class LossPrices {
 public:
  LossPrices() = default;  // nothing was measured
  // `rows`: the oldest run's first; of each set and split the newest count. `own`: the pair that is
  // planned for, of no hash: a geometry. Rows of other pairs serve an attention of which there are
  // none of its own: those of the pair whose hash is `lender` before those of another, so that a
  // caller who may not borrow leaves them out. `layers`: of the target. `dense`: hash of the pair's
  // own dense model, or empty: what reads a dense cache is priced by it as by the pair itself.
  LossPrices(const std::vector<QualityPoint>& rows, const PairId& own, const std::string& lender,
             std::int64_t layers, const std::string& dense = {});

  LossPrice of(const Strategy& strategy) const;
  // Upper end of the 95 % interval of its KL, in nats a token; none: it was not measured.
  std::optional<double> most_kl_nats(const Strategy& strategy) const;

 private:
  // One choice as it was measured.
  struct Measured {
    Strategy choice;       // in the form that choice_of gives
    std::string strategy;  // that was run
    LossPrice price;
  };

  Strategy choice_of(const Strategy& strategy) const;
  const Measured* nearest(const Strategy& choice) const;  // null: there is none

  PairId own_;
  std::int64_t layers_ = 0;
  std::vector<Measured> measured_;
};

// What a plan knows and demands of losses.
struct LossTerms {
  LossPrices prices;
  // KL in nats a token that no entry's interval may exceed; none: no limit.
  std::optional<double> most_nats;
};

}  // namespace versieve
