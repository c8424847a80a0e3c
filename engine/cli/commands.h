// Every command, in the order of --help. To add one: its file command_<name>.cpp, its line here.
#pragma once

#include "engine/cli/command.h"

namespace versieve::cli {

Run declare_doctor(CLI::App& options, const CommandContext& context);
Run declare_profile(CLI::App& options, const CommandContext& context);
Run declare_kernel(CLI::App& options, const CommandContext& context);

inline constexpr Command kCommands[] = {
    {"doctor", "what this machine has: GPU, driver, counters, toolkit, SQLite", declare_doctor},
    {"profile", "run a sweep and store its points", declare_profile},
    {"kernel", "run one kernel family on tensors from a safetensors file", declare_kernel},
};

}  // namespace versieve::cli
