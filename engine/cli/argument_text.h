// What a word on the command line may look like. Of numbers CLI11 takes octal and hexadecimal text,
// turns a number that is too large into the largest, and lets not-a-number pass every range; an
// empty text would stand for an option that nobody gave.
#pragma once

#include <CLI/CLI.hpp>

namespace versieve::cli {

// Adds the rules to every option of the command that takes a number or a text.
void check_texts(CLI::App& options);

}  // namespace versieve::cli
