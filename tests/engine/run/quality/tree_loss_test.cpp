// What strategies that draft in trees lose: their groups read in the trees that the head drafts.
#include <catch2/catch.hpp>

#include "engine/run/calibrate/text_loss.h"
#include "engine/run/speculate/prefilled.h"
#include "tests/engine/run/quality/lossy_quality_case.h"
#include "tests/support/paths.h"

namespace versieve::engine {
namespace {

struct TreeLosses {
  std::vector<double> losses;
  std::int64_t steps = 0;
};

// A text along the trees of the pair's head, from an ordinary prefill of all but its last `read`
// tokens: the losses of those.
template <class T>
TreeLosses losses_in_trees(const std::filesystem::path& model, const std::string& text,
                           std::int64_t read, const Strategy& strategy) {
  const Checkpoint checkpoint = load_target(model);
  const DraftCheckpoint head = load_draft(model / "draft", checkpoint.shape);
  const std::unique_ptr<kernels::Ops<T>> ops = kernels::make_cpu_ops<T>(1);
  Target<T> target = make_target<T>(*ops, checkpoint, &head);
  Draft<T> draft = make_draft<T>(*ops, head, target);
  Prefilled<T> prefilled(*ops, target, &draft, nullptr);
  const std::vector<std::int32_t> tokens = load_tokenizer(model, checkpoint.shape)->encode(text);
  const std::size_t start = tokens.size() - 1 - static_cast<std::size_t>(read);
  prefilled.prefill(std::span(tokens).first(start));
  const std::unique_ptr<TreeSource<T>> source = prefilled.make_source({.strategy = strategy}, {});
  prefilled.rewind(*source, tokens[start]);
  const VerifyOptions options = verify_options(strategy, checkpoint.shape);
  TreeLosses all;
  for (std::size_t at = start; at + 1 < tokens.size();) {
    const DraftTree tree = source->propose(static_cast<std::int64_t>(at), tokens[at]);
    target.verify(tree, options);
    ++all.steps;
    Acceptance walked{.path = {0}, .next_token = tokens[at + 1]};
    all.losses.push_back(token_loss(std::span<const T>(target.logits(), 272), walked.next_token));
    for (bool found = true; found && at + walked.path.size() + 1 < tokens.size();) {
      found = false;
      for (std::int32_t node = 1; node < tree.size() && !found; ++node) {
        const std::size_t own = static_cast<std::size_t>(node);
        found = tree.parent[own] == walked.path.back() && tree.token[own] == walked.next_token;
        if (found) {
          walked.path.push_back(node);
          walked.next_token = tokens[at + walked.path.size()];
          all.losses.push_back(
              token_loss(std::span<const T>(target.logits() + 272 * own, 272), walked.next_token));
        }
      }
    }
    target.commit(walked.path);
    source->observe(observation_of(target, tree, walked, static_cast<std::int64_t>(at)));
    at += walked.path.size();
  }
  return all;
}

}  // namespace

TEST_CASE("approximate groups are read in the trees that the head drafts") {
  LossyQualityCase fixture;
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"nsa/d4k4n24/dfs/c4a/F*", "nsa/d4k4n24/bfs/c8a/FRR",
                                "nsa/d4k4n24/bfs/c8e/FRR"};
  fixture.request.scored = 90;
  const std::vector<LossyQualityRow> rows = run_lossy_quality(fixture.request).sets[0].rows;
  CHECK(rows[1].read_as == "trees");
  CHECK(rows[3].read_as == "blocks");
  for (std::size_t i = 1; i < 4; ++i) {
    CAPTURE(rows[i].strategy);
    const std::vector<double> losses =
        losses_in_trees<double>(fixture.request.model, read_prompt(fixture.request.texts[0]), 90,
                                Strategy::parse(rows[i].strategy))
            .losses;
    REQUIRE(losses.size() == 90);  // of exact groups, trees say what blocks say
    CHECK(rows[i].loss ==
          Approx(std::accumulate(losses.begin(), losses.end(), 0.0) / 90.0).epsilon(1e-6));
    CHECK(rows[i].divergence > 0.0);
  }
}

TEST_CASE("trees of the trained pair go on by several tokens of the text") {
  LossyQualityCase fixture;
  const std::filesystem::path demo = std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo";
  const std::string text = read_prompt(demo / "prompts/test/plan-4000-5.txt").substr(0, 1500);
  std::ofstream(fixture.folder / "plan.txt") << text;
  fixture.request.model = demo / "nsa";
  fixture.request.texts = {fixture.folder / "plan.txt"};
  fixture.request.strategies = {"nsa/d6k4n24/dfs/c8a/F*"};
  fixture.request.scored = 120;
  fixture.request.dtype = "f32";
  const LossyQualityRow row = run_lossy_quality(fixture.request).sets[0].rows[1];
  const TreeLosses slow =
      losses_in_trees<float>(fixture.request.model, text, 120, Strategy::parse(row.strategy));
  REQUIRE(slow.losses.size() == 120);
  CHECK(slow.steps < 60);
  CHECK(row.loss ==
        Approx(std::accumulate(slow.losses.begin(), slow.losses.end(), 0.0) / 120.0).epsilon(1e-5));
  CHECK(row.divergence > 0.0);
}

TEST_CASE("choices that are read together in trees say what each of them says alone") {
  LossyQualityCase fixture;
  fixture.ask();
  fixture.request.strategies = {"nsa/d4k3n12/dfs/c4a/F*", "nsa/d3k2n7/bfs/c2a/FRR"};
  const std::vector<LossyQualityRow> rows = run_lossy_quality(fixture.request).sets[0].rows;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const Strategy strategy = Strategy::parse(rows[i].strategy);
    SlowModel::Answered slow;
    for (const TaskContext& context : read_task_set(fixture.request.tasks[0]).contexts) {
      for (const TaskQuestion& question : context.questions) {
        std::vector<double> mean;
        for (const std::string& choice : question.choices) {
          const std::string before =
              context.text.substr(0, static_cast<std::size_t>(question.at)) + question.ask;
          const std::int64_t scored = static_cast<std::int64_t>(choice.size());  // a byte a token
          const std::vector<double> losses =
              losses_in_trees<double>(fixture.request.model, before + choice, kDecoded + scored,
                                      strategy)
                  .losses;
          const double sum = std::accumulate(losses.begin() + kDecoded, losses.end(), 0.0);
          mean.push_back(sum / static_cast<double>(scored));
          slow.loss += mean.size() - 1 == question.answer ? sum : 0.0;
        }
        const auto least = std::min_element(mean.begin(), mean.end()) - mean.begin();
        slow.right += static_cast<std::size_t>(least) == question.answer ? 1 : 0;
      }
    }
    check_answers(rows[i], slow);
  }
}

}  // namespace versieve::engine
