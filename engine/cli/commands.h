// Every command, in the order of --help. To add one: its file command_<name>.cpp, its line here.
#pragma once

#include "engine/cli/command.h"

namespace versieve::cli {

Run declare_calibrate(CLI::App& options, const CommandContext& context);
Run declare_align(CLI::App& options, const CommandContext& context);
Run declare_quality(CLI::App& options, const CommandContext& context);
Run declare_doctor(CLI::App& options, const CommandContext& context);
Run declare_profile(CLI::App& options, const CommandContext& context);
Run declare_bench(CLI::App& options, const CommandContext& context);
Run declare_generate(CLI::App& options, const CommandContext& context);
Run declare_tokenize(CLI::App& options, const CommandContext& context);
Run declare_fit(CLI::App& options, const CommandContext& context);
Run declare_simulate(CLI::App& options, const CommandContext& context);
Run declare_plan(CLI::App& options, const CommandContext& context);
Run declare_schedule(CLI::App& options, const CommandContext& context);
Run declare_export(CLI::App& options, const CommandContext& context);
Run declare_replay(CLI::App& options, const CommandContext& context);
Run declare_merge(CLI::App& options, const CommandContext& context);
Run declare_compare(CLI::App& options, const CommandContext& context);
Run declare_import(CLI::App& options, const CommandContext& context);
Run declare_diagnose(CLI::App& options, const CommandContext& context);
Run declare_figures(CLI::App& options, const CommandContext& context);
Run declare_kernel(CLI::App& options, const CommandContext& context);

inline constexpr Command kCommands[] = {
    {"doctor", "what this machine has: GPU, driver, counters, toolkit, SQLite", declare_doctor},
    {"profile", "run a sweep and store its points", declare_profile},
    {"bench", "time verification against baseline, floor and public path", declare_bench},
    {"generate", "continue a prompt with a strategy, and prove it lossless", declare_generate},
    {"tokenize", "a text's tokens, by the tokenizer of a model directory", declare_tokenize},
    {"calibrate", "find which layers may reuse blocks within a loss budget", declare_calibrate},
    {"align", "find which draft layer speaks for each target layer", declare_align},
    {"quality", "what a lossy strategy costs on held-out text and tasks", declare_quality},
    {"fit", "fit the cost model to a device's measurements, with held-out errors", declare_fit},
    {"simulate", "count what an attention layer moves, without the machine", declare_simulate},
    {"plan", "rank the strategies for a machine, by context and class", declare_plan},
    {"schedule", "what to draft by requests at a time and context, from a server's evidence",
     declare_schedule},
    {"export", "write a planner table or a schedule for something else to read", declare_export},
    {"replay", "play recorded requests through a planner table and its guard", declare_replay},
    {"merge", "join databases into one, each run once", declare_merge},
    {"compare", "which tuples of databases, or cells of tables, changed beyond noise",
     declare_compare},
    {"import", "store what another program measured, marked as imported", declare_import},
    {"diagnose", "say why speculation gains little, from what a database holds", declare_diagnose},
    {"figures", "the paper's figures and tables, a database's numbers beside the paper's",
     declare_figures},
    {"kernel", "run one kernel family on tensors from a safetensors file", declare_kernel},
};

}  // namespace versieve::cli
