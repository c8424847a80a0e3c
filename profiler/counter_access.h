// May this process read the GPU's performance counters? Probed once, answered with a state for the
// database and a sentence for people. A missing driver is an answer, never a crash.
#pragma once

#include <string>

#include "model/words/point_words.h"

namespace versieve::profiler {

using versieve::CounterState;

struct CounterAccess {
  CounterState state = CounterState::kOff;
  int code = 0;  // CUPTI's result, 0 if none was had
  std::string sentence = "Hardware counters were not asked for.";

  bool ok() const { return state == CounterState::kOk; }
};

// The status of a counter that this state kept from being collected: denied, unsupported or off.
CounterStatus counter_status(CounterState state);

// What a CUPTI result means for the user. `chip` names the GPU where the sentence wants it.
CounterAccess counter_access_for(int cupti_result, const std::string& chip);

// Tries a whole collection of one metric over one empty range on the current device.
CounterAccess probe_counter_access();

}  // namespace versieve::profiler
