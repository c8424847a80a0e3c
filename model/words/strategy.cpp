#include "model/words/strategy.h"

#include <charconv>
#include <cmath>
#include <vector>

#include "model/words/error.h"

namespace versieve {
namespace {

constexpr std::int64_t kMaxDepth = 32;
constexpr std::int64_t kMaxWidth = 64;
constexpr std::int64_t kMaxNodes = 256;
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 20;  // of n_min and n_local
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 20;  // of an indexer's k and window
constexpr const char* kSelfDraft = "draft=resa:";
constexpr const char* kAdaptedLength = "gamma=adapt";

[[noreturn]] void refuse(std::string_view text, const std::string& reason) {
  throw Error(ExitCode::kUsage, "strategy '" + std::string(text) + "': " + reason);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t cut = text.find(separator);
    parts.push_back(text.substr(0, cut));
    if (cut == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(cut + 1);
  }
}

// Takes `prefix` and a number off the front of `text`; false if they are not there.
template <class Number>
bool take(std::string_view& text, std::string_view prefix, Number& value) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc()) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::string shortest(double value) {
  char buffer[32];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  return {buffer, result.ptr};
}

bool is_fraction(double value) {
  return std::isfinite(value) && value > 0.0 && value <= 1.0;
}

// b<block>p<ratio>, then f<period> where one is asked for, then what differs from the defaults.
bool take_resa(std::string_view& part, bool has_period, Strategy& s) {
  const bool read = take(part, "b", s.resa_key_block) && take(part, "p", s.resa_active_ratio) &&
                    (!has_period || take(part, "f", s.resa_rectify_every));
  const bool has_least = !part.starts_with("n_min") || take(part, "n_min", s.resa_n_min);
  const bool has_local = !part.starts_with("n_local") || take(part, "n_local", s.resa_n_local);
  const auto is_count = [](std::int64_t blocks) { return blocks >= 1 && blocks <= kMaxBlocks; };
  return read && has_least && has_local && part.empty() && s.resa_key_block >= 1 &&
         s.resa_rectify_every >= 0 && is_fraction(s.resa_active_ratio) && is_count(s.resa_n_min) &&
         is_count(s.resa_n_local);
}

// k<tokens>, then the window where it differs from the default.
bool take_indexer(std::string_view& part, Strategy& s) {
  const bool read = take(part, "k", s.indexer_k);
  const bool has_window = !part.starts_with("w") || take(part, "w", s.indexer_window);
  return read && has_window && part.empty() && s.indexer_k >= 1 && s.indexer_k <= kMaxTokens &&
         s.indexer_window >= 0 && s.indexer_window <= kMaxTokens;
}

void parse_attention(std::string_view text, std::string_view part, Strategy& s) {
  if (part == "nsa") {
    s.attention = AttentionMethod::kNsa;
  } else if (part == "dense") {
    s.attention = AttentionMethod::kDense;
  } else if (part.starts_with("resa:")) {
    s.attention = AttentionMethod::kResa;
    part.remove_prefix(5);
    if (!take_resa(part, true, s)) {
      refuse(
          text,
          "the attention part 'resa:' needs b<block>p<active ratio in (0,1]>f<period, 0 for "
          "never>, as in resa:b16p0.1f32, and may go on with n_min<least number of blocks, 16 if "
          "left out>n_local<newest blocks always chosen, 1 if left out>");
    }
  } else if (part.starts_with("specattn:")) {
    s.attention = AttentionMethod::kSpecAttn;
    part.remove_prefix(9);
    if (!(take(part, "p", s.specattn_p) && part.empty()) || !is_fraction(s.specattn_p)) {
      refuse(text, "the attention part 'specattn:' needs p<mass in (0,1]>, as in specattn:p0.97");
    }
  } else if (part.starts_with("indexer:")) {
    s.attention = AttentionMethod::kIndexer;
    part.remove_prefix(8);
    if (!take_indexer(part, s)) {
      refuse(text,
             "the attention part 'indexer:' needs k<tokens chosen, 1 to 1048576>, as in "
             "indexer:k2048, and may go on with w<newest tokens always read, 64 if left out>");
    }
  } else {
    refuse(text, "the attention part '" + std::string(part) +
                     "' is none of nsa, dense, resa:b<block>p<ratio>f<period>, specattn:p<mass>, "
                     "indexer:k<tokens>");
  }
}

void parse_draft(std::string_view text, std::string_view part, DraftChoice& draft) {
  if (part == "ar") {
    return;
  }
  const std::string whole(part);
  const bool read = take(part, "d", draft.depth) && take(part, "k", draft.width) &&
                    take(part, "n", draft.nodes) && part.empty();
  if (!read) {
    refuse(text, "the draft part '" + whole + "' is neither ar nor d<depth>k<width>n<nodes>");
  }
  if (draft.depth < 1 || draft.depth > kMaxDepth || draft.width < 1 || draft.width > kMaxWidth ||
      draft.nodes < 2 || draft.nodes > kMaxNodes) {
    refuse(text, "the draft part '" + whole +
                     "' is out of range: depth 1 to 32, width 1 to 64, nodes 2 to 256");
  }
  // Level 1 offers `width` nodes, each later level `width` children of `width` parents.
  const std::int64_t pool = 1 + draft.width + (draft.depth - 1) * draft.width * draft.width;
  if (draft.nodes > pool) {
    refuse(text, "the draft part '" + whole +
                     "' asks for more nodes than a tree of that depth and " + "width offers (" +
                     std::to_string(pool) + ", root included)");
  }
}

void parse_order(std::string_view text, std::string_view part, Strategy& s) {
  if (part == "bfs") {
    s.order = Traversal::kBfs;
  } else if (part == "dfs") {
    s.order = Traversal::kDfs;
  } else {
    refuse(text, "the order part '" + std::string(part) + "' is neither bfs nor dfs");
  }
}

void parse_group(std::string_view text, std::string_view part, Strategy& s) {
  for (const std::int64_t size : {1, 2, 4, 8}) {
    for (const GroupMode mode : {GroupMode::kExact, GroupMode::kApprox}) {
      s.group_size = size;
      s.group_mode = size == 1 ? GroupMode::kExact : mode;
      const std::string name =
          "c" + std::to_string(size) + (size == 1 ? "" : (mode == GroupMode::kExact ? "e" : "a"));
      if (part == name) {
        return;
      }
    }
  }
  refuse(text,
         "the group part '" + std::string(part) + "' is none of c1, c2e, c4e, c8e, c2a, c4a, c8a");
}

// The shortest pattern that repeats to `pattern`.
std::string period_of(const std::string& pattern) {
  for (std::size_t length = 1; length < pattern.size(); ++length) {
    bool repeats = pattern.size() % length == 0;
    for (std::size_t i = length; repeats && i < pattern.size(); ++i) {
      repeats = pattern[i] == pattern[i - length];
    }
    if (repeats) {
      return pattern.substr(0, length);
    }
  }
  return pattern;
}

// "FR" -> "(FR)*", "F" -> "F*".
std::string repeated(const std::string& pattern) {
  return pattern.size() == 1 ? pattern + "*" : "(" + pattern + ")*";
}

// The letters of a schedule text without its repetition mark; empty if it is malformed.
std::string letters_of(std::string_view schedule, bool& repeats) {
  repeats = schedule.ends_with("*");
  if (repeats) {
    schedule.remove_suffix(1);
    if (schedule.starts_with("(") && schedule.ends_with(")")) {
      schedule = schedule.substr(1, schedule.size() - 2);
    } else if (schedule.size() != 1) {
      return {};
    }
  }
  const bool valid = schedule.find_first_not_of("FR") == std::string_view::npos;
  return valid ? std::string(schedule) : std::string();
}

void parse_schedule(std::string_view text, std::string_view part, Strategy& s) {
  bool repeats = false;
  const std::string letters = letters_of(part, repeats);
  if (letters.empty()) {
    refuse(text,
           "the schedule part '" + std::string(part) +
               "' is neither letters F and R, one a layer, nor a repeated pattern as F* or (FR)*");
  }
  if (letters[0] != 'F') {
    refuse(text, "the schedule part '" + std::string(part) +
                     "' must begin with F: the first layer has no indices to reuse");
  }
  s.schedule = repeats ? repeated(period_of(letters)) : letters;
}

void parse_self_draft(std::string_view text, std::string_view part, Strategy& s) {
  if (s.attention != AttentionMethod::kDense) {
    refuse(text,
           "the option 'draft=resa:' is of dense attention, whose own steps over chosen "
           "blocks draft");
  }
  part.remove_prefix(std::string_view(kSelfDraft).size());
  s.drafts_itself = true;
  if (!take_resa(part, false, s)) {
    refuse(text,
           "the option 'draft=resa:' needs b<block>p<active ratio in (0,1]>, as in "
           "draft=resa:b16p0.1, and may go on with n_min<least number of blocks>n_local<newest "
           "blocks always chosen>");
  }
}

void parse_option(std::string_view text, std::string_view part, Strategy& s) {
  for (const TopkAlgorithm a : {TopkAlgorithm::kSort, TopkAlgorithm::kRadix, TopkAlgorithm::kGvr}) {
    if (part == std::string("topk=") + name_of(a)) {
      s.topk = a;
      return;
    }
  }
  for (const SamplingAlgorithm a :
       {SamplingAlgorithm::kGreedy, SamplingAlgorithm::kBaseline, SamplingAlgorithm::kExact,
        SamplingAlgorithm::kSigmoid, SamplingAlgorithm::kCoupled}) {
    if (part == std::string("sampling=") + name_of(a)) {
      s.sampling = a;
      return;
    }
  }
  if (part == std::string("form=") + name_of(NsaForm::kVanilla)) {
    s.form = NsaForm::kVanilla;
    return;
  }
  if (part == kAdaptedLength) {
    s.adapts_length = true;
    return;
  }
  if (part.starts_with(kSelfDraft)) {
    parse_self_draft(text, part, s);
    return;
  }
  refuse(text, "the option '" + std::string(part) +
                   "' is none of topk=sort|radix|gvr, "
                   "sampling=greedy|baseline|exact|sigmoid|coupled, form=vanilla, "
                   "draft=resa:b<block>p<ratio>, gamma=adapt");
}

void parse_tail(std::string_view text, const std::vector<std::string_view>& parts, Strategy& s) {
  if (parts.size() < 5) {
    refuse(text, "the parts after the draft are order, group and schedule, all three");
  }
  parse_order(text, parts[2], s);
  parse_group(text, parts[3], s);
  parse_schedule(text, parts[4], s);
  for (std::size_t i = 5; i < parts.size(); ++i) {
    parse_option(text, parts[i], s);
  }
}

std::string resa_text(const Strategy& s, bool has_period) {
  std::string out = "b" + std::to_string(s.resa_key_block) + "p" + shortest(s.resa_active_ratio) +
                    (has_period ? "f" + std::to_string(s.resa_rectify_every) : std::string());
  if (s.resa_n_min != kResaFewestBlocks) {
    out += "n_min" + std::to_string(s.resa_n_min);
  }
  if (s.resa_n_local != kResaLocalBlocks) {
    out += "n_local" + std::to_string(s.resa_n_local);
  }
  return out;
}

std::string attention_text(const Strategy& s) {
  switch (s.attention) {
    case AttentionMethod::kNsa:
    case AttentionMethod::kDense:
      return name_of(s.attention);
    case AttentionMethod::kResa:
      return "resa:" + resa_text(s, true);
    case AttentionMethod::kSpecAttn:
      return "specattn:p" + shortest(s.specattn_p);
    case AttentionMethod::kIndexer:
      return "indexer:k" + std::to_string(s.indexer_k) +
             (s.indexer_window == kIndexerWindow ? "" : "w" + std::to_string(s.indexer_window));
  }
  return {};
}

std::string group_text(const Strategy& s) {
  if (s.group_size == 1) {
    return "c1";
  }
  return "c" + std::to_string(s.group_size) + (s.group_mode == GroupMode::kExact ? "e" : "a");
}

}  // namespace

Strategy Strategy::parse(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, '/');
  if (parts.size() < 2) {
    refuse(text,
           "write attention/draft/order/group/schedule, as in nsa/d6k8n64/dfs/c4e/(FR)* or nsa/ar");
  }
  Strategy s;
  parse_attention(text, parts[0], s);
  parse_draft(text, parts[1], s.draft);
  if (parts.size() > 2) {
    parse_tail(text, parts, s);
  } else if (s.draft.speculates()) {
    refuse(text, "a draft tree needs the parts order, group and schedule after it");
  }
  if (!s.draft.speculates() && (s.order != Traversal::kBfs || s.group_size != 1)) {
    refuse(text, "without a draft tree there is one query: the order must be bfs and the group c1");
  }
  if (s.text() != text) {
    refuse(text, "the canonical text is '" + s.text() + "'");
  }
  return s;
}

std::string Strategy::text() const {
  std::string out = attention_text(*this) + "/";
  if (draft.speculates()) {
    out += "d" + std::to_string(draft.depth) + "k" + std::to_string(draft.width) + "n" +
           std::to_string(draft.nodes);
  } else {
    out += "ar";
    if (schedule == "F*" && !topk && !sampling && form == NsaForm::kFused && group_size == 1 &&
        order == Traversal::kBfs && !drafts_itself && !adapts_length) {
      return out;
    }
  }
  out += std::string("/") + name_of(order) + "/" + group_text(*this) + "/" + schedule;
  if (topk) {
    out += std::string("/topk=") + name_of(*topk);
  }
  if (sampling) {
    out += std::string("/sampling=") + name_of(*sampling);
  }
  if (form != NsaForm::kFused) {
    out += std::string("/form=") + name_of(form);
  }
  if (drafts_itself) {
    out += "/" + (kSelfDraft + resa_text(*this, false));
  }
  if (adapts_length) {
    out += std::string("/") + kAdaptedLength;
  }
  return out;
}

PrecisionClass Strategy::precision() const {
  if (sampling == SamplingAlgorithm::kSigmoid) {
    return PrecisionClass::kApproxSampling;
  }
  if (attention == AttentionMethod::kSpecAttn || attention == AttentionMethod::kIndexer) {
    return PrecisionClass::kSparse;
  }
  if (attention == AttentionMethod::kResa) {
    return resa_rectify_every > 0 ? PrecisionClass::kSparseRectified : PrecisionClass::kSparse;
  }
  const bool reuse = schedule.find('R') != std::string::npos;
  const bool approx = group_size > 1 && group_mode == GroupMode::kApprox;
  if (approx) {
    return reuse ? PrecisionClass::kApproxReuse : PrecisionClass::kApproxOnly;
  }
  return reuse ? PrecisionClass::kReuseOnly : PrecisionClass::kStrict;
}

Strategy drafting_steps(const Strategy& s) {
  Strategy out = s;
  out.attention = AttentionMethod::kResa;
  out.resa_rectify_every = 0;
  out.draft = {};
  out.order = Traversal::kBfs;
  out.group_size = 1;
  out.group_mode = GroupMode::kExact;
  out.drafts_itself = false;
  out.adapts_length = false;
  return out;
}

SamplingAlgorithm sampling_at(const Strategy& s, double temperature) {
  return temperature > 0.0 ? s.sampling.value_or(SamplingAlgorithm::kCoupled)
                           : SamplingAlgorithm::kGreedy;
}

bool draws_chain(const DraftChoice& draft, SamplingAlgorithm sampling, bool own_vocabulary) {
  const bool tests = sampling == SamplingAlgorithm::kBaseline ||
                     sampling == SamplingAlgorithm::kExact ||
                     sampling == SamplingAlgorithm::kSigmoid;
  return tests && draft.speculates() && draft.width == 1 &&
         (!own_vocabulary || sampling == SamplingAlgorithm::kSigmoid);
}

bool is_led_by_host(const Strategy& s, double temperature) {
  const SamplingAlgorithm sampling = sampling_at(s, temperature);
  return s.adapts_length ||
         (sampling != SamplingAlgorithm::kGreedy && sampling != SamplingAlgorithm::kCoupled);
}

std::string Strategy::schedule_for(std::int64_t layers) const {
  bool repeats = false;
  const std::string letters = letters_of(schedule, repeats);
  if (!repeats && static_cast<std::int64_t>(letters.size()) != layers) {
    throw Error(ExitCode::kUsage, "strategy '" + text() + "': the schedule has " +
                                      std::to_string(letters.size()) + " letters, the model " +
                                      std::to_string(layers) + " layers");
  }
  std::string out;
  for (std::int64_t i = 0; i < layers; ++i) {
    out += letters[static_cast<std::size_t>(i) % letters.size()];
  }
  return out;
}

}  // namespace versieve
