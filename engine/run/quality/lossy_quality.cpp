#include "engine/run/quality/lossy_quality.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string_view>
#include <thread>

#include "engine/io/checkpoint.h"
#include "engine/io/input_file.h"
#include "engine/io/layer_map_file.h"
#include "engine/io/sha256.h"
#include "engine/io/task_file.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/run/model/compute_device.h"
#include "engine/run/model/load.h"
#include "engine/run/quality/asked.h"
#include "engine/run/quality/quality_input.h"
#include "engine/run/quality/tally.h"
#include "engine/run/quality/text_reader.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// Tokens between evidence and question.
std::string bucket_of(std::int64_t distance) {
  constexpr std::int64_t kEdges[] = {1024, 2048, 4096, 8192};
  const char* const names[] = {"0-1K", "1-2K", "2-4K", "4-8K", "8K-"};
  const std::int64_t* const edge = std::upper_bound(std::begin(kEdges), std::end(kEdges), distance);
  return names[edge - std::begin(kEdges)];
}

// One tally a strategy, the exact run's first.
using Tallies = std::vector<QualityTally>;

// What is done of a run, in bytes or tokens of what is read.
class Progress {
 public:
  Progress(const LossyQualityRequest& request, const std::vector<TaskSet>& sets)
      : request_(request), begin_(std::chrono::steady_clock::now()) {
    for (const TaskSet& set : sets) {
      for (const TaskContext& context : set.contexts) {
        for (const TaskQuestion& question : context.questions) {
          total_ += weight(question);
        }
      }
    }
    total_ += static_cast<double>(request.texts.size() + request.windows.size()) * text_weight();
  }

  double weight(const TaskQuestion& question) const {
    double bytes = static_cast<double>(kBytesOfToken * request_.decoded);
    for (const std::string& choice : question.choices) {
      bytes += static_cast<double>(choice.size());
    }
    return bytes;
  }
  double text_weight() const { return static_cast<double>(kBytesOfToken * request_.scored); }

  void did(double weight, const std::string& what) {
    done_ += weight;
    if (request_.on_progress) {
      const double passed =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
      request_.on_progress({.what = what,
                            .done = done_ / total_,
                            .elapsed_s = passed,
                            .left_s = passed / done_ * (total_ - done_)});
    }
  }

 private:
  static constexpr std::int64_t kBytesOfToken = 4;

  const LossyQualityRequest& request_;
  std::chrono::steady_clock::time_point begin_;
  double done_ = 0.0, total_ = 0.0;
};

template <class T>
class LossyQualityRun {
 public:
  LossyQualityRun(const LossyQualityRequest& request, std::vector<Strategy> strategies,
                  const Tokenizer& tokenizer, TextReader<T>& reader, const Strategy& exact,
                  Progress& progress)
      : request_(request), tokenizer_(tokenizer), reader_(reader), progress_(progress) {
    strategies_.push_back(exact);
    for (Strategy& strategy : strategies) {
      if (strategy == exact) {
        continue;  // it stands in every table
      }
      const std::string reason = reader.refusal(strategy);
      if (!reason.empty()) {
        leave_out(Error(ExitCode::kAnswerNo, "strategy '" + strategy.text() + "': " + reason));
        continue;
      }
      strategies_.push_back(std::move(strategy));
    }
    is_left_out_.resize(strategies_.size());
  }

  const std::vector<std::string>& left_out() const { return left_out_; }

  std::vector<QualitySet> ask(const TaskSet& set) {
    std::map<std::string, Tallies> tallies;  // by bucket, "" of all
    QualitySet whole{.name = set.name, .asks = true, .sha256 = set.sha256};
    for (std::size_t i = 0; i < set.contexts.size(); ++i) {
      for (const TaskQuestion& question : set.contexts[i].questions) {
        const AskedQuestion asked = asked_question(set.contexts[i], question, tokenizer_);
        const double weight = progress_.weight(question);
        if (asked.longest() > reader_.most_tokens()) {
          ++whole.left_out;
          progress_.did(weight, set.name);
          continue;
        }
        if (asked.scored < 2) {
          throw Error(ExitCode::kBadInput, "task set " + set.name + ", context " +
                                               std::to_string(i + 1) +
                                               ": a question needs two tokens before it");
        }
        answer(asked, tallies);
        progress_.did(weight, set.name + ", context " + std::to_string(i + 1) + " of " +
                                  std::to_string(set.contexts.size()));
      }
    }
    if (tallies.empty()) {
      throw Error(ExitCode::kAnswerNo, "task set " + set.name + ": the model takes " +
                                           std::to_string(reader_.most_tokens()) +
                                           " tokens, and every question has more");
    }
    std::vector<QualitySet> sets;
    for (const auto& [bucket, own] : tallies) {
      QualitySet part = whole;
      part.bucket = bucket;
      part.left_out = bucket.empty() ? whole.left_out : 0;
      part.rows = rows_of(own);
      sets.push_back(std::move(part));
    }
    return sets;
  }

  // Texts by group, and all of them where there are several groups.
  std::vector<QualitySet> read_texts(const std::vector<ReadText>& texts) {
    std::map<std::string, TextTallies> tallies;
    std::map<std::string, Sha256> hashes;
    TextTallies all;
    Sha256 hash_of_all;
    for (const ReadText& text : texts) {
      hashes[text.group].add(text.hashed);
      hash_of_all.add(text.hashed);
      read_text(text, tallies[text.group], all);
      progress_.did(progress_.text_weight(), text.name);
    }
    std::vector<QualitySet> sets;
    for (const auto& [name, own] : tallies) {
      add_sets(name, hashes[name].hex(), own, sets);
    }
    if (tallies.size() > 1) {
      add_sets("all", hash_of_all.hex(), all, sets);
    }
    return sets;
  }

 private:
  // Of whole texts at kWhole; of their pieces at the token that each begins with.
  struct Piece {
    Tallies tallies;
    std::int64_t end = 0;  // token behind the last that is scored, of the longest text
  };
  using TextTallies = std::map<std::int64_t, Piece>;
  static constexpr std::int64_t kWhole = -1;

  void add_sets(const std::string& name, const std::string& sha256, const TextTallies& tallies,
                std::vector<QualitySet>& sets) const {
    for (const auto& [begin, own] : tallies) {
      sets.push_back({.name = name, .sha256 = sha256, .rows = rows_of(own.tallies)});
      if (begin != kWhole) {
        sets.back().bucket = std::to_string(begin) + "-" + std::to_string(own.end);
      }
    }
  }

  void add_text(std::size_t strategy, std::span<const TokenScore> own,
                std::span<const TokenScore> exact, TextTallies& tallies) const {
    const auto add = [&](std::int64_t begin, std::size_t at, std::size_t count) {
      Piece& piece = tallies[begin];
      piece.end = std::max(piece.end, static_cast<std::int64_t>(at + count));
      piece.tallies.resize(strategies_.size());
      piece.tallies[strategy].add_text(own.subspan(at, count), exact.subspan(at, count));
    };
    add(kWhole, 0, own.size());
    const std::size_t cut = static_cast<std::size_t>(request_.cut);
    for (std::size_t at = 0; cut > 0 && at < own.size(); at += cut) {
      add(static_cast<std::int64_t>(at), at, std::min(cut, own.size() - at));
    }
  }

  std::vector<LossyQualityRow> rows_of(const Tallies& tallies) const {
    std::vector<LossyQualityRow> rows;
    for (std::size_t i = 0; i < tallies.size(); ++i) {
      if (is_left_out_[i]) {
        continue;
      }
      rows.push_back(tallies[i].row(strategies_[i].text()));
      rows.back().read_as = name_of(reader_.form_of(strategies_[i]));
    }
    return rows;
  }

  void leave_out(const Error& error) {
    if (!request_.leaves_out || error.code() != ExitCode::kAnswerNo) {
      throw error;
    }
    left_out_.push_back(error.what());
  }
  // What read() gives; none, now and from now on, where that strategy cannot be measured.
  template <class Read>
  auto measured(std::size_t strategy, const Read& read) -> std::optional<decltype(read())> {
    if (is_left_out_[strategy]) {
      return {};
    }
    try {
      return read();
    } catch (const Error& error) {
      leave_out(error);
      is_left_out_[strategy] = true;
      return {};
    }
  }

  ReadChoices given_answer(const Strategy& strategy, const AskedQuestion& asked,
                           const std::vector<Law>* exact) {
    return reader_.read_choices(
        strategy, {.texts = asked.texts,
                   .measures = asked.bytes,
                   .truth = asked.answer,
                   .part = {.text = {},
                            .start = std::max<std::int64_t>(1, asked.scored - 1 - request_.decoded),
                            .scored = asked.scored,
                            .keeps_laws = exact == nullptr,
                            .exact = exact}});
  }

  void answer(const AskedQuestion& asked, std::map<std::string, Tallies>& tallies) {
    const ReadChoices exact = given_answer(strategies_[0], asked, nullptr);
    const bool exact_right = exact.likeliest == asked.answer;
    for (std::size_t i = 0; i < strategies_.size(); ++i) {
      const std::optional<ReadChoices> own = measured(i, [&] {
        return i == 0 ? exact : given_answer(strategies_[i], asked, &exact.truth.laws);
      });
      if (!own) {
        continue;
      }
      for (const std::string& bucket : buckets_of(asked)) {
        Tallies& tally = tallies[bucket];
        tally.resize(strategies_.size());
        tally[i].add_stretch(own->truth.tokens, exact.truth.tokens);
        tally[i].add_answer(own->likeliest == asked.answer, exact_right);
      }
    }
  }

  static std::vector<std::string> buckets_of(const AskedQuestion& asked) {
    std::vector<std::string> buckets = {""};
    if (asked.distance) {
      buckets.push_back(bucket_of(*asked.distance));
    }
    return buckets;
  }

  void read_text(const ReadText& given, TextTallies& group, TextTallies& all) {
    const TokenIds& text = given.tokens;
    const std::int64_t length = static_cast<std::int64_t>(text.size());
    if (length < 3 || length > reader_.most_tokens()) {
      throw Error(ExitCode::kBadInput,
                  given.name + ": the text has " + std::to_string(length) +
                      " tokens; to be scored it has 3 or more, and the model takes " +
                      std::to_string(reader_.most_tokens()));
    }
    const std::int64_t start = std::max<std::int64_t>(1, length - 1 - request_.scored);
    const ReadScores exact = reader_.read(
        strategies_[0], {.text = text, .start = start, .scored = start + 1, .keeps_laws = true});
    for (std::size_t i = 0; i < strategies_.size(); ++i) {
      const std::optional<ReadScores> own = measured(i, [&] {
        return i == 0
                   ? exact
                   : reader_.read(
                         strategies_[i],
                         {.text = text, .start = start, .scored = start + 1, .exact = &exact.laws});
      });
      if (own) {
        for (TextTallies* tallies : {&group, &all}) {
          add_text(i, own->tokens, exact.tokens, *tallies);
        }
      }
    }
  }

  const LossyQualityRequest& request_;
  const Tokenizer& tokenizer_;
  TextReader<T>& reader_;
  Progress& progress_;
  std::vector<Strategy> strategies_;  // the exact run's first
  std::vector<bool> is_left_out_;     // of them
  std::vector<std::string> left_out_;
};

// What drafts in a model directory, as files.
struct DraftFiles {
  std::optional<DraftCheckpoint> head;
  std::optional<Checkpoint> model;
  std::vector<std::int32_t> layer_map;
};

DraftFiles read_draft(const LossyQualityRequest& request, const LlmShape& target,
                      const std::vector<Strategy>& strategies) {
  std::error_code ignored;
  const std::filesystem::path& model = request.model;
  DraftFiles draft{.head = {}, .model = {}, .layer_map = request.layer_map};
  const std::filesystem::path folder = model / "draft";
  if (std::none_of(strategies.begin(), strategies.end(), loses_by_draft) ||
      !std::filesystem::exists(folder, ignored)) {
    return draft;
  }
  if (!is_draft_model(folder)) {
    draft.head = load_draft(folder, target);
    return draft;
  }
  draft.model = load_draft_model(folder, target);
  if (draft.layer_map.empty() && has_layer_map(model)) {
    draft.layer_map = read_layer_map(model, target, draft.model->shape.layers).draft_layer;
  }
  return draft;
}

void append(std::vector<std::string>& remarks, const std::vector<std::string>& more) {
  remarks.insert(remarks.end(), more.begin(), more.end());
}

std::vector<ChainShare> shares_of(const std::map<std::string, std::vector<Stretch>>& measured) {
  std::vector<ChainShare> shares;
  for (const auto& [strategy, stretches] : measured) {
    if (stretches.empty()) {
      continue;
    }
    double sum = 0.0, counted = 0.0;
    for (const Stretch& stretch : stretches) {
      sum += stretch.sum;
      counted += stretch.tokens;
    }
    const Interval interval = mean_interval(stretches);
    shares.push_back({.strategy = strategy,
                      .share = {sum / counted, interval.low, interval.high},
                      .counted = static_cast<std::int64_t>(counted)});
  }
  return shares;
}

template <class T>
LossyQualityReport quality_on(const LossyQualityRequest& request, const ComputeDevice& device,
                              const std::vector<Strategy>& strategies,
                              const std::vector<TaskSet>& given_sets,
                              std::unique_ptr<kernels::Ops<T>> ops) {
  const Checkpoint checkpoint = load_target(request.model);
  const std::unique_ptr<const Tokenizer> tokenizer =
      load_tokenizer(request.model, checkpoint.shape);
  const DraftFiles files = read_draft(request, checkpoint.shape, strategies);
  LossyQualityReport report{.model = checkpoint.shape.name,
                            .backend = name_of(device.backend),
                            .device = device.name,
                            .dtype = request.dtype,
                            .scored = request.scored,
                            .decoded = request.decoded,
                            .questions = request.questions,
                            .cut = request.cut,
                            .sets = {},
                            .remarks = checkpoint.remarks};
  Target<T> target = make_target(*ops, checkpoint, files.head ? &*files.head : nullptr);
  std::optional<Draft<T>> head;
  std::optional<Target<T>> model;
  if (files.head) {
    head.emplace(make_draft(*ops, *files.head, target));
    append(report.remarks, files.head->remarks);
  }
  if (files.model) {
    model.emplace(make_target(*ops, *files.model, nullptr));
    append(report.remarks, files.model->remarks);
  }
  const int threads = request.threads > 0
                          ? request.threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  TextReader<T> reader(*ops, target, {head ? &*head : nullptr, model ? &*model : nullptr},
                       files.layer_map, threads);
  const bool sparse = checkpoint.shape.attention == AttentionKind::kNsa;
  std::vector<TaskSet> sets;
  for (const TaskSet& set : given_sets) {
    sets.push_back(shortened(set, request.questions));
  }
  Progress progress(request, sets);
  LossyQualityRun<T> run(request, strategies, *tokenizer, reader,
                         Strategy::parse(sparse ? "nsa/ar" : "dense/ar"), progress);
  for (const TaskSet& set : sets) {
    const std::vector<QualitySet> asked = run.ask(set);
    report.sets.insert(report.sets.end(), asked.begin(), asked.end());
  }
  const std::vector<QualitySet> read = run.read_texts(texts_of(request, *tokenizer));
  report.sets.insert(report.sets.end(), read.begin(), read.end());
  report.tokens_run = reader.tokens_run();
  report.chain_shares = shares_of(reader.chain_shares());
  report.left_out = run.left_out();
  return report;
}

}  // namespace

LossyQualityReport run_lossy_quality(const LossyQualityRequest& request) {
  check_quality_request(request);
  const std::vector<Strategy> strategies = distinct_strategies(request.strategies);
  const ComputeDevice device = compute_device(request.backend, request.threads);
  dtype_on(device, request.dtype);  // a wrong format is said before anything is loaded
  const std::vector<TaskSet> sets = read_task_sets(request);
  for (const std::filesystem::path& path : request.texts) {
    read_prompt(path);  // so is a wrong file
  }
  return with_ops(device, request.dtype, [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) {
    return quality_on<T>(request, device, strategies, sets, std::move(ops));
  });
}

}  // namespace versieve::engine
