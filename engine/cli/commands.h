// Every command, in the order of --help. To add one: its file command_<name>.cpp, its line here.
#pragma once

#include "engine/cli/command.h"

namespace versieve::cli {

Run declare_generate(CLI::App& options, const CommandContext& context);
Run declare_kernel(CLI::App& options, const CommandContext& context);

inline constexpr Command kCommands[] = {
    {"generate", "continue a prompt with a strategy, and prove it lossless", declare_generate},
    {"kernel", "run one kernel family on tensors from a safetensors file", declare_kernel},
};

}  // namespace versieve::cli
