// Which numbers no machine has, and the unit in which a number was likely written when it is none
// of the field's: 62914560 is no L2 in MiB, but 60 MiB in bytes.
#pragma once

#include <string>
#include <string_view>

#include "model/words/hardware.h"

namespace versieve {

struct HardwareLimits {
  double low, high;    // both may be
  bool whole = false;  // a count
};
// Wide enough for any GPU of the last ten years, a slice of one, and a what-if of twice the
// largest.
HardwareLimits limits_of(HardwareField field);

// One sentence that begins with the field's name, or empty: "l2: 62914560 MiB cannot be (0.25 to
// 1000); were 60 MiB meant, written in bytes?"
std::string implausible_because(HardwareField field, double value);
// Of the first field of a machine that has one; empty if none has.
std::string implausible_field(const HardwareSpec& spec);
// The same for a unit that a file names and that is not the field's; empty for the right one.
std::string wrong_unit_because(HardwareField field, double value, std::string_view unit);

// "; were 60 MiB meant, written in bytes?" if `value`, read in another unit of the same dimension,
// lies from `low` to `high`; else empty. Of several the one nearest `usual`, by ratio.
std::string meant_instead(std::string_view unit, double value, double low, double high,
                          double usual);

}  // namespace versieve
