// A machine from a catalogue key or from a JSON file of the same fields, for a card that the
// catalogue lacks or that nobody has built yet.
#pragma once

#include <string>

#include "model/words/hardware.h"

namespace versieve::engine {

// {"key": "...", "name": "...", "fields": {"sm_count": {"value": 132, "source": "...", "verified":
// true}, ...}}; "measured" has figures of the same form (model/words/hardware.h); "like":
// "h200-sxm" takes absent fields from that entry, and "unit" may say the field's unit. Numbers that
// no machine has, in whatever unit they were meant (model/words/hardware_limits.h), fields that
// contradict each other and figures that the machine cannot have are an error, and so is the key of
// a catalogue's machine for another one. Throws Error: 2 for an unknown key, 3 for a wrong file.
HardwareSpec load_hardware(const std::string& key_or_path);
std::string hardware_json(const HardwareSpec& spec);
// A machine that nobody has built: the same with another DRAM bandwidth, which its key and name
// say; nothing measured is taken for it. Throws Error(kUsage) for one that no machine has.
HardwareSpec with_bandwidth(HardwareSpec spec, double terabytes_per_s);

}  // namespace versieve::engine
