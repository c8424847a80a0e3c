// The planner table as a C++17 header that compiles alone. Programs may include several: each
// stands in a namespace of its name, and within it in an inline one of its content, so that no
// linker can take one table for another even where two were given the same name.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "engine/analyse/plan/entry_aims.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/io/formatted.h"
#include "model/plan/concurrency.h"
#include "model/plan/guarded_plan.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// A literal of the same bytes: everything but plain ASCII in octal, question marks too (trigraphs).
std::string literal(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (byte < 0x20 || byte > 0x7e || c == '?') {
      out += formatted("\\%03o", static_cast<unsigned>(byte));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// A comment line that no text of the table can leave or draw the next line into.
std::string comment(const std::string& text) {
  std::string out = "// ";
  for (const char c : text) {
    const bool is_trigraph = c == '?' && out.back() == '?';
    const bool is_plain = c >= 0x20 && c <= 0x7e && c != '\\' && !is_trigraph;
    out += is_plain ? c : (c == '\n' ? ' ' : '~');
  }
  return out + "\n";
}

std::string remarks(const PlanTable& t) {
  std::string out =
      comment("Planner table of versieve, schema " + std::to_string(schema_of(t)) + ": " + t.model +
              " (" + t.dtype + ") on " + t.hardware + ".") +
      comment(t.provenance_note + ".") +
      comment("Acceptance: " + acceptance_text(t) + ". Step times: geometry " + t.model + ".");
  out += comment(intervals_text(t));
  if (t.sources) {
    out += comment("Evidence: " + sources_text(t) + ".");
  }
  for (const PlanTable* of : by_concurrency(t)) {
    const std::string requests =
        t.batched.empty() ? "" : ", " + std::to_string(of->concurrency) + " at a time";
    for (const UnavailableCell& u : of->unavailable) {
      out += comment("Limited is " + name_of(t.buckets[static_cast<std::size_t>(u.bucket)]) +
                     requests + ": " + u.reason + ".");
    }
  }
  if (!t.batched.empty()) {
    out += comment(batch_text(t) + ".");
  }
  return out + comment(
                   "Not carried here: bytes by term, phases, excluded tuples, run ids. The "
                   "JSON form has them.");
}

// What an entry and a baseline share, from the context on.
std::string shared_fields(const PlanTable& t, std::int64_t bucket, const Evaluation& v) {
  const ContextBucket& b = t.buckets[static_cast<std::size_t>(bucket)];
  const DraftChoice& d = v.strategy.draft;
  std::string out =
      std::to_string(b.low) + ", " + std::to_string(b.high) + ", " + literal(v.strategy.text());
  for (const std::int64_t count : {d.depth, d.width, d.nodes, v.strategy.group_size}) {
    out += ", " + std::to_string(count);
  }
  for (const double number : {v.expected_accepted, v.cost->time_us, v.throughput,
                              v.throughput_interval.low, v.throughput_interval.high}) {
    out += ", " + exact_decimal(number);
  }
  return out + ", " + literal(name_of(v.source));
}

// No number where nothing was measured: no comparison with it holds.
std::string price_fields(const LossPrice& p) {
  std::string out;
  for (const Estimate95& e : {p.kl_nats, p.rise_nats, p.same_token}) {
    for (const double number : {e.value, e.low, e.high}) {
      out += (p.is_known() ? exact_decimal(number) : std::string("kUnmeasured")) + ", ";
    }
  }
  return out + std::to_string(p.tokens) + ", " + literal(name_of(p.from)) + ", " +
         literal(text_of(p.pair)) + ", " + literal(p.price_of);
}

// How many requests at a time a row is planned for, of which it holds the most.
struct RequestsAtATime {
  std::int64_t low = 1, high = 1;
};

std::string text_of(const RequestsAtATime& requests) {
  return std::to_string(requests.low) + ", " + std::to_string(requests.high);
}

std::string row(const PlanTable& t, const PlanEntry& e, const std::string& condition,
                const std::optional<RequestsAtATime>& requests) {
  std::string out = "    {" + shared_fields(t, e.bucket, e.evaluation) + ", " +
                    literal(name_of(e.precision)) + ", " + std::to_string(e.rank) + ", " +
                    (e.lossy ? "true" : "false") + ",\n     " + literal(e.note) + ", " +
                    literal(e.baseline) + ",\n     " + literal(condition) + ",\n     " +
                    price_fields(e.price);
  if (requests) {
    const Evaluation* const plain = plain_of(t, e.bucket);
    const Speculation s = plain ? speculation_of(e.evaluation, *plain) : Speculation{};
    out += ",\n     " + text_of(*requests);
    for (const double number :
         {s.break_even, s.break_even_interval.low, s.break_even_interval.high, s.loses}) {
      out += ", " + (plain ? exact_decimal(number) : std::string("kUnmeasured"));
    }
    for (const std::optional<double>& number : aims_of(t, e).numbers()) {
      out += ", " + (number ? exact_decimal(*number) : std::string("kUnmeasured"));
    }
  }
  return out + "},\n";
}

std::string row(const PlanTable& t, const PlanBaseline& b,
                const std::optional<RequestsAtATime>& requests) {
  return "    {" + shared_fields(t, b.bucket, b.evaluation) + ", " + literal(b.role) +
         (requests ? ", " + text_of(*requests) : std::string()) + "},\n";
}

// An array of the rows of all numbers of requests at a time. rows_of(table, requests): its rows.
template <class RowsOf>
std::string array(const char* type, const char* name, const PlanTable& t, const RowsOf& rows_of) {
  std::vector<std::string> rows;
  std::int64_t low = 1;
  for (const PlanTable* of : by_concurrency(t)) {
    const std::optional<RequestsAtATime> requests =
        has_concurrency(t) ? std::optional(RequestsAtATime{low, of->concurrency}) : std::nullopt;
    for (std::string& row : rows_of(*of, requests)) {
      rows.push_back(std::move(row));
    }
    low = of->concurrency + 1;
  }
  std::string out = std::string("inline constexpr std::array<") + type + ", " +
                    std::to_string(rows.size()) + "> " + name + " = {";
  if (!rows.empty()) {
    out += "{\n";
    for (const std::string& row : rows) {
      out += row;
    }
    out += "}";
  }
  return out + "};\n";
}

constexpr const char* kShared = R"(  std::int64_t context_low;
  std::int64_t context_high;
  const char* strategy;
  int depth;
  int width;
  int nodes;  // with the root; 1: no speculation
  int group;  // queries that share loads
  double expected_accepted;  // tokens a step, the bonus token counted
  double step_latency_us;
  double throughput;  // accepted tokens/s
  double interval_low;
  double interval_high;
  const char* source;
)";

// With the ends of 95 % intervals.
constexpr const char* kPrice =
    R"(  double kl_nats;  // a token, against the exact run; kUnmeasured: NaN
  double kl_nats_low;
  double kl_nats_high;
  double rise_nats;  // of the loss; perplexity is the exact run's times exp(rise_nats)
  double rise_nats_low;
  double rise_nats_high;
  double same_token;  // share with the exact run's likeliest
  double same_token_low;
  double same_token_high;
  std::int64_t price_tokens;  // that these are of
  const char* price;          // construction, own, borrowed, not measured
  const char* price_pair;     // whose they are
  const char* price_of;       // the nearest strategy, measured in its place; empty: this very choice
)";

// Of both, where a table has several numbers of requests at a time; and more of an entry.
constexpr const char* kRequests =
    R"(  int requests_low;  // at a time; both included, planned for the most
  int requests_high;
)";
constexpr const char* kBreakEven =
    R"(  double break_even;  // tokens: its step's time over plain decoding's of as many requests
  double break_even_low;
  double break_even_high;
  double loses;  // probability that plain decoding yields more
  double ttft_ms;  // of a prompt of context_high; kUnmeasured without measured prompts
  double ttft_ms_low;
  double ttft_ms_high;
  double tokens_per_joule;  // of all requests; kUnmeasured where power was not sampled
  double tokens_per_joule_low;
  double tokens_per_joule_high;
  double watts;
)";

constexpr const char* kRequestsLookup =
    R"(
// The same of that many requests at a time; null too beyond the most that were planned.
constexpr const Entry* find_for(std::int64_t context, std::string_view precision_class,
                                int requests, int rank = 1) {
  for (const Entry& entry : kEntries) {
    if (entry.context_low < context && context <= entry.context_high && entry.rank == rank &&
        entry.requests_low <= requests && requests <= entry.requests_high &&
        precision_class == entry.precision_class) {
      return &entry;
    }
  }
  return nullptr;
}
)";

constexpr const char* kLookup =
    R"(// The entry of that rank for a context and class; null: there is none.
constexpr const Entry* find(std::int64_t context, std::string_view precision_class, int rank = 1) {
  for (const Entry& entry : kEntries) {
    if (entry.context_low < context && context <= entry.context_high && entry.rank == rank &&
        precision_class == entry.precision_class) {
      return &entry;
    }
  }
  return nullptr;
}
)";

std::string constants(const PlanTable& t) {
  const GuardConstants& g = t.guard;
  const auto text = [](const char* name, const std::string& value) {
    return std::string("inline constexpr const char* ") + name + " = " + literal(value) + ";\n";
  };
  const auto count = [](const char* name, std::int64_t value) {
    return std::string("inline constexpr int ") + name + " = " + std::to_string(value) + ";\n";
  };
  const auto real = [](const char* name, const std::string& value) {
    return std::string("inline constexpr double ") + name + " = " + value + ";\n";
  };
  const auto limit = [&real](const char* name, const std::optional<double>& most) {
    return real(name, most ? exact_decimal(*most) : "std::numeric_limits<double>::infinity()");
  };
  return count("kSchema", schema_of(t)) + text("kHardware", t.hardware) + text("kModel", t.model) +
         text("kAcceptance", acceptance_text(t)) + text("kEvidence", sources_text(t)) +
         text("kBonusToken", kBonusToken) +
         limit("kMaxLossNats", t.max_loss) +
         (has_concurrency(t) ? text("kObjective", objective_of(t.aims)) +
                                   limit("kItlLimitMs", t.aims.itl_ms) +
                                   limit("kTtftLimitMs", t.aims.ttft_ms)
                             : std::string()) +
         real("kGuardAlpha", exact_decimal(g.alpha)) +
         real("kGuardDropRatio", exact_decimal(g.drop_ratio)) +
         count("kGuardWarmup", g.warmup) + count("kGuardHysteresis", g.hysteresis) +
         count("kGuardMaxTransitions", g.max_transitions);
}

std::vector<std::string> entry_rows(const PlanTable& t,
                                    const std::optional<RequestsAtATime>& requests) {
  const RunConditionOf conditions = run_conditions(t);
  std::vector<std::string> rows;
  for (const PlanEntry& e : t.entries) {
    rows.push_back(row(t, e, conditions.at({e.bucket, e.precision}), requests));
  }
  return rows;
}

std::vector<std::string> baseline_rows(const PlanTable& t,
                                       const std::optional<RequestsAtATime>& requests) {
  std::vector<std::string> rows;
  for (const PlanBaseline& b : t.baselines) {
    rows.push_back(row(t, b, requests));
  }
  return rows;
}

std::string declarations(const PlanTable& t) {
  const bool has_axis = has_concurrency(t);
  const std::string requests = has_axis ? kRequests : "";
  return "inline constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();\n\n"
         "// Contexts are (context_low, context_high]; rows are ranked within a bucket and class.\n"
         "struct Entry {\n" +
         std::string(kShared) +
         "  const char* precision_class;\n  int rank;\n  bool lossy;\n"
         "  const char* note;      // what a reader must know; empty: nothing\n"
         "  const char* baseline;  // which of the two it is; empty: neither\n"
         "  const char* run_condition;  // of its cell; empty: none\n" +
         kPrice + requests + (has_axis ? kBreakEven : "") + "};\n\n" +
         "// What the entries are compared with.\nstruct Baseline {\n" + kShared +
         "  const char* role;\n" + requests + "};\n\n" + constants(t) + "\n" +
         array("Entry", "kEntries", t, entry_rows) + "\n" +
         array("Baseline", "kBaselines", t, baseline_rows) + "\n" + kLookup +
         (has_axis ? kRequestsLookup : "");
}

// 64-bit FNV-1a.
std::string hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return formatted("%016llx", static_cast<unsigned long long>(hash));
}

// Words of C++17 and C++20, macros of old compilers, and names in the header itself.
constexpr const char* kTaken[] = {"alignas",       "alignof",     "and",
                                  "and_eq",        "asm",         "auto",
                                  "bitand",        "bitor",       "bool",
                                  "break",         "case",        "catch",
                                  "char",          "char8_t",     "char16_t",
                                  "char32_t",      "class",       "compl",
                                  "concept",       "const",       "consteval",
                                  "constexpr",     "constinit",   "const_cast",
                                  "continue",      "co_await",    "co_return",
                                  "co_yield",      "decltype",    "default",
                                  "delete",        "do",          "double",
                                  "dynamic_cast",  "else",        "enum",
                                  "explicit",      "export",      "extern",
                                  "false",         "float",       "for",
                                  "friend",        "goto",        "if",
                                  "inline",        "int",         "long",
                                  "mutable",       "namespace",   "new",
                                  "noexcept",      "not",         "not_eq",
                                  "nullptr",       "operator",    "or",
                                  "or_eq",         "private",     "protected",
                                  "public",        "register",    "reinterpret_cast",
                                  "requires",      "return",      "short",
                                  "signed",        "sizeof",      "static",
                                  "static_assert", "static_cast", "struct",
                                  "switch",        "template",    "this",
                                  "thread_local",  "throw",       "true",
                                  "try",           "typedef",     "typeid",
                                  "typename",      "union",       "unsigned",
                                  "using",         "virtual",     "void",
                                  "volatile",      "wchar_t",     "while",
                                  "xor",           "xor_eq",      "std",
                                  "Entry",         "Baseline",    "find",
                                  "find_for",      "linux",       "unix",
                                  "kEntries",      "kBaselines",  "versieve_plan"};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "on_h200_sxm_nsa_1b": of the table's machine and geometry.
std::string own_name(const PlanTable& t) {
  std::string out = "on_";
  for (const char c : t.hardware + "_" + t.model) {
    const char next = is_letter(c) || is_digit(c) ? c : '_';
    if (next != '_' || out.back() != '_') {
      out += next;
    }
  }
  return out;
}

}  // namespace

void check_cpp_name(const std::string& name) {
  const bool is_spelt = !name.empty() && is_letter(name.front()) &&
                        std::all_of(name.begin(), name.end(),
                                    [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
  const bool is_taken = std::find(std::begin(kTaken), std::end(kTaken), name) != std::end(kTaken);
  if (!is_spelt || is_taken || name.find("__") != std::string::npos) {
    throw Error(ExitCode::kUsage,
                "'" + name +
                    "' cannot name a table in C++: a letter, then letters, digits and single "
                    "underscores, and no word of the language");
  }
}

std::string plan_table_cpp(const PlanTable& t, const std::string& name) {
  if (!name.empty()) {
    check_cpp_name(name);
  }
  const std::string space = name.empty() ? own_name(t) : name;
  const std::string body = declarations(t);
  const std::string content = "table_" + hash_of(space + body);
  const std::string guard = "VERSIEVE_PLAN_" + content;
  return remarks(t) + "//\n// versieve_plan::" + space + "::find(context, class); with one table " +
         "alone in a file the\n// name may be left out, with two of one name " + content +
         " is said too.\n#ifndef " + guard + "\n#define " + guard +
         "\n\n#include <array>\n#include <cstdint>\n#include <limits>\n#include "
         "<string_view>\n\n"
         "namespace versieve_plan {\ninline namespace " +
         space + " {\ninline namespace " + content + " {\n\n" + body + "\n}  // namespace " +
         content + "\n}  // namespace " + space + "\n}  // namespace versieve_plan\n\n#endif  // " +
         guard + "\n";
}

}  // namespace versieve::engine
