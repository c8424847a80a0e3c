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
// In steps of 1,024 logits of a block (kernels/spec_sample). The sigmoid test weighs no difference,
// and draws where the exact one sums.
constexpr double kSigmoidShare = 0.9, kSigmoidTest = 8.0;
constexpr double kVotes = 3.5, kVote = 0.23;  // of earlier positions: waiting for any, and for each
constexpr double kSpilled = 8.0, kSigmoidSpilled = 20.0;  // registers, in the held form
// The voting form's first rejection reads its rows again.
constexpr double kReadAgain = 21.0, kSigmoidReadAgain = 15.0, kSampleReadAgain = 1.4;
constexpr double kVotingMb = 2.0;  // of logits, which nothing else hides there

// Of a batch: below, a launch that keeps its logits is done before two are (a guess between
// measured cells, kernels/spec_sample/MEASURED.md). A single chain's votes cost less than a second
// launch.
constexpr std::int64_t kStreamedLogits = 6'000'000;

// Streamed: what its second launch takes, with the first one's start; SMs that share out the
// logits.
constexpr double kStreamedEnd = 130.0, kStreamSms = 132.0;
constexpr double kLaterWave = 34.0;  // of a batch's positions that wait for others to end

// Of a batch, beyond a chain's: waves of clusters behind the first.
double later_waves(ChainForm form, const ChainGrid& grid) {
  if (grid.batch == 1) {
    return 0.0;
  }
  const double blocks = grid.rounds > 1 ? 2.0 : number(static_cast<std::int64_t>(form));
  const double at_once = number(kHeldThreads) / 2.0 * blocks / number(grid.position_threads);
  return std::max(0.0, number(grid.batch * (grid.gamma + 1)) / at_once - 1.0);
}

double chain_steps(ChainForm form, bool sigmoid, const ChainGrid& grid, std::int64_t vocab,
                   const Traffic& t) {
  const double steps = (sigmoid ? kSigmoidShare : 1.0) * number(vocab) / kSamplerCluster /
                           kSamplerLogits * std::ceil(number(grid.samples) / kBatch) +
                       (sigmoid ? kSigmoidTest : 0.0) +
                       (grid.gamma > 1 ? kVotes + kVote * number(grid.gamma - 1) : 0.0) +
                       kLaterWave * later_waves(form, grid);
  switch (form) {
    case ChainForm::kRoomy:
      return steps;
    case ChainForm::kHeld:
      return steps + (sigmoid ? kSigmoidSpilled : kSpilled);
    case ChainForm::kStreamed: {
      const std::int64_t rows = grid.batch * (2 * grid.gamma + 1);
      return kStreamedEnd + number(rows * vocab) / kStreamSms / kSamplerLogits;
    }
    case ChainForm::kVoting:
      break;
  }
  return steps + (sigmoid ? kSigmoidReadAgain : kReadAgain + kVotingMb * 1e-6 * t.total_read()) +
         kSampleReadAgain * number(grid.samples - 1);
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

// Of all sequences together.
void add_baseline(const Sampler& s, const SamplingCase& c, std::int64_t own_gamma) {
  const std::int64_t gamma = c.batch * own_gamma;
  const std::int64_t samples = c.batch * c.samples;
  for (const std::int64_t rows : {gamma + c.batch, gamma}) {
    s.add(LaunchKind::kSpecSoftmax, traffic::softmax_rows(rows, s.vocab, s.element_bytes),
          number(rows), 1.0, true);
  }
  s.add(LaunchKind::kSpecRatio, traffic::elementwise(gamma, 2, 4, 4.0), 1.0, 0.0, false);
  s.add(LaunchKind::kSpecDifference, traffic::sample_difference(gamma, s.vocab),
        number(gamma * s.vocab) / kElementsPerBlock, 0.0, false);
  s.add(LaunchKind::kSpecSum, traffic::sample_rows_read(gamma, s.vocab), number(gamma), 1.0, false);
  s.add(LaunchKind::kSpecDraw, traffic::sample_rows_read(samples, s.vocab), number(samples), 1.0,
        false);
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
  s.add_steps(LaunchKind::kSpecChain, t, 1.0, chain_steps(form, sigmoid, grid, s.vocab, t), true);
  const std::int64_t samples = c.batch * c.samples;
  s.add(LaunchKind::kSpecPick, traffic::spec_pick(samples, gamma), number(samples), 0.0, false);
}

}  // namespace versieve
