// Whether the index tensors of an nsa_verify problem say what the contract demands: for callers
// whose input comes from outside (the kernel door). The kernels themselves only assert.
#pragma once

#include <string>

#include "kernels/nsa_verify/params.h"

namespace versieve::kernels {

// One sentence on the first thing wrong, or an empty text. Reads host memory: geometry, heads, L
// against Lc, parent, position, cmp_tree_owner and indices_in. E = 0 means that no path-local
// compressed token is given, whatever the tree; with E > 0 every owner must have its row.
template <class T>
std::string nsa_verify_input_error(const NsaVerifyParams<T>& p);

}  // namespace versieve::kernels
