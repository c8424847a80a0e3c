#include "engine/measure/door/judge_draws.h"

#include <algorithm>

#include "engine/io/formatted.h"
#include "engine/measure/door/chi_square.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

std::size_t outcome_count(std::int64_t places, std::int64_t vocab) {
  if (places * vocab > kMostOutcomes) {
    throw Error(ExitCode::kAnswerNo,
                formatted("a judge counts outcomes of up to 2^27 places x "
                          "tokens, not %lld x %lld",
                          static_cast<long long>(places), static_cast<long long>(vocab)));
  }
  return static_cast<std::size_t>(places * vocab);
}

// Sums of each place.
template <class Number>
std::vector<Number> by_place(const DrawTally& tally, const std::vector<Number>& outcomes) {
  std::vector<Number> out(static_cast<std::size_t>(tally.places));
  for (std::int64_t place = 0; place < tally.places; ++place) {
    for (std::int64_t token = 0; token < tally.vocab; ++token) {
      out[static_cast<std::size_t>(place)] += outcomes[tally.at(place, token)];
    }
  }
  return out;
}

json test_json(const ChiSquare& test) {
  return {{"chi_square", test.statistic}, {"cells", test.cells}, {"p_value", test.p_value}};
}

std::string test_text(const char* of, const ChiSquare& test) {
  return test.is_test()
             ? formatted("; %s: chi-square %.1f over %lld cells, p = %.3g", of, test.statistic,
                         static_cast<long long>(test.cells), test.p_value)
             : std::string();
}

// One outcome has all the probability that there is.
bool is_certain(const DrawTally& tally) {
  return std::count_if(tally.expected.begin(), tally.expected.end(),
                       [](double e) { return e > 0.0; }) == 1;
}

JudgedAs verdict_of(const DrawTally& tally, bool same_draws, const ChiSquare& where,
                    const ChiSquare& what) {
  if (!tally.impossible.empty()) {
    return JudgedAs::kWrong;
  }
  if (same_draws || is_certain(tally)) {
    return JudgedAs::kExact;
  }
  // Two tests: each at half the chance, and that where the tail is heavy.
  const double least = std::min(where.p_value, what.p_value);
  if (least < 0.5 * kLeastChance / kHeavyTail) {
    return JudgedAs::kWrong;
  }
  return what.is_test() ? JudgedAs::kFits : JudgedAs::kUndecided;
}

std::string reason_text(const DrawTally& tally, JudgedAs verdict, bool same_draws) {
  if (!tally.impossible.empty()) {
    return formatted("; draw %lld ", static_cast<long long>(tally.impossible_draw)) +
           tally.impossible;
  }
  if (verdict == JudgedAs::kExact) {
    return same_draws ? "; they are those that the uniforms give"
                      : "; no other outcome is possible";
  }
  return verdict == JudgedAs::kUndecided
             ? formatted("; too few for two outcomes of %.0f expected draws each", kLeastExpected)
             : std::string();
}

}  // namespace

DrawTally::DrawTally(const char* of, std::int64_t all_places, std::int64_t tokens)
    : family(of),
      places(all_places),
      vocab(tokens),
      expected(outcome_count(places, vocab)),
      counts(expected.size()) {}

void DrawTally::refuse_draw(std::int64_t draw, const std::string& why) {
  if (impossible.empty()) {
    impossible = why;
    impossible_draw = draw;
  }
}

Judgement judged_draws(const DrawTally& tally, bool same_draws) {
  ChiSquare where, what;
  if (tally.impossible.empty()) {
    where = chi_square(by_place(tally, tally.counts), by_place(tally, tally.expected));
    what = chi_square(tally.counts, tally.expected);
  }
  Judgement out;
  out.verdict = verdict_of(tally, same_draws, where, what);
  out.json = {{"draws", tally.draws},
              {"accepted", test_json(where)},
              {"outcomes", test_json(what)},
              {"same_draws", same_draws},
              {"impossible_draw", tally.impossible.empty() ? json() : json(tally.impossible_draw)}};
  out.sentence = formatted("%s: %s; %lld draws", tally.family, name_of(out.verdict),
                           static_cast<long long>(tally.draws)) +
                 reason_text(tally, out.verdict, same_draws) + test_text("where they stop", where) +
                 test_text("what they emit", what);
  return out;
}

Draws read_draws(DoorInput& answers, std::int64_t width) {
  const bool many = answers.rank("tokens") == 2;
  if (many) {
    answers.set_dim("width", width);
  }
  const std::vector<std::int32_t> tokens =
      answers.any_integers("tokens", many ? "R,width" : "width");
  const std::int64_t own = many ? width : answers.dim("width");
  if (own > width || tokens.empty()) {
    answers.refuse(formatted("tensor 'tokens' holds no draw of at most %lld tokens",
                             static_cast<long long>(width)));
  }
  Draws out;
  for (auto first = tokens.begin(); first != tokens.end(); first += own) {
    const auto end = std::find(first, first + own, -1);
    if (std::any_of(end, first + own, [](std::int32_t token) { return token != -1; })) {
      answers.refuse(formatted("draw %lld of tensor 'tokens' goes on behind its -1",
                               static_cast<long long>(out.count())));
    }
    out.emitted.emplace_back(first, end);
  }
  if (answers.has("accepted")) {
    answers.set_dim("draws", out.count());
    const std::vector<std::int32_t> accepted = answers.any_integers("accepted", "draws");
    for (std::size_t r = 0; r < accepted.size(); ++r) {
      if (accepted[r] + 1 != static_cast<std::int64_t>(out.emitted[r].size())) {
        answers.refuse(formatted("draw %zu emits %zu tokens, but accepted says %d", r,
                                 out.emitted[r].size(), accepted[r]));
      }
    }
  }
  return out;
}

bool are_same_draws(const DoorInput& input, const DoorRequest& request, const Draws& draws) {
  if (!input.has("uniforms")) {
    return false;
  }
  const TensorSet results = door_results(input.file(), request);
  const auto written = [&results](const char* name) {
    const Tensor& tensor = results.tensors.at(name);
    return values_as<std::int32_t>(
        TensorView{.type = tensor.type, .shape = tensor.shape, .bytes = tensor.bytes}, name);
  };
  const std::vector<std::int32_t> accepted = written("accepted"), tokens = written("tokens");
  if (static_cast<std::int64_t>(accepted.size()) != draws.count()) {
    return false;
  }
  const std::size_t width = tokens.size() / accepted.size();
  for (std::size_t r = 0; r < accepted.size(); ++r) {
    const auto first = tokens.begin() + static_cast<std::int64_t>(r * width);
    if (std::vector<std::int32_t>(first, first + accepted[r] + 1) != draws.emitted[r]) {
      return false;
    }
  }
  return true;
}

}  // namespace versieve::engine
