// From a checkpoint on disk (engine/io) to a target and a draft on the device.
#pragma once

#include "engine/io/checkpoint.h"
#include "engine/run/model/draft.h"
#include "engine/run/model/target.h"

namespace versieve::engine {

// `draft`: the draft that will read the target's streams, or null.
template <class T>
Target<T> make_target(kernels::Ops<T>& ops, const Checkpoint& checkpoint,
                      const DraftCheckpoint* draft);
// `target` outlives the draft.
template <class T>
Draft<T> make_draft(kernels::Ops<T>& ops, const DraftCheckpoint& checkpoint,
                    const Target<T>& target);

}  // namespace versieve::engine
