#include "engine/measure/bench/cold_reads_report.h"

#include "engine/io/formatted.h"

namespace versieve::engine {

nlohmann::ordered_json cold_reads_json(std::span<const ReadTime> table) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const ReadTime& row : table) {
    out.push_back({{"mebibytes", row.mebibytes}, {"us", row.microseconds}});
  }
  return out;
}

std::string cold_reads_line(std::span<const ReadTime> table) {
  if (table.empty()) {
    return {};
  }
  std::string out = "cold reads on this machine, MiB us:";
  for (const ReadTime& row : table) {
    out +=
        formatted(" %s%g %.4g", &row == table.data() ? "" : "| ", row.mebibytes, row.microseconds);
  }
  return out + formatted("; %.2f TB/s\n", 1e-12 * *cold_read_rate(table));
}

}  // namespace versieve::engine
