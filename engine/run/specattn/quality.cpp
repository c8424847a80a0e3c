#include "engine/run/specattn/quality.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <string>

#include "engine/io/input_file.h"
#include "engine/io/layer_map_file.h"
#include "engine/run/model/compute_device.h"
#include "engine/run/specattn/dense_pair.h"
#include "engine/run/specattn/other_choices.h"
#include "engine/run/specattn/text_walk.h"
#include "engine/run/speculate/draft_choice.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kPrefill = Target<float>::kMostTogether;
constexpr std::int64_t kPage = 16;   // tokens, of page selection
constexpr std::int64_t kSinks = 16;  // tokens, of streaming

// Sums of one method over texts; divided at the end.
struct Tally {
  std::int64_t tokens = 0, agreed = 0, right = 0, answers = 0, answers_right = 0;
  double loss = 0.0;
  std::vector<double> loss_at;          // by the place among a text's scored tokens
  std::vector<std::int64_t> tokens_at;  // the same
  ReadCount reads, sparse_reads;
};

struct Method {
  std::string name;
  double p = 0.0;
};

// What SpecAttn reads of a text: tokens by block and draft layer.
using ChosenBlocks = std::vector<std::vector<TokenList>>;

// Hands out lists that were made before.
template <class T>
class PlannedSelector final : public ListSelector<T> {
 public:
  PlannedSelector(kernels::Ops<T>& ops, const LayerMap& map, std::int64_t dense_layers)
      : ListSelector<T>(ops), map_(&map), dense_layers_(dense_layers) {}
  void set_block(const std::vector<TokenList>& chosen) { chosen_ = &chosen; }

 protected:
  const TokenList* tokens_of(const LayerQueries<T>& layer) override {
    const std::int32_t from = map_->draft_layer[static_cast<std::size_t>(layer.layer)];
    return layer.layer < dense_layers_ ? nullptr : &(*chosen_)[static_cast<std::size_t>(from)];
  }

 private:
  const LayerMap* map_;
  std::int64_t dense_layers_;
  const std::vector<TokenList>* chosen_ = nullptr;
};

// Places whose token answers: it follows "=> " in its line.
std::vector<bool> answer_places(std::span<const std::int32_t> text) {
  std::vector<bool> answers(text.size(), false);
  bool inside = false;
  for (std::size_t i = 3; i < text.size(); ++i) {
    inside = (inside || (text[i - 3] == '=' && text[i - 2] == '>' && text[i - 1] == ' ')) &&
             text[i] != '\n';
    answers[i] = inside;
  }
  return answers;
}

// Beyond any text; a block of more tokens than 64 bits count would have no end.
constexpr std::int64_t kMostTokens = std::int64_t{1} << 20;
constexpr std::int64_t kMostPoints = 4096;    // of a curve
constexpr std::int64_t kMostHalvings = 4096;  // the door's bound

void add_places(const std::vector<double>& loss, const std::vector<std::int64_t>& tokens,
                Tally& to) {
  to.loss_at.resize(std::max(to.loss_at.size(), loss.size()), 0.0);
  to.tokens_at.resize(to.loss_at.size(), 0);
  for (std::size_t i = 0; i < loss.size(); ++i) {
    to.loss_at[i] += loss[i];
    to.tokens_at[i] += tokens[i];
  }
}

// As many places as asked for, evenly over the longest text's scored tokens, the last at their end.
std::vector<std::int64_t> curve_places(std::int64_t points, std::int64_t scored) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 1; i <= std::min(points, scored); ++i) {
    places.push_back(i * scored / std::min(points, scored));
  }
  return places;
}

std::vector<double> perplexity_at(const Tally& tally, const std::vector<std::int64_t>& places) {
  std::vector<double> out;
  double loss = 0.0;
  std::int64_t tokens = 0;
  std::size_t at = 0;
  for (const std::int64_t place : places) {
    for (; at < static_cast<std::size_t>(place); ++at) {
      loss += tally.loss_at[at];
      tokens += tally.tokens_at[at];
    }
    out.push_back(std::exp(loss / static_cast<double>(tokens)));
  }
  return out;
}

template <class T>
class QualityRun {
 public:
  QualityRun(kernels::Ops<T>& ops, const QualityRequest& request)
      : ops_(&ops),
        request_(request),
        pair_(ops, request.model),
        map_(read_layer_map(request.model, pair_.target.shape(), pair_.draft.shape().layers)) {
    if (request.dense_layers > pair_.target.shape().layers) {
      throw Error(ExitCode::kUsage, "--dense-layers " + std::to_string(request.dense_layers) +
                                        ": the target has " +
                                        std::to_string(pair_.target.shape().layers) + " layers");
    }
    methods_.push_back({"dense", 0.0});
    for (const double p : request.shares) {
      for (const char* name : {"specattn", "streaming", "pages"}) {
        methods_.push_back({name, p});
      }
      if (request.per_token) {
        methods_.push_back({"quest", p});
      }
    }
  }

  const std::vector<Method>& methods() const { return methods_; }
  std::string model() const { return pair_.target.shape().name; }
  const std::vector<std::string>& remarks() const { return pair_.remarks; }

  // Adds a text to the tallies, a method each.
  void add(const std::filesystem::path& path, std::vector<Tally>& tallies) {
    text_ = pair_.read_text(path);
    const std::int64_t length = static_cast<std::int64_t>(text_.size());
    start_ = std::max<std::int64_t>(1, length - 1 - request_.scored);
    if (length < 3) {
      throw Error(ExitCode::kBadInput, path.string() + ": the text is too short to be scored");
    }
    answers_ = answer_places(text_);
    prefill(pair_.target);
    const WalkedText dense = walk(nullptr, block(), [](std::size_t) {});
    count(dense, dense, {}, {}, tallies[0]);
    for (std::size_t i = 0; i < request_.shares.size(); ++i) {
      const std::size_t each = (methods_.size() - 1) / request_.shares.size();
      score_share(choose(request_.shares[i]), dense, &tallies[1 + each * i]);
    }
  }

 private:
  std::int64_t block() const { return request_.lookahead + 1; }

  void prefill(Target<T>& model) {
    model.set_token_selector(nullptr);
    model.cache().truncate(0);
    for (std::int64_t at = 0; at < start_; at += kPrefill) {
      const std::int64_t end = std::min(start_, at + kPrefill);
      model.verify(chain_tree({text_.begin() + at, text_.begin() + end}),
                   {.last_logits_only = true});
      std::vector<std::int32_t> path(static_cast<std::size_t>(end - at));
      std::iota(path.begin(), path.end(), 0);
      model.commit(path);
    }
  }

  WalkedText walk(TokenSelector<T>* selector, std::int64_t block_tokens,
                  const std::function<void(std::size_t)>& before) {
    pair_.target.set_token_selector(selector);
    const WalkedText walked = walk_text(*ops_, pair_.target, text_, start_, block_tokens, before);
    pair_.target.set_token_selector(nullptr);
    return walked;
  }

  // The draft decodes the true tokens block by block, gamma steps each.
  ChosenBlocks choose(double p) {
    const std::vector<std::int32_t> prompt(text_.begin(), text_.begin() + start_);
    if (pair_.draft.length() < start_ || drafted_text_ != text_) {
      prefill(pair_.draft);
      drafted_text_ = text_;
    }
    ModelDrafter<T> drafter(*ops_, pair_.draft, prompt, true);
    drafter.capture_attention(request_.lookahead);
    const SpecAttnOptions options{.p = p,
                                  .iterations = request_.iterations,
                                  .chunk = request_.chunk,
                                  .dense_layers = request_.dense_layers};
    ChosenBlocks chosen;
    std::int64_t known = start_ - 1;  // the newest position whose token the drafter has
    const std::int64_t length = static_cast<std::int64_t>(text_.size());
    for (const std::int64_t at : block_starts(start_, block(), length)) {
      drafter.begin(at, {.first = known,
                         .next_token = {text_.begin() + known + 1, text_.begin() + at + 1},
                         .captured = nullptr,
                         .rows = {}});
      known = at;
      for (std::int64_t i = 1; i < request_.lookahead && at + i + 1 < length; ++i) {
        drafter.step({.token = {text_[static_cast<std::size_t>(at + i)]},
                      .position = {static_cast<std::int32_t>(at + i)},
                      .parent = {static_cast<std::int32_t>(i - 2)}});
      }
      chosen.push_back(
          chosen_tokens(*ops_, drafter.attention(), map_.draft_layer.back() + 1, options));
    }
    return chosen;
  }

  // `more`: tokens beside the chosen ones. A verify reads the block's own before a token, too;
  // where that token is verified alone, they are committed ones.
  TokenBudget budget_of(const std::vector<TokenList>& chosen, std::int64_t more = 0) const {
    TokenBudget budget;
    for (std::size_t layer = 0; layer < map_.draft_layer.size(); ++layer) {
      const TokenList& list = chosen[static_cast<std::size_t>(map_.draft_layer[layer])];
      budget.push_back(static_cast<std::int64_t>(layer) < request_.dense_layers
                           ? -1
                           : static_cast<std::int64_t>(list.size()) + more);
    }
    return budget;
  }

  // In the order of the methods.
  void score_share(const ChosenBlocks& chosen, const WalkedText& dense, Tally* tallies) {
    PlannedSelector<T> planned(*ops_, map_, request_.dense_layers);
    score({planned, block(), [&](std::size_t i) { planned.set_block(chosen[i]); }}, dense,
          tallies[0]);
    StreamingSelector<T> streaming(*ops_, kSinks);
    score({streaming, block(), [&](std::size_t i) { streaming.set_budget(budget_of(chosen[i])); }},
          dense, tallies[1]);
    PageSelector<T> pages(*ops_, pair_.target.shape(), kPage);
    score({pages, block(), [&](std::size_t i) { pages.set_budget(budget_of(chosen[i])); }}, dense,
          tallies[2]);
    if (request_.per_token) {  // each token of a block by its own pages
      PageSelector<T> own(*ops_, pair_.target.shape(), kPage, /*newest_first=*/true);
      const std::size_t tokens = static_cast<std::size_t>(block());
      score({own, 1,
             [&](std::size_t i) {
               own.set_budget(budget_of(chosen[i / tokens], static_cast<std::int64_t>(i % tokens)));
             }},
            dense, tallies[3]);
    }
  }

  struct Reading {
    ListSelector<T>& selector;
    std::int64_t block_tokens = 1;  // verified at once
    std::function<void(std::size_t)> before;
  };

  void score(const Reading& reading, const WalkedText& dense, Tally& tally) {
    const WalkedText walked = walk(&reading.selector, reading.block_tokens, reading.before);
    ReadCount sparse = reading.selector.reads();
    const std::int64_t layers = pair_.target.shape().layers;
    const std::int64_t dense_present = sparse.present / layers * request_.dense_layers;
    sparse.present -= dense_present;
    sparse.read -= dense_present;
    count(walked, dense, reading.selector.reads(), sparse, tally);
  }

  void count(const WalkedText& walked, const WalkedText& dense, const ReadCount& reads,
             const ReadCount& sparse, Tally& tally) const {
    add_places(walked.loss, std::vector<std::int64_t>(walked.loss.size(), 1), tally);
    for (std::size_t i = 0; i < walked.loss.size(); ++i) {
      const std::size_t place = static_cast<std::size_t>(start_) + i + 1;
      const bool right = walked.choice[i] == text_[place];
      ++tally.tokens;
      tally.loss += walked.loss[i];
      tally.agreed += walked.choice[i] == dense.choice[i];
      tally.right += right;
      tally.answers += answers_[place];
      tally.answers_right += answers_[place] && right;
    }
    tally.reads.read += reads.read;
    tally.reads.present += reads.present;
    tally.sparse_reads.read += sparse.read;
    tally.sparse_reads.present += sparse.present;
  }

  kernels::Ops<T>* ops_;
  QualityRequest request_;
  DensePair<T> pair_;
  LayerMap map_;
  std::vector<Method> methods_;
  std::vector<std::int32_t> text_, drafted_text_;
  std::vector<bool> answers_;
  std::int64_t start_ = 0;
};

void add_to(const Tally& from, Tally& to) {
  add_places(from.loss_at, from.tokens_at, to);
  to.tokens += from.tokens;
  to.agreed += from.agreed;
  to.right += from.right;
  to.answers += from.answers;
  to.answers_right += from.answers_right;
  to.loss += from.loss;
  to.reads.read += from.reads.read;
  to.reads.present += from.reads.present;
  to.sparse_reads.read += from.sparse_reads.read;
  to.sparse_reads.present += from.sparse_reads.present;
}

QualityGroup group_of(const std::string& name, const std::vector<Method>& methods,
                      const std::vector<Tally>& tallies, std::int64_t curve) {
  QualityGroup group{
      .name = name,
      .rows = {},
      .places = curve_places(curve, static_cast<std::int64_t>(tallies.front().loss_at.size()))};
  for (std::size_t i = 0; i < methods.size(); ++i) {
    const Tally& t = tallies[i];
    const double tokens = static_cast<double>(std::max<std::int64_t>(1, t.tokens));
    const double answers = static_cast<double>(std::max<std::int64_t>(1, t.answers));
    group.rows.push_back({.method = methods[i].name,
                          .p = methods[i].p,
                          .tokens = t.tokens,
                          .loss = t.loss / tokens,
                          .agreement = static_cast<double>(t.agreed) / tokens,
                          .right = static_cast<double>(t.right) / tokens,
                          .answers = t.answers,
                          .answers_right = static_cast<double>(t.answers_right) / answers,
                          .saved = t.reads.saved(),
                          .saved_sparse = t.sparse_reads.saved(),
                          .perplexity = perplexity_at(t, group.places)});
  }
  return group;
}

template <class T>
QualityReport quality_on(const QualityRequest& request, const ComputeDevice& device,
                         std::unique_ptr<kernels::Ops<T>> ops) {
  for (const std::filesystem::path& path : request.texts) {
    InputFile{path};  // there and readable, before the first takes its minutes
  }
  QualityRun<T> run(*ops, request);
  QualityReport report{.model = run.model(),
                       .backend = name_of(device.backend),
                       .device = device.name,
                       .dtype = request.dtype,
                       .lookahead = request.lookahead,
                       .scored = request.scored,
                       .chunk = request.chunk,
                       .iterations = request.iterations,
                       .dense_layers = request.dense_layers,
                       .texts = static_cast<std::int64_t>(request.texts.size()),
                       .groups = {},
                       .remarks = run.remarks()};
  std::map<std::string, std::vector<Tally>> groups;
  std::vector<Tally> all(run.methods().size());
  for (const std::filesystem::path& path : request.texts) {
    if (request.on_text) {
      request.on_text(path.filename().string());
    }
    const std::string file = path.filename().string();
    std::vector<Tally> own(run.methods().size());
    run.add(path, own);
    std::vector<Tally>& group = groups[file.substr(0, file.find('-'))];
    group.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      add_to(own[i], group[i]);
      add_to(own[i], all[i]);
    }
  }
  for (const auto& [name, tallies] : groups) {
    report.groups.push_back(group_of(name, run.methods(), tallies, request.curve));
  }
  report.groups.push_back(group_of("all", run.methods(), all, request.curve));
  return report;
}

void check_request(const QualityRequest& request) {
  if (request.texts.empty()) {
    throw Error(ExitCode::kUsage, "quality needs a text: --text FILE, once or more");
  }
  if (request.lookahead < 1 || request.scored < 1 || request.chunk < 1 || request.iterations < 1) {
    throw Error(ExitCode::kUsage, "lookahead, scored, chunk and iterations are 1 or more");
  }
  if (request.lookahead > kMostTokens || request.chunk > kMostTokens ||
      request.iterations > kMostHalvings) {
    throw Error(ExitCode::kUsage, "lookahead and chunk are " + std::to_string(kMostTokens) +
                                      " or less, iterations " + std::to_string(kMostHalvings));
  }
  if (request.curve < 0 || request.curve > kMostPoints) {
    throw Error(ExitCode::kUsage, "--curve is 0 to " + std::to_string(kMostPoints) + " points");
  }
  if (request.dense_layers < 0) {
    throw Error(ExitCode::kUsage, "--dense-layers is 0 or more");
  }
  for (const double p : request.shares) {
    if (!(p > 0.0 && p <= 1.0)) {
      throw Error(ExitCode::kUsage, "p must be in (0, 1]");
    }
  }
}

}  // namespace

QualityReport run_quality(const QualityRequest& request) {
  check_request(request);
  const ComputeDevice device = compute_device(request.backend, request.threads);
  return with_ops(device, request.dtype, [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) {
    return quality_on<T>(request, device, std::move(ops));
  });
}

}  // namespace versieve::engine
