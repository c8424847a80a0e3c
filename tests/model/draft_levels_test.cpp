// Which drafts run their levels in one launch, and what that launch moves.
#include "model/draft_levels.h"

#include <catch2/catch.hpp>

namespace versieve {
namespace {

// The shipped pair's draft.
DraftShape demo_draft() {
  DraftShape draft = draft_shape_for(named_llm_shape("demo"));
  draft.intermediate = 1280;
  return draft;
}

bool taken(const DraftShape& draft, const DraftChoice& choice, std::int64_t sms = 132) {
  return drafts_in_one_launch(draft, 272, choice, sms);
}

TEST_CASE("the demo's draft runs its levels in one launch") {
  const DraftShape draft = demo_draft();
  const DraftCtas ctas = draft_ctas(draft, {10, 8, 64});
  CHECK(ctas.fuse == 5);
  CHECK(ctas.feature == 12);
  CHECK(ctas.attention == 64);
  CHECK(ctas.output == 5);
  CHECK(ctas.gate_up == 20);
  CHECK(ctas.down == 5);
  CHECK(ctas.head == 5);
  CHECK(ctas.total() == 117);
  for (const DraftChoice& choice : {DraftChoice{1, 1, 2}, DraftChoice{10, 4, 32},
                                    DraftChoice{15, 8, 256}, DraftChoice{33, 8, 9}}) {
    CHECK(taken(draft, choice));
  }
}

TEST_CASE("a launch for all levels has its limits") {
  const DraftShape draft = demo_draft();
  CHECK_FALSE(taken(draft, {16, 4, 32}));  // more entries than a product has columns
  CHECK_FALSE(taken(draft, {5, 9, 32}));   // more nodes a level
  CHECK_FALSE(taken(draft, {0, 0, 1}));    // no draft
  CHECK_FALSE(taken(draft, {5, 8, 32}, 116));
  CHECK(taken(draft, {5, 8, 32}, 117));
  CHECK_FALSE(drafts_in_one_launch(draft, 1025, {5, 4, 32}));
  DraftShape other = draft;
  other.vocab = 1025;
  CHECK_FALSE(taken(other, {5, 4, 32}));
  other = draft;
  other.window = 513;
  CHECK_FALSE(taken(other, {5, 4, 32}));
  other = draft;
  other.head_dim = 128;
  CHECK_FALSE(taken(other, {5, 4, 32}));
  other = draft;
  other.hidden = 512;  // four slices of the joint projection's K
  CHECK_FALSE(taken(other, {5, 4, 32}));
  other.hidden = 448;  // captured streams times 64 rows do not fit a CTA
  CHECK_FALSE(taken(other, {5, 4, 32}));
  const LlmShape large = named_llm_shape("nsa-1b");
  CHECK_FALSE(drafts_in_one_launch(draft_shape_for(large), large.vocab, {5, 4, 32}));
}

TEST_CASE("weights pass once, whatever the levels") {
  const DraftShape draft = demo_draft();
  const double hidden = 320.0;
  const double weights = 2.0 * (3.0 * hidden * hidden + 768.0 * hidden + 512.0 * hidden +
                                3.0 * 1280.0 * hidden + 272.0 * hidden);
  const auto read = [&](const DraftChoice& choice, std::int64_t context_len) {
    return traffic::draft_levels(draft, choice, context_len, 2).total_read();
  };
  // One level: two entries, and the window.
  const double entry = 768.0 * 4.0 + 3.0 * hidden * 2.0;
  CHECK(read({1, 4, 5}, 4096) == Approx(weights + 2.0 * entry + 512.0 * 2.0 * 128.0 * 2.0));
  CHECK(read({1, 4, 5}, 100) == Approx(weights + 2.0 * entry + 100.0 * 2.0 * 128.0 * 2.0));
  // A level more: an entry, and four nodes' rows of the table.
  CHECK(read({2, 4, 32}, 100) - read({1, 4, 32}, 100) == Approx(entry + 4.0 * 768.0 * 4.0));
  CHECK(traffic::draft_levels(draft, {2, 4, 32}, 100, 2).total_write() ==
        Approx(3.0 * 2.0 * 128.0 * 2.0));
}

}  // namespace
}  // namespace versieve
