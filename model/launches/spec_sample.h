// Samplers of drafted chains (kernels/spec_sample; Optimized Speculative Sampling): the baseline's
// separate passes; the exact and the sigmoid form's one launch, which form it takes and what it
// reads. One rule for the launch, which takes it, and the prices.
#pragma once

#include <cstdint>

#include "model/words/traffic.h"

namespace versieve {

struct Sampler;       // model/launches/sampling.h
struct SamplingCase;  // model/words/kernel_case.h

// By the blocks of 512 threads that an SM holds of it: 128, 64, 40 registers a thread. Roomy and
// held keep a position's logits in registers as weights; voting keeps its statistics, and reads the
// rows of a sample's first rejection again.
// Streamed, for large batches: two launches, the second for the end of each sequence.
enum class ChainForm { kRoomy = 1, kHeld = 2, kVoting = 3, kStreamed = 4 };

inline constexpr int kVoteSamples = 32;    // a lane each
inline constexpr int kVotePositions = 31;  // bits of half a word, and lanes that write tokens

// A row in one launch: 256 warps at most, each with one or two rounds of 512 logits.
inline constexpr std::int64_t kMostFusedVocab = 2 * 256 * 512;
// Whether the exact and the sigmoid form are one launch; else they are the baseline's launches.
bool chain_in_one_launch(std::int64_t vocab);

struct ChainGrid {
  std::int64_t gamma = 0;  // drafted tokens; a position more is drawn
  std::int64_t samples = 1;
  std::int64_t position_threads = 0;  // of a position's cluster of blocks
  std::int64_t rounds = 1;            // of 512 logits a warp
  std::int64_t batch = 1;             // sequences
  std::int64_t vocab = 0;

  bool votes() const { return batch * samples <= kVoteSamples && gamma <= kVotePositions; }
  // Copies of a position's cluster that share out the samples.
  std::int64_t slices() const;
};

// REQUIRES: chain_in_one_launch(vocab).
ChainGrid chain_grid(std::int64_t gamma, std::int64_t samples, std::int64_t vocab,
                     std::int64_t batch = 1);

// Threads of a position's cluster for a row of `vocab` logits: a warp a chunk of one or two rounds,
// up to 16 chunks a block, blocks a power of two.
std::int64_t chain_position_threads(std::int64_t vocab);

// `votes`: positions may vote. Without, what does not fit the chip at once is held all the same.
// Two rounds' logits are held only in the roomy form.
// `sigmoid`: a test looks at single logits, so nothing is streamed.
ChainForm chain_form(const ChainGrid& grid, bool votes, bool sigmoid);

// What the launch must read. A sigmoid's test looks at single logits: where statistics are kept
// alone, no row is read but the one from which a token is drawn.
Traffic chain_traffic(ChainForm form, bool sigmoid, std::int64_t gamma, std::int64_t vocab,
                      std::int64_t element_bytes);

namespace traffic {

// Rows of logits in, rows of f32 probabilities out.
Traffic softmax_rows(std::int64_t rows, std::int64_t vocab, std::int64_t element_bytes);
// max(0, p - q) of gamma rows, all f32.
Traffic sample_difference(std::int64_t gamma, std::int64_t vocab);
// One f32 row read for a sum or a draw, for each of `rows`.
Traffic sample_rows_read(std::int64_t rows, std::int64_t vocab);
// Every logit of a chain's gamma + 1 target and gamma draft rows once.
Traffic spec_chain(std::int64_t gamma, std::int64_t vocab, std::int64_t element_bytes);
// Tokens drafted and drawn in, tokens of the samples out.
Traffic spec_pick(std::int64_t samples, std::int64_t gamma);

}  // namespace traffic

// `gamma` drafted tokens in each of the case's sequences.
void add_chain_sampler(const Sampler& sampler, const SamplingCase& c, std::int64_t gamma);

}  // namespace versieve
