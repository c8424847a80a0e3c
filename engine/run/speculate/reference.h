// Which text a run is held to: autoregressive decoding by the same attention and schedule.
#pragma once

#include <span>

#include "engine/run/speculate/generate.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// Autoregressive decoding with the strategy's attention and schedule.
Strategy reference_of(const Strategy& strategy);

// Whether all tuples that verified a step, the first and those moved to, promise the text of the
// same plain decoding. `ranked`: what moves name; empty where there are none.
bool is_of_one_text(const Strategy& first, std::span<const GuardMove> moves,
                    std::span<const Strategy> ranked);

// How close the reference's choice was where a text left it: decoded once more, with gaps.
// `options`: the reference's.
template <class T>
void measure_gap(GenerateOptions options, Generator<T>& generator, Divergence& divergence) {
  options.max_new_tokens = divergence.index + 1;
  options.measures_gaps = true;
  const Generation measured = generator.run(options);
  if (static_cast<std::size_t>(divergence.index) < measured.gaps.size()) {
    divergence.logit_gap = measured.gaps[static_cast<std::size_t>(divergence.index)];
  }
}

}  // namespace versieve::engine
