#include "engine/cli/run_record.h"

#include "db/store.h"
#include "engine/io/atomic_file.h"
#include "engine/io/input_file.h"
#include "profiler/environment.h"

namespace versieve::cli {

RunRecord uncounted_run(const std::string& kind, Backend backend, const std::string& device,
                        const std::string& counters, const std::string& configuration) {
  const profiler::Environment environment = profiler::read_environment();
  RunRecord record{.kind = kind, .device = device};
  if (backend == Backend::kCuda && environment.gpu) {
    record.device_uuid_hash = environment.gpu->uuid_hash;
  }
  record.counter_access = CounterState::kOff;
  record.counter_detail = counters;
  record.configuration = configuration;
  record.environment = profiler::to_json(environment);
  record.revision = environment.revision;
  return record;
}

void require_database(const std::string& path) {
  if (engine::is_there(path)) {
    db::Store::open(path, db::OpenMode::kCreateOrOpen);
  }
  engine::require_room(path);
}

}  // namespace versieve::cli
