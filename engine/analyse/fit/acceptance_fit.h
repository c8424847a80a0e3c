// What a pair's points say about accepted tokens a step: means of measured tuples by context, and a
// positional model a context range for the tuples that were not measured.
#pragma once

#include <string>
#include <vector>

#include "model/cost/acceptance.h"
#include "model/words/measurement.h"

namespace versieve::engine {

// Of the measured pair with most points at that temperature; imported ones do not count. Empty when
// there are no such points.
AcceptanceModel fit_acceptance(const std::vector<PointMeasurement>& measured,
                               double temperature = 0.0);

// Of the pair of that name, a measured one before an imported one, or of that hash (eight digits of
// it or more). What an imported pair's few
// tuples leave open comes from `lender`, as far as pairs are alike, and the intervals say so.
// Throws Error(kAnswerNo) naming the pairs that exist, or when the pair has no tuple that refreshes
// in all layers; Error(kUsage) where measured pairs of other weights share the name.
AcceptanceModel fit_acceptance_of(const std::vector<PointMeasurement>& measured,
                                  const std::string& pair, const AcceptanceModel& lender,
                                  double temperature = 0.0);

// The draft's best child is right with probability `rate` at every depth (Leviathan et al. 2023,
// alpha); its other children help as the measured pairs' do (sibling_law.h), overlap is the
// lender's. The intervals of rate and fall are assumptions like the rate, and its note says so.
// Throws Error(kUsage) unless 0 <= rate <= 1.
AcceptanceModel assumed_acceptance(double rate, const AcceptanceModel& lender);
// That neighbours' selected blocks have that share in common, in whatever order, in the place of
// what a pair's texts showed. Throws Error(kUsage) unless it lies within 0 and 1.
void assume_overlap(double overlap, AcceptanceModel& model);

}  // namespace versieve::engine
