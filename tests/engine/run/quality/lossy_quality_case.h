// A tiny pair with texts and questions whose losses are asked for, and the same worked out slowly:
// every choice from an empty cache, probabilities by plain sums.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/io/checkpoint.h"
#include "engine/io/task_file.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/run/model/load.h"
#include "engine/run/quality/lossy_quality.h"
#include "tests/support/pair_texts.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace versieve::engine {

inline constexpr std::int64_t kDecoded = 9;

// Two contexts with questions in their midst and at their ends.
inline nlohmann::json task_set() {
  const auto question = [](std::int64_t at, const std::string& ask, std::size_t answer) {
    return nlohmann::json{{"at", at},
                          {"ask", ask},
                          {"choices", {"17 apples", "on", "4 and more", "no"}},
                          {"answer", answer}};
  };
  nlohmann::json set = {{"format", "versieve task set"}, {"schema", 1}, {"name", "made"}};
  for (const std::size_t bytes : {260, 330}) {
    nlohmann::json questions = nlohmann::json::array();
    for (std::size_t i = 0; i < 5; ++i) {
      questions.push_back(
          question(static_cast<std::int64_t>(bytes - 30 * i), i % 2 ? "? " : "", i % 4));
    }
    questions[0]["evidence"] = 40;
    set["contexts"].push_back({{"text", test::numbers(bytes)}, {"questions", questions}});
  }
  return set;
}

struct LossyQualityCase {
  explicit LossyQualityCase(AttentionKind attention = AttentionKind::kNsa,
                            std::int64_t max_position = 4096, std::int64_t draft_vocab = 272) {
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
    test::write_text(folder / "chat-1.txt", test::numbers(300));
    test::write_text(folder / "code-1.txt", test::numbers(240));
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

inline void check_answers(const LossyQualityRow& row, const SlowModel::Answered& slow) {
  CAPTURE(row.strategy);
  REQUIRE(row.answers);
  CHECK(row.answers->questions == 10);
  CHECK(row.answers->right == slow.right);
  CHECK(row.loss == Approx(slow.loss / static_cast<double>(row.tokens)).epsilon(1e-6));
}

}  // namespace versieve::engine
