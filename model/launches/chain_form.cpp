#include "model/launches/chain_form.h"

#include <algorithm>
#include <bit>

#include "model/launches/op_traffic.h"

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

}  // namespace

std::int64_t ChainGrid::slices() const {
  return std::clamp<std::int64_t>(samples / 256, 1, 128);
}

std::int64_t chain_position_threads(std::int64_t vocab) {
  const std::int64_t chunks = parts(vocab, kChunk);
  const std::int64_t of_block = parts(chunks, kMostChunks);
  const auto blocks = std::bit_ceil(static_cast<std::uint64_t>(parts(chunks, of_block)));
  return static_cast<std::int64_t>(blocks) * of_block * 32;
}

ChainForm chain_form(const ChainGrid& grid, bool votes) {
  const std::int64_t threads = (grid.gamma + 1) * grid.position_threads;
  if (threads * grid.slices() <= kHeldThreads / 2) {
    return ChainForm::kRoomy;
  }
  return votes && threads > kHeldThreads ? ChainForm::kVoting : ChainForm::kHeld;
}

Traffic chain_traffic(ChainForm form, bool sigmoid, std::int64_t gamma, std::int64_t vocab,
                      std::int64_t element_bytes) {
  return form == ChainForm::kVoting && sigmoid ? traffic::tree_tests(1, vocab, element_bytes)
                                               : traffic::spec_chain(gamma, vocab, element_bytes);
}

}  // namespace versieve
