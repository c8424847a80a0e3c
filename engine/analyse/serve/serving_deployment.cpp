// Sources, read on 2026-11-28: vLLM 0.33.0 (v1.spec_decode.dynamic.utils, config.speculative),
// SGLang 0.5.23 (srt.speculative.adaptive_spec_params, srt.arg_groups.speculative_hook),
// TensorRT-LLM's llm_args of 2026-11 (DecodingBaseConfig). tests/engine/analyse/serve hands the
// files to those very readers.
#include "engine/analyse/serve/serving_deployment.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/analyse/plan/yaml_text.h"
#include "engine/analyse/serve/serving_text.h"
#include "engine/io/formatted.h"
#include "model/words/error.h"
#include "model/words/range_text.h"

namespace versieve::engine {
namespace {

// The end of a schedule's last row: no server runs as many requests at once.
constexpr std::int64_t kLargestBatch = 8192;

// From `low` to `high` requests the same draft, of which each cell says other figures.
struct Range {
  std::int64_t low = 1, high = 1;
  const ServingChoice* choice = nullptr;  // at the fewest
  const ServingCell* worst_cell = nullptr;
  const ServingChoice* worst = nullptr;  // where it loses most likely; of equals at the most

  std::int64_t length() const { return choice->draft.levels(); }
};

std::vector<const ServingCell*> cells_for(const ServingSchedule& s, const ServingWish& wish) {
  std::vector<const ServingCell*> out;
  std::string known;
  for (const ServingCell& cell : s.cells) {
    const bool wanted = wish.context
                            ? cell.context_low < *wish.context && *wish.context <= cell.context_high
                            : cell.context_high == s.cells.back().context_high;
    if (wanted) {
      out.push_back(&cell);
    }
    if (cell.requests_low == 1) {
      known += formatted("%s%lld-%lld", known.empty() ? "" : ", ",
                         static_cast<long long>(cell.context_low),
                         static_cast<long long>(cell.context_high));
    }
  }
  if (out.empty()) {
    throw Error(ExitCode::kAnswerNo,
                formatted("no context bucket of the schedule holds %lld tokens; its buckets are ",
                          static_cast<long long>(*wish.context)) +
                    known);
  }
  return out;
}

const ServingChoice& best_chain(const ServingCell& cell) {
  return *std::find_if(cell.choices.begin(), cell.choices.end(), [](const ServingChoice& c) {
    return !c.draft.speculates() || c.draft.width == 1;
  });
}

// Requests in order, neighbours of one draft joined.
std::vector<Range> joined(const std::vector<const ServingCell*>& cells, bool chains) {
  std::vector<Range> out;
  for (const ServingCell* cell : cells) {
    const ServingChoice* choice = chains ? &best_chain(*cell) : &cell->best();
    if (out.empty() || !(out.back().choice->draft == choice->draft)) {
      out.push_back({.low = cell->requests_low, .choice = choice});
    }
    Range& range = out.back();
    range.high = cell->requests_high;
    if (range.worst == nullptr || choice->loses >= range.worst->loses) {
      range.worst_cell = cell;
      range.worst = choice;
    }
  }
  return out;
}

std::int64_t longest(const std::vector<Range>& ranges) {
  std::int64_t out = 0;
  for (const Range& range : ranges) {
    out = std::max(out, range.length());
  }
  return out;
}

// What taking chains alone gives away at most, in per cent of the best's tokens a second.
std::string lost_trees(const std::vector<const ServingCell*>& cells, const char* engine) {
  double most = 0.0;
  const ServingCell* where = nullptr;
  for (const ServingCell* cell : cells) {
    const double lost = 100.0 * (1.0 - best_chain(*cell).gain() / cell->best().gain());
    if (lost > most) {
      most = lost;
      where = cell;
    }
  }
  return where == nullptr
             ? ""
             : formatted(
                   "%s takes chains alone here: at %s the best is %s, and the chain taken "
                   "yields %.1f %% less",
                   engine, requests_text(*where).c_str(), draft_text(where->best().draft).c_str(),
                   most);
}

std::string place_text(std::int64_t low, std::int64_t high) {
  return range_text(std::to_string(low), std::to_string(high));
}

std::string figures_text(const ServingChoice& c) {
  return formatted(
      "%s%.2f tokens a step [%.2f, %.2f] (%s), breaks even at %.2f [%.2f, %.2f] (%s), loses with p "
      "= %.2f",
      c.at_least ? "at least " : "", c.tokens, c.tokens_interval.low, c.tokens_interval.high,
      name_of(c.token_source), c.break_even, c.break_even_interval.low, c.break_even_interval.high,
      name_of(c.times), c.loses);
}

// At the fewest requests and, where that differs, where plain decoding is likeliest to be faster.
std::string range_line(const Range& range) {
  const std::string place = place_text(range.low, range.high) + " at a time: ";
  if (!range.choice->draft.speculates()) {
    return yaml_comment(place + "no draft.");
  }
  const std::string first = figures_text(*range.choice), worst = figures_text(*range.worst);
  const ServingCell& cell = *range.worst_cell;
  return yaml_comment(
      place + draft_text(range.choice->draft) + ", " + first +
      (worst == first
           ? "."
           : "; at " + place_text(cell.requests_low, cell.requests_high) + ": " + worst + "."));
}

std::string draft_line(const std::string& key, const ServingWish& wish) {
  return key + ": " +
         yaml_quoted(wish.draft_model.empty() ? "<path of the draft's weights>"
                                              : wish.draft_model) +
         "\n";
}

std::string line(const std::string& key, std::int64_t value) {
  return key + ": " + std::to_string(value) + "\n";
}

struct Made {
  std::vector<Range> ranges;
  std::string settings, tiers, caution;
  std::vector<std::string> lost;
};

void add(std::vector<std::string>& lost, const std::string& sentence) {
  if (!sentence.empty()) {
    lost.push_back(sentence);
  }
}

Made for_vllm(const std::vector<const ServingCell*>& cells, const ServingWish& wish) {
  Made out{.ranges = joined(cells, true)};
  add(out.lost, lost_trees(cells, "vLLM"));
  const std::int64_t most = longest(out.ranges);
  if (most == 0) {
    return out;
  }
  std::string rows;
  for (const Range& range : out.ranges) {
    const bool ends = &range == &out.ranges.back() && range.length() == 0;
    rows += formatted(
        "%s[%lld, %lld, %lld]", rows.empty() ? "" : ", ", static_cast<long long>(range.low),
        static_cast<long long>(ends ? std::max(kLargestBatch, range.high) : range.high),
        static_cast<long long>(range.length()));
  }
  if (out.ranges.back().length() > 0) {  // the last length would carry on
    const std::int64_t beyond = out.ranges.back().high + 1;
    rows += formatted(", [%lld, %lld, 0]", static_cast<long long>(beyond),
                      static_cast<long long>(std::max(kLargestBatch, beyond)));
  }
  out.settings = "speculative-config:\n  method: eagle3\n  " + draft_line("model", wish) +
                 line("  num_speculative_tokens", most) +
                 "  num_speculative_tokens_per_batch_size: [" + rows + "]\n";
  out.caution =
      "A length of 0 is off, and above the last row nothing is known, so it is off there too. vLLM "
      "takes no such schedule under data parallelism: leave it out there. "
      "enable_adaptive_verification is not set: in this version it is for drafts of dspark, and "
      "measures its costs itself.";
  return out;
}

// A tree for all requests, or tiers of chains: SGLang adapts with a top-k of 1 alone.
Made for_sglang(const std::vector<const ServingCell*>& cells, const ServingWish& wish) {
  const std::vector<Range> best = joined(cells, false);
  const bool one_tree = best.size() == 1 && best.front().choice->draft.width > 1;
  Made out{.ranges = one_tree ? best : joined(cells, true)};
  const std::string head =
      "speculative-algorithm: EAGLE3\n" + draft_line("speculative-draft-model-path", wish);
  if (one_tree) {
    const DraftChoice& draft = best.front().choice->draft;
    out.settings = head + line("speculative-num-steps", draft.depth) +
                   line("speculative-eagle-topk", draft.width) +
                   line("speculative-num-draft-tokens", draft.nodes);
    out.caution =
        "On Hopper set attention-backend: fa3 too: a top-k above 1 otherwise takes FA3 from the "
        "whole server; it resets max-running-requests to 48 where that is not set.";
    return out;
  }
  add(out.lost, lost_trees(cells, "SGLang, which adapts with a top-k of 1,"));
  const std::int64_t most = longest(out.ranges);
  if (most == 0) {
    return out;
  }
  nlohmann::ordered_json tiers = nlohmann::ordered_json::object();
  for (const Range& range : out.ranges) {
    tiers[std::to_string(range.low)] = {{"candidate_steps", {range.length()}}};
  }
  if (out.ranges.back().length() > 0) {
    tiers[std::to_string(out.ranges.back().high + 1)] = {{"candidate_steps", {0}}};
  }
  out.tiers = tiers.dump(1) + "\n";
  out.settings = head + line("speculative-num-steps", most) + line("speculative-eagle-topk", 1) +
                 "speculative-adaptive: true\n" +
                 "speculative-adaptive-config: " + yaml_quoted(wish.tiers_file) + "\n";
  out.caution =
      "Each tier has one length, so that the batch alone decides; 0 drafts nothing, and above the "
      "last tier nothing is known. speculative-num-draft-tokens follows from the steps and is not "
      "set. The path of the tiers is as it was written; SGLang falls back to one length, with a "
      "warning, under attention data parallelism, two-batch overlap, multi-layer EAGLE or PD "
      "multiplexing.";
  return out;
}

Made for_trtllm(const std::vector<const ServingCell*>& cells, const ServingWish& wish) {
  const std::vector<Range> best = joined(cells, false);
  const bool ends_once = best.size() <= 2 && (best.size() == 1 || best.back().length() == 0);
  const bool tree = ends_once && best.front().choice->draft.width > 1;
  Made out{.ranges = tree ? best : joined(cells, true)};
  if (!tree) {
    add(out.lost, lost_trees(cells, "TensorRT-LLM's schedule"));
  }
  const std::int64_t first = out.ranges.front().length();
  if (first == 0) {
    if (longest(out.ranges) > 0) {
      out.lost.push_back(
          "its schedule begins with its longest draft, and the fewest requests want none here: "
          "nothing is set");
      out.ranges.resize(1);
    }
    return out;
  }
  const DraftChoice& draft = out.ranges.front().choice->draft;
  out.settings = "speculative_config:\n  decoding_type: Eagle3\n  " +
                 draft_line("speculative_model", wish) + line("  max_draft_len", draft.depth);
  if (tree) {
    out.settings +=
        "  use_dynamic_tree: true\n" + line("  dynamic_tree_max_topK", draft.width) +
        line("  max_total_draft_tokens", std::min(draft.nodes - 1, draft.depth * draft.width));
    if (draft.nodes - 1 > draft.depth * draft.width) {
      out.lost.push_back(
          formatted("it verifies at most top-k x depth drafted tokens: %lld in place "
                    "of %lld",
                    static_cast<long long>(draft.depth * draft.width),
                    static_cast<long long>(draft.nodes - 1)));
    }
  }
  std::string rows;
  std::int64_t last = 0;
  int lengths = 0;
  for (const Range& range : out.ranges) {
    if (range.length() > first) {
      out.lost.push_back(
          formatted("no length may be above that of the fewest requests: %lld in "
                    "place of %lld from %lld requests on",
                    static_cast<long long>(first), static_cast<long long>(range.length()),
                    static_cast<long long>(range.low)));
    }
    const bool at_end = &range == &out.ranges.back() && range.length() == 0;
    if (!at_end) {
      rows +=
          formatted("%s%lld: %lld", rows.empty() ? "" : ", ", static_cast<long long>(range.high),
                    static_cast<long long>(std::min(first, range.length())));
      last = range.high;
      lengths += 1;
    }
  }
  out.settings +=
      lengths == 1 ? line("  max_concurrency", last) : "  draft_len_schedule: {" + rows + "}\n";
  out.caution =
      "A key of draft_len_schedule is the most requests that its length is for, and above the "
      "largest it drafts nothing (some versions of 2026 go on with one token there, so that the "
      "draft's cache stays filled); versions before 2026 read a key as the fewest instead, and "
      "want "
      "{1: length} first. max_concurrency would exclude draft_len_schedule.";
  return out;
}

std::string head_text(const ServingSchedule& s, const char* engine, const char* versions,
                      const char* command, const ServingCell& cell) {
  return yaml_comment(std::string("Speculative decoding for ") + engine +
                      " by requests at a time, from a serving schedule of versieve, schema " +
                      std::to_string(ServingSchedule::kSchema) + ".") +
         yaml_comment(std::string("Use: ") + command) +
         yaml_comment(std::string("Written for ") + engine + " " + versions +
                      ": the readers of its settings take it, and no server was started.") +
         "#\n" +
         yaml_comment("Pair " + s.pair + " on " + s.device +
                      formatted(", contexts of %lld-%lld tokens.",
                                static_cast<long long>(cell.context_low),
                                static_cast<long long>(cell.context_high)));
}

std::string others_text(const ServingSchedule& s, const ServingCell& taken) {
  std::string others;
  for (const ServingCell& cell : s.cells) {
    if (cell.requests_low == 1 && cell.context_high != taken.context_high) {
      others += formatted("%s%lld-%lld", others.empty() ? "" : ", ",
                          static_cast<long long>(cell.context_low),
                          static_cast<long long>(cell.context_high));
    }
  }
  return others.empty() ? ""
                        : "one schedule serves all contexts; not carried are those for " + others;
}

struct Engine {
  const char* format;
  const char* name;
  const char* versions;
  const char* command;
  Made (*make)(const std::vector<const ServingCell*>& cells, const ServingWish& wish);
};

constexpr Engine kEngines[] = {
    {"vllm", "vLLM", "0.33.0", "vllm serve TARGET --config FILE.yaml", for_vllm},
    {"sglang", "SGLang", "0.5.23",
     "python -m sglang.launch_server --model-path TARGET --config FILE.yaml", for_sglang},
    {"trtllm", "TensorRT-LLM", "of 2026-11 (PyTorch backend)",
     "trtllm-serve TARGET --config FILE.yaml", for_trtllm},
};

const Engine* engine_of(const std::string& format) {
  for (const Engine& engine : kEngines) {
    if (format == engine.format) {
      return &engine;
    }
  }
  return nullptr;
}

}  // namespace

bool takes_serving_schedule(const std::string& format) {
  return engine_of(format) != nullptr;
}

ServingFiles serving_files(const ServingSchedule& schedule, const std::string& format,
                           const ServingWish& wish) {
  const Engine& engine = *engine_of(format);
  const std::vector<const ServingCell*> cells = cells_for(schedule, wish);
  Made made = engine.make(cells, wish);
  add(made.lost, others_text(schedule, *cells.front()));
  ServingFiles out{.tiers = made.tiers, .lost = made.lost, .speculates = !made.settings.empty()};
  out.settings = head_text(schedule, engine.name, engine.versions, engine.command, *cells.front());
  for (const Range& range : made.ranges) {
    out.settings += range_line(range);
  }
  for (const std::string& sentence : out.lost) {
    out.settings += yaml_comment("Cannot be carried: " + sentence + ".");
  }
  for (const std::string& note : schedule.notes) {
    out.settings += yaml_comment("Note: " + note + ".");
  }
  if (!out.speculates) {
    // An empty mapping: a file of comments alone is refused by some of the readers.
    out.settings +=
        yaml_comment("No draft pays, so nothing is set and speculation stays off.") + "{}\n";
    return out;
  }
  out.settings += yaml_comment(
      "Acceptance stays the engine's exact rule: no threshold and no relaxed rule is set.");
  out.settings += yaml_comment(made.caution);
  if (wish.draft_model.empty()) {
    out.settings += yaml_comment(
        "NOT COMPLETE: a schedule does not know where the draft's weights are. Their path replaces "
        "the text in <>, which no engine can load; export --draft-model writes it.");
  }
  out.settings += "\n" + made.settings;
  return out;
}

}  // namespace versieve::engine
