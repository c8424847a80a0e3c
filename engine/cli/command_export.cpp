// versieve export: a planner table in the form that something else reads.
#include <CLI/CLI.hpp>
#include <memory>

#include "engine/cli/commands.h"
#include "engine/io/atomic_file.h"
#include "engine/plan/table_file.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string table, format, out;
};

Answer run_export(const Options& options) {
  const PlanTable table = engine::read_plan_table(options.table);
  engine::write_file_atomically(options.out, engine::exported_table(table, options.format));
  const std::size_t entries = table.entries.size();
  return {.json = {{"out", options.out}, {"format", options.format}, {"entries", entries}},
          .text = std::to_string(entries) + " entries written to " + options.out};
}

}  // namespace

Run declare_export(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("--table", options->table, "a table written by `versieve plan`")->required();
  app.add_option("--format", options->format, "json, csv, cpp, sglang, vllm or trtllm")->required();
  app.add_option("--out", options->out, "file to write")->required();
  return [options] { return run_export(*options); };
}

}  // namespace versieve::cli
