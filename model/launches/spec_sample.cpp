#include "model/launches/spec_sample.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/row_ops.h"
#include "model/launches/sampling.h"
#include "model/launches/tree_sample.h"

namespace versieve {
namespace {

constexpr std::int64_t kChunk = 512;  // logits of a warp
constexpr std::int64_t kMostChunks = 16;
// Threads that the chip holds at once of clusters of 16 blocks with 64 registers a thread: seven of
// an H200's GPCs have 16 SMs or more, two blocks of 512 an SM.
constexpr std::int64_t kHeldThreads = 7 * 2 * 16 * 512;

std::int64_t parts(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

std::int64_t rounds_of(std::int64_t vocab) {
  return parts(vocab, kMostChunks * kMostChunks * kChunk);
}

constexpr double kBatch = 32.0;  // samples that one warp tests at once
// In steps of 1,024 logits of a block (kernels/spec_sample), by ranges of h100-sampled.db (NVIDIA
// H100, 2026-11-27). The sigmoid test weighs no difference, and draws where the exact one sums.
constexpr double kSigmoidShare = 0.9, kSigmoidTest = 8.0;
constexpr double kVotes = 3.5, kVote = 0.23;  // of earlier positions: waiting for any, and for each
constexpr double kSpilled = 8.0, kSigmoidSpilled = 20.0;           // registers, in the held form
constexpr double kSecondRound = 14.0, kSigmoidSecondRound = 30.0;  // of a warp's logits
// The voting form's first rejection reads its rows again.
constexpr double kReadAgain = 20.0, kSigmoidReadAgain = 5.0, kSampleReadAgain = 1.4;
// Of its row, twice by the 16 SMs of one GPC, which nothing else hides there: a MB.
constexpr double kVotingRowMb = 35.0;
// Rows that a sequence's end reads again, and that L2 has lost by then though all of them would
// fit: counters say so of every voting launch. Of sigmoids only the bonus row, and some of it.
constexpr double kRowsAgain = 2.0, kSigmoidRowsAgain = 0.45;
constexpr double kNeverKept = 1e18;

// Of a batch: below, a launch that keeps its logits is done before two are (a guess between
// measured cells, kernels/spec_sample/MEASURED.md). A single chain's votes cost less than a second
// launch.
constexpr std::int64_t kStreamedLogits = 6'000'000;

// Streamed: a warp's way over a chunk; what the second launch takes, and a row's statistics from
// its chunks, which its warps share out.
constexpr double kStreamed = 1.0, kStreamedTwice = 0.75;
constexpr double kEnd = 5.0, kLaterEnd = 55.0, kRowStatistics = 18.0;
constexpr double kWideSoftmax = 1.35;  // of f32 logits, over two bytes
constexpr double kDrawnChunk = 3.6;
constexpr double kStart = 24.0;      // of a launch, in such steps
constexpr double kWholeWave = 1.0;   // of clusters that keep their logits, behind the first
constexpr double kLaterWave = 34.0;  // of a batch's positions that wait for others to end

// Thread blocks of a form that an SM holds, by the registers of its threads.
double blocks_of_sm(ChainForm form, const ChainGrid& grid) {
  constexpr double kSmRegisters = 65536.0;
  const double registers = form == ChainForm::kRoomy                        ? 128.0
                           : form == ChainForm::kVoting && grid.rounds == 1 ? 40.0
                                                                            : 64.0;
  const double threads = number(grid.position_threads) / kSamplerCluster;
  return at_least_one(std::floor(kSmRegisters / (threads * registers)));
}

// Clusters of a form that run at once: seven GPCs have room for one of 16 blocks an SM.
double at_once(ChainForm form, const ChainGrid& grid) {
  return 7.0 * blocks_of_sm(form, grid);
}

double later_waves(ChainForm form, const ChainGrid& grid) {
  const double clusters = number(grid.batch * (grid.gamma + 1) * grid.slices());
  return std::max(0.0, clusters / at_once(form, grid) - 1.0);
}

double chain_steps(ChainForm form, bool sigmoid, const ChainGrid& grid,
                   std::int64_t element_bytes) {
  const double second = grid.rounds > 1 ? (sigmoid ? kSigmoidSecondRound : kSecondRound) : 0.0;
  const double steps = (sigmoid ? kSigmoidShare : 1.0) * number(grid.vocab) / kSamplerCluster /
                           kSamplerLogits * std::ceil(number(grid.samples) / kBatch) +
                       (sigmoid ? kSigmoidTest : 0.0) + second +
                       (grid.gamma > 1 ? kVotes + kVote * number(grid.gamma - 1) : 0.0);
  const double waves = later_waves(form, grid);
  if (form == ChainForm::kVoting) {
    return steps + kLaterWave * waves + (sigmoid ? kSigmoidReadAgain : kReadAgain) +
           kVotingRowMb * 1e-6 * number(grid.vocab * element_bytes) +
           kSampleReadAgain * number(grid.samples - 1);
  }
  const double held = form == ChainForm::kHeld ? (sigmoid ? kSigmoidSpilled : kSpilled) : 0.0;
  return (steps + held + kStart) * (1.0 + kWholeWave * std::ceil(waves)) - kStart;
}

}  // namespace

std::int64_t ChainGrid::slices() const {
  return std::clamp<std::int64_t>(samples / 256, 1, 128);
}

bool chain_in_one_launch(std::int64_t vocab) {
  return vocab <= kMostFusedVocab;
}

ChainGrid chain_grid(std::int64_t gamma, std::int64_t samples, std::int64_t vocab,
                     std::int64_t batch) {
  return {gamma, samples, chain_position_threads(vocab), rounds_of(vocab), batch, vocab};
}

std::int64_t chain_position_threads(std::int64_t vocab) {
  const std::int64_t chunks = parts(vocab, rounds_of(vocab) * kChunk);
  const std::int64_t of_block = parts(chunks, kMostChunks);
  const auto blocks = std::bit_ceil(static_cast<std::uint64_t>(parts(chunks, of_block)));
  return static_cast<std::int64_t>(blocks) * of_block * 32;
}

ChainForm chain_form(const ChainGrid& grid, bool votes, bool sigmoid) {
  const std::int64_t positions = grid.batch * (grid.gamma + 1);
  const std::int64_t threads = positions * grid.position_threads;
  const bool fits_roomy = threads * grid.slices() <= kHeldThreads / 2;
  if (!sigmoid && grid.samples == 1 && grid.gamma <= kVotePositions) {
    const std::int64_t logits = (positions + grid.batch * grid.gamma) * grid.vocab;
    if (grid.batch > 1 && logits >= kStreamedLogits) {
      return ChainForm::kStreamed;
    }
  }
  if (fits_roomy) {
    return ChainForm::kRoomy;
  }
  if (grid.rounds > 1) {
    return votes ? ChainForm::kVoting : ChainForm::kRoomy;
  }
  return votes && threads > kHeldThreads ? ChainForm::kVoting : ChainForm::kHeld;
}

Traffic chain_traffic(ChainForm form, bool sigmoid, std::int64_t gamma, std::int64_t vocab,
                      std::int64_t element_bytes) {
  return form == ChainForm::kVoting && sigmoid ? traffic::tree_tests(1, vocab, element_bytes)
                                               : traffic::spec_chain(gamma, vocab, element_bytes);
}

namespace traffic {

Traffic softmax_rows(std::int64_t rows, std::int64_t vocab, std::int64_t element_bytes) {
  return moved(TrafficTerm::kLogits, rows * vocab * element_bytes, rows * vocab * kF32Bytes,
               4.0 * static_cast<double>(rows * vocab));
}

Traffic sample_difference(std::int64_t gamma, std::int64_t vocab) {
  const std::int64_t bytes = gamma * vocab * kF32Bytes;
  return moved(TrafficTerm::kLogits, 2 * bytes, bytes, 2.0 * static_cast<double>(gamma * vocab));
}

Traffic sample_rows_read(std::int64_t rows, std::int64_t vocab) {
  return moved(TrafficTerm::kLogits, rows * vocab * kF32Bytes, 0,
               static_cast<double>(rows * vocab));
}

Traffic spec_chain(std::int64_t gamma, std::int64_t vocab, std::int64_t element_bytes) {
  const std::int64_t logits = (2 * gamma + 1) * vocab;
  return moved(TrafficTerm::kLogits, logits * element_bytes, 0, 6.0 * static_cast<double>(logits));
}

Traffic spec_pick(std::int64_t samples, std::int64_t gamma) {
  const std::int64_t tokens = samples * (gamma + 1);
  return moved(TrafficTerm::kLogits, 2 * tokens * kIntBytes, tokens * kIntBytes, 0.0);
}

}  // namespace traffic

namespace {

// A block of 32 warps a row goes over it in rounds of 16,384 logits, twice; an SM has one.
constexpr double kSoftmaxRound = 16.0;
double softmax_steps(const Sampler& s, std::int64_t rows) {
  const double rounds = std::ceil(number(s.vocab) / (kSoftmaxRound * kSamplerLogits));
  const double wide = s.element_bytes > 2 ? kWideSoftmax : 1.0;
  return kSoftmaxRound * wide * rounds * std::ceil(number(rows) / kSms);
}

// Of all sequences together.
void add_baseline(const Sampler& s, const SamplingCase& c, std::int64_t own_gamma) {
  const std::int64_t gamma = c.batch * own_gamma;
  const std::int64_t samples = c.batch * c.samples;
  for (const std::int64_t rows : {gamma + c.batch, gamma}) {
    LaunchWork softmax =
        s.made(LaunchKind::kSpecSoftmax, traffic::softmax_rows(rows, s.vocab, s.element_bytes), 1.0,
               softmax_steps(s, rows), true);
    softmax.passes = 2.0;
    softmax.working_set = std::min(number(rows), kSms) * number(s.vocab * (s.element_bytes + 4));
    s.out.add(softmax);
  }
  s.add(LaunchKind::kSpecRatio, traffic::elementwise(gamma, 2, 4, 4.0), 1.0, 0.0, false);
  s.add(LaunchKind::kSpecDifference, traffic::sample_difference(gamma, s.vocab),
        number(gamma * s.vocab) / kElementsPerBlock, 0.0, false);
  s.add(LaunchKind::kSpecSum, traffic::sample_rows_read(gamma, s.vocab), number(gamma), 1.0, false);
  // A draw walks over a row's chunks one after the other.
  s.add_steps(LaunchKind::kSpecDraw, traffic::sample_rows_read(samples, s.vocab), number(samples),
              number(s.vocab) / kSamplerLogits +
                  kDrawnChunk * number(parts(s.vocab, rounds_of(s.vocab) * kChunk)),
              false);
}

// Statistics of all chunks by the whole chip, then the ends of the sequences by a cluster each.
void add_streamed(const Sampler& s, const SamplingCase& c, const ChainGrid& grid,
                  const Traffic& rows) {
  const double chunks = number(c.batch * (2 * grid.gamma + 1) * s.vocab) / kSms / kSamplerLogits;
  LaunchWork statistics = s.made(LaunchKind::kSpecChain, rows, 1.0,
                                 chunks * (grid.rounds > 1 ? kStreamedTwice : kStreamed), true);
  s.out.add(statistics);
  const double warps = number(grid.position_threads) / kSamplerCluster / 32.0;
  const double rounds = number(grid.rounds);
  const double rows_of_end = kRowStatistics * rounds * number(2 * grid.gamma + 1) / warps;
  const double later = std::ceil(number(c.batch) / at_once(ChainForm::kHeld, grid)) - 1.0;
  LaunchWork end =
      s.made(LaunchKind::kSpecChain,
             chain_traffic(ChainForm::kVoting, true, 1, 2 * c.batch * s.vocab, s.element_bytes),
             1.0, kEnd + rows_of_end + later * (kLaterEnd * rounds + rows_of_end), false);
  end.handover_distance = rows.total();
  end.order = LatencyOrder::kBefore;
  s.out.add(end);
}

}  // namespace

void add_chain_sampler(const Sampler& s, const SamplingCase& c, std::int64_t gamma) {
  if (c.algorithm == SamplingAlgorithm::kBaseline || !chain_in_one_launch(s.vocab)) {
    add_baseline(s, c, gamma);
    return;
  }
  const bool sigmoid = c.algorithm == SamplingAlgorithm::kSigmoid;
  const ChainGrid grid = chain_grid(gamma, c.samples, s.vocab, c.batch);
  const ChainForm form = chain_form(grid, grid.votes(), sigmoid);
  const Traffic t = chain_traffic(form, sigmoid, gamma, c.batch * s.vocab, s.element_bytes);
  if (form == ChainForm::kStreamed) {
    add_streamed(s, c, grid, t);
  } else {
    LaunchWork chain = s.made(LaunchKind::kSpecChain, t, 1.0,
                              chain_steps(form, sigmoid, grid, s.element_bytes), true);
    chain.order = LatencyOrder::kBefore;  // its blocks have nothing else to do
    if (form == ChainForm::kVoting) {
      chain.passes = 1.0 + (sigmoid ? kSigmoidRowsAgain : kRowsAgain / number(2 * gamma + 1));
      chain.working_set = kNeverKept;
    }
    s.out.add(chain);
  }
  const std::int64_t samples = c.batch * c.samples;
  s.add(LaunchKind::kSpecPick, traffic::spec_pick(samples, gamma), number(samples), 0.0, false);
}

}  // namespace versieve
