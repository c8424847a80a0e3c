// The teacher-forced loss: the formula, and the numbers of token-by-token decoding.
#include "engine/run/calibrate/text_loss.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

// The same loss through trees of one node.
template <class T>
double decoded_loss(tiny::Engine<T>& engine, const std::vector<std::int32_t>& text,
                    const std::string& schedule) {
  const std::size_t vocab = static_cast<std::size_t>(engine.target.shape().vocab);
  const std::size_t first =
      static_cast<std::size_t>(TextLoss<T>::first_scored(engine.target.shape().nsa));
  engine.target.cache().truncate(0);
  double sum = 0.0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    engine.target.verify(chain_tree({text[i]}), {.schedule = schedule});
    std::vector<T> logits(vocab);
    engine.ops->download(logits.data(), engine.target.logits(), vocab * sizeof(T));
    if (i >= first) {
      sum += token_loss(std::span<const T>(logits), text[i + 1]);
    }
    engine.target.commit(std::vector<std::int32_t>{0});
  }
  return sum / static_cast<double>(text.size() - 1 - first);
}

TEST_CASE("a token's loss is the negative logarithm of its probability") {
  const std::vector<double> logits = {0.0, std::log(2.0), std::log(5.0)};
  CHECK(token_loss<double>(logits, 1) == Approx(std::log(8.0 / 2.0)));
  CHECK(token_loss<double>(std::vector<double>{1e4, 0.0}, 1) == Approx(1e4));
  CHECK(token_loss<float>(std::vector<float>{-3e4F, -3e4F}, 0) == Approx(std::log(2.0)));
}

TEMPLATE_TEST_CASE("the loss of chains is that of decoding token by token, to the bit", "", float,
                   double) {
  tiny::Engine<TestType> engine;
  const std::vector<std::int32_t> text = tiny::prompt(600);
  TextLoss<TestType> loss(*engine.ops, engine.target, {text});
  CHECK(loss.scored_tokens() == 600 - 1 - 64);  // four blocks of 16 are selected
  for (const char* schedule : {"FFF", "FRF", "FRR"}) {
    CHECK(loss(schedule) == decoded_loss(engine, text, schedule));
  }
  CHECK(loss("FFF") != loss("FRR"));
  TextLoss<TestType> threaded(*engine.ops, engine.target, {text}, 2);
  CHECK(threaded("FRR") == loss("FRR"));
}

TEST_CASE("tokens count alike over all texts, and short texts have none to count") {
  tiny::Engine<float> engine;
  const std::vector<std::int32_t> a = tiny::prompt(200, 1);
  const std::vector<std::int32_t> b = tiny::prompt(101, 2);
  TextLoss<float> both(*engine.ops, engine.target, {a, b, tiny::prompt(65, 3)});
  TextLoss<float> first(*engine.ops, engine.target, {a});
  TextLoss<float> second(*engine.ops, engine.target, {b});
  CHECK(both.scored_tokens() == 135 + 36);
  CHECK(both("FRF") == Approx((first("FRF") * 135 + second("FRF") * 36) / 171));
}

TEST_CASE("while every block is selected, schedules do not differ in a bit") {
  tiny::Engine<float> engine;
  const std::vector<std::int32_t> text = tiny::prompt(64);
  const std::size_t count = 64 * static_cast<std::size_t>(engine.target.shape().vocab);
  std::vector<std::vector<float>> logits;
  for (const char* schedule : {"FFF", "FRF", "FRR"}) {
    engine.target.cache().truncate(0);
    engine.target.verify(chain_tree(text), {.schedule = schedule});
    logits.emplace_back(count);
    engine.ops->download(logits.back().data(), engine.target.logits(), count * sizeof(float));
  }
  CHECK(logits[0] == logits[1]);
  CHECK(logits[0] == logits[2]);
}

}  // namespace
}  // namespace versieve::engine
