// Rules that tokens a step alone answer.
#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/analyse/diagnose/rules.h"
#include "engine/io/formatted.h"

namespace versieve::engine {
namespace {

using Measured = AcceptanceModel::Measured;

constexpr double kLeastFirst = 0.3;  // share of steps whose first drafted token is right
constexpr double kFarApart = 4.0;    // contexts, as a ratio
constexpr double kKeptMost = 0.8;    // of the tokens beyond the bonus, at the longer context
constexpr double kKeptLittle = 0.5;
constexpr double kCertain = 0.97;       // of the most that a step can yield
constexpr std::int64_t kFewLevels = 2;  // fewer can be certain by chance

bool is_plain(const Measured& m) {
  return m.schedule == "F*" && m.approximate_group == 1;
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
    if (!draft.speculates() || (chains && draft.width > 1)) {
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
  bool tells() const { return is_better() || chain->draft.levels() == tree->draft.levels(); }
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
    if (is_plain(tree) && tree.draft.width > 1 && c.chain != nullptr && c.tells()) {
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
          formatted("trees yield %.0f to %.0f %% more tokens a step than chains no shallower",
                    100.0 * least->gain(), 100.0 * most->gain()),
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
