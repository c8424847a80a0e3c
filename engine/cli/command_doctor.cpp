// versieve doctor: what this machine has, and for each thing it lacks the sentence that says why.
#include <CLI/CLI.hpp>

#include "db/store.h"
#include "engine/cli/commands.h"
#include "profiler/counter_access.h"
#include "profiler/environment.h"

namespace versieve::cli {
namespace {

using nlohmann::json;

struct Findings {
  profiler::Environment environment;
  profiler::CounterAccess counters;
  std::string sqlite;
};

json json_of(const Findings& found) {
  json object = json::parse(profiler::to_json(found.environment));
  object["counters"] = {{"state", name_of(found.counters.state)},
                        {"code", found.counters.code},
                        {"sentence", found.counters.sentence}};
  object["cupti_path"] = found.environment.cupti_path;
  object["sqlite"] = found.sqlite;
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
  if (!environment.gpu) {
    return "none";
  }
  const profiler::GpuDescription& gpu = *environment.gpu;
  return (gpu.state ? gpu.state->driver_version : std::string("unknown")) + ", for CUDA " +
         gpu.cuda_driver;
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
         "versieve  " + environment.revision + ", " + environment.compiler + "\n";
}

}  // namespace

Run declare_doctor(CLI::App&, const CommandContext&) {
  return [] {
    const Findings found{profiler::read_environment(), profiler::probe_counter_access(),
                         db::sqlite_version()};
    return Answer{.json = json_of(found), .text = text_of(found)};
  };
}

}  // namespace versieve::cli
