// What cannot be built is refused when it is configured, in one sentence.
#include <catch2/catch.hpp>

#include "tests/end_to_end/command.h"

using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

CommandResult configured(const fs::path& build, const std::string& options) {
  return run_line("cmake -G Ninja -S " VERSIEVE_SOURCE_DIR " -B " + build.string() +
                  " -DVERSIEVE_TESTS=OFF -DVERSIEVE_GUI=OFF " + options);
}

// An nvcc that only knows its version.
std::string compiler_of(const TempFolder& folder, const std::string& release) {
  const fs::path nvcc = folder / "nvcc";
  std::ofstream(nvcc) << "#!/bin/sh\necho 'nvcc: NVIDIA (R) Cuda compiler driver'\n"
                      << "echo 'Cuda compilation tools, release " << release << ", V" << release
                      << ".131'\n";
  fs::permissions(nvcc, fs::perms(0755));
  return "-DCMAKE_CUDA_COMPILER=" + nvcc.string();
}

}  // namespace

TEST_CASE("architectures that the kernels cannot be built for are refused") {
  const TempFolder folder;
  for (const std::string architectures : {"90", "native", "'90a;100a'", "all", "100a", "''"}) {
    const CommandResult result =
        configured(folder / "build", "-DVERSIEVE_CUDA_ARCHITECTURES=" + architectures);
    CAPTURE(architectures, result.err);
    CHECK(result.code != 0);
    CHECK(result.err.find("90a") != std::string::npos);
  }
}

TEST_CASE("a toolkit before CUDA 13 is refused") {
  const TempFolder folder;
  for (const std::string release : {"12.9", "11.8", "9.2"}) {
    const CommandResult result = configured(folder / "build", compiler_of(folder, release));
    CAPTURE(release, result.err);
    CHECK(result.code != 0);
    CHECK(result.err.find("CUDA '" + release + "'") != std::string::npos);
    CHECK(result.err.find("-DVERSIEVE_CUDA=OFF") != std::string::npos);
  }
}

TEST_CASE("a library of the tokenizers that is missing is named with its package") {
  const TempFolder folder;
  for (const auto& [found, package] :
       {std::pair("versieve_pcre2_library", "libpcre2-dev"),
        std::pair("versieve_utf8proc_include", "libutf8proc-dev"),
        std::pair("versieve_sentencepiece_library", "libsentencepiece-dev")}) {
    const CommandResult result =
        configured(folder / "build", "-DVERSIEVE_CUDA=OFF -D" + std::string(found) + "=OFF");
    CAPTURE(found, result.err);
    CHECK(result.code != 0);
    CHECK(result.err.find(std::string("apt install ") + package) != std::string::npos);
    fs::remove_all(folder / "build");
  }
}
