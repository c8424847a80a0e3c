// A test program's host side by hand: the program's cases over the mock of the CUDA runtime. Their
// checks of results fail, since nothing is computed; what counts is which rules the calls broke.
// Exit code 1: one at least.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/gpu/host_side/answers.h"
#include "tests/support/mock_cuda/mock_cuda.h"
#include "tests/support/own_folder.h"

int main(int argc, char** argv) {
  using namespace versieve;
  const test::OwnFolder folder;
  test::answer_host_reads();
  Catch::Session().run(argc, argv);
  const std::vector<mock_cuda::Finding> found = mock_cuda::take_findings();
  const mock_cuda::Counts counts = mock_cuda::counts();
  std::printf("%lld launches, %lld captures, %lld replays, %lld copies; broken rules: %zu\n%s",
              static_cast<long long>(counts.launches), static_cast<long long>(counts.captures),
              static_cast<long long>(counts.replays), static_cast<long long>(counts.copies),
              found.size(), mock_cuda::text_of(found).c_str());
  return found.empty() ? 0 : 1;
}
