// Whose tokens a step a plan counts on: `versieve plan --acceptance` and `--assume-acceptance` as a
// user meets them, and how far a pair's chain predicts its trees, judged on the shipped
// measurements.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <set>

#include "db/store.h"
#include "engine/analyse/fit/acceptance_fit.h"
#include "tests/end_to_end/refusals.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

using namespace versieve;
namespace fs = std::filesystem;

namespace {

const std::string kShipped = VERSIEVE_SOURCE_DIR "/db/measured/h200.db";
const std::string kCounters =
    "vllm:spec_decode_num_drafts_total 1000\n"
    "vllm:spec_decode_num_draft_tokens_total 3000\n"
    "vllm:spec_decode_num_accepted_tokens_total 1400\n"
    "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"0\"} 700\n"
    "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"1\"} 450\n"
    "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"2\"} 250\n";

// A fit of the shipped points, and a database that holds an imported pair alone.
class World {
 public:
  World() {
    std::ofstream(folder_ / "metrics.txt") << kCounters;
    REQUIRE(test::run_versieve("fit --quick --db " + kShipped + " --out " + fit()).code == 0);
    REQUIRE(test::run_versieve("import --format vllm --model pair-7b --device 'RTX 4090' "
                               "--context 2048 --db " +
                               database() + " " + (folder_ / "metrics.txt").string())
                .code == 0);
  }

  std::string fit() const { return (folder_ / "fit.json").string(); }
  std::string database() const { return (folder_ / "pairs.db").string(); }
  nlohmann::json plan(const std::string& options) const {
    const std::string arguments =
        "plan --json --hardware h200-sxm --buckets 0-4096 --class Strict --fit " + fit() + options;
    const test::CommandResult result = test::run_versieve(arguments);
    CAPTURE(arguments, result.err);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out);
  }

 private:
  test::TempFolder folder_;
};

const World& world() {
  static const World instance;
  return instance;
}

double expected_accepted(const nlohmann::json& table, const std::string& role) {
  for (const nlohmann::json& b : table["baselines"]) {
    if (b["role"] == role) {
      return b["expected_accepted"];
    }
  }
  return 0.0;
}

// Mean tokens a step as the fit takes them, and the standard deviation of its logarithm.
struct Yield {
  double mean = 0.0, log_error = 0.0;
};

Yield yield_of(const PointMeasurement& m) {
  const AcceptanceMeasurement& a = *m.acceptance;
  double steps = 0.0, sum = 0.0, squares = 0.0;
  for (std::size_t tokens = 0; tokens < a.accepted_histogram.size(); ++tokens) {
    const double count = static_cast<double>(a.accepted_histogram[tokens]);
    const double value = static_cast<double>(tokens);
    steps += count;
    sum += count * value;
    squares += count * value * value;
  }
  const double mean = a.looping ? a.teacher_forced.value_or(0.0) : a.accepted_per_step;
  const double variance = squares / steps - sum * sum / steps / steps;
  return {mean, std::sqrt(variance / steps) / mean};
}

bool is_plain(const Strategy& s) {
  return s.draft.speculates() && s.schedule == "F*" && approximate_group(s) == 1;
}

}  // namespace

TEST_CASE("a plan counts on the tokens a step of the pair that it is given") {
  const nlohmann::json own = world().plan("");
  CHECK(own["provenance"]["acceptance_pair"] == "demo-nsa");
  CHECK(own["provenance"]["acceptance_origin"] == "measured");
  const nlohmann::json table =
      world().plan(" --acceptance pair-7b --acceptance-db " + world().database());
  CHECK(table["provenance"]["acceptance_pair"] == "pair-7b");
  CHECK(table["provenance"]["acceptance_origin"] == "imported");
  CHECK(test::contains(table["provenance"]["acceptance_note"], "siblings help is as of demo-nsa"));
  CHECK(expected_accepted(table, "fixed") < 0.8 * expected_accepted(own, "fixed"));
  // No step costs more or less than before.
  CHECK(table["baselines"][0]["step_latency_us"] == own["baselines"][0]["step_latency_us"]);
  for (const nlohmann::json& entry : table["entries"]) {
    CHECK((entry["source"] == "predicted" || entry["strategy"] == "nsa/ar"));
  }
  const nlohmann::json half = world().plan(" --assume-acceptance 0.5");
  CHECK(half["provenance"]["acceptance_origin"] == "assumed");
  CHECK(half["provenance"]["acceptance_pair"] == "assumed 0.5");
  CHECK(expected_accepted(half, "fixed") < expected_accepted(table, "fixed"));
}

TEST_CASE("an assumed rate near none promises nothing, in the plan and in what is written of it") {
  const test::TempFolder folder;
  double before = 0.0;
  for (const char* rate : {"0", "0.01", "0.05", "0.3", "0.6", "0.9", "1"}) {
    const nlohmann::json table = world().plan(std::string(" --assume-acceptance ") + rate);
    CAPTURE(rate);
    const double tokens = expected_accepted(table, "fixed");
    CHECK(tokens >= before);
    before = tokens;
    const nlohmann::json& first = table["entries"][0];
    CHECK(first["interval"][0] < first["interval"][1]);
    CHECK(test::contains(table["provenance"]["acceptance_note"], "which nobody measured"));
    if (std::stod(rate) <= 0.05) {
      CHECK(first["strategy"] == "nsa/ar");
    }
  }
  CHECK(before == Approx(9.0));  // the fixed strategy is eight levels deep
}

TEST_CASE("what is written of another pair's plan says whose tokens they are") {
  const test::TempFolder folder;
  const std::string table = (folder / "t.json").string();
  world().plan(" --acceptance pair-7b --acceptance-db " + world().database() + " --out " + table);
  const std::string head = "pair-7b (imported): measured by another program in 1 point";
  for (const char* format : {"csv", "cpp", "sglang"}) {
    const std::string out = (folder / format).string() + ".yaml";
    CAPTURE(format);
    REQUIRE(test::run_versieve("export --table " + table + " --format " + format + " --out " + out)
                .code == 0);
    std::string text = test::text_of_file(out);
    for (std::size_t at = text.find("\n# "); at != std::string::npos; at = text.find("\n# ", at)) {
      text.replace(at, 3, " ");
    }
    CHECK(test::contains(text, head));
  }
  test::check_refused("replay --table " + table + " --db " + kShipped, 1,
                      "'pair-7b' (imported), and only a measured pair has walks");
}

TEST_CASE("a pair that cannot be planned with is refused with the ones that can") {
  const std::string plan = "plan --hardware h200-sxm --fit " + world().fit();
  const std::string pairs = " --acceptance-db " + world().database();
  test::check_refused(plan + " --acceptance nobody" + pairs, 1, "pair-7b (imported, 1 point)");
  test::check_refused(plan + " --acceptance ''" + pairs, 2, "--acceptance: is empty");
  test::check_refused(plan + " --acceptance pair-7b", 2, "--acceptance-db");
  test::check_refused(plan + pairs, 2, "--acceptance");
  test::check_refused(plan + " --acceptance pair-7b --acceptance-db none.db", 3, "none.db");
  test::check_refused(plan + " --acceptance pair-7b --assume-acceptance 0.5" + pairs, 2,
                      "--assume-acceptance");
  for (const char* rate : {"-1", "1.01", "nan", "inf", "80%"}) {
    test::check_refused(plan + " --assume-acceptance " + rate, 2, "acceptance");
  }
}

// Each regime at each context stands for a foreign pair of which a chain of seven is known, the
// others for the pair that lends. engine/analyse/fit/MEASURED.md quotes the figures.
TEST_CASE("a pair's chain predicts its trees within the intervals that a plan gives") {
  const std::vector<PointMeasurement> all =
      db::Store::open(kShipped, db::OpenMode::kReadOnly)
          .points({.workload = WorkloadKind::kAcceptance, .only_ok = true});
  std::set<std::pair<std::string, std::int64_t>> pairs;
  for (const PointMeasurement& m : all) {
    if (m.key.split == "calibration") {
      pairs.insert({m.key.regime, m.key.context_len});
    }
  }
  double held = 0.0, trees = 0.0, squares = 0.0;
  for (const auto& [regime, context] : pairs) {
    std::vector<PointMeasurement> lent;
    std::vector<PointMeasurement> chain;
    std::vector<PointMeasurement> judged;
    for (const PointMeasurement& m : all) {
      if (m.key.split == "calibration" && m.key.regime != regime) {
        lent.push_back(m);
      } else if (m.key.split == "calibration" && m.key.context_len == context &&
                 is_plain(Strategy::parse(m.key.strategy))) {
        (m.key.strategy == "nsa/d7k1n8/bfs/c1/F*" ? chain : judged).push_back(m);
      }
    }
    REQUIRE(!chain.empty());
    for (PointMeasurement& m : chain) {
      m.key.backend = Backend::kImported;
    }
    const AcceptanceModel model =
        engine::fit_acceptance_of(chain, chain[0].key.model, engine::fit_acceptance(lent));
    for (const PointMeasurement& m : judged) {
      const Yield truth = yield_of(m);
      const AcceptedTokens predicted =
          accepted_tokens(model, Strategy::parse(m.key.strategy), context - 1, context);
      const double miss = std::log(predicted.mean / truth.mean);
      held += std::abs(miss) < 1.645 * std::hypot(predicted.log_error, truth.log_error) ? 1.0 : 0.0;
      squares += miss * miss;
      trees += 1.0;
    }
  }
  CAPTURE(trees, held / trees, std::sqrt(squares / trees));
  CHECK(trees > 80.0);
  CHECK(held / trees >= 0.9);
  CHECK(std::sqrt(squares / trees) < 0.1);
}
