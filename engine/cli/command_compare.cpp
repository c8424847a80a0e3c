// versieve compare: databases matched by tuple, or planner tables cell by cell; the first is what
// the others are held against.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "db/compared.h"
#include "db/schema.h"
#include "engine/analyse/compare/point_comparison.h"
#include "engine/analyse/compare/table_comparison.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/cli/commands.h"

namespace versieve::cli {
namespace {

constexpr std::int64_t kRowsPrinted = 20;  // of each kind of change

struct Options {
  std::vector<std::string> files, devices;
  std::string figure = "time";
  std::optional<double> noise_percent;
  std::int64_t rows = kRowsPrinted;
  bool fail_if_worse = false;
};

std::string device_for(const Options& options, std::size_t file) {
  if (options.devices.empty()) {
    return "";
  }
  return options.devices.size() == 1 ? options.devices.front() : options.devices[file];
}

Answer compare_databases(const Options& options) {
  const engine::ComparedFigure figure = engine::compared_figure(options.figure);
  std::optional<double> noise;
  if (options.noise_percent) {
    noise = *options.noise_percent / 100.0;
  }
  std::vector<ComparedSide> sides;
  for (std::size_t i = 0; i < options.files.size(); ++i) {
    sides.push_back(db::compared_side(options.files[i], device_for(options, i)));
  }
  Answer answer{.json = {{"comparisons", nlohmann::json::array()}}, .text = {}};
  for (std::size_t i = 1; i < sides.size(); ++i) {
    const engine::PointComparison comparison =
        engine::compare_points(sides.front(), sides[i], figure, noise);
    if (comparison.tuples.empty()) {
      throw Error(ExitCode::kAnswerNo, options.files.front() + " and " + options.files[i] +
                                           " have no tuple in common whose " + options.figure +
                                           " both hold");
    }
    answer.json["comparisons"].push_back(
        engine::comparison_json(sides.front(), sides[i], comparison));
    answer.text += (i > 1 ? "\n" : "") +
                   engine::comparison_text(sides.front(), sides[i], comparison, options.rows);
    if (options.fail_if_worse && comparison.count_of(engine::Change::kWorse) > 0) {
      answer.code = ExitCode::kAnswerNo;
    }
  }
  return answer;
}

Answer compare_tables(const Options& options) {
  if (!options.devices.empty() || options.noise_percent || options.figure != "time") {
    throw Error(ExitCode::kUsage,
                "--device, --figure and --noise are for databases; these are tables");
  }
  const PlanTable before = engine::read_plan_table(options.files.front());
  Answer answer{.json = {{"comparisons", nlohmann::json::array()}}, .text = {}};
  for (std::size_t i = 1; i < options.files.size(); ++i) {
    const PlanTable after = engine::read_plan_table(options.files[i]);
    const engine::TableComparison comparison = engine::compare_tables(before, after);
    answer.json["comparisons"].push_back(
        engine::table_comparison_json(options.files.front(), options.files[i], comparison));
    answer.text += (i > 1 ? "\n" : "") + engine::table_comparison_text(
                                             options.files.front(), options.files[i], comparison);
    if (options.fail_if_worse &&
        comparison.count_of(engine::CellChange::kSame) < comparison.cells.size()) {
      answer.code = ExitCode::kAnswerNo;
    }
  }
  return answer;
}

Answer run_compare(const Options& options) {
  if (options.files.size() < 2) {
    throw Error(ExitCode::kUsage, "compare takes two files or more: databases, or tables");
  }
  if (options.noise_percent && *options.noise_percent < 0.0) {
    throw Error(ExitCode::kUsage, "--noise is in percent and not below 0");
  }
  if (options.rows < 0) {
    throw Error(ExitCode::kUsage, "--rows is a count; 0 prints all");
  }
  if (options.devices.size() > 1 && options.devices.size() != options.files.size()) {
    throw Error(ExitCode::kUsage, "--device is given once for all databases or once for each");
  }
  std::size_t databases = 0;
  for (const std::string& path : options.files) {
    databases += db::is_database(path) ? 1 : 0;
  }
  if (databases != 0 && databases != options.files.size()) {
    for (const std::string& path : options.files) {
      if (!db::is_database(path)) {
        engine::read_plan_table(path);  // a file that is neither is said by its name
      }
    }
    throw Error(ExitCode::kUsage,
                "databases are compared with databases and tables with tables, not with each "
                "other");
  }
  return databases != 0 ? compare_databases(options) : compare_tables(options);
}

}  // namespace

Run declare_compare(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("FILE", options->files,
                 "databases, or tables of `versieve plan`; each is held against the first")
      ->required();
  app.add_option("--figure", options->figure,
                 "of databases: time (what is compared if left out), bytes (read and written in "
                 "DRAM) or tokens (a step)");
  app.add_option("--device", options->devices,
                 "of databases: part of a device's name, once for all or once for each; the one "
                 "with most points if left out");
  app.add_option("--noise", options->noise_percent,
                 "of databases: percent by which two may differ and be the same; what repeated "
                 "measurements of these databases differ by if left out");
  app.add_option("--rows", options->rows, "tuples printed of each kind of change; 0: all");
  app.add_flag("--fail-if-worse", options->fail_if_worse,
               "exit 1 where a tuple is worse beyond noise, or a cell of a table changed");
  return [options] { return run_compare(*options); };
}

}  // namespace versieve::cli
