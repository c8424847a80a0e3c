// What a number on the command line may look like: CLI11 takes octal and hexadecimal text, turns a
// number that is too large into the largest, and lets not-a-number pass every range.
#pragma once

#include <CLI/CLI.hpp>

namespace versieve::cli {

// Adds the rule to every option of the command that takes a number.
void check_number_texts(CLI::App& options);

}  // namespace versieve::cli
