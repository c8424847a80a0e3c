// Sequoia's acceptance vectors, as its test_accept prints them.
#include "tests/engine/analyse/import/refusals.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

// Four children; 0.15 of the steps accept none.
const std::string kVector =
    "tensor([0.0000, 0.5500, 0.1500, 0.1000, 0.0500,\n        0.1500], device='cuda:0')\n";

ImportedPoints read(const std::string& text, std::optional<std::int64_t> steps = 1000) {
  return read_sequoia_vector({.file = "f", .text = text, .context_len = 256, .steps = steps});
}

}  // namespace

TEST_CASE("a vector is the tokens of one level of so many children") {
  const ImportedPoints points = read(kVector);
  REQUIRE(points.points.size() == 3);  // 1, 2, 4 children
  CHECK(points.points[0].key.strategy == "dense/d1k1n2/bfs/c1/F*");
  CHECK(points.points[0].acceptance->accepted_per_step == Approx(1.55));
  CHECK(points.points[1].acceptance->accepted_per_step == Approx(1.70));
  CHECK(points.points[2].key.strategy == "dense/d1k4n5/bfs/c1/F*");
  CHECK(points.points[2].acceptance->accepted_histogram == std::vector<std::int64_t>{0, 150, 850});
  CHECK(points.points[2].key.context_len == 256);
  CHECK(read("[0, 0.6, 0.4]").points.at(0).acceptance->accepted_per_step == Approx(1.6));
}

TEST_CASE("what is no vector, or says too little, is refused by name") {
  const auto refusal = [](const std::string& text) {
    const Error error = test::error_of([&] { read(text); });
    CHECK(error.code() == ExitCode::kBadInput);
    return std::string(error.what());
  };
  CHECK(test::contains(refusal("tensor([0.0, 0.5"), "cut off"));
  CHECK(test::contains(refusal("tensor([])"), "a number of the vector"));
  CHECK(test::contains(refusal("tensor([0.0, nan, 0.5])"), "a number of the vector"));
  CHECK(test::contains(refusal("tensor([0.0, -0.5, 1.5])"), "a number of the vector"));
  CHECK(test::contains(refusal("tensor([0.0, 1.0])"), "fewer than three"));
  CHECK(test::contains(refusal("tensor([0.5, 0.25, 0.25])"), "begins with 0 and sums to 1"));
  CHECK(test::contains(refusal("tensor([0.0, 0.5, 0.25])"), "begins with 0 and sums to 1"));
  std::string huge = "tensor([0";
  for (int i = 0; i < 3000; ++i) {
    huge += ", 0";
  }
  CHECK(test::contains(refusal(huge + "])"), "more than 1026"));
  const Error unstated = test::error_of([] { read(kVector, std::nullopt); });
  CHECK(unstated.code() == ExitCode::kUsage);
  CHECK(test::contains(unstated.what(), "--steps"));
}
