// An acceptance vector of Sequoia (its test_accept, 2024): w + 2 numbers, 0, then the chance
// that the i-th of a node's w children is the accepted one, then that none is. Its saved form is a
// zip of torch; read is what printing it shows, or the same as a list. How many steps it rests on
// is said by no number of it, but by the program's last line ("large model steps").
#include <cmath>

#include "engine/analyse/import/import_points.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr double kDigits = 2e-3;  // printed with four digits, up to so many times
constexpr std::size_t kLeastNumbers = 3, kMostNumbers = 1026;

// The numbers between the first brackets.
std::vector<double> numbers_of(const LinePlace& place, std::string_view text) {
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) {
    place.refuse("has no list between brackets: is it cut off?");
  }
  std::vector<double> out;
  std::string word;
  for (const char c : std::string(text.substr(open + 1, close - open - 1)) + ",") {
    if (c != ',') {
      word += c == '\n' || c == '\r' || c == '\t' || c == ' ' ? "" : std::string(1, c);
      continue;
    }
    if (out.size() == kMostNumbers) {
      place.refuse("has more than 1026 numbers, which no vector of 1024 children has");
    }
    out.push_back(decimal_number(place, "a number of the vector", word, 0.0, 1.0));
    word.clear();
  }
  return out;
}

void check_vector(const LinePlace& place, const std::vector<double>& vector) {
  if (vector.size() < kLeastNumbers) {
    place.refuse("has fewer than three numbers: 0, one child's chance, that of none");
  }
  double sum = 0.0;
  for (const double number : vector) {
    sum += number;
  }
  if (vector.front() != 0.0 || std::abs(sum - 1.0) > kDigits) {
    place.refuse("is no acceptance vector of test_accept, which begins with 0 and sums to 1");
  }
}

}  // namespace

ImportedPoints read_sequoia_vector(const ImportText& input) {
  const LinePlace place{.file = input.file, .line = 1};
  const std::vector<double> vector = numbers_of(place, input.text);
  check_vector(place, vector);
  if (!input.steps) {
    throw Error(ExitCode::kUsage, input.file +
                                      " does not say how many steps it rests on: --steps does, "
                                      "with the large model steps that test_accept prints");
  }
  const std::int64_t steps = *input.steps;
  const std::int64_t context_len = context_of(input, {});
  const std::int64_t children = static_cast<std::int64_t>(vector.size()) - 2;
  ImportedPoints out{.rows_taken = 1};
  double accepted = 0.0;
  for (std::int64_t width = 1; width <= children; ++width) {
    accepted += vector[static_cast<std::size_t>(width)];
    const bool is_kept = (width & (width - 1)) == 0 || width == children;
    if (is_kept) {
      const std::int64_t right = std::llround(std::min(1.0, accepted) * static_cast<double>(steps));
      out.points.push_back(imported_acceptance(
          strategy_of(place, input.attention, {.depth = 1, .width = width, .nodes = width + 1}),
          context_len, acceptance_of({0, steps - right, right})));
    }
  }
  out.remarks = {
      "a vector is of one level: children are tested in their order, so that fewer of them accept "
      "what the first ones do",
      "steps are as stated"};
  return out;
}

}  // namespace versieve::engine
