// Steps that were recorded beside those that the host leads: the same text.
#pragma once

#include <catch2/catch.hpp>

#include "engine/run/speculate/generate.h"

namespace versieve::engine::tiny {

struct LedAndRecorded {
  Generation led, recorded;
};

// From the generator's prompt on, as the options say but how steps run.
template <class T>
LedAndRecorded led_and_recorded(Generator<T>& generator, GenerateOptions options) {
  options.records_steps = false;
  LedAndRecorded out{.led = generator.run(options), .recorded = {}};
  options.records_steps = true;
  out.recorded = generator.run(options);
  CHECK(out.recorded.recorded);
  CHECK(out.recorded.tokens == out.led.tokens);
  return out;
}

}  // namespace versieve::engine::tiny
