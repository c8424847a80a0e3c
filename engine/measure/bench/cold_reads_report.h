// The machine's cold reads, that both benches measure first, as JSON and as a line.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "model/words/hardware.h"

namespace versieve::engine {

// [{"mebibytes", "us"}, ...]; empty without a table.
nlohmann::ordered_json cold_reads_json(std::span<const ReadTime> table);
// "cold reads on this machine, MiB us: 1 1.71 | 2 1.97 ...; 4.64 TB/s\n"; empty without a table.
std::string cold_reads_line(std::span<const ReadTime> table);

}  // namespace versieve::engine
