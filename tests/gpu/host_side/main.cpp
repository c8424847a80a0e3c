// A test program's host side by hand: the program's cases over the mock of the CUDA runtime. Their
// checks of results fail, since nothing is computed; what counts is which rules the calls broke.
// Exit code 1: one at least.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "tests/gpu/host_side/answers.h"
#include "tests/support/mock_cuda/mock_cuda.h"
#include "tests/support/own_folder.h"

namespace {

// Says which case runs, and nothing of its checks: each would fail at length.
class CasesAlone final : public Catch::StreamingReporterBase<CasesAlone> {
 public:
  using StreamingReporterBase::StreamingReporterBase;
  static std::string getDescription() { return "the names of cases"; }
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    std::printf("%s\n", info.name.c_str());
    std::fflush(stdout);
  }
  void assertionStarting(const Catch::AssertionInfo& /*info*/) override {}
  bool assertionEnded(const Catch::AssertionStats& /*stats*/) override { return false; }
};
CATCH_REGISTER_REPORTER("cases", CasesAlone)

}  // namespace

int main(int argc, char** argv) {
  using namespace versieve;
  const test::OwnFolder folder;
  test::answer_host_reads();
  Catch::Session session;
  session.configData().reporterName = "cases";  // -r console: the checks too
  session.run(argc, argv);
  const std::vector<mock_cuda::Finding> found = mock_cuda::take_findings();
  const mock_cuda::Counts counts = mock_cuda::counts();
  std::printf("%lld launches, %lld captures, %lld replays, %lld copies; broken rules: %zu\n%s",
              static_cast<long long>(counts.launches), static_cast<long long>(counts.captures),
              static_cast<long long>(counts.replays), static_cast<long long>(counts.copies),
              found.size(), mock_cuda::text_of(found).c_str());
  return found.empty() ? 0 : 1;
}
