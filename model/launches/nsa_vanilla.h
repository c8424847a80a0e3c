// The vanilla form of NSA verification (kernels/nsa_verify): five launches a layer, branch outputs
// in memory, as float (Sparse Speculative Verification, section 3).
#pragma once

#include "model/launches/launch_work.h"
#include "model/launches/nsa_shape.h"

namespace versieve {

namespace traffic {

Traffic nsa_compressed(const NsaVerifyShape& shape);
Traffic nsa_select(const NsaVerifyShape& shape);
// In the place of nsa_select with topk() between them: rows of importance to rank, and -1 where
// there are fewer blocks than wanted.
Traffic nsa_weigh(const NsaVerifyShape& shape);
Traffic nsa_trim(const NsaVerifyShape& shape);
Traffic nsa_selected(const NsaVerifyShape& shape);
Traffic nsa_window(const NsaVerifyShape& shape);
Traffic nsa_combine(const NsaVerifyShape& shape);

}  // namespace traffic

// The launches of `layers` layers; a reuse layer runs no selection.
void add_nsa_vanilla(const traffic::NsaVerifyShape& shape, bool reuse, double layers,
                     StepWork& out);

}  // namespace versieve
