// What groups of queries promise, whatever computes them: exact ones never change a bit,
// approximate ones take the blocks of one row and are otherwise reuse.
#pragma once

#include <random>
#include <string>

#include "tests/support/nsa_case.h"

namespace versieve::testing {

// The output of an approximate group against that of reuse fed with its indices: the same bits, or,
// where a launch of reuse adds the three branches in another order, as far apart as the rounding of
// one bf16.
enum class ReuseOutput { kSameBits, kRounded };

// Whether, for `c` and groups of every kind, `run` keeps these: an exact group of any size gives
// the bits of C = 1, and so does an approximate one of size 1; an approximate group's rows repeat
// its representative's, which are those of C = 1; its output is that of reuse fed with these
// indices. An empty text, or what differs.
std::string group_failure(const NsaCase& c, const NsaRunner& run,
                          ReuseOutput reuse = ReuseOutput::kSameBits);

// `c` with approximate groups of a random size, from 1 to beyond N.
NsaCaseShape with_random_groups(NsaCaseShape shape, std::mt19937_64& rng);

}  // namespace versieve::testing
