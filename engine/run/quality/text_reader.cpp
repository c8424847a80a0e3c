#include "engine/run/quality/text_reader.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "engine/run/speculate/draft_choice.h"
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

bool tests_by_sigmoids(const Strategy& strategy) {
  return strategy.sampling == SamplingAlgorithm::kSigmoid;
}

std::vector<std::int32_t> whole_path(std::int64_t nodes) {
  std::vector<std::int32_t> path(static_cast<std::size_t>(nodes));
  std::iota(path.begin(), path.end(), 0);
  return path;
}

template <class T>
std::vector<T> downloaded(kernels::Ops<T>& ops, const T* values, std::int64_t count) {
  std::vector<T> copy(static_cast<std::size_t>(count));
  ops.download(copy.data(), values, copy.size() * sizeof(T));
  return copy;
}

}  // namespace

std::int64_t block_tokens(const Strategy& strategy) {
  if (strategy.attention == AttentionMethod::kResa) {
    return 1;
  }
  const bool shares = strategy.group_size > 1 && strategy.group_mode == GroupMode::kApprox;
  const bool chooses = strategy.attention == AttentionMethod::kSpecAttn;
  return shares || chooses || tests_by_sigmoids(strategy) ? strategy.draft.levels() + 1 : kChunk;
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
TextReader<T>::TextReader(kernels::Ops<T>& ops, Target<T>& target, Target<T>* draft_model,
                          std::vector<std::int32_t> layer_map, int threads)
    : ops_(&ops),
      target_(&target),
      draft_model_(draft_model),
      layer_map_(std::move(layer_map)),
      threads_(threads) {}

template <class T>
std::string TextReader<T>::refusal(const Strategy& strategy) const {
  const bool chooses = strategy.attention == AttentionMethod::kSpecAttn;
  if (tests_by_sigmoids(strategy) && draft_model_ == nullptr) {
    return "what sigmoids accept depends on what is drafted, and is measured with a draft model of "
           "its own alone, which this model does not have";
  }
  if (!chooses && !tests_by_sigmoids(strategy)) {
    return illegal_because(strategy, target_->shape());
  }
  Generator<T> generator(*ops_, *target_, nullptr, draft_model_);
  generator.set_layer_map(layer_map_);
  return generator.refusal({.strategy = strategy, .temperature = 1.0});
}

template <class T>
std::int64_t TextReader<T>::most_tokens() const {
  const std::int64_t own = target_->shape().max_position;
  return draft_model_ == nullptr ? own : std::min(own, draft_model_->shape().max_position);
}

// The cache holds these tokens and no others; rows that it has in common with them stay.
template <class T>
void TextReader<T>::hold(Target<T>& model, std::vector<std::int32_t>& held,
                         std::span<const std::int32_t> tokens) {
  std::size_t same = 0;
  const std::size_t most = std::min(held.size(), tokens.size());
  while (same < most && held[same] == tokens[same]) {
    ++same;
  }
  model.set_token_selector(nullptr);
  model.drop_block_keys();
  model.cache().truncate(static_cast<std::int64_t>(same));
  for (std::size_t at = same; at < tokens.size();) {
    const std::size_t end = std::min(tokens.size(), at + static_cast<std::size_t>(kChunk));
    model.verify(chain_tree({tokens.begin() + static_cast<std::ptrdiff_t>(at),
                             tokens.begin() + static_cast<std::ptrdiff_t>(end)}),
                 {.last_logits_only = true});
    model.commit(whole_path(static_cast<std::int64_t>(end - at)));
    tokens_run_ += &model == target_ ? static_cast<std::int64_t>(end - at) : 0;
    at = end;
  }
  held.assign(tokens.begin(), tokens.end());
}

template <class T>
void TextReader<T>::verify(const Part& part, const Block& block, const VerifyOptions& options) {
  target_->verify(chain_tree({part.text.begin() + block.begin, part.text.begin() + block.end}),
                  options);
  tokens_run_ += block.end - block.begin;
}

template <class T>
ReadScores TextReader<T>::read(const Strategy& strategy, const Part& part) {
  const std::int64_t length = static_cast<std::int64_t>(part.text.size());
  VERSIEVE_ASSERT(part.start >= 1 && part.start < part.scored && part.scored < length,
                  "a token is held, and another predicted");
  hold(*target_, held_, part.text.first(static_cast<std::size_t>(part.start)));
  target_->cache().reserve(length);
  Scorer scorer(part, target_->shape().vocab, threads_);
  if (strategy.attention == AttentionMethod::kResa) {
    read_rectified(strategy, part, scorer);
  } else if (strategy.attention == AttentionMethod::kSpecAttn || tests_by_sigmoids(strategy)) {
    read_drafted(strategy, part, scorer);
  } else {
    read_blocks(strategy, part, scorer);
  }
  target_->cache().truncate(part.start);  // the rest is not exact
  for (const TokenScore& score : scorer.scores.tokens) {
    if (!std::isfinite(score.loss) || !std::isfinite(score.divergence)) {
      throw Error(ExitCode::kAnswerNo,
                  "strategy '" + strategy.text() + "': the loss of a token is not a finite number");
    }
  }
  return std::move(scorer.scores);
}

template <class T>
void TextReader<T>::read_blocks(const Strategy& strategy, const Part& part, Scorer& scorer) {
  const VerifyOptions options = verify_options(strategy, target_->shape());
  const std::int64_t last = static_cast<std::int64_t>(part.text.size()) - 1;
  for (std::int64_t at = part.start; at < last; at += block_tokens(strategy)) {
    const Block block{at, std::min(last, at + block_tokens(strategy))};
    verify(part, block, options);
    const std::int64_t rows = block.end - at;
    scorer.add(at, downloaded(*ops_, target_->logits(), rows * target_->shape().vocab), {});
    target_->commit(whole_path(rows));
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
    verify(part, {at, at + 1}, options);
    scorer.add(at, downloaded(*ops_, target_->logits(), target_->shape().vocab), {});
    target_->commit(whole_path(1));
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
  hold(*draft_model_, draft_held_, part.text.first(static_cast<std::size_t>(part.start)));
  const std::int64_t vocab = target_->shape().vocab, levels = strategy.draft.levels();
  const std::span<const std::int32_t> text = part.text;
  ModelDrafter<T> drafter(*ops_, *draft_model_, draft_held_, true);
  std::optional<SpecAttnSelector<T>> selector;
  if (strategy.attention == AttentionMethod::kSpecAttn) {
    const SpecAttnOptions choice{.p = strategy.specattn_p};
    const std::size_t first =
        std::min(static_cast<std::size_t>(choice.dense_layers), layer_map_.size() - 1);
    drafter.capture_attention(levels, layer_map_[first]);
    selector.emplace(*ops_, drafter, layer_map_, choice);
    target_->set_token_selector(&*selector);
  }
  const VerifyOptions options = verify_options(strategy, target_->shape());
  const std::int64_t last = static_cast<std::int64_t>(text.size()) - 1;
  std::int64_t known = part.start - 1;  // the newest position whose token the drafter has
  for (std::int64_t at = part.start; at < last;) {
    const Block block{at, std::min(last, at + levels + 1)};
    std::vector<T> drafted;
    const auto keep_law = [&] {
      if (tests_by_sigmoids(strategy)) {
        const std::vector<T> law = downloaded(*ops_, drafter.logits(), vocab);
        drafted.insert(drafted.end(), law.begin(), law.end());
      }
    };
    drafter.begin(at, {.first = known,
                       .next_token = {text.begin() + known + 1, text.begin() + at + 1},
                       .captured = nullptr,
                       .rows = {}});
    known = at;
    keep_law();
    for (std::int64_t i = 1; i < std::min(levels, block.end - at); ++i) {
      drafter.step({.token = {text[static_cast<std::size_t>(at + i)]},
                    .position = {static_cast<std::int32_t>(at + i)},
                    .parent = {static_cast<std::int32_t>(i - 2)}});
      keep_law();
    }
    verify(part, block, options);
    scorer.add(at, downloaded(*ops_, target_->logits(), (block.end - at) * vocab), drafted);
    target_->commit(whole_path(block.end - at));
    at = block.end;
  }
  target_->set_token_selector(nullptr);
  draft_model_->cache().truncate(part.start);
}

template class TextReader<double>;
template class TextReader<float>;
template class TextReader<Bf16>;

}  // namespace versieve::engine
