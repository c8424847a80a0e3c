// Losses and answers of tiny random models against a slow way of its own: every choice from an
// empty cache, probabilities by plain sums.
#include "engine/run/quality/lossy_quality.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/io/checkpoint.h"
#include "engine/io/task_file.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/run/calibrate/text_loss.h"
#include "engine/run/model/load.h"
#include "engine/run/specattn/quality.h"
#include "engine/run/speculate/decode_loss.h"
#include "engine/run/speculate/prefilled.h"
#include "tests/support/errors.h"
#include "tests/support/pair_texts.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace versieve::engine {
namespace {

using nlohmann::json;
using test::contains;
using test::error_of;
using test::numbers;
using test::write_text;

constexpr std::int64_t kDecoded = 9;

// Two contexts with questions in their midst and at their ends.
json task_set() {
  const auto question = [](std::int64_t at, const std::string& ask, std::size_t answer) {
    return json{{"at", at},
                {"ask", ask},
                {"choices", {"17 apples", "on", "4 and more", "no"}},
                {"answer", answer}};
  };
  json set = {{"format", "versieve task set"}, {"schema", 1}, {"name", "made"}};
  for (const std::size_t bytes : {260, 330}) {
    json questions = json::array();
    for (std::size_t i = 0; i < 5; ++i) {
      questions.push_back(
          question(static_cast<std::int64_t>(bytes - 30 * i), i % 2 ? "? " : "", i % 4));
    }
    questions[0]["evidence"] = 40;
    set["contexts"].push_back({{"text", numbers(bytes)}, {"questions", questions}});
  }
  return set;
}

struct Fixture {
  explicit Fixture(AttentionKind attention = AttentionKind::kNsa, std::int64_t max_position = 4096,
                   std::int64_t draft_vocab = 272) {
    test::TinyModel model;
    model.draft.vocab = draft_vocab;
    model.target.attention = attention;
    model.target.max_position = max_position;
    request.model = folder / "model";
    if (attention == AttentionKind::kDense) {
      model.sharpness = 8.0;
      test::write_tiny_dense_pair(request.model, model, 2);
      std::ofstream(request.model / "layer_map.json")
          << R"({"format": "versieve layer map", "schema": 1, "map": [0, 0, 1]})";
    } else {
      test::write_tiny_pair(request.model, model);
    }
    std::ofstream(folder / "set.json") << task_set();
    write_text(folder / "chat-1.txt", numbers(300));
    write_text(folder / "code-1.txt", numbers(240));
    request.backend = "cpu";
    request.dtype = "f64";
    request.threads = 1;
    request.decoded = kDecoded;
  }
  void ask() { request.tasks = {folder / "set.json"}; }

  test::TempFolder folder;
  LossyQualityRequest request;
};

// The model by hand.
class SlowModel {
 public:
  explicit SlowModel(const std::filesystem::path& model)
      : checkpoint_(load_target(model)),
        ops_(kernels::make_cpu_ops<double>(1)),
        target_(make_target<double>(*ops_, checkpoint_, nullptr)),
        tokenizer_(load_tokenizer(model, checkpoint_.shape)) {}

  // Natural logarithms of p(token | those before) of the text's last tokens, from `scored` on; from
  // `start` on in blocks by those options.
  std::vector<double> losses(const std::vector<std::int32_t>& text, std::size_t start,
                             std::size_t scored, std::size_t block, const VerifyOptions& options) {
    target_.cache().truncate(0);
    std::vector<double> losses;
    for (std::size_t at = 0; at + 1 < text.size();) {
      const std::size_t end = at < start ? at + 1 : std::min(text.size() - 1, at + block);
      target_.verify(chain_tree({text.begin() + static_cast<std::ptrdiff_t>(at),
                                 text.begin() + static_cast<std::ptrdiff_t>(end)}),
                     at < start ? VerifyOptions{} : options);
      for (std::size_t i = at; i < end; ++i) {
        if (i + 1 >= scored) {
          losses.push_back(loss_of(target_.logits() + (i - at) * 272, text[i + 1]));
        }
      }
      std::vector<std::int32_t> path(end - at);
      std::iota(path.begin(), path.end(), 0);
      target_.commit(path);
      at = end;
    }
    return losses;
  }

  struct Answered {
    std::int64_t right = 0;
    double loss = 0.0;  // of true answers, summed
  };
  Answered answer(const TaskSet& set, std::size_t block, const VerifyOptions& options) {
    Answered all;
    for (const TaskContext& context : set.contexts) {
      for (const TaskQuestion& question : context.questions) {
        std::vector<double> likelihood;
        for (const std::string& choice : question.choices) {
          const std::string before =
              context.text.substr(0, static_cast<std::size_t>(question.at)) + question.ask;
          const std::size_t scored = before.size() + 1;  // a token a byte, and BOS
          const std::vector<double> lost = losses(tokenizer_->encode(before + choice),
                                                  scored - 1 - kDecoded, scored, block, options);
          const double sum = std::accumulate(lost.begin(), lost.end(), 0.0);
          likelihood.push_back(-sum / static_cast<double>(choice.size()));
          all.loss += &choice == &question.choices[question.answer] ? sum : 0.0;
        }
        bool best = true;
        for (std::size_t i = 0; i < likelihood.size(); ++i) {
          best = best && (i == question.answer || likelihood[i] < likelihood[question.answer]);
        }
        all.right += best ? 1 : 0;
      }
    }
    return all;
  }
  Target<double>& target() { return target_; }
  kernels::Ops<double>& ops() { return *ops_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  static double loss_of(const double* logits, std::int32_t token) {
    double sum = 0.0;
    for (int x = 0; x < 272; ++x) {
      sum += std::exp(logits[x]);
    }
    return std::log(sum) - logits[token];
  }

  Checkpoint checkpoint_;
  std::unique_ptr<kernels::Ops<double>> ops_;
  Target<double> target_;
  std::unique_ptr<const Tokenizer> tokenizer_;
};

void check_answers(const LossyQualityRow& row, const SlowModel::Answered& slow) {
  CAPTURE(row.strategy);
  REQUIRE(row.answers);
  CHECK(row.answers->questions == 10);
  CHECK(row.answers->right == slow.right);
  CHECK(row.loss == Approx(slow.loss / static_cast<double>(row.tokens)).epsilon(1e-6));
}

}  // namespace

TEST_CASE("answers of an NSA target are those of every choice scored alone") {
  Fixture fixture;
  std::filesystem::remove_all(fixture.request.model / "draft");  // groups are of chains
  fixture.ask();
  fixture.request.strategies = {"nsa/ar/bfs/c1/FRR", "nsa/d7k2n9/dfs/c4a/F*",
                                "nsa/d7k2n9/dfs/c8e/F*", "nsa/d5k1n6/bfs/c2a/FRR"};
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  REQUIRE(report.sets.size() == 2);  // all, and the questions with evidence
  const std::vector<LossyQualityRow>& rows = report.sets[0].rows;
  REQUIRE(rows.size() == 5);
  SlowModel slow(fixture.request.model);
  const TaskSet set = read_task_set(fixture.request.tasks[0]);
  const SlowModel::Answered exact = slow.answer(set, 1, {});
  check_answers(rows[0], exact);
  check_answers(rows[1], slow.answer(set, 1, {.schedule = "FRR"}));
  check_answers(rows[2], slow.answer(set, 8, {.group_size = 4, .group_mode = GroupMode::kApprox}));
  check_answers(rows[3], exact);
  check_answers(
      rows[4],
      slow.answer(set, 6, {.schedule = "FRR", .group_size = 2, .group_mode = GroupMode::kApprox}));
  CHECK(exact.right > 0);
  CHECK(exact.right < 10);
  for (const LossyQualityRow& row : rows) {
    const bool loses = Strategy::parse(row.strategy).precision() != PrecisionClass::kStrict;
    CAPTURE(row.strategy);
    CHECK((row.divergence > 1e-9) == loses);
    CHECK((row.rise != 0.0) == loses);
    CHECK(row.divergence_interval.low <= row.divergence);
    CHECK(row.divergence <= row.divergence_interval.high);
    CHECK(row.answers->gained - row.answers->lost == row.answers->right - rows[0].answers->right);
  }
  CHECK(report.sets[1].bucket == "0-1K");
  CHECK(report.sets[1].rows[0].answers->questions == 2);
}

TEST_CASE("texts are scored by group and all together") {
  Fixture fixture;
  std::filesystem::remove_all(fixture.request.model / "draft");
  fixture.request.texts = {fixture.folder / "chat-1.txt", fixture.folder / "code-1.txt"};
  fixture.request.strategies = {"nsa/d3k1n4/bfs/c4a/F*"};
  fixture.request.scored = 100;
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  REQUIRE(report.sets.size() == 3);
  CHECK(report.sets[0].name == "chat");
  CHECK(report.sets[1].name == "code");
  CHECK(report.sets[2].name == "all");
  SlowModel slow(fixture.request.model);
  double sum = 0.0;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<std::int32_t> text =
        slow.tokenizer().encode(read_prompt(fixture.request.texts[i]));
    const std::size_t start = text.size() - 101;
    const std::vector<double> losses =
        slow.losses(text, start, start + 1, 4, {.group_size = 4, .group_mode = GroupMode::kApprox});
    REQUIRE(losses.size() == 100);
    const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / 100.0;
    CHECK(report.sets[i].rows[1].loss == Approx(mean).epsilon(1e-6));
    CHECK(!report.sets[i].rows[1].answers);
    sum += mean / 2.0;
  }
  CHECK(report.sets[2].rows[1].loss == Approx(sum).epsilon(1e-6));
  CHECK(report.sets[2].rows[1].tokens == 200);
}

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

TEST_CASE("approximate groups are read in the trees that the head drafts") {
  Fixture fixture;
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
  Fixture fixture;
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
  Fixture fixture;
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

TEST_CASE("windows of tokens are scored as files of the same text are") {
  Fixture fixture;
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"nsa/d4k3n12/dfs/c4a/F*"};
  fixture.request.scored = 40;
  const LossyQualityRow of_file = run_lossy_quality(fixture.request).sets[0].rows[1];
  const std::vector<std::int32_t> tokens =
      SlowModel(fixture.request.model).tokenizer().encode(numbers(300));
  fixture.request.texts = {};
  fixture.request.windows = {{.group = "300 tokens", .name = "chat-1.txt@0", .tokens = tokens}};
  std::vector<QualityProgress> seen;
  fixture.request.on_progress = [&seen](const QualityProgress& at) { seen.push_back(at); };
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  REQUIRE(report.sets.size() == 1);
  CHECK(report.sets[0].name == "300 tokens");
  CHECK(report.sets[0].sha256.size() == 64);
  CHECK(report.sets[0].rows[1].loss == of_file.loss);
  CHECK(report.sets[0].rows[1].divergence == of_file.divergence);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].done == 1.0);
  CHECK(seen[0].left_s == 0.0);
  fixture.request.windows[0].tokens.push_back(1 << 20);
  CHECK(error_of([&] { run_lossy_quality(fixture.request); }).code() == ExitCode::kBadInput);
}

TEST_CASE("strategies that draft with a head answer the same whatever was answered before") {
  Fixture fixture;
  fixture.ask();
  const std::vector<std::string> strategies = {
      "nsa/d4k3n12/dfs/c4a/F*", "nsa/d4k1n5/bfs/c1/F*/sampling=sigmoid", "nsa/d3k2n7/bfs/c2a/FRR"};
  fixture.request.strategies = strategies;
  const std::vector<LossyQualityRow> together = run_lossy_quality(fixture.request).sets[0].rows;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    fixture.request.strategies = {strategies[i]};
    const LossyQualityRow alone = run_lossy_quality(fixture.request).sets[0].rows[1];
    CAPTURE(strategies[i]);
    CHECK(alone.loss == together[i + 1].loss);
    CHECK(alone.divergence == together[i + 1].divergence);
    CHECK(alone.answers->right == together[i + 1].answers->right);
    CHECK(alone.divergence > 0.0);
  }
}

TEST_CASE("sigmoids are compared over the target's tokens, of which the draft proposes some") {
  for (const std::int64_t vocab : {272, 64}) {
    Fixture fixture(AttentionKind::kNsa, 4096, vocab);
    fixture.request.texts = {fixture.folder / "chat-1.txt"};
    fixture.request.strategies = {"nsa/d4k1n5/bfs/c1/F*/sampling=sigmoid"};
    fixture.request.scored = 60;
    const LossyQualityReport report = run_lossy_quality(fixture.request);
    const LossyQualityRow& row = report.sets[0].rows[1];
    CAPTURE(vocab);
    CHECK(std::isfinite(row.loss));
    CHECK(row.divergence > 0.0);
    if (vocab == 64) {
      // What the draft cannot propose comes after a rejection alone, which is rare at this scale.
      CHECK(row.divergence > 1.0);
    }
    REQUIRE(report.chain_shares.size() == 1);
    const ChainShare& stays = report.chain_shares[0];
    CHECK(stays.strategy == fixture.request.strategies[0]);
    CHECK(stays.counted == 60 / 5 * 4);  // drafted tokens of chains of four
    CHECK(stays.share.value > 0.99);     // at the paper's scale nearly all stay
    CHECK(stays.share.value <= 1.0);
    CHECK(stays.share.low <= stays.share.value);
    CHECK(stays.share.high >= stays.share.value);
  }
}

TEST_CASE("strategies that cannot be measured are left out where the request says so") {
  Fixture fixture;
  fixture.ask();
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"dense/ar", "nsa/ar/bfs/c1/FRR"};
  CHECK(error_of([&] { run_lossy_quality(fixture.request); }).code() == ExitCode::kAnswerNo);
  fixture.request.leaves_out = true;
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  REQUIRE(report.left_out.size() == 1);
  CHECK(contains(report.left_out[0], "strategy 'dense/ar'"));
  for (const QualitySet& set : report.sets) {
    REQUIRE(set.rows.size() == 2);
    CHECK(set.rows[1].strategy == "nsa/ar/bfs/c1/FRR");
  }
}

TEST_CASE("ReSA is scored as it decodes, with its dense passes") {
  Fixture fixture(AttentionKind::kDense);
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"resa:b16p0.3f8/ar", "resa:b16p0.3f0/ar"};
  fixture.request.scored = 60;
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  SlowModel slow(fixture.request.model);
  const std::vector<std::int32_t> text =
      slow.tokenizer().encode(read_prompt(fixture.request.texts[0]));
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<double> losses = decode_losses<double>(
        slow.ops(), slow.target(), text, static_cast<std::int64_t>(text.size()) - 61,
        {.resa = kernels::ResaSelection{.key_block = 16, .active_ratio = 0.3},
         .rectify_every = i == 0 ? 8 : 0});
    REQUIRE(losses.size() == 60);
    const LossyQualityRow& row = report.sets[0].rows[i + 1];
    CHECK(row.loss ==
          Approx(std::accumulate(losses.begin(), losses.end(), 0.0) / 60.0).epsilon(1e-6));
    CHECK(row.divergence > 0.0);
  }
}

TEST_CASE("an indexer is scored as it decodes, and loses nothing where it reads all") {
  Fixture fixture(AttentionKind::kDense);
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"indexer:k4096/ar", "indexer:k24w8/ar",
                                "indexer:k24w8/d4k1n5/bfs/c1/F*"};
  fixture.request.scored = 60;
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  SlowModel slow(fixture.request.model);
  const std::vector<std::int32_t> text =
      slow.tokenizer().encode(read_prompt(fixture.request.texts[0]));
  const VerifyOptions options{.index = IndexSelection{.chosen = 24, .newest = 8}};
  const std::vector<LossyQualityRow>& rows = report.sets[0].rows;
  CHECK(rows[1].divergence == Approx(0.0).margin(1e-12));
  for (const std::size_t i : {2, 3}) {
    slow.target().cache().truncate(0);
    slow.target().keep_choice_keys(options);
    const std::vector<double> losses =
        slow.losses(text, text.size() - 61, text.size() - 60, i == 2 ? 1 : 5, options);
    REQUIRE(losses.size() == 60);
    CHECK(rows[i].loss ==
          Approx(std::accumulate(losses.begin(), losses.end(), 0.0) / 60.0).epsilon(1e-6));
    CHECK(rows[i].divergence > 0.0);
  }
}

TEST_CASE("a text is cut by how far decoding has come, and its pieces are the whole") {
  Fixture fixture(AttentionKind::kDense);
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"resa:b16p0.3f8/ar"};
  fixture.request.scored = 60;
  const LossyQualityReport whole = run_lossy_quality(fixture.request);
  fixture.request.cut = 25;
  const LossyQualityReport cut = run_lossy_quality(fixture.request);
  REQUIRE(whole.sets.size() == 1);
  REQUIRE(cut.sets.size() == 4);
  CHECK(cut.sets[0].bucket.empty());
  CHECK(cut.sets[0].rows[1].divergence == whole.sets[0].rows[1].divergence);
  double divergence = 0.0, loss = 0.0, agreement = 0.0;
  for (std::size_t i = 1; i < 4; ++i) {
    const LossyQualityRow& row = cut.sets[i].rows[1];
    CHECK(row.strategy == "resa:b16p0.3f8/ar");
    CHECK(row.tokens == (i < 3 ? 25 : 10));
    divergence += row.divergence * static_cast<double>(row.tokens) / 60.0;
    loss += row.loss * static_cast<double>(row.tokens) / 60.0;
    agreement += row.agreement * static_cast<double>(row.tokens) / 60.0;
  }
  CHECK(cut.sets[2].bucket == "25-50");
  CHECK(cut.sets[3].bucket == "50-60");
  CHECK(divergence == Approx(whole.sets[0].rows[1].divergence));
  CHECK(loss == Approx(whole.sets[0].rows[1].loss));
  CHECK(agreement == Approx(whole.sets[0].rows[1].agreement));
  const json sets = lossy_quality_json(cut).at("sets");
  CHECK(sets[0].count("tokens_decoded") == 0);
  CHECK(sets[1].at("tokens_decoded") == "0-25");
  CHECK(contains(lossy_quality_text(cut), "25-50 tokens decoded: 25 tokens scored"));
  const std::vector<QualityPoint> points = quality_points(cut, {"p", "h"}, "test");
  CHECK(points.front().distance.empty());
  CHECK(points.back().distance == "50-60");
  // Of two groups "all" is cut too.
  fixture.request.texts.push_back(fixture.folder / "prose-1.txt");
  std::filesystem::copy_file(fixture.request.texts[0], fixture.request.texts[1]);
  const LossyQualityReport both = run_lossy_quality(fixture.request);
  REQUIRE(both.sets.size() == 12);
  CHECK(both.sets[11].name == "all");
  CHECK(both.sets[11].bucket == "50-60");
  CHECK(both.sets[11].rows[1].tokens == 20);
  fixture.request.texts.clear();
  fixture.ask();
  CHECK(
      contains(error_of([&] { run_lossy_quality(fixture.request); }).what(), "--cut is of texts"));
}

TEST_CASE("SpecAttn costs what the comparison of selections says it costs") {
  Fixture fixture(AttentionKind::kDense);
  fixture.request.texts = {fixture.folder / "chat-1.txt"};
  fixture.request.strategies = {"specattn:p0.5/d7k1n8/bfs/c1/F*", "specattn:p1/d7k1n8/bfs/c1/F*"};
  fixture.request.scored = 100;
  const LossyQualityReport report = run_lossy_quality(fixture.request);
  QualityRequest other{.model = fixture.request.model,
                       .texts = fixture.request.texts,
                       .shares = {0.5},
                       .lookahead = 7,
                       .scored = 100,
                       .backend = "cpu",
                       .dtype = "f64",
                       .threads = 1};
  const std::vector<QualityRow> rows = run_quality(other).groups.at(0).rows;
  CHECK(report.sets[0].rows[0].loss == Approx(rows[0].loss).epsilon(1e-6));
  CHECK(report.sets[0].rows[1].loss == Approx(rows[1].loss).epsilon(1e-6));
  CHECK(report.sets[0].rows[1].agreement == Approx(rows[1].agreement));
  CHECK(report.sets[0].rows[1].divergence > 0.0);
  CHECK(report.sets[0].rows[2].rise == Approx(0.0).margin(1e-6));
  // What the layers that choose read is what the comparison calls not saved.
  REQUIRE(report.chain_shares.size() == 2);
  CHECK(report.chain_shares[0].share.value == Approx(1.0 - rows[1].saved_sparse));
  CHECK(report.chain_shares[0].share.value < 1.0);
  CHECK(report.chain_shares[1].share.value == 1.0);
}

TEST_CASE("dense strategies answer the same whatever was answered before") {
  Fixture fixture(AttentionKind::kDense);
  fixture.ask();
  const std::vector<std::string> strategies = {"specattn:p0.7/d4k1n5/bfs/c1/F*",
                                               "resa:b16p0.5f4/ar",
                                               "dense/d4k1n5/bfs/c1/F*/sampling=sigmoid"};
  fixture.request.strategies = strategies;
  const std::vector<LossyQualityRow> together = run_lossy_quality(fixture.request).sets[0].rows;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    fixture.request.strategies = {strategies[i]};
    const LossyQualityRow alone = run_lossy_quality(fixture.request).sets[0].rows[1];
    CAPTURE(strategies[i]);
    CHECK(alone.loss == together[i + 1].loss);
    CHECK(alone.divergence == together[i + 1].divergence);
    CHECK(alone.answers->right == together[i + 1].answers->right);
    CHECK(alone.divergence > 0.0);
  }
}

TEST_CASE("fewer questions are drawn evenly, and those too long for the model are counted") {
  Fixture fixture(AttentionKind::kNsa, 310);
  fixture.ask();
  const QualitySet set = run_lossy_quality(fixture.request).sets[0];
  CHECK(set.left_out ==
        2);  // at 330 and 300 bytes: with the ask, "4 and more" and BOS more than 310
  CHECK(set.rows[0].answers->questions == 8);
  fixture.request.questions = 4;
  const QualitySet few = run_lossy_quality(fixture.request).sets[0];
  CHECK(few.left_out + few.rows[0].answers->questions == 4);
  Fixture small(AttentionKind::kNsa, 64);
  small.ask();
  const Error none = error_of([&] { run_lossy_quality(small.request); });
  CHECK(none.code() == ExitCode::kAnswerNo);
  CHECK(contains(none.what(), "every question has more"));
}

TEST_CASE("what cannot be measured is said before anything runs") {
  Fixture fixture(AttentionKind::kNsa, 4096, 64);
  fixture.ask();
  const auto refused = [&](const std::string& strategy) {
    fixture.request.strategies = {strategy};
    return error_of([&] { run_lossy_quality(fixture.request); });
  };
  CHECK(refused("dense/ar").code() == ExitCode::kAnswerNo);
  CHECK(refused("nsa/ar/bfs/c1/FR").code() == ExitCode::kAnswerNo);
  CHECK(refused("nsa").code() == ExitCode::kUsage);
  fixture.request.strategies = {"nsa/ar/bfs/c1/FRR", "nsa/ar/bfs/c1/FRR"};
  CHECK(contains(error_of([&] { run_lossy_quality(fixture.request); }).what(), "given twice"));
  fixture.request.strategies = {};
  fixture.request.tasks.push_back(fixture.request.tasks[0]);
  CHECK(contains(error_of([&] { run_lossy_quality(fixture.request); }).what(), "second task set"));
}

}  // namespace versieve::engine
