// From a checkpoint on disk (engine/io) to a target and a draft on the device.
#pragma once

#include "engine/io/checkpoint.h"
#include "engine/run/model/compute_device.h"
#include "engine/run/model/draft.h"
#include "engine/run/model/target.h"

namespace versieve::engine {

// The number format of a checkpoint where none is asked for: on a GPU bf16 for BF16 and F16
// weights, which costs the latter bits (`remark` says so, else it is empty); f32 for others, on a
// CPU always.
struct UsualDtype {
  Dtype dtype = Dtype::kF32;
  std::string remark;
};
UsualDtype usual_dtype(Backend backend, const WeightTable& weights);
// Of random weights, which are as bf16 holds them.
inline Dtype usual_dtype_of_random(Backend backend) {
  return backend == Backend::kCuda ? Dtype::kBf16 : Dtype::kF32;
}

// `draft`: the draft that will read the target's streams, or null.
template <class T>
Target<T> make_target(kernels::Ops<T>& ops, const Checkpoint& checkpoint,
                      const DraftCheckpoint* draft);
// The same of another form of its geometry: with dense attention for a sparse checkpoint, whose
// gates and compression are then left out.
template <class T>
Target<T> make_target(kernels::Ops<T>& ops, const Checkpoint& checkpoint, const LlmShape& shape,
                      const DraftCheckpoint* draft);
// `target` outlives the draft.
template <class T>
Draft<T> make_draft(kernels::Ops<T>& ops, const DraftCheckpoint& checkpoint,
                    const Target<T>& target);

}  // namespace versieve::engine
