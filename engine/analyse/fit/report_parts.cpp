#include "engine/analyse/fit/report_parts.h"

#include <cstdio>

namespace versieve::engine {
namespace {

std::string row(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string out = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    // As an attribute too: not every reader of HTML knows :first-child.
    const char* const align = i == 0 ? " align=\"left\">" : " align=\"right\">";
    out += std::string("<") + tag + align + escaped(cells[i]) + "</" + tag + ">";
  }
  return out + "</tr>\n";
}

}  // namespace

std::string percent(std::optional<double> value) {
  if (!value) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * *value);
  return text;
}

std::string figure(std::optional<double> value) {
  if (!value) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", *value);
  return text;
}

std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<table>" + row(head, "th");
  for (const std::vector<std::string>& cells : rows) {
    out += row(cells);
  }
  return out + "</table>\n";
}

}  // namespace versieve::engine
