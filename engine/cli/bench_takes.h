// Which options each bench takes. One that it does not would change nothing, and is refused.
#pragma once

#include <string>
#include <vector>

namespace versieve::cli {

// `what`: the bench; `given`: names of the options that were given, as "--requests". Throws
// Error(kUsage) naming the first that it does not take, and who does.
void check_taken(const std::string& what, const std::vector<std::string>& given);

}  // namespace versieve::cli
