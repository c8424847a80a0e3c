// Fits kept beside the database that they were made of, so that nobody waits twice for the same
// one: `<database>.fit`, or where that folder cannot be written a file in the user's cache
// directory. A fit is found again by all that it depends on: the points, the machine, the options
// and the code that fits. Another key means another fit; what cannot be read is made anew; what
// cannot be written is not kept. None of that is an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/fit/cost_fit.h"

namespace versieve::engine {

// Of the newest fits of one database: of a quick one, a full one, and of other options.
inline constexpr std::size_t kFitsKept = 4;

// What a fit is made of, as fit_cost_model takes it.
struct FitInputs {
  const std::vector<PointMeasurement>& points;
  std::string device;
  HardwareSpec hardware;
  std::vector<std::string> runs;
};

// By the values of all inputs, by the options, and by the code.
std::uint64_t fit_key(const FitInputs& inputs, const FitOptions& options);

// Where fits of a database are looked for, first to last, and kept: in the first that can be
// written; of a database below /usr, where files are a package's, not beside it.
std::vector<std::filesystem::path> fit_files(const std::filesystem::path& database);

std::optional<FitReport> find_fit(const std::filesystem::path& database, std::uint64_t key);
void keep_fit(const std::filesystem::path& database, std::uint64_t key, const FitReport& report);

// The fit that is kept, else (and always with `afresh`) a new one, which then is. Throws what
// fit_cost_model throws.
FitReport stored_or_new_fit(const std::filesystem::path& database, const FitInputs& inputs,
                            const FitOptions& options, bool afresh = false);

}  // namespace versieve::engine
