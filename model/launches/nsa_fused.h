// The fused form of NSA verification (kernels/nsa_verify): nsa_route and nsa_attend of a refresh
// layer, nsa_reuse of a reuse layer. Flops are those that the tensor cores execute, rows that a
// mask or a tile throws away included. How a launch is cut: model/launches/fused_cut.h; which
// thread blocks run several parts: model/launches/fused_parts.h.
#pragma once

#include "model/launches/fused_cut.h"
#include "model/launches/fused_parts.h"
#include "model/launches/launch_work.h"
#include "model/launches/nsa_shape.h"

namespace versieve {
namespace traffic {

// What the fused form cuts.
FusedCall fused_call(const NsaVerifyShape& shape);
// How the fused form cuts its work; what a CTA or a segment takes depends on positions and ranks
// alone, never on the number of queries.
// Partials of a row over its selected blocks, and over its window.
inline constexpr double kSelectedSegments = kFusedSelectedSegments;
inline constexpr double kWindowSegments = kFusedWindowSegments;
// Spans of compressed tokens that are reduced at once: 128 tokens up to 1,024, 256 from there on.
double nsa_route_spans(std::int64_t compressed);
// Partials of a row over its compressed tokens in nsa_route, or in nsa_reuse beside `segments`
// others: one a span; where spans and segments would not be on the chip (an H200) all at once, CTAs
// add up those of 512 tokens and leave one (model/launches/fused_parts.h).
double nsa_compressed_parts(const NsaVerifyShape& shape, double segments);
// Queries that share one load of the window's keys.
double nsa_window_sharers(const NsaVerifyShape& shape);

Traffic nsa_route(const NsaVerifyShape& shape);
Traffic nsa_attend(const NsaVerifyShape& shape);
Traffic nsa_reuse(const NsaVerifyShape& shape);

}  // namespace traffic

// The launches of `layers` layers, and how the planner of the kernels sees the parts of one of them
// (nsa_route, nsa_attend or nsa_reuse).
void add_nsa_fused(const traffic::NsaVerifyShape& shape, bool reuse, double layers, StepWork& out);
FusedGroup fused_group(const traffic::NsaVerifyShape& shape, LaunchKind kind);

}  // namespace versieve
