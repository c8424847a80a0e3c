// Which form a chain's sampler runs in, at the shapes where it changes.
#include "model/launches/spec_sample.h"

#include <catch2/catch.hpp>

using namespace versieve;

namespace {

ChainForm form_of(std::int64_t gamma, std::int64_t vocab, std::int64_t samples = 1) {
  const ChainGrid grid{gamma, samples, chain_position_threads(vocab)};
  return chain_form(grid, grid.votes());
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

TEST_CASE("a voting sigmoid reads the row that it draws from") {
  const std::int64_t vocab = 1000;
  const double row = 2.0 * static_cast<double>(vocab);
  CHECK(chain_traffic(ChainForm::kVoting, true, 16, vocab, 2).total_read() == row);
  CHECK(chain_traffic(ChainForm::kVoting, false, 16, vocab, 2).total_read() ==
        traffic::spec_chain(16, vocab, 2).total_read());
  CHECK(chain_traffic(ChainForm::kHeld, true, 16, vocab, 2).total_read() > 32.0 * row);
}
