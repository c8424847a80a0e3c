// Rules that tokens a step alone answer.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "engine/analyse/diagnose/rules.h"
#include "engine/io/formatted.h"
#include "model/words/range_text.h"

namespace versieve::engine {
namespace {

using Measured = AcceptanceModel::Measured;

constexpr double kLeastFirst = 0.3;  // share of steps whose first drafted token is right
// A later token is right given those before it; a sound draft loses a few per cent a token.
constexpr double kLeastLater = 0.5;     // of what the token before it was
constexpr std::int64_t kFewSteps = 30;  // that came so far: fewer say nothing of a token
constexpr double kFarApart = 4.0;       // contexts, as a ratio
constexpr double kKeptMost = 0.8;       // of the tokens beyond the bonus, at the longer context
constexpr double kKeptLittle = 0.5;
constexpr double kCertain = 0.97;       // of the most that a step can yield
constexpr std::int64_t kFewLevels = 2;  // fewer can be certain by chance

// Known, of queries that choose their own blocks in all layers.
bool is_plain(const Measured& m) {
  return m.schedule == "F*" && m.approximate_group == 1 && !m.at_least;
}

std::string drawn(const DraftChoice& d) {
  return formatted("d%lldk%lldn%lld", static_cast<long long>(d.depth),
                   static_cast<long long>(d.width), static_cast<long long>(d.nodes));
}

// Steps of chains, else of all drafts, and those of them that emitted a drafted token.
struct FirstTokens {
  double steps = 0.0, right = 0.0;
};

FirstTokens first_tokens(const std::vector<PointMeasurement>& points, bool chains) {
  FirstTokens out;
  for (const PointMeasurement& m : points) {
    const DraftChoice draft = Strategy::parse(m.key.strategy).draft;
    // Of a lower bound the first token stands in a point of its own.
    if (!draft.speculates() || (chains && draft.width > 1) ||
        m.reliability == Reliability::kAtLeast) {
      continue;
    }
    const std::vector<std::int64_t>& histogram = m.acceptance->accepted_histogram;
    for (std::size_t tokens = 0; tokens < histogram.size(); ++tokens) {
      out.steps += static_cast<double>(histogram[tokens]);
      out.right += tokens > 1 ? static_cast<double>(histogram[tokens]) : 0.0;
    }
  }
  return out;
}

// Without histograms: the most that the first token can be right, of the draft that shows least.
std::optional<double> most_right_first(const std::vector<Measured>& tuples) {
  std::optional<double> most;
  for (const Measured& m : tuples) {
    const double bound = std::min(1.0, m.mean - 1.0);
    most = most ? std::max(*most, bound) : bound;
  }
  return most;
}

// [a]: steps of chains of one depth that emitted a tokens, lower bounds left out.
using Histograms = std::map<std::int64_t, std::vector<std::int64_t>>;

Histograms chains_by_depth(const std::vector<PointMeasurement>& points) {
  Histograms out;
  for (const PointMeasurement& m : points) {
    const DraftChoice draft = Strategy::parse(m.key.strategy).draft;
    const std::vector<std::int64_t>& histogram = m.acceptance->accepted_histogram;
    if (!draft.speculates() || draft.width > 1 || m.reliability == Reliability::kAtLeast) {
      continue;
    }
    std::vector<std::int64_t>& sum = out[draft.levels()];
    sum.resize(std::max(sum.size(), histogram.size()));
    for (std::size_t tokens = 0; tokens < histogram.size(); ++tokens) {
      sum[tokens] += histogram[tokens];
    }
  }
  return out;
}

// The first token that is right much more seldom than the one before it.
struct Collapse {
  std::int64_t depth = 0, token = 0;  // from 1
  double share = 0.0, before = 0.0;   // of the steps whose tokens before it were right
};

std::optional<Collapse> collapse_of(std::int64_t depth, const std::vector<std::int64_t>& emitted) {
  double before = 1.0;
  std::int64_t came = 0;
  for (const std::int64_t steps : emitted) {
    came += steps;
  }
  for (std::size_t token = 1; token + 1 < emitted.size() && came >= kFewSteps; ++token) {
    const std::int64_t right = came - emitted[token];
    const double share = static_cast<double>(right) / static_cast<double>(came);
    if (token > 1 && share < kLeastFirst && share < kLeastLater * before) {
      return Collapse{depth, static_cast<std::int64_t>(token), share, before};
    }
    before = share;
    came = right;
  }
  return {};
}

Finding wrong_pair(const std::string& sentence) {
  return {"first token", Verdict::kFault, sentence,
          "Look at what belongs together: the draft's target, the chat template, the layers whose "
          "features the draft reads (off by one is enough), names of weights that were skipped; a "
          "target that drafts for itself must be accepted always"};
}

// The same draft at two contexts.
struct Fall {
  DraftChoice draft;
  std::int64_t from = 0, to = 0;
  double kept = 1.0;  // of the tokens beyond the bonus
};

std::optional<Fall> worst_fall(const std::vector<Measured>& tuples) {
  std::optional<Fall> worst;
  for (const Measured& a : tuples) {
    for (const Measured& b : tuples) {
      const bool apart = static_cast<double>(b.context_len) >=
                         kFarApart * static_cast<double>(std::max<std::int64_t>(1, a.context_len));
      if (!is_plain(a) || !is_plain(b) || !(a.draft == b.draft) || !apart || a.mean <= 1.0) {
        continue;
      }
      const Fall fall = {a.draft, a.context_len, b.context_len, (b.mean - 1.0) / (a.mean - 1.0)};
      worst = !worst || fall.kept < worst->kept ? fall : *worst;
    }
  }
  return worst;
}

// A tree beside the shortest chain of the same context that is as deep.
struct Comparison {
  const Measured* tree = nullptr;
  const Measured* chain = nullptr;

  double gain() const { return tree->mean / chain->mean - 1.0; }
  // By more than the sampling of both.
  bool is_better() const {
    return tree->mean - chain->mean > 2.0 * std::hypot(tree->standard_error, chain->standard_error);
  }
  // A deeper chain that yields more says nothing of the tree's branches.
  bool is_comparable() const { return is_better() || chain->draft.levels() == tree->draft.levels(); }
};

std::vector<Comparison> comparisons(const std::vector<Measured>& tuples) {
  std::vector<Comparison> out;
  for (const Measured& tree : tuples) {
    Comparison c{.tree = &tree};
    for (const Measured& chain : tuples) {
      const bool fits = is_plain(chain) && chain.draft.width == 1 &&
                        chain.context_len == tree.context_len &&
                        chain.draft.levels() >= tree.draft.levels();
      if (fits && (c.chain == nullptr || chain.draft.levels() < c.chain->draft.levels())) {
        c.chain = &chain;
      }
    }
    if (is_plain(tree) && tree.draft.width > 1 && c.chain != nullptr && c.is_comparable()) {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace

Finding first_token(const DiagnosisInput& input) {
  FirstTokens first = first_tokens(input.acceptance, true);
  const bool chains = first.steps > 0.0;
  first = chains ? first : first_tokens(input.acceptance, false);
  const char* of = chains ? "chains" : "trees, where one of several is enough";
  if (first.steps > 0.0) {
    const double share = first.right / first.steps;
    const std::string sentence =
        formatted("the first drafted token is right in %.0f %% of %.0f steps of %s", 100.0 * share,
                  first.steps, of);
    return share < kLeastFirst ? wrong_pair(sentence + ", and drafts that fit reach 60 to 90 %")
                               : Finding{"first token", Verdict::kFine, sentence, ""};
  }
  const std::optional<double> most = most_right_first(input.evidence.tuples);
  if (most && *most < kLeastFirst) {
    return wrong_pair(
        formatted("no draft yields more than %.2f tokens a step, so the first one is "
                  "right in at most %.0f %% of steps",
                  1.0 + *most, 100.0 * *most));
  }
  return {"first token", Verdict::kNotJudged,
          "no point counts its steps by the tokens that they emitted",
          "A step log or per-position counters would say it"};
}

Finding later_tokens(const DiagnosisInput& input) {
  const Histograms chains = chains_by_depth(input.acceptance);
  bool deep = false;
  for (const auto& [depth, emitted] : chains) {
    deep = deep || (depth > 1 && !emitted.empty());
    if (const std::optional<Collapse> c = collapse_of(depth, emitted)) {
      return {
          "later tokens", Verdict::kFault,
          formatted("in chains of %lld the token at position %lld is right in %.0f %% of the "
                    "steps that came so far, the one before it in %.0f %%: acceptance collapses "
                    "there",
                    static_cast<long long>(c->depth), static_cast<long long>(c->token),
                    100.0 * c->share, 100.0 * c->before),
          c->token == 2
              ? "The first token needs the target's features alone, the later ones what the "
                "draft feeds back to itself: look at its vocabulary map (d2t as offsets or as "
                "ids, and t2d beside it), the hidden state it hands on, and its positions"
              : "Look at how many tokens the draft was trained to go on for, and at the "
                "positions and the cache of its own steps"};
    }
  }
  if (!deep) {
    return {"later tokens", Verdict::kNotJudged,
            "no chain of two tokens or more has its steps counted by the tokens that they emitted",
            "A step log or per-position counters would say it"};
  }
  return {"later tokens", Verdict::kFine,
          "no token of a chain is right much more seldom than the one before it", ""};
}

Finding draft_length(const DiagnosisInput& input) {
  if (input.evidence.remarks.empty()) {
    return {"draft length", Verdict::kFine, "nothing says that drafts were cut short", ""};
  }
  std::string sentence;
  for (const std::string& remark : input.evidence.remarks) {
    sentence += (sentence.empty() ? "" : "; ") + remark;
  }
  const bool bound = std::any_of(input.evidence.tuples.begin(), input.evidence.tuples.end(),
                                 [](const Measured& m) { return m.at_least; });
  return {"draft length", Verdict::kNote, sentence,
          bound
              ? "A plan takes what is known from the first position and from the bounds; a server "
                "that counts drafted tokens by position, or drafts of one length, would say more"
              : ""};
}

Finding long_context(const DiagnosisInput& input) {
  const std::optional<Fall> fall = worst_fall(input.evidence.tuples);
  if (!fall) {
    return {"long context", Verdict::kNotJudged,
            "no draft was measured at two contexts of which one is four times the other", ""};
  }
  const std::string sentence =
      formatted("%s keeps %.0f %% of its accepted tokens from context %lld to %lld",
                drawn(fall->draft).c_str(), 100.0 * fall->kept, static_cast<long long>(fall->from),
                static_cast<long long>(fall->to));
  const Verdict verdict = fall->kept < kKeptLittle
                              ? Verdict::kFault
                              : (fall->kept < kKeptMost ? Verdict::kLoss : Verdict::kFine);
  return {"long context", verdict, sentence,
          verdict == Verdict::kFine
              ? ""
              : "The draft sees more than it was trained on: give it a sliding window, or train it "
                "on longer texts"};
}

Finding tree_against_chain(const DiagnosisInput& input) {
  std::vector<Measured> tuples = input.evidence.tuples;
  tuples.insert(tuples.end(), input.evidence.cut_chains.begin(), input.evidence.cut_chains.end());
  const std::vector<Comparison> all = comparisons(tuples);
  const auto less = [](const Comparison& a, const Comparison& b) { return a.gain() < b.gain(); };
  const auto least = std::min_element(all.begin(), all.end(), less);
  const auto most = std::max_element(all.begin(), all.end(), less);
  if (all.empty()) {
    return {"tree", Verdict::kNotJudged,
            "no tree was measured beside a chain as deep at the same context", ""};
  }
  if (!least->is_better()) {
    return {
        "tree", Verdict::kFault,
        formatted("at context %lld %s yields %.2f tokens a step and the chain as deep %.2f: its "
                  "other branches add nothing",
                  static_cast<long long>(least->tree->context_len),
                  drawn(least->tree->draft).c_str(), least->tree->mean, least->chain->mean),
        "Look whether the tree is verified at all (a setting that did not take effect gives a "
        "chain's tokens), and whether its mask lets a branch see the other's tokens"};
  }
  return {"tree", Verdict::kFine,
          "trees yield " + range_text(formatted("%.0f", 100.0 * least->gain()),
                                      formatted("%.0f", 100.0 * most->gain())) +
              " % more tokens a step than chains no shallower",
          ""};
}

Finding certain_acceptance(const DiagnosisInput& input) {
  for (const Measured& m : input.evidence.tuples) {
    const double most = static_cast<double>(m.draft.levels() + 1);
    if (m.draft.levels() >= kFewLevels && m.mean >= kCertain * most) {
      return {
          "certain acceptance", Verdict::kFault,
          formatted("%s yields %.2f of at most %.0f tokens a step at context %lld",
                    drawn(m.draft).c_str(), m.mean, most, static_cast<long long>(m.context_len)),
          "Either the texts repeat themselves, or the rule accepts what it should test "
          "(sigmoids, relaxed thresholds): compare them with plain decoding's"};
    }
  }
  return {"certain acceptance", Verdict::kFine, "no draft is accepted nearly whole", ""};
}

Finding changed_text(const DiagnosisInput& input) {
  std::int64_t lossy = 0;
  std::string example;
  for (const PointMeasurement& m : input.acceptance) {
    const Strategy s = Strategy::parse(m.key.strategy);
    if (s.precision() != PrecisionClass::kStrict) {
      lossy += 1;
      example = s.text() + " (" + name_of(s.precision()) + ")";
    }
  }
  const std::string proof = input.evidence.pair.origin == AcceptanceOrigin::kImported
                                ? "Compare greedy texts with those of plain decoding there"
                                : "`versieve generate --compare-ar` proves it for a prompt";
  if (lossy == 0) {
    return {"text", Verdict::kFine,
            "every measured tuple is Strict, so greedy texts must be those of plain decoding",
            proof};
  }
  return {"text", Verdict::kNote,
          formatted("%lld of %zu points are of classes that may change the text, such as %s",
                    static_cast<long long>(lossy), input.acceptance.size(), example.c_str()),
          "Where such a text differs, first look at a Strict tuple. " + proof};
}

}  // namespace versieve::engine
