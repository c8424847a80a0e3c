// Rows that pass through once: norms, what a forward begins with (kernels/rms_norm, kernels/embed),
// copies (kernels/copy_rows) and elementwise arithmetic (kernels/swiglu).
#pragma once

#include <cstdint>

#include "model/words/traffic.h"

namespace versieve {

struct Pass;      // model/launches/launch_parts.h
struct StepWork;  // model/launches/launch_work.h

namespace traffic {

Traffic rms_norm(std::int64_t n, std::int64_t k, std::int64_t element_bytes);
// Rows that rms_norm also writes as they are.
Traffic kept_rows(std::int64_t n, std::int64_t k, std::int64_t element_bytes);
// `inputs` tensors of `count` elements in, one out.
Traffic elementwise(std::int64_t count, std::int64_t inputs, std::int64_t element_bytes,
                    double flops_per_element);
Traffic copy_rows(std::int64_t rows, std::int64_t width, std::int64_t element_bytes,
                  TrafficTerm term);

}  // namespace traffic

// What a forward begins with (kernels/embed): `halves` rows a node gathered and normed, or weighted
// for the layer that divides, one of them kept as it is too if `keeps`; the nodes' rotary angles.
void add_embed(const Pass& pass, std::int64_t halves, std::int64_t width, bool keeps,
               std::int64_t head_dim, StepWork& out);
void add_copy(const Pass& pass, double times, std::int64_t width, TrafficTerm term, StepWork& out);

}  // namespace versieve
