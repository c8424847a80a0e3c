#include "profiler/cupti_library.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <filesystem>

#include "model/words/error.h"
#include "profiler/counter_access.h"

namespace versieve::profiler {
namespace {

// The major version whose headers this was built with: structs of another one are not ours.
const std::string kFileName = "libcupti.so." + std::to_string(CUPTI_API_VERSION / 10000);

void add_matches(const std::string& pattern, std::vector<std::string>& found) {
  glob_t matches{};
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
    for (std::size_t i = matches.gl_pathc; i > 0; --i) {  // the newest version first
      found.push_back(matches.gl_pathv[i - 1]);
    }
  }
  globfree(&matches);
}

void add_toolkit(const std::string& root, std::vector<std::string>& found) {
  for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib", "extras/CUPTI/lib64"}) {
    add_matches(root + "/" + folder + "/" + kFileName, found);
  }
}

void add_python(const std::string& prefix, std::vector<std::string>& found) {
  for (const char* packages : {"lib/python3*/site-packages", "lib/python3*/dist-packages"}) {
    const std::string nvidia = prefix + "/" + packages + "/nvidia/";
    add_matches(nvidia + "cu1*/lib/" + kFileName, found);
    add_matches(nvidia + "cuda_cupti/lib/" + kFileName, found);
  }
}

std::string environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string executable_folder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string(".") : self.parent_path().string();
}

bool resolve(void* handle, CuptiLibrary& library) {
  bool complete = true;
#define VERSIEVE_CUPTI_RESOLVE(name)                                             \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(handle, #name)); \
  complete = complete && library.name != nullptr;
  VERSIEVE_CUPTI_FUNCTIONS(VERSIEVE_CUPTI_RESOLVE)
#undef VERSIEVE_CUPTI_RESOLVE
  return complete;
}

CuptiLibrary load() {
  CuptiLibrary library;
  for (const std::string& candidate : cupti_candidates()) {
    void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      continue;
    }
    if (resolve(handle, library)) {
      library.path = candidate;
      return library;
    }
    dlclose(handle);
  }
  library.missing_because = kFileName +
                            " was not found; set VERSIEVE_CUPTI_LIBRARY to its path to have "
                            "hardware counters.";
  return library;
}

}  // namespace

std::vector<std::string> cupti_candidates() {
  std::vector<std::string> found;
  const std::string chosen = environment_text("VERSIEVE_CUPTI_LIBRARY");
  if (!chosen.empty()) {
    found.push_back(chosen);
  }
  found.push_back(executable_folder() + "/" + kFileName);
  found.push_back(kFileName);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = environment_text(variable);
    if (!root.empty()) {
      add_toolkit(root, found);
    }
  }
  found.push_back(std::string(VERSIEVE_TOOLKIT_LIBRARY_DIR) + "/" + kFileName);
  add_toolkit("/usr/local/cuda", found);
  add_toolkit("/usr/local/cuda-*", found);
  const std::string active = environment_text("VIRTUAL_ENV");
  for (const std::string& prefix : {active, std::string("/usr/local"), std::string("/usr"),
                                    environment_text("HOME") + "/.local", std::string("/opt/*"),
                                    std::string("/opt/*/.venv"), std::string("/opt/*/venv")}) {
    if (!prefix.empty()) {
      add_python(prefix, found);
    }
  }
  return found;
}

const CuptiLibrary& cupti() {
  static const CuptiLibrary library = load();
  return library;
}

void check_cupti(CUptiResult result, const char* step) {
  if (result == CUPTI_SUCCESS) {
    return;
  }
  const CounterAccess meaning = counter_access_for(static_cast<int>(result), "of this GPU");
  throw Error(ExitCode::kEnvironment, std::string("counters: ") + step + ": " + meaning.sentence);
}

}  // namespace versieve::profiler
