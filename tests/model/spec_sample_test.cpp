// Which form a chain's sampler runs in, at the shapes where it changes.
#include "model/launches/spec_sample.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/launches/sampling.h"
#include "model/launches/tree_sample.h"

using namespace versieve;

namespace {

ChainForm form_of(std::int64_t gamma, std::int64_t vocab, std::int64_t samples = 1,
                  std::int64_t batch = 1, bool sigmoid = false) {
  const ChainGrid grid = chain_grid(gamma, samples, vocab, batch);
  return chain_form(grid, grid.votes(), sigmoid);
}

template <class Is>
std::int64_t launches_of(const StepWork& work, const Is& is) {
  return std::count_if(work.begin(), work.end(),
                       [&](const LaunchWork& launch) { return is(launch.kind); });
}

}  // namespace

TEST_CASE("a position's cluster has a warp a chunk of 512 logits, blocks of a power of two") {
  CHECK(chain_position_threads(1) == 32);
  CHECK(chain_position_threads(512) == 32);
  CHECK(chain_position_threads(513) == 64);
  CHECK(chain_position_threads(5 * 512) == 8 * 32);     // eight blocks of a warp
  CHECK(chain_position_threads(32000) == 16 * 4 * 32);  // 63 chunks
  CHECK(chain_position_threads(70000) == 16 * 9 * 32);
  CHECK(chain_position_threads(131072) == 16 * 512);
  // Two rounds of 512 logits a warp.
  CHECK(chain_position_threads(131073) == 16 * 9 * 32);
  CHECK(chain_position_threads(151936) == 16 * 10 * 32);
  CHECK(chain_position_threads(262144) == 16 * 512);
  CHECK(chain_grid(1, 1, 131072).rounds == 1);
  CHECK(chain_grid(1, 1, 131073).rounds == 2);
}

TEST_CASE("few positions are roomy, more are held, and those beyond the chip vote") {
  for (const std::int64_t vocab : {128256, 131072}) {
    CHECK(form_of(6, vocab) == ChainForm::kRoomy);
    CHECK(form_of(7, vocab) == ChainForm::kHeld);
    CHECK(form_of(13, vocab) == ChainForm::kHeld);
    CHECK(form_of(14, vocab) == ChainForm::kVoting);
  }
  CHECK(form_of(23, 70000) == ChainForm::kHeld);
  CHECK(form_of(24, 70000) == ChainForm::kVoting);
  CHECK(form_of(27, 32000) == ChainForm::kRoomy);
  CHECK(form_of(28, 32000) == ChainForm::kHeld);
}

TEST_CASE("many samples or positions have no votes, and slices of samples take room") {
  CHECK(form_of(16, 128256, 32) == ChainForm::kVoting);
  CHECK(form_of(16, 128256, 33) == ChainForm::kHeld);
  CHECK(form_of(31, 128256) == ChainForm::kVoting);
  CHECK(form_of(32, 128256) == ChainForm::kHeld);
  CHECK(form_of(1, 128256, 256) == ChainForm::kRoomy);
  CHECK(form_of(1, 128256, 4 * 256) == ChainForm::kHeld);  // four copies of two positions
}

TEST_CASE("two rounds a warp are roomy or vote, and wait in line without votes") {
  CHECK(form_of(6, 262144) == ChainForm::kRoomy);
  CHECK(form_of(7, 262144) == ChainForm::kVoting);
  CHECK(form_of(10, 151936) == ChainForm::kRoomy);
  CHECK(form_of(11, 151936) == ChainForm::kVoting);
  CHECK(form_of(11, 151936, 1, 2) == ChainForm::kStreamed);  // of a batch
  CHECK(form_of(16, 262144, 33) == ChainForm::kRoomy);
}

TEST_CASE("sequences of a batch take room as positions do, and share the votes") {
  CHECK(form_of(1, 128256, 1, 3) == ChainForm::kRoomy);  // six positions
  CHECK(form_of(1, 128256, 1, 4) == ChainForm::kHeld);
  CHECK(form_of(4, 128256, 1, 3) == ChainForm::kVoting);
  CHECK(form_of(4, 128256, 1, 16) == ChainForm::kStreamed);
  CHECK(form_of(4, 128256, 1, 16, true) == ChainForm::kVoting);  // sigmoids look at single logits
  CHECK(form_of(4, 128256, 2, 16) == ChainForm::kVoting);        // a sample more ends elsewhere
  CHECK(form_of(4, 128256, 3, 11) == ChainForm::kHeld);          // 33 samples have no votes
}

TEST_CASE("what is priced is what runs: one launch up to 262,144 logits, the baseline's above") {
  for (const SamplingAlgorithm algorithm :
       {SamplingAlgorithm::kExact, SamplingAlgorithm::kSigmoid}) {
    for (const std::int64_t vocab : {131073, 262144, 262145}) {
      StepWork work;
      add_sampling({.algorithm = algorithm}, vocab, 5, 2, true, work);
      const auto first = [](LaunchKind kind) { return kind == LaunchKind::kSpecChain; };
      CHECK(launches_of(work, first) == (chain_in_one_launch(vocab) ? 1 : 0));
      const auto separate = [](LaunchKind kind) { return kind == LaunchKind::kSpecSoftmax; };
      CHECK(launches_of(work, separate) == (chain_in_one_launch(vocab) ? 0 : 2));
    }
  }
  for (const auto& [nodes, vocab] :
       {std::pair<std::int64_t, std::int64_t>{128, 262144}, {129, 32000}, {16, 262145}}) {
    StepWork work;
    add_sampling({.algorithm = SamplingAlgorithm::kExact, .width = 4}, vocab, nodes, 2, true, work);
    const auto fused = [](LaunchKind kind) { return kind == LaunchKind::kTreeTests; };
    CHECK(launches_of(work, fused) == (tree_in_one_launch(nodes, vocab) ? 1 : 0));
  }
  CHECK(tree_in_one_launch(128, 262144));
  CHECK(!tree_in_one_launch(129, 32000));
  CHECK(!chain_in_one_launch(262145));
}

TEST_CASE("a batch and what is cut of its rows are priced as they run") {
  const auto launches = [](const SamplingCase& c, std::int64_t vocab) {
    StepWork work;
    add_sampling(c, vocab, 9, 2, true, work);
    return work;
  };
  for (const std::int64_t vocab : {32000, 128256, 262144}) {
    CAPTURE(vocab);
    double steps = 0.0;
    for (const std::int64_t batch : {1, 4, 16}) {
      const StepWork work = launches({.batch = batch}, vocab);
      const LaunchWork& chain = *work.begin();
      CHECK(chain.kind == LaunchKind::kSpecChain);
      CHECK(chain.unique.total_read() == 17.0 * static_cast<double>(batch * vocab) * 2.0);
      CHECK(chain.steps > steps);
      steps = chain.steps;
    }
    // The baseline's launches are of all rows.
    const StepWork separate =
        launches({.algorithm = SamplingAlgorithm::kBaseline, .batch = 4}, vocab);
    CHECK(separate.begin()->unique.total_read() == 36.0 * static_cast<double>(vocab) * 2.0);
    // A search a rule, before the sampler.
    const StepWork cut = launches({.batch = 4, .top_k = 50}, vocab);
    const StepWork twice = launches({.batch = 4, .top_k = 50, .top_p = 0.95}, vocab);
    const StepWork floor = launches({.batch = 4, .min_p = 0.1}, vocab);
    const bool streams =
        chain_form(chain_grid(8, 1, vocab, 4), true, false) == ChainForm::kStreamed;
    CHECK(launches_of(cut, [](LaunchKind kind) { return kind == LaunchKind::kSpecChain; }) ==
          (streams ? 3 : 2));
    CHECK(cut.begin()->unique.total_read() == 68.0 * static_cast<double>(vocab) * 2.0);
    CHECK(floor.begin()->steps < cut.begin()->steps);
    CHECK(cut.begin()->steps < twice.begin()->steps);
  }
}

TEST_CASE("a voting sigmoid reads the row that it draws from") {
  const std::int64_t vocab = 1000;
  const double row = 2.0 * static_cast<double>(vocab);
  CHECK(chain_traffic(ChainForm::kVoting, true, 16, vocab, 2).total_read() == row);
  CHECK(chain_traffic(ChainForm::kVoting, false, 16, vocab, 2).total_read() ==
        traffic::spec_chain(16, vocab, 2).total_read());
  CHECK(chain_traffic(ChainForm::kHeld, true, 16, vocab, 2).total_read() > 32.0 * row);
}

TEST_CASE("behind a cut the rows are read cold once, and a step's logits not at all") {
  const auto cold_launches = [](const SamplingCase& c) {
    StepWork work;
    add_sampling(c, 128256, 9, 2, true, work);
    return std::count_if(work.begin(), work.end(), [](const LaunchWork& launch) {
      return launch.kind == LaunchKind::kSpecChain && launch.handover_distance > 1e17;
    });
  };
  CHECK(cold_launches({}) == 1);
  CHECK(cold_launches({.top_k = 50}) == 1);  // of two: the search alone
  StepWork step;
  add_step_sampling({}, 128256, 9, 2, step);
  REQUIRE(step.count == 1);  // positions vote: nobody picks
  CHECK(step.begin()->kind == LaunchKind::kSpecChain);
  CHECK(step.begin()->handover_distance < 1e17);
}

TEST_CASE("positions that the chip does not hold at once take waves of their clusters") {
  const auto steps = [](std::int64_t gamma) {
    StepWork work;
    add_sampling({}, 151936, gamma + 1, 2, true, work);
    return work.begin()->steps;
  };
  // Clusters of 16 blocks of ten warps with 128 registers a thread: one a GPC, seven at once.
  CHECK(steps(6) < 1.1 * steps(5));
  CHECK(steps(7) > 1.8 * steps(6));
}

TEST_CASE("a chain's end reads rows again: what L2 has lost by then counts") {
  const auto launched = [](const SamplingCase& c, std::int64_t nodes) {
    StepWork work;
    add_sampling(c, 128256, nodes, 4, true, work);
    return work;
  };
  const StepWork held = launched({}, 9), votes = launched({}, 17);
  CHECK(held.begin()->passes == 1.0);
  // Both rows of the first rejection, of 33.
  CHECK(votes.begin()->passes == Approx(1.0 + 2.0 / 33.0));
  CHECK(votes.begin()->working_set > 1e12);
  // A batch of large rows: statistics of all of them, then two rows of each of 16 sequences.
  const StepWork streams = launched({.batch = 16}, 9);
  REQUIRE(streams.count >= 2);
  CHECK(streams.work[1].kind == LaunchKind::kSpecChain);
  CHECK(streams.work[0].unique.total_read() == 16.0 * 17.0 * 128256.0 * 4.0);
  CHECK(streams.work[1].unique.total_read() == 16.0 * 2.0 * 128256.0 * 4.0);
  CHECK(streams.work[1].handover_distance == streams.work[0].unique.total());
}

TEST_CASE("a search for cuts goes in waves of its rows' clusters and over its slices again") {
  const auto cut = [](std::int64_t nodes) {
    StepWork work;
    add_sampling({.top_k = 50, .top_p = 0.95}, 32000, nodes, 2, true, work);
    return *work.begin();
  };
  // 33 rows are 33 clusters of eight blocks, of which 32 run at once; 41 are of four blocks.
  CHECK(cut(17).steps > 1.7 * cut(9).steps);
  CHECK(cut(21).steps < 1.3 * cut(9).steps);
  CHECK(cut(9).working_set == 17.0 * 32000.0 * 2.0);
  CHECK(cut(9).passes > 4.0);
}

TEST_CASE("a baseline's rows that the chip does not hold at once take another wave") {
  const auto softmax = [](std::int64_t batch) {
    StepWork work;
    add_sampling({.algorithm = SamplingAlgorithm::kBaseline, .batch = batch}, 128256, 9, 2, true,
                 work);
    return *work.begin();
  };
  CHECK(softmax(14).steps == softmax(1).steps);  // 126 rows, an SM each
  CHECK(softmax(16).steps == 2.0 * softmax(1).steps);
  CHECK(softmax(16).working_set == 132.0 * 128256.0 * 6.0);
}
