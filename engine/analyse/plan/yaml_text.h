// Text of YAML files for serving engines, whatever a table or a path puts into it.
#pragma once

#include <string>

namespace versieve::engine {

// A sentence as comment lines, which no text can leave.
std::string yaml_comment(const std::string& sentence);
// A double-quoted scalar of one line.
std::string yaml_quoted(const std::string& text);

}  // namespace versieve::engine
