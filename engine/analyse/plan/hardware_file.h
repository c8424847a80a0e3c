// A machine from a catalogue key or from a JSON file of the same fields, for a card that the
// catalogue lacks or that nobody has built yet.
#pragma once

#include <string>

#include "model/words/hardware.h"

namespace versieve::engine {

// {"key": "...", "name": "...", "fields": {"sm_count": {"value": 132, "source": "...", "verified":
// true}, ...}}; "measured" has figures of the same form (model/words/hardware.h); "like":
// "h200-sxm" takes absent fields from that entry. Fields that contradict each other, and figures
// that the machine cannot have, are an error. Throws Error: 2 for an unknown key, 3 for a file that
// says too little.
HardwareSpec load_hardware(const std::string& key_or_path);
std::string hardware_json(const HardwareSpec& spec);

}  // namespace versieve::engine
