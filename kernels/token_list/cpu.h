// token_list on the CPU: the reference.
#pragma once

#include "kernels/token_list/params.h"

namespace versieve::kernels {

// REQUIRES: chunk >= 1, L < 2^31.
void token_list_cpu(const TokenListParams& p, int threads);

}  // namespace versieve::kernels
