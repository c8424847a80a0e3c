#include "engine/analyse/fit/acceptance_evidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "engine/io/formatted.h"

namespace versieve::engine {
namespace {

struct Sample {
  const PointMeasurement* point;
  Strategy strategy;
  double mean;
};

// Accepted tokens of a point; none for looping output without a teacher-forced mean.
std::optional<double> accepted_of(const PointMeasurement& m) {
  if (m.key.workload != WorkloadKind::kAcceptance || m.status != PointStatus::kOk ||
      !m.acceptance || m.acceptance->steps < 1) {
    return {};
  }
  if (m.acceptance->only_loops()) {
    return m.acceptance->teacher_forced;
  }
  return m.acceptance->accepted_per_step;
}

AcceptanceOrigin origin_of(const PointMeasurement& m) {
  return is_imported(m) ? AcceptanceOrigin::kImported : AcceptanceOrigin::kMeasured;
}

std::vector<Sample> samples_of(const std::vector<PointMeasurement>& measured,
                               const AcceptancePair& pair, double temperature) {
  std::vector<Sample> samples;
  bool calibration = false;
  for (const PointMeasurement& m : measured) {
    const std::optional<double> accepted = accepted_of(m);
    if (!accepted || !is_of(m, pair) || m.key.temperature != temperature) {
      continue;
    }
    // What a target drafts for itself says nothing of its pair's draft, and what SpecAttn accepts
    // little of exact verification.
    if (const Strategy strategy = Strategy::parse(m.key.strategy);
        !strategy.drafts_itself && strategy.attention != AttentionMethod::kSpecAttn) {
      samples.push_back({&m, strategy, *accepted});
      calibration = calibration || m.key.split == "calibration";
    }
  }
  std::erase_if(samples, [calibration](const Sample& s) {
    return calibration && s.point->key.split != "calibration";
  });
  return samples;
}

bool is_at_least(const PointMeasurement& m) {
  return m.reliability == Reliability::kAtLeast;
}

// Where a tuple is known, its lower bounds say nothing more.
void leave_out_bounds(std::vector<Sample>& samples) {
  const auto is_bound = [](const Sample& s) { return is_at_least(*s.point); };
  if (!std::all_of(samples.begin(), samples.end(), is_bound)) {
    std::erase_if(samples, is_bound);
  }
}

// Where a tuple's texts were counted one by one, older points of it left loops out.
void leave_out_uncounted(std::vector<Sample>& samples) {
  const auto is_uncounted = [](const Sample& s) { return s.point->acceptance->texts.empty(); };
  if (!std::all_of(samples.begin(), samples.end(), is_uncounted)) {
    std::erase_if(samples, is_uncounted);
  }
}

// Of one kind's texts by name; a text that was run twice is one.
using TextCounts = std::map<std::string, TextCount>;

void add_counts(const AcceptanceMeasurement& a, TextEvidence kind, TextCounts& counts) {
  if (kind == TextEvidence::kDecoded) {
    for (const TextYield& text : a.texts) {
      counts[text.text].steps += static_cast<double>(text.steps);
      counts[text.text].tokens += static_cast<double>(text.tokens);
    }
    return;
  }
  for (const AcceptanceWalk& walk : a.walks) {
    if (!walk.yields.empty()) {
      counts[walk.text].steps += static_cast<double>(walk.yields.size());
      counts[walk.text].tokens +=
          static_cast<double>(std::accumulate(walk.yields.begin(), walk.yields.end(), 0LL));
    }
  }
}

// All texts of a tuple, those of each regime with as many tokens together.
std::vector<TextCount> counts_of(const std::vector<Sample>& samples, TextEvidence kind,
                                 std::set<std::string>& files) {
  std::map<std::string, TextCounts> regimes;
  for (const Sample& s : samples) {
    add_counts(*s.point->acceptance, kind, regimes[s.point->key.regime]);
  }
  std::vector<TextCount> out;
  for (auto& [regime, counts] : regimes) {
    double tokens = 0.0;
    for (const auto& [text, count] : counts) {
      tokens += count.tokens;
    }
    for (auto& [text, count] : counts) {
      count.weight = 1.0 / tokens;
      out.push_back(count);
      files.insert(regime + "/" + text.substr(0, text.rfind('@')));
    }
  }
  return out;
}

struct CountedTuple {
  AcceptanceEvidence::Counted counted;
  double ratio = 0.0;
};

CountedTuple counted_by_text(const std::vector<Sample>& samples) {
  for (const TextEvidence kind : {TextEvidence::kDecoded, TextEvidence::kWalked}) {
    std::set<std::string> files;
    const std::vector<TextCount> counts = counts_of(samples, kind, files);
    if (!counts.empty()) {
      const TextRatio found = ratio_of_texts(counts);
      return {{.kind = kind,
               .texts = found.texts,
               .sources = static_cast<std::int64_t>(files.size()),
               .log_error = found.log_error},
              found.ratio};
    }
  }
  return {};
}

// Whether its histogram has all of its steps: one with rows missing says something else.
bool has_all_counts(const AcceptanceMeasurement& a) {
  return std::accumulate(a.accepted_histogram.begin(), a.accepted_histogram.end(),
                         std::int64_t{0}) == a.steps;
}

// Of the point's mean: from its histogram, else that of steps that end at each token alike, which
// is more than drafts of a bounded depth have.
double variance_of_mean(const AcceptanceMeasurement& a) {
  double count = 0.0;
  double sum = 0.0;
  double squares = 0.0;
  for (std::size_t tokens = 0; tokens < a.accepted_histogram.size(); ++tokens) {
    const double steps = static_cast<double>(a.accepted_histogram[tokens]);
    const double value = static_cast<double>(tokens);
    count += steps;
    sum += steps * value;
    squares += steps * value * value;
  }
  if (!has_all_counts(a)) {
    const double mean = a.accepted_per_step;
    return std::max(0.0, mean * (mean - 1.0)) / static_cast<double>(a.steps);
  }
  if (count < 2.0) {
    return 0.0;
  }
  return std::max(0.0, squares / count - sum * sum / count / count) / count;
}

// Mean over regimes, each regime the mean of its points.
AcceptanceModel::Measured measured_tuple(const std::vector<Sample>& samples) {
  std::map<std::string, std::vector<const Sample*>> regimes;
  for (const Sample& s : samples) {
    regimes[s.point->key.regime].push_back(&s);
  }
  AcceptanceModel::Measured out;
  double variance = 0.0;
  for (const auto& [regime, members] : regimes) {
    double sum = 0.0;
    double within = 0.0;
    for (const Sample* s : members) {
      sum += s->mean;
      within += variance_of_mean(*s->point->acceptance);
      out.steps += s->point->acceptance->steps;
      out.looping = out.looping || s->point->acceptance->looping;
      out.at_least = out.at_least || is_at_least(*s->point);
    }
    const double count = static_cast<double>(members.size());
    out.mean += sum / count;
    variance += within / count / count;
  }
  const double regime_count = static_cast<double>(regimes.size());
  out.mean /= regime_count;
  out.standard_error = std::sqrt(variance) / regime_count;
  if (const CountedTuple texts = counted_by_text(samples);
      texts.counted.kind == TextEvidence::kDecoded) {
    out.mean = texts.ratio;
  }
  const Strategy& strategy = samples.front().strategy;
  out.draft = strategy.draft;
  out.schedule = strategy.schedule;
  out.context_len = samples.front().point->key.context_len;
  out.approximate_group = approximate_group(strategy);
  out.order = out.approximate_group > 1 ? strategy.order : Traversal::kBfs;
  return out;
}

// Points of one tuple at one context, ascending in context.
std::vector<std::vector<Sample>> by_tuple(const std::vector<Sample>& samples) {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string, std::int64_t,
                      std::int64_t, Traversal>,
           std::vector<Sample>>
      groups;
  for (const Sample& s : samples) {
    const DraftChoice& draft = s.strategy.draft;
    const std::int64_t group = approximate_group(s.strategy);
    if (draft.speculates()) {
      groups[{s.point->key.context_len, draft.depth, draft.width, s.strategy.schedule, draft.nodes,
              group, group > 1 ? s.strategy.order : Traversal::kBfs}]
          .push_back(s);
    }
  }
  std::vector<std::vector<Sample>> out;
  for (auto& [key, members] : groups) {
    leave_out_bounds(members);
    leave_out_uncounted(members);
    out.push_back(std::move(members));
  }
  return out;
}

std::vector<AcceptanceModel::Measured> measured_tuples(const std::vector<Sample>& samples) {
  std::vector<AcceptanceModel::Measured> out;
  for (const std::vector<Sample>& members : by_tuple(samples)) {
    out.push_back(measured_tuple(members));
  }
  return out;
}

// Mean over regimes, as of measured_tuple.
std::optional<double> along_texts(const std::vector<Sample>& samples) {
  std::map<std::string, std::pair<double, double>> regimes;  // sum, points
  for (const Sample& s : samples) {
    if (!s.point->acceptance->teacher_forced) {
      return {};
    }
    auto& [sum, points] = regimes[s.point->key.regime];
    sum += *s.point->acceptance->teacher_forced;
    points += 1.0;
  }
  double mean = 0.0;
  for (const auto& [regime, of_regime] : regimes) {
    mean += of_regime.first / of_regime.second / static_cast<double>(regimes.size());
  }
  return mean;
}

// The chain of the point's draft cut at `depth`: a step that emitted more emits depth + 1 tokens.
// Every draft has a first token, so that of a lower bound the shortest chain is known.
PointMeasurement cut_chain(const Sample& sample, std::int64_t depth) {
  PointMeasurement point = *sample.point;
  Strategy strategy = sample.strategy;
  strategy.draft = {depth, 1, depth + 1};
  point.key.strategy = strategy.text();
  AcceptanceMeasurement& a = *point.acceptance;
  const std::size_t most = static_cast<std::size_t>(depth) + 1;
  std::vector<std::int64_t> cut(most + 1);
  a.steps = 0;
  a.generated_tokens = 0;
  for (std::size_t tokens = 0; tokens < a.accepted_histogram.size(); ++tokens) {
    const std::size_t emitted = std::min(tokens, most);
    cut[emitted] += a.accepted_histogram[tokens];
    a.steps += a.accepted_histogram[tokens];
    a.generated_tokens += static_cast<std::int64_t>(emitted) * a.accepted_histogram[tokens];
  }
  a.accepted_histogram = std::move(cut);
  a.accepted_per_step = static_cast<double>(a.generated_tokens) / static_cast<double>(a.steps);
  point.reliability = depth == 1 ? Reliability::kUnchecked : point.reliability;
  return point;
}

// Of depths that no chain of the same context was run with.
std::vector<AcceptanceModel::Measured> cut_chains(
    const std::vector<Sample>& samples, const std::vector<AcceptanceModel::Measured>& tuples) {
  std::vector<PointMeasurement> points;
  for (const Sample& s : samples) {
    const bool is_chain = s.strategy.draft.speculates() && s.strategy.draft.width == 1;
    const bool is_counted = has_all_counts(*s.point->acceptance);
    for (std::int64_t depth = 1; is_chain && is_counted && depth < s.strategy.draft.levels();
         ++depth) {
      const DraftChoice draft = {depth, 1, depth + 1};
      if (std::none_of(tuples.begin(), tuples.end(), [&](const AcceptanceModel::Measured& m) {
            return m.draft == draft && m.context_len == s.point->key.context_len;
          })) {
        points.push_back(cut_chain(s, depth));
      }
    }
  }
  std::vector<Sample> cut;
  for (const PointMeasurement& m : points) {
    cut.push_back({&m, Strategy::parse(m.key.strategy), m.acceptance->accepted_per_step});
  }
  return measured_tuples(cut);
}

// Mean over the layers that have it; 0 where none has.
template <class Value>
double mean_over_layers(const PointMeasurement& m, SharingAlong along, const Value& value) {
  double sum = 0.0;
  double count = 0.0;
  for (const BlockSharing& row : m.sharing) {
    if (row.along == along && value(row)) {
      sum += *value(row);
      count += 1.0;
    }
  }
  return count > 0.0 ? sum / count : 0.0;
}

// Of points that nobody recorded by layer the overlap alone is known, of their own order.
void add_sharing(const Sample& s, std::vector<AcceptanceEvidence::Sharing>& out) {
  const PointMeasurement& m = *s.point;
  AcceptanceEvidence::Sharing sharing{.context_len = m.key.context_len,
                                      .order = s.strategy.order,
                                      .of_tree = s.strategy.draft.width > 1,
                                      .value = {.measured = true, .overlap = *m.adjacent_overlap}};
  if (m.sharing.empty()) {
    out.push_back(sharing);
  }
  for (const Traversal order : {Traversal::kBfs, Traversal::kDfs}) {
    const SharingAlong along = order == Traversal::kBfs ? SharingAlong::kBfs : SharingAlong::kDfs;
    const bool is_known = std::any_of(m.sharing.begin(), m.sharing.end(),
                                      [along](const auto& row) { return row.along == along; });
    if (is_known) {
      sharing.order = order;
      sharing.value.overlap =
          mean_over_layers(m, along, [](const BlockSharing& row) { return row.overlap[1]; });
      for (std::size_t i = 0; i < kSharingGroups.size(); ++i) {
        const double saved =
            mean_over_layers(m, along, [i](const BlockSharing& row) { return row.loads_saved[i]; });
        const bool has = m.key.num_queries >= kSharingGroups[i];
        sharing.value.group[i] = has ? static_cast<double>(kSharingGroups[i]) * (1.0 - saved) : 0.0;
      }
      out.push_back(sharing);
    }
  }
}

}  // namespace

bool is_of(const PointMeasurement& m, const AcceptancePair& pair) {
  return origin_of(m) == pair.origin && m.key.pair == pair.sha256 &&
         (!pair.sha256.empty() || m.key.model == pair.name);
}

std::vector<AcceptancePair> acceptance_pairs(const std::vector<PointMeasurement>& measured,
                                             double temperature) {
  // By origin and what tells them apart.
  std::map<std::pair<AcceptanceOrigin, std::string>, AcceptancePair> known;
  for (const PointMeasurement& m : measured) {
    if (accepted_of(m) && m.key.temperature == temperature) {
      const std::string& id = m.key.pair.empty() ? m.key.model : m.key.pair;
      const AcceptancePair first{
          .name = m.key.model, .origin = origin_of(m), .points = 0, .sha256 = m.key.pair};
      known.emplace(std::pair{first.origin, id}, first).first->second.points += 1;
    }
  }
  std::vector<AcceptancePair> pairs;
  for (const auto& [id, pair] : known) {
    pairs.push_back(pair);
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const AcceptancePair& a, const AcceptancePair& b) {
                     return a.origin != b.origin ? a.origin < b.origin : a.points > b.points;
                   });
  return pairs;
}

std::string listed(const std::vector<AcceptancePair>& pairs) {
  std::string text;
  for (const AcceptancePair& p : pairs) {
    text += (text.empty() ? "" : ", ") + p.name + " (" + name_of(p.origin) + ", " +
            std::to_string(p.points) + (p.points == 1 ? " point" : " points") +
            (p.sha256.empty() ? "" : ", sha256 " + short_hash(p.sha256)) + ")";
  }
  return text.empty() ? "no acceptance at all" : text;
}

std::string temperatures_text(const std::vector<PointMeasurement>& measured) {
  std::set<double> known;
  for (const PointMeasurement& m : measured) {
    if (accepted_of(m)) {
      known.insert(m.key.temperature);
    }
  }
  std::string text;
  for (const double temperature : known) {
    text += (text.empty() ? "" : ", ") + formatted("%g", temperature);
  }
  return text;
}

AcceptanceEvidence acceptance_evidence(const std::vector<PointMeasurement>& measured,
                                       const AcceptancePair& pair, double temperature) {
  AcceptanceEvidence out{.pair = pair};
  const std::vector<Sample> samples = samples_of(measured, pair, temperature);
  for (const std::vector<Sample>& members : by_tuple(samples)) {
    out.tuples.push_back(measured_tuple(members));
    out.along.push_back(along_texts(members));
    out.counted.push_back(counted_by_text(members).counted);
  }
  if (pair.origin == AcceptanceOrigin::kImported) {
    out.cut_chains = cut_chains(samples, out.tuples);
  }
  for (const Sample& s : samples) {
    const std::string& remark = s.point->reason;
    if (!remark.empty() &&
        std::find(out.remarks.begin(), out.remarks.end(), remark) == out.remarks.end()) {
      out.remarks.push_back(remark);
    }
  }
  for (const Sample& s : temperature == 0.0 ? samples : samples_of(measured, pair, 0.0)) {
    if (s.point->adjacent_overlap && approximate_group(s.strategy) == 1) {
      out.overlaps.push_back({s.point->key.context_len, *s.point->adjacent_overlap});
      add_sharing(s, out.sharing);
    }
  }
  return out;
}

}  // namespace versieve::engine
