// Maps of a draft's smaller vocabulary: the right one, and every wrong one that was met.
#include "engine/io/vocab_map.h"

#include <catch2/catch.hpp>

#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

using Ids = std::vector<std::int64_t>;
constexpr std::int64_t kVocab = 40;

// Neighbours and gaps, as real ones have.
const Ids kTargets = {3, 4, 5, 6, 10, 11, 20, 21, 22, 39};

Ids offsets_of(const Ids& targets) {
  Ids out;
  for (std::size_t id = 0; id < targets.size(); ++id) {
    out.push_back(targets[id] - static_cast<std::int64_t>(id));
  }
  return out;
}

Ids marks_of(const Ids& targets) {
  Ids out(kVocab, 0);
  for (const std::int64_t target : targets) {
    out[static_cast<std::size_t>(target)] = 1;
  }
  return out;
}

Ids counting(std::int64_t count) {
  Ids out;
  for (std::int64_t id = 0; id < count; ++id) {
    out.push_back(id);
  }
  return out;
}

std::string error(const Ids& d2t, const std::optional<Ids>& t2d = {}) {
  return vocab_map_error({d2t, t2d}, kVocab);
}

}  // namespace

TEST_CASE("offsets are right with their marks and without") {
  CHECK(error(offsets_of(kTargets), marks_of(kTargets)).empty());
  CHECK(error(offsets_of(kTargets)).empty());
  CHECK(error({}).empty());
  CHECK(error(Ids(40, 0)).empty());  // the whole vocabulary
  CHECK(error(Ids(40, 0), Ids(40, 1)).empty());
  CHECK(error(offsets_of({20, 4, 3, 39})).empty());  // in order of frequency
}

TEST_CASE("marks prove a table right that looks wrong alone") {
  const Ids first = counting(10);
  CHECK(contains(error(Ids(10, 0)), "all zeros"));
  CHECK(error(Ids(10, 0), marks_of(first)).empty());
  Ids even;
  for (const std::int64_t id : first) {
    even.push_back(2 * id);
  }
  CHECK(contains(error(first), "counts 0, 1, 2"));
  CHECK(error(first, marks_of(even)).empty());
}

TEST_CASE("tables of another convention are reported by name") {
  for (const bool marked : {true, false}) {
    const std::optional<Ids> t2d = marked ? std::optional(marks_of(kTargets)) : std::nullopt;
    CHECK(contains(error(kTargets, t2d), "d2t holds target ids themselves"));
    CHECK(contains(error(counting(10), t2d), "d2t counts 0, 1, 2"));
    CHECK(contains(error(Ids(10, 0), t2d), "d2t is all zeros"));
    CHECK(contains(error({39, 3, 20, 4, 5, 6, 10, 11, 21, 22}, t2d), "target ids themselves"));
  }
  CHECK(contains(error({}, marks_of(kTargets)), "'t2d' stands without 'd2t'"));
}

TEST_CASE("halves that contradict each other are reported by the id") {
  Ids t2d = marks_of(kTargets);
  t2d[3] = 0;
  CHECK(contains(error(offsets_of(kTargets), t2d),
                 "name different tokens: d2t leads to target id 3, which t2d does not mark"));
  t2d = marks_of(kTargets);
  t2d[1] = 1;
  CHECK(contains(error(offsets_of(kTargets), t2d), "t2d marks target id 1, to which d2t"));
  t2d[7] = 2;
  CHECK(contains(error(offsets_of(kTargets), t2d), "t2d holds 2 at target id 7"));
}

TEST_CASE("offsets that leave the vocabulary or meet are reported by the draft id") {
  Ids d2t = offsets_of(kTargets);
  d2t[9] = 31;
  CHECK(contains(error(d2t), "draft id 9 out of the vocabulary: its offset is 31"));
  d2t[9] = -10;
  CHECK(contains(error(d2t), "draft id 9 out of the vocabulary"));
  d2t[9] = INT64_MAX;
  CHECK(contains(error(d2t), "draft id 9 out of the vocabulary"));
  d2t[9] = INT64_MIN;
  CHECK(contains(error(d2t), "draft id 9 out of the vocabulary"));
  d2t[9] = 22 - 9;
  CHECK(contains(error(d2t), "draft ids 8 and 9 to the same target id 22"));
}
