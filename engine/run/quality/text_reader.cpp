#include "engine/run/quality/text_reader.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "engine/run/speculate/draft_choice.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/generate.h"
#include "engine/run/speculate/model_drafter.h"
#include "engine/run/speculate/rectify.h"
#include "engine/run/speculate/step.h"
#include "kernels/common/parallel_for.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kChunk = 256;  // nodes of a chain, as in prefill

bool shares_blocks(const Strategy& strategy) {
  return strategy.group_size > 1 && strategy.group_mode == GroupMode::kApprox;
}
bool chooses_tokens(const Strategy& strategy) {
  return strategy.attention == AttentionMethod::kSpecAttn;
}
bool tests_by_sigmoids(const Strategy& strategy) {
  return strategy.sampling == SamplingAlgorithm::kSigmoid;
}

std::vector<std::int32_t> whole_path(std::int64_t nodes) {
  std::vector<std::int32_t> path(static_cast<std::size_t>(nodes));
  std::iota(path.begin(), path.end(), 0);
  return path;
}

// The nodes that hold text[0], text[1], ... from the root on, of which each has a token behind it.
std::vector<std::int32_t> true_path(const DraftTree& tree, std::span<const std::int32_t> text) {
  std::vector<std::int32_t> path = {0};
  for (std::int32_t node = 1; node < static_cast<std::int32_t>(tree.size()); ++node) {
    const std::size_t at = static_cast<std::size_t>(node);
    if (path.size() + 1 < text.size() && tree.parent[at] == path.back() &&
        tree.token[at] == text[path.size()]) {
      path.push_back(node);  // parents come before children
    }
  }
  return path;
}

}  // namespace

const char* name_of(ReadForm form) {
  switch (form) {
    case ReadForm::kBlocks:
      return "blocks";
    case ReadForm::kTrees:
      return "trees";
    case ReadForm::kChains:
      return "chains";
    case ReadForm::kTokens:
      return "tokens";
  }
  VERSIEVE_ASSERT(false, "a form has a name");
}

bool loses_by_draft(const Strategy& strategy) {
  return shares_blocks(strategy) || chooses_tokens(strategy) || tests_by_sigmoids(strategy);
}

// Turns rows of logits into scores, in the order in which they are read.
template <class T>
class TextReader<T>::Scorer {
 public:
  Scorer(const Part& part, std::int64_t vocab, int threads)
      : part_(&part), vocab_(static_cast<std::size_t>(vocab)), threads_(threads) {}

  // Logits after the tokens from `begin` on; `drafted`: the draft's after the first of them.
  void add(std::int64_t begin, std::span<const T> logits, std::span<const T> drafted) {
    const std::int64_t rows = static_cast<std::int64_t>(logits.size() / vocab_);
    const std::int64_t drafted_rows = static_cast<std::int64_t>(drafted.size() / vocab_);
    const std::int64_t first = std::max<std::int64_t>(0, part_->scored - 1 - begin);
    if (first >= rows) {
      return;
    }
    const std::size_t before = scores.tokens.size();
    const std::size_t added = static_cast<std::size_t>(rows - first);
    scores.tokens.resize(before + added);
    std::vector<Law> laws(added);
    kernels::parallel_for(rows - first, threads_, [&](std::int64_t i) {
      const std::int64_t row = first + i;
      const std::size_t place = before + static_cast<std::size_t>(i);
      Law& law = laws[static_cast<std::size_t>(i)];
      law = row < drafted_rows ? sigmoid_law(row_of(logits, row), row_of(drafted, row))
                               : law_of(row_of(logits, row));
      scores.tokens[place] =
          score_token(law, part_->text[static_cast<std::size_t>(begin + row + 1)],
                      part_->exact == nullptr ? nullptr : &(*part_->exact)[place]);
    });
    if (part_->keeps_laws) {
      std::move(laws.begin(), laws.end(), std::back_inserter(scores.laws));
    }
  }

  ReadScores scores;

 private:
  std::span<const T> row_of(std::span<const T> logits, std::int64_t row) const {
    return logits.subspan(static_cast<std::size_t>(row) * vocab_, vocab_);
  }

  const Part* part_;
  std::size_t vocab_;
  int threads_;
};

template <class T>
TextReader<T>::TextReader(kernels::Ops<T>& ops, Target<T>& target, const TextDraft<T>& draft,
                          std::vector<std::int32_t> layer_map, int threads)
    : ops_(&ops),
      target_(&target),
      draft_(draft),
      layer_map_(std::move(layer_map)),
      threads_(threads),
      prefix_(target, draft) {}

template <class T>
std::string TextReader<T>::refusal(const Strategy& strategy) const {
  if (!chooses_tokens(strategy) && !tests_by_sigmoids(strategy)) {
    return illegal_because(strategy, target_->shape());
  }
  Generator<T> generator(*ops_, *target_, draft_.head, draft_.model);
  generator.set_layer_map(layer_map_);
  return generator.refusal({.strategy = strategy, .temperature = 1.0});
}

template <class T>
ReadForm TextReader<T>::form_of(const Strategy& strategy) const {
  if (strategy.attention == AttentionMethod::kResa) {
    return ReadForm::kTokens;
  }
  if (chooses_tokens(strategy) || tests_by_sigmoids(strategy)) {
    return ReadForm::kChains;
  }
  if (shares_blocks(strategy)) {
    return draft_.head != nullptr ? ReadForm::kTrees : ReadForm::kChains;
  }
  return ReadForm::kBlocks;
}

template <class T>
std::int64_t TextReader<T>::most_tokens() const {
  const std::int64_t own = target_->shape().max_position;
  return draft_.model == nullptr ? own : std::min(own, draft_.model->shape().max_position);
}

template <class T>
ReadScores TextReader<T>::read(const Strategy& strategy, const Part& part) {
  const std::int64_t length = static_cast<std::int64_t>(part.text.size());
  VERSIEVE_ASSERT(part.start >= 1 && part.start < part.scored && part.scored < length,
                  "a token is held, and another predicted");
  prefix_.hold(part.text.first(static_cast<std::size_t>(part.start)));
  target_->cache().reserve(length);
  Scorer scorer(part, target_->shape().vocab, threads_);
  switch (form_of(strategy)) {
    case ReadForm::kTokens:
      read_rectified(strategy, part, scorer);
      break;
    case ReadForm::kTrees:
      read_trees(strategy, part, scorer);
      break;
    case ReadForm::kChains:
    case ReadForm::kBlocks:
      if (chooses_tokens(strategy) || tests_by_sigmoids(strategy)) {
        read_drafted(strategy, part, scorer);
      } else {
        read_blocks(strategy, part, scorer);
      }
      break;
  }
  prefix_.rewind();
  for (const TokenScore& score : scorer.scores.tokens) {
    if (!std::isfinite(score.loss) || !std::isfinite(score.divergence)) {
      throw Error(ExitCode::kAnswerNo,
                  "strategy '" + strategy.text() + "': the loss of a token is not a finite number");
    }
  }
  return std::move(scorer.scores);
}

template <class T>
void TextReader<T>::read_block(const Part& part, std::int64_t begin, std::int64_t end,
                               const VerifyOptions& options, std::span<const T> drafted,
                               Scorer& scorer) {
  target_->verify(chain_tree({part.text.begin() + begin, part.text.begin() + end}), options);
  tokens_run_ += end - begin;
  std::vector<T> logits(static_cast<std::size_t>((end - begin) * target_->shape().vocab));
  ops_->download(logits.data(), target_->logits(), logits.size() * sizeof(T));
  scorer.add(begin, logits, drafted);
  target_->commit(whole_path(end - begin));
}

template <class T>
void TextReader<T>::read_blocks(const Strategy& strategy, const Part& part, Scorer& scorer) {
  const VerifyOptions options = verify_options(strategy, target_->shape());
  const std::int64_t last = static_cast<std::int64_t>(part.text.size()) - 1;
  const std::int64_t block =
      form_of(strategy) == ReadForm::kBlocks ? kChunk : strategy.draft.levels() + 1;
  for (std::int64_t at = part.start; at < last; at += block) {
    read_block(part, at, std::min(last, at + block), options, {}, scorer);
  }
}

// Each step verifies the tree that the head drafts behind the true text. The nodes that hold the
// text go on, and what they predict is scored: as if each token of the text had been accepted.
template <class T>
void TextReader<T>::read_trees(const Strategy& strategy, const Part& part, Scorer& scorer) {
  const VerifyOptions options = verify_options(strategy, target_->shape());
  const std::int64_t last = static_cast<std::int64_t>(part.text.size()) - 1;
  const std::size_t vocab = static_cast<std::size_t>(target_->shape().vocab);
  const std::int64_t own = draft_.head->shape().max_position;
  DraftSource<T> source(
      *ops_, *draft_.head,
      {.choice = strategy.draft, .order = strategy.order, .draft_positions = own});
  source.observe(prefix_.before(part.text[static_cast<std::size_t>(part.start)]));
  for (std::int64_t at = part.start; at < last;) {
    const std::span<const std::int32_t> rest = part.text.subspan(static_cast<std::size_t>(at));
    const DraftTree tree = source.propose(at, rest[0]);
    target_->verify(tree, options);
    tokens_run_ += tree.size();
    const std::vector<std::int32_t> path = true_path(tree, rest);
    std::vector<T> logits(path.size() * vocab);
    for (std::size_t i = 0; i < path.size(); ++i) {
      ops_->download(logits.data() + i * vocab,
                     target_->logits() + static_cast<std::size_t>(path[i]) * vocab,
                     vocab * sizeof(T));
    }
    scorer.add(at, logits, {});
    target_->commit(path);
    source.observe({.first = at,
                    .next_token = {rest.begin() + 1,
                                   rest.begin() + static_cast<std::ptrdiff_t>(path.size()) + 1},
                    .captured = target_->captured(),
                    .rows = path});
    at += static_cast<std::int64_t>(path.size());
  }
}

// ReSA: token by token, with its dense passes.
template <class T>
void TextReader<T>::read_rectified(const Strategy& strategy, const Part& part, Scorer& scorer) {
  const VerifyOptions options = verify_options(strategy, target_->shape());
  target_->keep_block_keys(strategy.resa_key_block);
  std::optional<Rectifier<T>> rectifier;
  if (strategy.resa_rectify_every > 0) {
    rectifier.emplace(*target_, strategy.resa_rectify_every);
  }
  const std::int64_t last = static_cast<std::int64_t>(part.text.size()) - 1;
  for (std::int64_t at = part.start; at < last; ++at) {
    read_block(part, at, at + 1, options, {}, scorer);
    if (rectifier && rectifier->committed(part.text[static_cast<std::size_t>(at)])) {
      tokens_run_ += strategy.resa_rectify_every;
    }
  }
  target_->drop_block_keys();
}

// The draft decodes the true tokens of each block. SpecAttn reads what it attended to; sigmoids
// compare its laws with the target's.
template <class T>
void TextReader<T>::read_drafted(const Strategy& strategy, const Part& part, Scorer& scorer) {
  if (draft_.model == nullptr) {
    HeadDrafter<T> drafter(*draft_.head);
    read_chains(strategy, part, drafter, scorer);
    return;
  }
  const std::span<const std::int32_t> held = part.text.first(static_cast<std::size_t>(part.start));
  prefix_.hold_by_model(held);
  ModelDrafter<T> drafter(*ops_, *draft_.model, {held.begin(), held.end()}, true);
  if (!chooses_tokens(strategy)) {
    read_chains(strategy, part, drafter, scorer);
    return;
  }
  const SpecAttnOptions choice{.p = strategy.specattn_p};
  const std::size_t first =
      std::min(static_cast<std::size_t>(choice.dense_layers), layer_map_.size() - 1);
  drafter.capture_attention(strategy.draft.levels(), layer_map_[first]);
  SpecAttnSelector<T> selector(*ops_, drafter, layer_map_, choice);
  target_->set_token_selector(&selector);
  read_chains(strategy, part, drafter, scorer);
  target_->set_token_selector(nullptr);
}

template <class T>
void TextReader<T>::read_chains(const Strategy& strategy, const Part& part, Drafter<T>& drafter,
                                Scorer& scorer) {
  const std::int64_t vocab = target_->shape().vocab, levels = strategy.draft.levels();
  const std::span<const std::int32_t> text = part.text;
  const VerifyOptions options = verify_options(strategy, target_->shape());
  const std::int64_t last = static_cast<std::int64_t>(text.size()) - 1;
  Observation<T> seen = prefix_.before(text[static_cast<std::size_t>(part.start)]);
  for (std::int64_t at = part.start; at < last;) {
    const std::int64_t end = std::min(last, at + levels + 1);
    std::vector<T> drafted;
    const auto keep_law = [&] {
      if (tests_by_sigmoids(strategy)) {
        const std::size_t before = drafted.size();
        drafted.resize(before + static_cast<std::size_t>(vocab));
        ops_->download(drafted.data() + before, drafter.logits(),
                       static_cast<std::size_t>(vocab) * sizeof(T));
      }
    };
    drafter.begin(at, seen);
    keep_law();
    for (std::int64_t i = 1; i < std::min(levels, end - at); ++i) {
      drafter.step({.token = {text[static_cast<std::size_t>(at + i)]},
                    .position = {static_cast<std::int32_t>(at + i)},
                    .parent = {static_cast<std::int32_t>(i - 2)}});
      keep_law();
    }
    read_block(part, at, end, options, drafted, scorer);
    seen = {.first = at,
            .next_token = {text.begin() + at + 1, text.begin() + end + 1},
            .captured = target_->captured(),
            .rows = whole_path(end - at)};
    at = end;
  }
}

template class TextReader<double>;
template class TextReader<float>;
template class TextReader<Bf16>;

}  // namespace versieve::engine
