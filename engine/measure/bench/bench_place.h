// Where a bench of a layer or of steps runs, and what this machine's cold reads take, which its
// floors are read from.
#pragma once

#include "profiler/cold_reads.h"
#include "profiler/environment.h"

namespace versieve::engine {

template <class Bench, class Options>
Bench bench_here(const Options& options) {
  const profiler::Environment environment = profiler::read_environment();
  Bench bench{.device = environment.cpu_name,
              .backend = options.on_gpu ? "cuda" : "cpu",
              .dtype = options.on_gpu ? "bf16" : "f32",
              .options = options};
  if (options.on_gpu && environment.gpu) {
    bench.device = environment.gpu->name;
  }
  if (options.on_gpu) {
    bench.cold_reads = profiler::measure_cold_reads();
  }
  return bench;
}

}  // namespace versieve::engine
