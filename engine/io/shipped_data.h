// Where the data that ships with the program lies (trained pairs, prompts, measured databases, the
// peer script), whatever the working folder: named by its path in the checkout, "db/measured".
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace versieve::engine {

// Looked for in the folder that the environment's VERSIEVE_DATA names and then nowhere else; in the
// checkout or unpacked copy above the executable; in <prefix>/share/versieve of an installed one;
// in the checkout that the program was built from.
std::optional<std::filesystem::path> try_shipped_data(const std::string& name);
// Throws Error(kEnvironment), saying where it was looked for.
std::filesystem::path shipped_data(const std::string& name);

// The same for an executable in this folder; `chosen`: what VERSIEVE_DATA says, null if it is
// unset; `source`: the checkout that was built.
std::optional<std::filesystem::path> data_beside(const std::filesystem::path& executable_folder,
                                                 const char* chosen,
                                                 const std::filesystem::path& source,
                                                 const std::string& name);

}  // namespace versieve::engine
