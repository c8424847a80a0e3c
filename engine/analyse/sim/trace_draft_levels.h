// draft_levels: all levels of a draft tree in one launch (kernels/draft_levels), CTAs by what they
// do (model/launches/draft_levels.h).
#pragma once

#include "engine/analyse/sim/draft_sequence.h"

namespace versieve::engine {

void append_draft_levels(const DraftCase& draft, AddressSpace& space, LaunchSequence& out);

}  // namespace versieve::engine
