// versieve doctor: what this machine has, and for each thing it lacks the sentence that says why;
// with a database, what the machines in it gave when they were calibrated, beside the catalogue,
// what in it was measured by other programs and which pairs a plan can count on.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>

#include "db/store.h"
#include "engine/analyse/fit/acceptance_evidence.h"
#include "engine/cli/commands.h"
#include "engine/cli/evidence.h"
#include "engine/io/formatted.h"
#include "engine/io/shipped_data.h"
#include "engine/measure/sweep/machine_figures.h"
#include "model/words/machine_rates.h"
#include "profiler/counter_access.h"
#include "profiler/environment.h"

namespace versieve::cli {
namespace {

using nlohmann::json;

struct Findings {
  profiler::Environment environment;
  profiler::CounterAccess counters;
  std::string sqlite;
  std::string data;  // folder of what ships with the program; empty: not found
};

std::string shipped_data_folder() {
  const std::optional<std::filesystem::path> measured = engine::try_shipped_data("db/measured");
  return measured ? measured->parent_path().parent_path().lexically_normal().string() : "";
}

json json_of(const Findings& found) {
  json object = json::parse(profiler::to_json(found.environment));
  object["counters"] = {{"state", name_of(found.counters.state)},
                        {"code", found.counters.code},
                        {"sentence", found.counters.sentence}};
  object["cupti_path"] = found.environment.cupti_path;
  object["sqlite"] = found.sqlite;
  object["data"] = found.data;
  return object;
}

std::string gpu_text(const profiler::Environment& environment) {
  if (!environment.gpu) {
    return environment.gpu_missing_because;
  }
  const profiler::GpuDescription& gpu = *environment.gpu;
  std::string text = gpu.name + ", compute capability " + gpu.compute_capability + ", " +
                     std::to_string(gpu.sm_count) + " SMs, " +
                     std::to_string(gpu.memory_bytes >> 20) + " MiB, L2 " +
                     std::to_string(gpu.l2_bytes >> 20) + " MiB";
  if (gpu.state && gpu.state->sm_clock_mhz) {
    text += ", SM clock " + std::to_string(*gpu.state->sm_clock_mhz) +
            " MHz (held down by: " + profiler::clock_event_names(gpu.state->clock_events) + ")";
  }
  return text;
}

std::string driver_text(const profiler::Environment& environment) {
  if (environment.cuda_toolkit.empty()) {
    return "not asked for: this build has no CUDA";
  }
  if (!environment.gpu) {
    return environment.cuda_driver.empty() ? "none" : "for CUDA " + environment.cuda_driver;
  }
  const profiler::GpuDescription& gpu = *environment.gpu;
  return (gpu.state ? gpu.state->driver_version : std::string("unknown")) + ", for CUDA " +
         gpu.cuda_driver;
}

// A figure of the sweep calibrate beside what the catalogue's entry allows.
struct CalibratedFigure {
  std::string device;
  MeasuredFigure figure;
  const char* unit = "";
  std::optional<double> listed;  // none: the catalogue has no such figure
  std::string impossible;        // why it cannot be; empty if it can
};

std::optional<double> listed_figure(const HardwareSpec& entry, std::string_view name) {
  if (name == "read_rate" || name == "copy_rate") {
    return entry[HardwareField::kRawBandwidthGbps];
  }
  return name == "gemm_rate" ? std::optional(entry[HardwareField::kBf16Tflops]) : std::nullopt;
}

std::vector<CalibratedFigure> calibrated_figures(const std::string& database) {
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  std::map<std::string, std::vector<PointMeasurement>> points;
  for (const db::StoredRun& run : store.runs()) {
    for (PointMeasurement& point :
         store.points({.run_id = run.id, .workload = WorkloadKind::kMachine, .only_ok = true})) {
      points[run.record.device].push_back(std::move(point));
    }
  }
  std::vector<CalibratedFigure> rows;
  for (const auto& [device, measured] : points) {
    const HardwareSpec* const entry = hardware_for_device(device);
    for (const MeasuredFigure& figure : engine::machine_figures(measured, device)) {
      CalibratedFigure row{device, figure, unit_of_figure(figure.name), {}, {}};
      if (entry != nullptr) {
        row.listed = listed_figure(*entry, figure.name);
        row.impossible = impossible_because(*entry, figure);
      }
      rows.push_back(row);
    }
  }
  return rows;
}

json calibrated_json(const std::vector<CalibratedFigure>& rows) {
  json out = json::array();
  for (const CalibratedFigure& row : rows) {
    const double value = row.figure.figure.value;
    out.push_back({{"device", row.device},
                   {"figure", row.figure.name},
                   {"value", value},
                   {"unit", row.unit},
                   {"catalogue", row.listed ? json(*row.listed) : json()},
                   {"difference", row.listed ? json(value / *row.listed - 1.0) : json()},
                   {"impossible_because", row.impossible},
                   {"source", row.figure.figure.source}});
  }
  return out;
}

std::string calibrated_text(const std::vector<CalibratedFigure>& rows,
                            const std::string& database) {
  if (rows.empty()) {
    return "calibrated  nothing in " + database + ": profile --sweep calibrate measures it\n";
  }
  std::string text;
  for (const CalibratedFigure& row : rows) {
    text += formatted("calibrated  %s, %s: %.4g %s", row.device.c_str(), row.figure.name.c_str(),
                      row.figure.figure.value, row.unit);
    if (row.listed) {
      text += formatted(", catalogue %.4g (%+.1f %%)", *row.listed,
                        100.0 * (row.figure.figure.value / *row.listed - 1.0));
    }
    text += (row.impossible.empty() ? "" : "; not used: " + row.impossible) + "\n";
  }
  return text;
}

std::vector<db::StoredRun> imported_runs(const std::string& database) {
  std::vector<db::StoredRun> runs = db::Store::open(database, db::OpenMode::kReadOnly).runs();
  std::erase_if(runs, [](const db::StoredRun& run) { return !is_imported(run.record); });
  return runs;
}

json imported_json(const std::vector<db::StoredRun>& runs) {
  json out = json::array();
  for (const db::StoredRun& run : runs) {
    out.push_back({{"run", run.record.uuid},
                   {"kind", run.record.kind},
                   {"device", run.record.device},
                   {"points", run.ok_count}});
  }
  return out;
}

std::string imported_text(const std::vector<db::StoredRun>& runs) {
  std::string text;
  for (const db::StoredRun& run : runs) {
    text += run.record.kind + ", " + run.record.device + ": " + std::to_string(run.ok_count) +
            " points, to which no time is fitted\n";
  }
  return text;
}

json pairs_json(const std::vector<engine::AcceptancePair>& pairs) {
  json out = json::array();
  for (const engine::AcceptancePair& pair : pairs) {
    out.push_back({{"pair", pair.name}, {"origin", name_of(pair.origin)}, {"points", pair.points}});
  }
  return out;
}

std::string or_none(const std::string& text) {
  return text.empty() ? "none" : text;
}

std::string text_of(const Findings& found) {
  const profiler::Environment& environment = found.environment;
  const std::string cupti = environment.cupti_version.empty()
                                ? "none"
                                : environment.cupti_version + " (" + environment.cupti_path + ")";
  return "GPU       " + gpu_text(environment) + "\n" +                //
         "driver    " + driver_text(environment) + "\n" +             //
         "counters  " + found.counters.sentence + "\n" +              //
         "CUPTI     " + cupti + "\n" +                                //
         "toolkit   " + or_none(environment.cuda_toolkit) + "\n" +    //
         "CPU       " + environment.cpu_name + ", " +                 //
         std::to_string(environment.cpu_threads) + " threads, " +     //
         std::to_string(environment.memory_bytes >> 20) + " MiB\n" +  //
         "system    " + environment.kernel + "\n" +                   //
         "SQLite    " + found.sqlite + "\n" +                         //
         "data      " + or_none(found.data) + "\n" +                  //
         "versieve  " + environment.revision + ", " + environment.compiler + "\n";
}

}  // namespace

Run declare_doctor(CLI::App& app, const CommandContext&) {
  const auto database = std::make_shared<std::string>();
  app.add_option("--db", *database,
                 "also show what the machines of this database gave in the sweep calibrate, and "
                 "what was imported into it and whose tokens a step are known");
  return [database] {
    const Findings found{profiler::read_environment(), profiler::probe_counter_access(),
                         db::sqlite_version(), shipped_data_folder()};
    Answer answer{.json = json_of(found), .text = text_of(found)};
    if (!database->empty()) {
      const std::vector<CalibratedFigure> rows = calibrated_figures(*database);
      answer.json["calibrated"] = calibrated_json(rows);
      answer.text += calibrated_text(rows, *database);
      const std::vector<db::StoredRun> imported = imported_runs(*database);
      answer.json["imported"] = imported_json(imported);
      answer.text += imported_text(imported);
      const std::vector<engine::AcceptancePair> pairs =
          engine::acceptance_pairs(read_acceptance(*database));
      answer.json["acceptance"] = pairs_json(pairs);
      answer.text += "tokens a step, for plan --acceptance: " + engine::listed(pairs) + "\n";
    }
    return answer;
  };
}

}  // namespace versieve::cli
