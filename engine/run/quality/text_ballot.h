// What text_reader.cpp makes of the logits that it reads: scores of a text's tokens, and which of
// several texts is the likeliest. Only that file includes this one.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>

#include "engine/run/quality/text_reader.h"
#include "engine/run/speculate/rectify.h"
#include "kernels/common/parallel_for.h"
#include "model/words/error.h"

namespace versieve::engine {

// Turns rows of logits into scores, in the order in which they are read.
template <class T>
class TextReader<T>::Scorer {
 public:
  // `most_loss`: reading ends beyond it. `losses_only`: neither laws nor what they say of others.
  Scorer(const Part& part, std::int64_t vocab, int threads, bool losses_only = false,
         double most_loss = INFINITY)
      : part_(&part),
        vocab_(static_cast<std::size_t>(vocab)),
        threads_(threads),
        losses_only_(losses_only),
        most_loss_(most_loss) {}

  const Part& part() const { return *part_; }
  std::int64_t last() const { return static_cast<std::int64_t>(part_->text.size()) - 1; }
  // The first of these tokens whose logits are scored.
  std::int64_t first_of(std::int64_t begin) const { return std::max(begin, part_->scored - 1); }
  double loss() const { return loss_; }
  bool is_over() const { return loss_ > most_loss_; }

  // Logits after the tokens from `begin` on; `drafted`: the draft's after the first of them.
  // REQUIRES: all are scored.
  void add(std::int64_t begin, std::span<const T> logits, std::span<const T> drafted) {
    const std::size_t rows = logits.size() / vocab_, drafted_rows = drafted.size() / vocab_;
    const std::size_t before = scores.tokens.size();
    scores.tokens.resize(before + rows);
    std::vector<double> stays(std::min(rows, drafted_rows));
    std::vector<Law> laws(part_->keeps_laws ? rows : 0);
    kernels::parallel_for(static_cast<std::int64_t>(rows), threads_, [&](std::int64_t i) {
      const std::size_t row = static_cast<std::size_t>(i), place = before + row;
      const std::int32_t next = part_->text[static_cast<std::size_t>(begin + i + 1)];
      const std::span<const T> own = logits.subspan(row * vocab_, vocab_);
      if (losses_only_ && drafted_rows == 0) {
        scores.tokens[place].loss = loss_of(own, next);
        return;
      }
      const Law* const exact = part_->exact == nullptr ? nullptr : &(*part_->exact)[place];
      if (!part_->keeps_laws && row >= drafted_rows) {
        scores.tokens[place] = score_logits(own, next, exact);
        return;
      }
      Law law = row < drafted_rows
                    ? sigmoid_law(own, drafted.subspan(row * vocab_, vocab_), &stays[row])
                    : law_of(own);
      scores.tokens[place] = score_token(law, next, exact);
      if (part_->keeps_laws) {
        laws[row] = std::move(law);
      }
    });
    for (std::size_t i = before; i < scores.tokens.size(); ++i) {
      loss_ += scores.tokens[i].loss;
    }
    std::move(laws.begin(), laws.end(), std::back_inserter(scores.laws));
    if (!stays.empty()) {
      stayed.push_back({.sum = std::accumulate(stays.begin(), stays.end(), 0.0),
                        .tokens = static_cast<double>(stays.size())});
    }
  }

  ReadScores scores;
  std::vector<Stretch> stayed;  // drafted tokens that a test by sigmoids keeps, a block each

 private:
  const Part* part_;
  std::size_t vocab_;
  int threads_;
  bool losses_only_;
  double most_loss_, loss_ = 0.0;
};

// The texts of one read, the true one first, and who leads.
template <class T>
class TextReader<T>::Ballot {
 public:
  Ballot(const Choices& choices, std::int64_t vocab, int threads)
      : choices_(&choices), vocab_(vocab), threads_(threads), part_(choices.part) {}

  std::size_t count() const { return choices_->texts.size(); }
  // The i-th to be read.
  std::span<const std::int32_t> text(std::size_t i) const { return choices_->texts[choice(i)]; }
  const Part& shared() const { return choices_->part; }

  // REQUIRES: the scorer of the text before was counted.
  Scorer& begin(std::size_t i) {
    part_.text = text(i);
    part_.keeps_laws = i == 0 && choices_->part.keeps_laws;
    part_.exact = i == 0 ? choices_->part.exact : nullptr;
    // A hair more, so that rounding gives nobody up who is as likely as the leader.
    const double most = i == 0 ? INFINITY : least_ * choices_->measures[choice(i)] * (1.0 + 1e-12);
    scorer_.emplace(part_, vocab_, threads_, i > 0, most);
    return *scorer_;
  }
  void count(std::size_t i, const Strategy& strategy) {
    for (const TokenScore& score : scorer_->scores.tokens) {
      if (!std::isfinite(score.loss) || !std::isfinite(score.divergence)) {
        throw Error(ExitCode::kAnswerNo, "strategy '" + strategy.text() +
                                             "': the loss of a token is not a finite number");
      }
    }
    // A text that was given up lost more than the leader, and so its whole loss would.
    const double own = scorer_->loss() / choices_->measures[choice(i)];
    if (i == 0 || own < least_ || (own == least_ && choice(i) < found.likeliest)) {
      least_ = own;
      found.likeliest = choice(i);
    }
    if (i == 0) {
      found.truth = std::move(scorer_->scores);
    }
  }

  ReadChoices found;

 private:
  std::size_t choice(std::size_t i) const {
    return i == 0 ? choices_->truth : i <= choices_->truth ? i - 1 : i;
  }

  const Choices* choices_;
  std::int64_t vocab_;
  int threads_;
  Part part_;  // of the text that is read
  std::optional<Scorer> scorer_;
  double least_ = INFINITY;
};

}  // namespace versieve::engine
