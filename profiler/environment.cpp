// The environment record of a run.
namespace versieve::profiler {}
