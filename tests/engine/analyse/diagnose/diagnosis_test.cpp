// Each rule finds what it is for, passes what is sound, and says what it lacks.
#include "engine/analyse/diagnose/diagnosis.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

PointMeasurement drafted(const std::string& strategy, std::int64_t context,
                         std::vector<std::int64_t> histogram) {
  PointMeasurement m;
  m.key = {.workload = WorkloadKind::kAcceptance,
           .model = "pair",
           .regime = "chat",
           .strategy = strategy,
           .backend = Backend::kCuda,
           .context_len = context};
  AcceptanceMeasurement a{.accepted_histogram = std::move(histogram)};
  for (std::size_t tokens = 0; tokens < a.accepted_histogram.size(); ++tokens) {
    a.steps += a.accepted_histogram[tokens];
    a.generated_tokens += static_cast<std::int64_t>(tokens) * a.accepted_histogram[tokens];
  }
  a.accepted_per_step = static_cast<double>(a.generated_tokens) / static_cast<double>(a.steps);
  m.acceptance = a;
  return m;
}

PointMeasurement timed(const std::string& strategy, std::int64_t context, double us) {
  PointMeasurement m;
  m.key = {.workload = WorkloadKind::kStep,
           .model = "pair",
           .strategy = strategy,
           .dtype = Dtype::kBf16,
           .launch = LaunchMode::kGraph,
           .context_len = context};
  m.time_ns = {1000.0 * us};
  return m;
}

DiagnosisInput input_of(std::vector<PointMeasurement> acceptance,
                        std::vector<PointMeasurement> steps = {}) {
  const std::vector<AcceptancePair> pairs = acceptance_pairs(acceptance);
  DiagnosisInput input{.evidence = acceptance_evidence(acceptance, pairs.at(0)),
                       .acceptance = std::move(acceptance),
                       .steps = std::move(steps)};
  return input;
}

Finding finding(const DiagnosisInput& input, const std::string& rule) {
  for (const Finding& f : diagnose(input)) {
    if (f.rule == rule) {
      return f;
    }
  }
  return {};
}

// Steps whose first token is right `first` times of 100, and all of three then.
PointMeasurement chain(std::int64_t first, std::int64_t context = 2048) {
  return drafted("nsa/d3k1n4/bfs/c1/F*", context, {0, 100 - first, 0, 0, first});
}

}  // namespace

TEST_CASE("a draft whose first token is seldom right does not fit its target") {
  const Finding fault = finding(input_of({chain(29)}), "first token");
  CHECK(fault.verdict == Verdict::kFault);
  CHECK(test::contains(fault.sentence, "29 % of 100 steps of chains"));
  CHECK(test::contains(fault.advice, "chat template"));
  CHECK(finding(input_of({chain(30)}), "first token").verdict == Verdict::kFine);
  // Chains are asked before trees, which hide a poor draft.
  const PointMeasurement tree = drafted("nsa/d3k4n16/bfs/c1/F*", 2048, {0, 0, 1000});
  CHECK(finding(input_of({tree}), "first token").verdict == Verdict::kFine);
  CHECK(finding(input_of({tree, chain(29)}), "first token").verdict == Verdict::kFault);
  // A mean alone bounds the share from above.
  PointMeasurement mean = chain(50);
  mean.acceptance->accepted_histogram.clear();
  CHECK(finding(input_of({mean}), "first token").verdict == Verdict::kNotJudged);
  mean.acceptance->accepted_per_step = 1.2;
  CHECK(finding(input_of({mean}), "first token").verdict == Verdict::kFault);
}

TEST_CASE("acceptance that collapses behind a token is the draft's own wiring") {
  const auto judged = [](std::vector<std::int64_t> histogram) {
    return finding(input_of({drafted("nsa/d3k1n4/bfs/c1/F*", 2048, std::move(histogram))}),
                   "later tokens");
  };
  // 70 % of the first tokens are right, and one in ten of the second.
  const Finding fault = judged({0, 300, 630, 35, 35});
  CHECK(fault.verdict == Verdict::kFault);
  CHECK(test::contains(fault.sentence,
                       "position 2 is right in 10 % of the steps that came so far, "
                       "the one before it in 70 %"));
  CHECK(test::contains(fault.advice, "d2t"));
  const Finding third = judged({0, 300, 210, 441, 49});
  CHECK(third.verdict == Verdict::kFault);
  CHECK(test::contains(third.sentence, "position 3"));
  CHECK(judged({0, 300, 210, 147, 343}).verdict == Verdict::kFine);
  CHECK(judged({0, 28, 2, 0, 0}).verdict == Verdict::kFine);  // of two steps nothing follows
  CHECK(finding(input_of({drafted("nsa/d1k1n2/bfs/c1/F*", 2048, {0, 30, 70})}), "later tokens")
            .verdict == Verdict::kNotJudged);
}

TEST_CASE("drafts that were cut short are said to be, and convict nobody") {
  PointMeasurement cut = drafted("nsa/d3k1n4/bfs/c1/F*", 2048, {0, 300, 630, 35, 35});
  cut.key.backend = Backend::kImported;
  CHECK(finding(input_of({cut}), "draft length").verdict == Verdict::kFine);
  cut.reliability = Reliability::kAtLeast;
  cut.reason = "drafts were 1.50 tokens long in the mean, not 3";
  const DiagnosisInput input = input_of({cut});
  const Finding note = finding(input, "draft length");
  CHECK(note.verdict == Verdict::kNote);
  CHECK(note.sentence == cut.reason);
  CHECK(test::contains(note.advice, "bounds"));
  CHECK(finding(input, "later tokens").verdict == Verdict::kNotJudged);
  // Of a lower bound the first token stands in a point of its own.
  CHECK(finding(input, "first token").verdict == Verdict::kNotJudged);
}

TEST_CASE("tokens that are lost at long contexts are the draft's window") {
  const auto at_16k = [](std::int64_t first) {
    return finding(input_of({chain(80, 2048), chain(first, 16384)}), "long context");
  };
  CHECK(at_16k(79).verdict == Verdict::kFine);
  CHECK(at_16k(60).verdict == Verdict::kLoss);
  const Finding fault = at_16k(20);
  CHECK(fault.verdict == Verdict::kFault);
  CHECK(
      test::contains(fault.sentence, "d3k1n4 keeps 25 % of its accepted tokens from context 2048"));
  CHECK(finding(input_of({chain(80, 2048), chain(10, 4096)}), "long context").verdict ==
        Verdict::kNotJudged);
}

TEST_CASE("a step's cost is held against the tokens that it yields") {
  const auto with_us = [](double us) {
    PointMeasurement step = timed("nsa/d3k1n4/bfs/c4e/F*", 4096, us);
    step.ranges = {{.path = "linear", .launches = 1, .gpu_time_ns = {3.0}},
                   {.path = "grow_tree", .launches = 1, .gpu_time_ns = {1.0}}};
    return finding(input_of({chain(50)}, {timed("nsa/ar", 4096, 100.0), step}), "step cost");
  };
  const Finding fine = with_us(200.0);  // 2.5 tokens a step
  CHECK(fine.verdict == Verdict::kFine);
  CHECK(test::contains(fine.sentence, "takes 2.00 plain steps and yields 2.50 tokens (1.25 x)"));
  const Finding loss = with_us(251.0);
  CHECK(loss.verdict == Verdict::kLoss);
  CHECK(test::contains(loss.sentence, "linear takes 75 %, grow_tree takes 25 %"));
  const Finding mixed =
      finding(input_of({chain(50), drafted("nsa/d3k4n16/bfs/c1/F*", 2048, {0, 0, 0, 100})},
                       {timed("nsa/ar", 4096, 100.0), timed("nsa/d3k1n4/bfs/c1/F*", 4096, 150.0),
                        timed("nsa/d3k4n16/bfs/c1/F*", 4096, 400.0)}),
              "step cost");
  CHECK(mixed.verdict == Verdict::kNote);
  CHECK(test::contains(mixed.sentence, "nsa/d3k4n16/bfs/c1/F* at context 4096 takes 4.00"));
  const Finding faster = with_us(60.0);
  CHECK(faster.verdict == Verdict::kNote);
  CHECK(test::contains(faster.sentence, "takes 0.60 plain steps"));
  CHECK(test::contains(faster.sentence, "not of one machine under one load"));
  // Neither another context's plain step nor another attention's will do.
  for (const PointMeasurement& plain :
       {timed("nsa/ar", 8192, 100.0), timed("dense/ar", 4096, 100.0)}) {
    CHECK(finding(input_of({chain(50)}, {plain, timed("nsa/d3k1n4/bfs/c1/F*", 4096, 150.0)}),
                  "step cost")
              .verdict == Verdict::kNotJudged);
  }
}

TEST_CASE("a draft that may change the text is named with its class") {
  const std::string reuse = "nsa/d6k8n64/bfs/c1/(FR)*";
  const Finding f = finding(input_of({drafted(reuse, 2048, {0, 0, 0, 10})},
                                     {timed("nsa/ar", 2048, 600.0), timed(reuse, 2048, 900.0)}),
                            "step cost");
  CHECK(test::contains(f.sentence, reuse + " (Reuse-only: may change the text) at context 2048"));
}

// Its plain steps are slow too, so that by its own measure it gains most.
TEST_CASE("the slow form of attention is never the best draft, nor any") {
  const std::string tree = "nsa/d6k8n64/bfs/c1/F*";
  const std::vector<PointMeasurement> tokens = {drafted(tree, 2048, {0, 0, 0, 10})};
  const std::vector<PointMeasurement> slow = {timed("nsa/ar/bfs/c1/F*/form=vanilla", 2048, 2400.0),
                                              timed(tree + "/form=vanilla", 2048, 2500.0)};
  std::vector<PointMeasurement> steps = slow;
  steps.push_back(timed("nsa/ar", 2048, 600.0));
  steps.push_back(timed(tree, 2048, 1200.0));
  const Finding both = finding(input_of(tokens, steps), "step cost");
  CHECK(both.verdict == Verdict::kFine);
  CHECK_FALSE(test::contains(both.sentence, "vanilla"));
  CHECK(test::contains(both.sentence, "takes 2.00 plain steps"));
  const Finding alone = finding(input_of(tokens, slow), "step cost");
  CHECK(alone.verdict == Verdict::kNotJudged);
  CHECK(test::contains(alone.sentence, "own slow attention, do not count"));
}

TEST_CASE("a tree that yields what its chain yields is not verified as one") {
  const auto beside = [](const PointMeasurement& tree) {
    return finding(input_of({chain(50), tree}), "tree");
  };
  const Finding fault = beside(drafted("nsa/d3k4n16/bfs/c1/F*", 2048, {0, 50, 0, 0, 50}));
  CHECK(fault.verdict == Verdict::kFault);
  CHECK(test::contains(fault.sentence,
                       "d3k4n16 yields 2.50 tokens a step and the chain as deep 2.50"));
  const Finding fine = beside(drafted("nsa/d3k4n16/bfs/c1/F*", 2048, {0, 10, 0, 0, 90}));
  CHECK(fine.verdict == Verdict::kFine);
  CHECK(test::contains(fine.sentence, "trees yield 48 % more"));
  // A deeper chain may yield more than a tree; one that yields less convicts nobody.
  CHECK(beside(drafted("nsa/d2k4n8/bfs/c1/F*", 2048, {0, 50, 0, 50})).verdict ==
        Verdict::kNotJudged);
  CHECK(beside(drafted("nsa/d3k4n16/bfs/c1/F*", 8192, {0, 50, 0, 0, 50})).verdict ==
        Verdict::kNotJudged);
}

TEST_CASE("what may change the text, and what accepts everything, is said") {
  const Finding lossy = finding(
      input_of({chain(50), drafted("nsa/d3k1n4/bfs/c1/(FR)*", 2048, {0, 50, 0, 0, 50})}), "text");
  CHECK(lossy.verdict == Verdict::kNote);
  CHECK(test::contains(lossy.sentence, "1 of 2 points"));
  CHECK(test::contains(lossy.sentence, "nsa/d3k1n4/bfs/c1/(FR)* (Reuse-only)"));
  CHECK(finding(input_of({chain(50)}), "text").verdict == Verdict::kFine);
  CHECK(finding(input_of({chain(95)}), "certain acceptance").verdict == Verdict::kFine);
  CHECK(finding(input_of({chain(97)}), "certain acceptance").verdict == Verdict::kFault);
}

TEST_CASE("a machine says from which batch on nodes cost time of their own") {
  DiagnosisInput input = input_of({chain(50)});
  CHECK(finding(input, "batch").verdict == Verdict::kNotJudged);
  input.hardware = &hardware_by_key("h200-sxm");
  const Finding note = finding(input, "batch");
  CHECK(note.verdict == Verdict::kNote);
  // 989.5 Tflop/s over 4.8 TB/s and more: some 200 rows, of which a request has four.
  CHECK(test::contains(note.sentence, "4 nodes a request"));
  CHECK(test::contains(note.sentence, "requests on"));
}

TEST_CASE("every rule answers, those that matter most first") {
  const std::vector<Finding> findings = diagnose(input_of({chain(10)}));
  REQUIRE(findings.size() == 9);
  CHECK(findings.front().rule == "first token");
  CHECK(std::is_sorted(findings.begin(), findings.end(),
                       [](const auto& a, const auto& b) { return a.verdict < b.verdict; }));
  CHECK(test::contains(findings_text(findings), "fault, first token: the first drafted token is "));
}
