// How far from the target's law do sigmoids take the emitted text? Measured on the demo pair's own
// logits: chains sampled by the draft at temperature 1 on held-out prompts, and at each of their
// positions the whole law of the next token, computed, not sampled. test_engine "[bench]" prints
// the table of kernels/spec_sample/MEASURED.md.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "engine/run/model/load.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/generate.h"
#include "kernels/spec_sample/categorical.h"
#include "tests/support/paths.h"

namespace versieve::engine {
namespace {

using Law = std::vector<double>;

// Weights that a draft is tested by, and that its rejection is redrawn from.
struct Tested {
  Law target, draft;
};

struct Emitted {
  Law law;
  double acceptance = 0.0;
};

// The law of one emitted token: x from q is kept with min(1, p'(x) / q'(x)), else the token comes
// from max(0, p' - q'), or from p where that is empty.
Emitted emitted(const Law& p, const Law& q, const Tested& tested) {
  Emitted e{.law = Law(p.size()), .acceptance = 0.0};
  Law left(p.size());
  double mass = 0.0;
  for (std::size_t x = 0; x < p.size(); ++x) {
    e.law[x] = q[x] * std::min(1.0, tested.target[x] / tested.draft[x]);
    e.acceptance += e.law[x];
    left[x] = std::max(0.0, tested.target[x] - tested.draft[x]);
    mass += left[x];
  }
  for (std::size_t x = 0; x < p.size(); ++x) {
    e.law[x] += (1.0 - e.acceptance) * (mass > 0.0 ? left[x] / mass : p[x]);
  }
  return e;
}

// Total variation.
double distance(const Law& a, const Law& b) {
  double sum = 0.0;
  for (std::size_t x = 0; x < a.size(); ++x) {
    sum += std::abs(a[x] - b[x]);
  }
  return sum / 2.0;
}

struct Logits {
  std::vector<float> target, draft;
};

std::vector<std::int32_t> prompt_tokens(const std::string& name) {
  std::ifstream in(VERSIEVE_SOURCE_DIR "/engine/demo/prompts/test/" + name, std::ios::binary);
  REQUIRE(in.good());
  std::vector<std::int32_t> tokens = {256};  // the beginning of the text; the rest are bytes
  for (std::istreambuf_iterator<char> at(in), end; at != end; ++at) {
    tokens.push_back(static_cast<unsigned char>(*at));
  }
  return tokens;
}

// Logits of both models at every position of the chains of a run.
std::vector<Logits> chain_logits(const std::string& prompt, std::int64_t new_tokens) {
  const Checkpoint files = load_target(VERSIEVE_SOURCE_DIR "/engine/demo/nsa");
  const DraftCheckpoint draft_files =
      load_draft(VERSIEVE_SOURCE_DIR "/engine/demo/nsa/draft", files.shape);
  const auto ops = kernels::make_cpu_ops<float>(2);
  Target<float> target = make_target<float>(*ops, files, &draft_files);
  Draft<float> draft = make_draft<float>(*ops, draft_files, target);
  Generator<float> generator(*ops, target, &draft);
  generator.prefill(prompt_tokens(prompt));
  GenerateOptions options{.strategy = Strategy::parse("nsa/d4k1n5/bfs/c1/F*"),
                          .max_new_tokens = new_tokens,
                          .temperature = 1.0,
                          .seed = 7};
  DraftSource<float> source(*ops, draft,
                            {.choice = options.strategy.draft,
                             .temperature = 1.0,
                             .seed = 7,
                             .sampling = SamplingAlgorithm::kExact});
  const std::int64_t vocab = target.shape().vocab;
  std::vector<Logits> seen;
  options.on_step = [&](const StepResult& step) {
    REQUIRE(source.sampled_logits() != nullptr);
    for (std::int64_t c = 0; c + 1 < step.tree.size(); ++c) {
      Logits row{std::vector<float>(static_cast<std::size_t>(vocab)),
                 std::vector<float>(static_cast<std::size_t>(vocab))};
      const std::size_t bytes = row.target.size() * sizeof(float);
      ops->download(row.target.data(), target.logits() + c * vocab, bytes);
      ops->download(row.draft.data(), source.sampled_logits() + c * vocab, bytes);
      seen.push_back(std::move(row));
    }
  };
  generator.run(options, source);
  return seen;
}

// Means over positions.
struct Summary {
  double distance = 0.0, acceptance = 0.0;
};

Summary by_softmax(const std::vector<Logits>& rows) {
  Summary mean;
  for (const Logits& row : rows) {
    const std::int64_t vocab = static_cast<std::int64_t>(row.target.size());
    const Law p = kernels::softmax_row(row.target.data(), vocab, 1.0);
    const Law q = kernels::softmax_row(row.draft.data(), vocab, 1.0);
    const Emitted e = emitted(p, q, {p, q});
    mean.distance += distance(e.law, p) / static_cast<double>(rows.size());
    mean.acceptance += e.acceptance / static_cast<double>(rows.size());
  }
  return mean;
}

Summary by_sigmoid(const std::vector<Logits>& rows, double alpha, double beta) {
  Summary mean;
  for (const Logits& row : rows) {
    const std::int64_t vocab = static_cast<std::int64_t>(row.target.size());
    const kernels::SigmoidScale scale{1.0, alpha, beta};
    const Law p = kernels::softmax_row(row.target.data(), vocab, 1.0);
    const Law q = kernels::softmax_row(row.draft.data(), vocab, 1.0);
    const Emitted e = emitted(p, q,
                              {kernels::sigmoid_row(row.target.data(), vocab, scale),
                               kernels::sigmoid_row(row.draft.data(), vocab, scale)});
    mean.distance += distance(e.law, p) / static_cast<double>(rows.size());
    mean.acceptance += e.acceptance / static_cast<double>(rows.size());
  }
  return mean;
}

double draft_distance(const std::vector<Logits>& rows) {
  double sum = 0.0;
  for (const Logits& row : rows) {
    const std::int64_t vocab = static_cast<std::int64_t>(row.target.size());
    sum += distance(kernels::softmax_row(row.target.data(), vocab, 1.0),
                    kernels::softmax_row(row.draft.data(), vocab, 1.0));
  }
  return sum / static_cast<double>(rows.size());
}

TEST_CASE("softmax keeps the target's law on the demo pair's logits, sigmoids emit the draft's") {
  const std::vector<Logits> rows = chain_logits("chat-400-0.txt", 12);
  REQUIRE(rows.size() >= 12);
  const double apart = draft_distance(rows);
  const Summary exact = by_softmax(rows);
  CHECK(exact.distance < 1e-12);
  CHECK(exact.acceptance == Approx(1.0 - apart));
  const Summary wide = by_sigmoid(rows, -1e3, 1e3);
  CHECK(wide.acceptance > 0.99);
  CHECK(wide.distance == Approx(apart).epsilon(0.05));
  CHECK(wide.distance > 0.05);
}

TEST_CASE("distances of emitted tokens from the target's law", "[.][bench]") {
  std::vector<Logits> rows;
  for (const char* prompt :
       {"chat-1000-3.txt", "code-1000-3.txt", "plan-1000-3.txt", "prose-1000-3.txt"}) {
    const std::vector<Logits> more = chain_logits(prompt, 96);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  std::printf("%zu positions; total variation of q from p: %.4f\n", rows.size(),
              draft_distance(rows));
  const Summary exact = by_softmax(rows);
  std::printf("softmax           distance %.2e acceptance %.4f\n", exact.distance,
              exact.acceptance);
  for (const auto& [alpha, beta] : {std::pair{-1.0, 1.0},
                                    {-5.0, 5.0},
                                    {-10.0, 10.0},
                                    {0.0, 20.0},
                                    {10.0, 11.0},
                                    {-1e2, 1e2},
                                    {-1e3, 1e3},
                                    {-1e4, 1e4}}) {
    const Summary s = by_sigmoid(rows, alpha, beta);
    std::printf("sigmoid %6g %6g distance %.4f acceptance %.4f\n", alpha, beta, s.distance,
                s.acceptance);
  }
}

}  // namespace
}  // namespace versieve::engine
