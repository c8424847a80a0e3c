// The code that a fit depends on, as a digest of its sources that the build writes: a stored fit of
// other code is not found.
#pragma once

#include <string_view>

namespace versieve::engine {

std::string_view fit_code();

}  // namespace versieve::engine
