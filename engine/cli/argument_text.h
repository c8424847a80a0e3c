// What a word on the command line may look like. Of numbers CLI11 takes octal and hexadecimal text,
// turns a number that is too large into the largest, and lets not-a-number pass every range; an
// empty text would stand for an option that nobody gave.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace versieve::cli {

// An option that names a file to write.
template <class Path>
CLI::Option* add_output(CLI::App& command, const std::string& name, Path& path,
                        const std::string& help) {
  return command.add_option(name, path, help)->type_name("FILE");
}

// Of a command's outputs those that are standard output, as the user named them.
std::vector<std::string> outputs_on_standard_output(const CLI::App& command);

// By which another command can read what was written to `output`: that name, or "FILE" where it is
// a stream of this process (/dev/stdout, /dev/fd/3), whose text somebody has kept elsewhere.
std::string name_to_read(const std::string& output);

// Adds the rules to every option of the command that takes a number or a text.
void check_texts(CLI::App& options);

}  // namespace versieve::cli
