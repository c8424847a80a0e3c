// The largest logits of each row (kernels/top_logits): what a level of the draft continues with,
// and what a greedy target would have said.
#pragma once

#include <cstdint>

#include "model/words/evaluation.h"
#include "model/words/traffic.h"

namespace versieve {

struct Pass;      // model/launches/launch_parts.h
struct StepWork;  // model/launches/launch_work.h

namespace traffic {

Traffic top_logits(std::int64_t rows, std::int64_t vocab, std::int64_t k,
                   std::int64_t element_bytes);
// Each logit read, the perturbed one written in f32, before the largest are looked for in those
// (kernels/gumbel_top).
Traffic gumbel_noise(std::int64_t rows, std::int64_t vocab, std::int64_t element_bytes);
// Each logit read and perturbed, of which the largest of a row alone is kept: one launch.
Traffic gumbel_draw(std::int64_t rows, std::int64_t vocab, std::int64_t element_bytes);

}  // namespace traffic

void add_top_logits(const Pass& pass, std::int64_t vocab, std::int64_t k, Phase phase,
                    StepWork& out);
// The same of perturbed rows.
void add_gumbel_top(const Pass& pass, std::int64_t vocab, std::int64_t k, Phase phase,
                    StepWork& out);
// The largest of each row in one launch, whose rows nobody writes.
void add_gumbel_draw(const Pass& pass, std::int64_t vocab, Phase phase, StepWork& out);

}  // namespace versieve
