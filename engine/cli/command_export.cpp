// versieve export: a planner table, or a serving schedule, in the form that something else reads.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "engine/analyse/plan/deployment.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/analyse/serve/planned_schedule.h"
#include "engine/analyse/serve/serving_deployment.h"
#include "engine/analyse/serve/serving_file.h"
#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/io/atomic_file.h"
#include "engine/io/utf8.h"
#include "model/plan/concurrency.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string table, format, out;
  // Of a serving engine's file alone.
  std::optional<std::string> precision, draft_model;
  std::optional<std::string> name;  // of cpp
  std::optional<std::int64_t> context;
};

constexpr const char* kIdleDraft = ". --draft-model changed nothing: it drafts with none";

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ExitCode::kUsage, sentence);
}

engine::DeploymentWish wish_of(const Options& options) {
  if (options.draft_model && !engine::is_utf8(*options.draft_model)) {
    refuse("--draft-model is no UTF-8, which YAML needs");
  }
  return {
      .precision = options.precision ? parse_class(*options.precision) : PrecisionClass::kStrict,
      .context = options.context,
      .draft_model = options.draft_model.value_or("")};
}

Answer export_deployment(const Options& options, const PlanTable& table,
                         const engine::ServingEngine& serving) {
  const std::string suffix = std::filesystem::path(options.out).extension();
  if (suffix != ".yaml" && suffix != ".yml") {
    refuse("a file for " + std::string(serving.name) +
           " is YAML and is only read under a name that ends in .yaml or .yml, not '" +
           options.out + "'");
  }
  const engine::DeploymentWish wish = wish_of(options);
  const engine::DeploymentChoice choice = chosen_deployment(table, serving, wish);
  engine::write_file_atomically(options.out, deployment_file(table, serving, wish));
  const bool is_whole = wish.draft_model != "" || !choice.draft.speculates();
  const std::string tuple = choice.evaluation->strategy.text();
  const DraftChoice& draft = choice.draft;
  // A cut draft has no number of its own.
  const nlohmann::json throughput =
      choice.is_cut() ? nlohmann::json() : nlohmann::json(choice.evaluation->throughput);
  return {.json = {{"out", options.out},
                   {"format", options.format},
                   {"class", name_of(wish.precision)},
                   {"bucket", {choice.bucket->low, choice.bucket->high}},
                   {"strategy", tuple},
                   {"best", choice.best->evaluation.strategy.text()},
                   {"throughput", throughput},
                   {"best_throughput", choice.best->evaluation.throughput},
                   {"cut", choice.is_cut()},
                   {"lossy", facts_of(table, choice, wish).tests_by_sigmoids},
                   {"depth", draft.depth},
                   {"width", draft.width},
                   {"nodes", draft.nodes},
                   {"complete", is_whole}},
          .text = tuple + " written to " + options.out + " for " + serving.name +
                  "; its comments say what it could not take" +
                  (options.draft_model && !draft.speculates() ? kIdleDraft : "") +
                  (is_whole ? ""
                            : ". It names no draft, so that " + std::string(serving.name) +
                                  " refuses it as it is: give --draft-model")};
}

void check_yaml_name(const std::string& out) {
  const std::string suffix = std::filesystem::path(out).extension();
  if (suffix != ".yaml" && suffix != ".yml") {
    refuse(
        "a file for a serving engine is YAML and is only read under a name that ends in .yaml or "
        ".yml, not '" +
        out + "'");
  }
}

// Two files of SGLang: its settings name the tiers, which are there before they are, and are not
// there where the settings cannot be written.
Answer export_server(const Options& options, const engine::ServingSchedule& schedule) {
  check_yaml_name(options.out);
  const engine::DeploymentWish wish = wish_of(options);
  if (wish.precision != PrecisionClass::kStrict) {
    refuse(
        "a serving schedule has drafts of class Strict alone: no server's setting has the like "
        "of " +
        std::string(name_of(wish.precision)));
  }
  std::filesystem::path tiers = options.out;
  tiers.replace_extension(".tiers.json");
  engine::require_other_file(options.table, tiers);
  const engine::ServingFiles files =
      serving_files(schedule, options.format,
                    {.context = wish.context,
                     .draft_model = wish.draft_model,
                     .tiers_file = std::filesystem::absolute(tiers).string()});
  engine::AtomicFile settings(options.out);
  settings.write(files.settings);
  if (!files.tiers.empty()) {
    engine::write_file_atomically(tiers, files.tiers);
  }
  settings.commit();
  const bool is_whole = wish.draft_model != "" || !files.speculates;
  const std::string beside = files.tiers.empty() ? "" : " with " + tiers.string();
  return {.json = {{"out", options.out},
                   {"format", options.format},
                   {"tiers", files.tiers.empty() ? nlohmann::json() : nlohmann::json(tiers)},
                   {"speculates", files.speculates},
                   {"lost", files.lost},
                   {"complete", is_whole}},
          .text = "schedule of " + schedule.pair + " written to " + options.out + beside +
                  "; its comments say what it could not take" +
                  (options.draft_model && !files.speculates ? kIdleDraft : "") +
                  (is_whole ? "" : ". It names no draft: give --draft-model")};
}

Answer export_schedule(const Options& options) {
  const engine::ServingSchedule schedule = engine::read_serving_schedule(options.table);
  if (options.name && options.format != "cpp") {
    refuse("--name is the namespace of a C++ header (--format cpp)");
  }
  if (engine::takes_serving_schedule(options.format)) {
    return export_server(options, schedule);
  }
  if (options.precision || options.context || options.draft_model) {
    refuse(
        "--class, --context and --draft-model choose what a serving engine gets (sglang, vllm, "
        "trtllm); the other formats carry the whole schedule");
  }
  std::string text;
  if (options.format == "json") {
    text = serving_schedule_json(schedule);
  } else if (options.format == "csv") {
    text = serving_schedule_csv(schedule);
  } else if (options.format == "cpp") {
    text = serving_schedule_cpp(schedule, options.name.value_or(""));
  } else {
    refuse("unknown format '" + options.format +
           "': the formats are json, csv, cpp, sglang, vllm, trtllm");
  }
  engine::write_file_atomically(options.out, text);
  const std::size_t cells = schedule.cells.size();
  return {.json = {{"out", options.out}, {"format", options.format}, {"cells", cells}},
          .text = std::to_string(cells) + " cells written to " + options.out};
}

Answer run_export(const Options& options) {
  engine::require_other_file(options.table, options.out);
  if (engine::is_serving_schedule(options.table)) {
    return export_schedule(options);
  }
  if (const engine::ServingEngine* serving = engine::serving_engine(options.format)) {
    if (options.name) {
      refuse("--name is the namespace of a C++ header (--format cpp)");
    }
    const PlanTable table = engine::read_plan_table(options.table);
    return table.batched.empty() ? export_deployment(options, table, *serving)
                                 : export_server(options, engine::planned_schedule(table));
  }
  if (options.precision || options.context || options.draft_model) {
    refuse(
        "--class, --context and --draft-model choose what a serving engine gets (sglang, vllm, "
        "trtllm); the other formats carry the whole table");
  }
  if (options.name) {
    if (options.format != "cpp") {
      refuse("--name is the namespace of a C++ header (--format cpp)");
    }
    engine::check_cpp_name(*options.name);
  }
  const PlanTable table = engine::read_plan_table(options.table);
  engine::write_file_atomically(
      options.out, engine::exported_table(table, options.format, options.name.value_or("")));
  std::size_t entries = 0;
  for (const PlanTable* of : by_concurrency(table)) {
    entries += of->entries.size();
  }
  return {.json = {{"out", options.out}, {"format", options.format}, {"entries", entries}},
          .text = std::to_string(entries) + " entries written to " + options.out};
}

}  // namespace

Run declare_export(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("--table", options->table,
                 "a table written by `versieve plan`, or what `versieve schedule` wrote")
      ->required();
  app.add_option("--format", options->format,
                 "json, csv, cpp, or the settings of a serving engine: sglang, vllm, trtllm")
      ->required();
  add_output(app, "--out", options->out, "file to write; a serving engine's ends in .yaml")
      ->required();
  app.add_option("--class", options->precision,
                 "for a serving engine: the precision class to choose from (Strict)");
  app.add_option("--context", options->context,
                 "for a serving engine: tokens of context to choose for (the last bucket)");
  app.add_option("--draft-model", options->draft_model,
                 "for a serving engine: path or name of the draft's weights");
  app.add_option("--name", options->name,
                 "for cpp: the table's namespace; of machine and geometry if left out");
  return [options] { return run_export(*options); };
}

}  // namespace versieve::cli
