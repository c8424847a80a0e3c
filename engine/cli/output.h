// Standard output and standard error: the only places that write to them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/cli/command.h"

namespace versieve::cli {

// A closed pipe and a file-size limit become failed writes instead of signals; descriptors 0 to 2
// are open, so that no output file can land on one of them.
void prepare_streams();

// Writes to standard output and flushes. Throws Error(kEnvironment) when it cannot be written
// (a full disk, a closed pipe). Commands that print as they go use this, never with --json.
void write_output(std::string_view text);

// Writes to standard error what passes by while a command works. Lost where it cannot be written.
void write_progress(std::string_view text);
// So, a line each: what was odd in the files that a command read and did no harm.
void write_notes(const std::vector<std::string>& remarks);

// Prints an answer; returns the process's exit code.
int print_answer(const Answer& answer, bool json);
// One sentence on standard error and, with `json`, {"error", "code"} on standard output.
int print_error(ExitCode code, const std::string& sentence, bool json);

}  // namespace versieve::cli
