// versieve schedule: what to draft by context and by requests at a time, from a pair's own
// evidence.
#include <CLI/CLI.hpp>
#include <memory>

#include "engine/analyse/serve/serving_file.h"
#include "engine/analyse/serve/serving_text.h"
#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/cli/evidence.h"
#include "engine/cli/pair_points.h"
#include "engine/io/atomic_file.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string database, pair, steps, hardware, out;
};

Answer run_schedule(const Options& options) {
  engine::require_other_file(options.database, options.out);
  engine::require_writable(options.out);
  const std::vector<PointMeasurement> acceptance = read_acceptance(options.database);
  const engine::AcceptancePair pair = chosen_pair(options.database, options.pair, acceptance);
  const PairSchedule made =
      pair_schedule(options.database, pair, acceptance, options.steps, options.hardware);
  const std::string json = engine::serving_schedule_json(made.schedule);
  engine::write_file_atomically(options.out, json);
  Answer answer{.json = nlohmann::json::parse(json),
                .text = engine::serving_text(made.schedule) + "written to " + options.out +
                        "; `versieve export --table` makes a server's file of it"};
  answer.json["out"] = options.out;
  answer.json["steps_of"] = made.steps_of;
  return answer;
}

}  // namespace

Run declare_schedule(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("--db", options->database, "database of measured or imported points")->required();
  app.add_option("--pair", options->pair,
                 "pair to schedule, by its name or its hash; the measured one with most points if "
                 "left out");
  app.add_option("--steps", options->steps,
                 "model whose timed steps are taken for the pair's; the pair's own if left out");
  app.add_option("--hardware", options->hardware,
                 "machine whose roofline stands in where nothing was timed: a catalogue key or a "
                 "JSON file; the device's own if left out");
  add_output(app, "--out", options->out, "file to write")->required();
  return [options] { return run_schedule(*options); };
}

}  // namespace versieve::cli
