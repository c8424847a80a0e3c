// The samplers. Chains: the baseline's passes, or one launch whose clusters have a position each.
// Trees: the baseline tests node by node over its parent's row, the exact form reads the rows of
// inner nodes once, a cluster a row. What a CTA reads again of a row comes out of L1 as far as it
// holds it.
#include <algorithm>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/kernel_traces.h"
#include "model/launches/spec_sample.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kLawThreads = 1024;  // of the baselines' CTAs
constexpr std::int64_t kClusterThreads = 512;
constexpr std::int64_t kStepBytes = 16384;  // of a CTA
constexpr std::int64_t kL1Bytes = 192 * 1024;
constexpr std::int64_t kLine = 128;
constexpr std::int64_t kTreeCluster = 16;
constexpr std::int64_t kWordBytes = 16;  // of logits, a lane's

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// What CTAs read of rows of logits or laws, and write.
struct LawLaunch {
  const char* path = "";
  std::int64_t rows = 1;  // a CTA or a cluster each
  std::int64_t cluster = 1;
  std::int64_t threads = kLawThreads;
  std::int64_t registers = 64;
  std::int64_t passes = 1;
  std::int64_t row_bytes = 0;
  std::vector<std::uint64_t> reads;    // a row of each tensor; row i lies at i * row_bytes
  std::int64_t second_rows = 1 << 30;  // that read the second tensor too
  // Laws in f32, by lanes that hold a word of logits each: a sector is written in parts.
  std::uint64_t laws = 0;
  std::int64_t law_bytes = 0;  // of a row
  std::int64_t parts = 1;      // stores of a sector; 1: whole
  std::uint64_t results = 0;   // eight bytes a row
};

class LawTrace final : public LaunchTrace {
 public:
  explicit LawTrace(const LawLaunch& l)
      : LaunchTrace({.path = l.path,
                     .ctas = l.rows * l.cluster,
                     .cluster = l.cluster,
                     .threads = l.threads,
                     .registers = l.registers,
                     .shared_bytes = 8192}),
        l_(l) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    const std::int64_t row = cta / l_.cluster;
    const std::int64_t first = cta % l_.cluster * share();
    const std::int64_t end = std::min(l_.row_bytes, first + share());
    const std::int64_t again = std::max<std::int64_t>(0, share() - kL1Bytes);
    const std::int64_t once = ceil_of(share(), kStepBytes);
    const std::int64_t repeated = ceil_of(again, kStepBytes);
    const std::int64_t read_steps = once + (l_.passes - 1) * repeated;
    if (step < read_steps) {
      const std::int64_t from =
          first + (step < once ? step : (step - once) % repeated) * kStepBytes;
      for (std::size_t i = 0; i < l_.reads.size(); ++i) {
        if (i == 0 || row < l_.second_rows) {
          append_read(l_.reads[i] + static_cast<std::uint64_t>(row * l_.row_bytes + from),
                      std::min(end, from + kStepBytes) - from, out);
        }
      }
      return true;
    }
    const std::int64_t law_steps = l_.laws == 0 ? 0 : ceil_of(l_.law_bytes, kStepBytes);
    if (step < read_steps + law_steps) {
      append_laws(row, (step - read_steps) * kStepBytes, out);
      return true;
    }
    if (step == read_steps + law_steps && l_.results != 0 && cta % l_.cluster == 0) {
      append_write(l_.results + static_cast<std::uint64_t>(row * 8), 8, out);
      return true;
    }
    return false;
  }

 private:
  std::int64_t share() const {
    return ceil_of(ceil_of(l_.row_bytes, l_.cluster), kWordBytes) * kWordBytes;
  }
  void append_laws(std::int64_t row, std::int64_t from, std::vector<Access>& out) const {
    const std::int64_t bytes = std::min(l_.law_bytes, from + kStepBytes) - from;
    const std::uint64_t at = l_.laws + static_cast<std::uint64_t>(row * l_.law_bytes + from);
    if (l_.parts == 1) {
      append_write(at, bytes, out);
      return;
    }
    // All lines, a part of each of their sectors at a time.
    for (std::int64_t part = 0; part < l_.parts; ++part) {
      out.push_back({.address = at + static_cast<std::uint64_t>(part * kFloat),
                     .bytes = static_cast<std::uint32_t>(kLine - l_.parts * kFloat + kFloat),
                     .count = static_cast<std::uint32_t>(ceil_of(bytes, kLine)),
                     .stride = kLine,
                     .kind = AccessKind::kWrite});
    }
  }

  LawLaunch l_;
};

void push(const LawLaunch& law, LaunchSequence& out) {
  out.push_back(std::make_unique<LawTrace>(law));
}

std::uint64_t offset(std::int64_t bytes) {
  return static_cast<std::uint64_t>(bytes);
}

void append_baseline_chain(const SamplingLaunch& s, LaunchSequence& out) {
  const std::int64_t gamma = s.nodes - 1;
  const std::int64_t row = s.vocab * s.element_bytes;
  const std::int64_t law = s.vocab * kFloat;
  const std::uint64_t drafts = s.laws + offset(s.nodes * law);
  const std::uint64_t residual = drafts + offset(gamma * law);
  const auto softmax = [&](std::uint64_t logits, std::int64_t rows, std::uint64_t laws) {
    push({.path = "spec_softmax",
          .rows = rows,
          .passes = 2,
          .row_bytes = row,
          .reads = {logits},
          .laws = laws,
          .law_bytes = law,
          .parts = kWordBytes / s.element_bytes,
          .results = s.results},
         out);
  };
  softmax(s.logits, s.nodes, s.laws);
  softmax(s.logits + offset(s.nodes * row), gamma, drafts);
  push({.path = "spec_ratio", .threads = 256, .row_bytes = gamma * 8, .reads = {s.results}}, out);
  push({.path = "spec_difference",
        .rows = ceil_of(gamma * law, 1024),
        .threads = 256,
        .registers = 32,
        .row_bytes = 1024,
        .reads = {s.laws, drafts},
        .laws = residual,
        .law_bytes = 1024},
       out);
  push({.path = "spec_sum",
        .rows = gamma,
        .row_bytes = law,
        .reads = {residual},
        .results = s.results},
       out);
  push({.path = "spec_draw", .passes = 2, .row_bytes = law, .reads = {residual}}, out);
}

// A cluster a position: its target row and, but for the last, its draft row.
void append_fused_chain(const SamplingLaunch& s, const SamplingCase& wanted, LaunchSequence& out) {
  const std::int64_t gamma = s.nodes - 1;
  const std::int64_t threads = chain_position_threads(s.vocab);
  const bool sigmoid = wanted.algorithm == SamplingAlgorithm::kSigmoid;
  const ChainGrid grid = chain_grid(gamma, wanted.samples, s.vocab);
  const ChainForm form = chain_form(grid, grid.votes(), sigmoid);
  const std::int64_t row = s.vocab * s.element_bytes;
  const bool tests_alone = form == ChainForm::kVoting && sigmoid;
  const std::int64_t cluster = std::max<std::int64_t>(1, threads / kClusterThreads);
  const std::int64_t registers = form == ChainForm::kRoomy                     ? 128
                                 : form == ChainForm::kHeld || grid.rounds > 1 ? 64
                                                                               : 40;
  const LawLaunch law{
      .path = "spec_chain",
      .rows = tests_alone ? 1 : s.nodes,
      .cluster = cluster,
      .threads = threads / cluster,
      .registers = registers,
      .row_bytes = row,
      .reads = {s.logits, s.logits + offset(s.nodes * row)},
      // Where votes are all that is kept one position draws, and only it has its row read.
      .second_rows = tests_alone ? 0 : gamma,
      .results = s.results};
  push(law, out);
}

void append_tree(const SamplingLaunch& s, const SamplingCase& wanted, LaunchSequence& out) {
  const std::int64_t inner = std::max<std::int64_t>(1, (s.nodes - 2) / wanted.width + 1);
  const std::int64_t row = s.vocab * s.element_bytes;
  if (wanted.algorithm == SamplingAlgorithm::kBaseline) {
    push({.path = "tree_tau",
          .rows = inner,
          .passes = std::min(wanted.width, s.nodes - 1),
          .row_bytes = row,
          .reads = {s.logits},
          .results = s.results},
         out);
    push({.path = "tree_walk", .passes = 2, .row_bytes = row, .reads = {s.logits}}, out);
    return;
  }
  push({.path = "tree_tests",
        .rows = inner,
        .cluster = kTreeCluster,
        .threads = kClusterThreads,
        .row_bytes = row,
        .reads = {s.logits},
        .results = s.results},
       out);
}

}  // namespace

void append_sampling(const SamplingLaunch& launch, const SamplingCase& wanted,
                     LaunchSequence& out) {
  if (wanted.width > 0) {
    append_tree(launch, wanted, out);
  } else if (wanted.algorithm == SamplingAlgorithm::kBaseline ||
             !chain_in_one_launch(launch.vocab)) {
    append_baseline_chain(launch, out);
  } else {
    append_fused_chain(launch, wanted, out);
  }
}

}  // namespace versieve::engine
