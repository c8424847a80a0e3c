// From the arguments of the process to one command's answer.
#pragma once

#include "engine/cli/command.h"

namespace versieve::cli {

// Whether --json stands among the arguments: known before they are parsed, because a usage error
// must be printed the right way too.
bool asks_for_json(int argc, char** argv);

// Parses and runs. Throws Error: kUsage for wrong arguments, else whatever the command refuses.
Answer answer_of(int argc, char** argv);

}  // namespace versieve::cli
