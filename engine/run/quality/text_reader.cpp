#include "engine/run/quality/text_reader.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "engine/run/quality/text_ballot.h"
#include "engine/run/speculate/draft_choice.h"
#include "engine/run/speculate/generate.h"
#include "engine/run/speculate/model_drafter.h"
#include "engine/run/speculate/rectify.h"
#include "engine/run/speculate/step.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kChunk = Target<float>::kMostTogether;  // nodes of a chain

bool shares_blocks(const Strategy& strategy) {
  return strategy.group_size > 1 && strategy.group_mode == GroupMode::kApprox;
}
// By the target's own queries: of ReSA a token's, of an indexer a tree's root's.
bool chooses_by_query(const Strategy& strategy) {
  return strategy.attention == AttentionMethod::kResa ||
         strategy.attention == AttentionMethod::kIndexer;
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

template <class T>
TextReader<T>::TextReader(kernels::Ops<T>& ops, Target<T>& target, const TextDraft<T>& draft,
                          std::vector<std::int32_t> layer_map, int threads)
    : ops_(&ops),
      target_(&target),
      draft_(draft),
      layer_map_(std::move(layer_map)),
      threads_(threads),
      prefix_(ops, target, draft) {}

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
  if (chooses_by_query(strategy) && !strategy.draft.speculates()) {
    return ReadForm::kTokens;
  }
  if (chooses_tokens(strategy) || tests_by_sigmoids(strategy)) {
    return ReadForm::kChains;
  }
  if (shares_blocks(strategy) || chooses_by_query(strategy)) {
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
  const std::vector<std::int32_t> text(part.text.begin(), part.text.end());
  const double measure = 1.0;
  return read_choices(strategy, {.texts = {&text, 1}, .measures = {&measure, 1}, .part = part})
      .truth;
}

template <class T>
ReadChoices TextReader<T>::read_choices(const Strategy& strategy, const Choices& choices) {
  const Part& part = choices.part;
  std::size_t longest = 0;
  for (const std::vector<std::int32_t>& text : choices.texts) {
    const std::int64_t length = static_cast<std::int64_t>(text.size());
    VERSIEVE_ASSERT(part.start >= 1 && part.start < part.scored && part.scored < length,
                    "a token is held, and another predicted");
    longest = std::max(longest, text.size());
  }
  Ballot ballot(choices, target_->shape().vocab, threads_);
  prefix_.hold(ballot.text(0).first(static_cast<std::size_t>(part.start)));
  target_->cache().reserve(static_cast<std::int64_t>(longest));
  read_all(strategy, ballot);
  prefix_.rewind();
  return std::move(ballot.found);
}

template <class T>
void TextReader<T>::read_all(const Strategy& strategy, Ballot& ballot) {
  const ReadForm form = form_of(strategy);
  const bool drafted = chooses_tokens(strategy) || tests_by_sigmoids(strategy);
  if (form == ReadForm::kTrees) {
    read_trees(strategy, ballot);
    return;
  }
  if (form != ReadForm::kTokens && !drafted) {
    read_blocks(strategy, ballot);
    return;
  }
  for (std::size_t i = 0; i < ballot.count(); ++i) {
    prefix_.hold(ballot.text(i).first(static_cast<std::size_t>(ballot.shared().start)));
    Scorer& scorer = ballot.begin(i);
    if (drafted) {
      read_drafted(strategy, scorer);
    } else {
      read_tokens(strategy, scorer);
    }
    ballot.count(i, strategy);
  }
}

template <class T>
void TextReader<T>::run_block(std::span<const std::int32_t> text, std::int64_t begin,
                              std::int64_t end, std::int64_t first, const VerifyOptions& options) {
  VerifyOptions own = options;
  own.last_logits_only = first >= end - 1;
  target_->verify(chain_tree({text.begin() + begin, text.begin() + end}), own);
  tokens_run_ += end - begin;
  const std::size_t vocab = static_cast<std::size_t>(target_->shape().vocab);
  const std::int64_t row = own.last_logits_only ? 0 : first - begin;
  rows_.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, end - first)) * vocab);
  if (!rows_.empty()) {
    ops_->download(rows_.data(), target_->logits() + row * target_->shape().vocab,
                   rows_.size() * sizeof(T));
  }
  target_->commit(whole_path(end - begin));
}

template <class T>
void TextReader<T>::read_block(std::int64_t begin, std::int64_t end, const VerifyOptions& options,
                               std::span<const T> drafted, Scorer& scorer) {
  const std::int64_t first = scorer.first_of(begin);
  run_block(scorer.part().text, begin, end, first, options);
  const std::size_t skipped =
      static_cast<std::size_t>((first - begin) * target_->shape().vocab);  // of the draft's rows
  scorer.add(first, rows_, drafted.subspan(std::min(skipped, drafted.size())));
}

// Blocks that lie within what all texts share are run once; behind them each text goes its own way.
template <class T>
void TextReader<T>::read_blocks(const Strategy& strategy, Ballot& ballot) {
  const VerifyOptions options = verify_options(strategy, target_->shape());
  target_->keep_choice_keys(options);
  const bool any_block = form_of(strategy) == ReadForm::kBlocks;
  const std::int64_t block = any_block ? kChunk : strategy.draft.levels() + 1;
  const std::int64_t scored = ballot.shared().scored;
  std::int64_t at = ballot.shared().start;
  while (ballot.count() > 1 && at < scored) {
    const std::int64_t end = any_block ? std::min(scored, at + block) : at + block;
    if (end > scored) {
      break;
    }
    run_block(ballot.text(0), at, end, scored - 1, options);
    at = end;
  }
  const std::vector<T> shared_row = at == scored ? rows_ : std::vector<T>();
  for (std::size_t i = 0; i < ballot.count(); ++i) {
    target_->cache().truncate(at);
    Scorer& scorer = ballot.begin(i);
    if (!shared_row.empty()) {
      scorer.add(scored - 1, shared_row, {});
    }
    for (std::int64_t begin = at; begin < scorer.last(); begin += block) {
      read_block(begin, std::min(scorer.last(), begin + block), options, {}, scorer);
    }
    ballot.count(i, strategy);
  }
}

// Each step verifies the tree that the head drafts behind the true text. The nodes that hold the
// text go on, and what they predict is scored: as if each token of the text had been accepted.
// Steps whose tokens all texts share are taken once. The step after them begins with the same tree
// for all texts, which part in it.
template <class T>
void TextReader<T>::read_trees(const Strategy& strategy, Ballot& ballot) {
  const VerifyOptions options = verify_options(strategy, target_->shape());
  target_->keep_choice_keys(options);
  const std::int64_t own = draft_.head->shape().max_position;
  DraftSource<T> source(
      *ops_, *draft_.head,
      {.choice = strategy.draft, .order = strategy.order, .draft_positions = own});
  const std::span<const std::int32_t> text = ballot.text(0);
  std::int64_t at = ballot.shared().start;
  source.observe(prefix_.before(text[static_cast<std::size_t>(at)]));
  DraftTree tree;
  for (;;) {
    const std::span<const std::int32_t> rest = text.subspan(static_cast<std::size_t>(at));
    tree = source.propose(at, rest[0]);
    const std::vector<std::int32_t> path = true_path(tree, rest);
    const std::int64_t next = at + static_cast<std::int64_t>(path.size());
    if (next >= ballot.shared().scored) {
      break;
    }
    target_->verify(tree, options);
    tokens_run_ += tree.size();
    go_on(at, path, rest, source);
    at = next;
  }
  const std::int64_t entries = draft_.head->length();
  for (std::size_t i = 0; i < ballot.count(); ++i) {
    target_->cache().truncate(at);
    draft_.head->set_length(entries);
    walk_trees(at, tree, options, source, ballot.begin(i));
    ballot.count(i, strategy);
  }
}

template <class T>
void TextReader<T>::walk_trees(std::int64_t at, DraftTree tree, const VerifyOptions& options,
                               DraftSource<T>& source, Scorer& scorer) {
  for (;;) {
    const std::span<const std::int32_t> rest =
        scorer.part().text.subspan(static_cast<std::size_t>(at));
    target_->verify(tree, options);
    tokens_run_ += tree.size();
    const std::vector<std::int32_t> path = true_path(tree, rest);
    score_path(at, path, scorer);
    at += static_cast<std::int64_t>(path.size());
    if (at >= scorer.last() || scorer.is_over()) {
      return;
    }
    go_on(at - static_cast<std::int64_t>(path.size()), path, rest, source);
    tree = source.propose(at, scorer.part().text[static_cast<std::size_t>(at)]);
  }
}

// Commits the path of the step that began at `at`, and the source learns of it. `rest`: the text
// from there on.
template <class T>
void TextReader<T>::go_on(std::int64_t at, std::span<const std::int32_t> path,
                          std::span<const std::int32_t> rest, DraftSource<T>& source) {
  target_->commit(path);
  source.observe({.first = at,
                  .next_token = {rest.begin() + 1,
                                 rest.begin() + static_cast<std::ptrdiff_t>(path.size()) + 1},
                  .captured = target_->captured(),
                  .rows = {path.begin(), path.end()}});
}

template <class T>
void TextReader<T>::score_path(std::int64_t at, std::span<const std::int32_t> path,
                               Scorer& scorer) {
  const std::size_t vocab = static_cast<std::size_t>(target_->shape().vocab);
  const std::size_t skipped = static_cast<std::size_t>(
      std::min(scorer.first_of(at) - at, static_cast<std::int64_t>(path.size())));
  rows_.resize((path.size() - skipped) * vocab);
  for (std::size_t i = skipped; i < path.size(); ++i) {
    ops_->download(rows_.data() + (i - skipped) * vocab,
                   target_->logits() + static_cast<std::size_t>(path[i]) * vocab,
                   vocab * sizeof(T));
  }
  scorer.add(at + static_cast<std::int64_t>(skipped), rows_, {});
}

// Token by token, ReSA's with its dense passes.
template <class T>
void TextReader<T>::read_tokens(const Strategy& strategy, Scorer& scorer) {
  const VerifyOptions options = verify_options(strategy, target_->shape());
  target_->keep_choice_keys(options);
  std::optional<Rectifier<T>> rectifier;
  if (options.resa && strategy.resa_rectify_every > 0) {
    rectifier.emplace(*target_, strategy.resa_rectify_every);
  }
  for (std::int64_t at = scorer.part().start; at < scorer.last(); ++at) {
    read_block(at, at + 1, options, {}, scorer);
    if (rectifier && rectifier->committed(scorer.part().text[static_cast<std::size_t>(at)])) {
      tokens_run_ += strategy.resa_rectify_every;
    }
  }
  target_->keep_choice_keys({});
}

// The draft decodes the true tokens of each block. SpecAttn reads what it attended to; sigmoids
// compare its laws with the target's.
template <class T>
void TextReader<T>::read_drafted(const Strategy& strategy, Scorer& scorer) {
  if (draft_.model == nullptr) {
    HeadDrafter<T> drafter(*draft_.head);
    read_chains(strategy, drafter, scorer);
    add_shares(strategy, scorer.stayed);
    return;
  }
  const std::span<const std::int32_t> held =
      scorer.part().text.first(static_cast<std::size_t>(scorer.part().start));
  prefix_.hold_by_model(held);
  ModelDrafter<T> drafter(*ops_, *draft_.model, {held.begin(), held.end()}, true);
  if (!chooses_tokens(strategy)) {
    read_chains(strategy, drafter, scorer);
    add_shares(strategy, scorer.stayed);
    return;
  }
  const SpecAttnOptions choice = specattn_options(strategy);
  drafter.capture_attention(strategy.draft.levels(), first_asked_layer(layer_map_, choice));
  SpecAttnSelector<T> selector(*ops_, drafter, layer_map_, choice);
  target_->set_token_selector(&selector);
  read_chains(strategy, drafter, scorer);
  target_->set_token_selector(nullptr);
  if (const ReadCount chosen = selector.chosen(); chosen.present > 0) {
    add_shares(strategy, {{.sum = static_cast<double>(chosen.read),
                           .tokens = static_cast<double>(chosen.present)}});
  }
}

template <class T>
void TextReader<T>::add_shares(const Strategy& strategy, const std::vector<Stretch>& more) {
  std::vector<Stretch>& own = chain_shares_[strategy.text()];
  own.insert(own.end(), more.begin(), more.end());
}

// The draft's newest row of logits behind the others, by the target's tokens: `proposed`, or empty
// where both have the same.
template <class T>
void TextReader<T>::add_drafted(const Drafter<T>& drafter, std::span<const std::int32_t> proposed,
                                std::vector<T>& drafted) const {
  std::vector<T> row(static_cast<std::size_t>(drafter.vocab()));
  ops_->download(row.data(), drafter.logits(), row.size() * sizeof(T));
  const std::size_t before = drafted.size();
  drafted.resize(before + static_cast<std::size_t>(target_->shape().vocab), never_proposed<T>());
  for (std::size_t i = 0; i < row.size(); ++i) {
    drafted[before + (proposed.empty() ? i : static_cast<std::size_t>(proposed[i]))] = row[i];
  }
}

template <class T>
void TextReader<T>::read_chains(const Strategy& strategy, Drafter<T>& drafter, Scorer& scorer) {
  const std::int64_t levels = strategy.draft.levels();
  const std::vector<std::int32_t> proposed = drafter.target_tokens();
  const std::span<const std::int32_t> text = scorer.part().text;
  const VerifyOptions options = verify_options(strategy, target_->shape());
  Observation<T> seen = prefix_.before(text[static_cast<std::size_t>(scorer.part().start)]);
  for (std::int64_t at = scorer.part().start; at < scorer.last();) {
    const std::int64_t end = std::min(scorer.last(), at + levels + 1);
    std::vector<T> drafted;
    const auto keep_law = [&] {
      if (tests_by_sigmoids(strategy)) {
        add_drafted(drafter, proposed, drafted);
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
    read_block(at, end, options, drafted, scorer);
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
