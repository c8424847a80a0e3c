// The planner table as CSV: a header, then one line an entry (RFC 4180, lines end in a line feed),
// which spreadsheets and data-frame libraries read without an option. Where the numbers come from
// stands in columns, because no reader skips comments unasked.
#include "engine/analyse/plan/entry_aims.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/io/formatted.h"
#include "model/plan/concurrency.h"
#include "model/plan/guarded_plan.h"

namespace versieve::engine {
namespace {

// A field with a comma, a quote or a line break is quoted, and one that a reader would trim. Some
// readers stop at a zero byte.
std::string field(std::string text) {
  for (char& c : text) {
    c = c == '\0' ? ' ' : c;
  }
  const bool is_plain = text.find_first_of(",\"\n\r") == std::string::npos &&
                        (text.empty() || (text.front() != ' ' && text.back() != ' '));
  if (is_plain) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' ? "\"\"" : std::string(1, c);
  }
  return out + "\"";
}

constexpr const char* kHeader =
    "context_low,context_high,class,rank,strategy,expected_accepted,step_latency_us,throughput,"
    "interval_low,interval_high,gain_over_ar,gain_over_baseline,beats_baseline,dram_bytes,"
    "bottleneck,source,lossy,note,baseline,depth,width,nodes,group,hardware,model,dtype,launch,"
    "provenance,acceptance,bonus_token,run_condition,evidence,price,kl_nats,kl_nats_low,"
    "kl_nats_high,rise_nats,rise_nats_low,rise_nats_high,same_token,same_token_low,"
    "same_token_high,price_tokens,price_sets,price_split,price_pair,price_pair_sha256,price_of,"
    "price_tasks,price_unmeasured,requests,same_texts_low,same_texts_high,max_loss_nats";
// Where the table has several numbers of requests at a time.
constexpr const char* kConcurrencyHeader =
    ",concurrency,request_throughput,inter_token_ms,inter_token_ms_low,inter_token_ms_high,"
    "break_even,break_even_low,break_even_high,loses,objective,ttft_ms,ttft_ms_low,ttft_ms_high,"
    "tokens_per_joule,tokens_per_joule_low,tokens_per_joule_high,watts,itl_limit_ms,"
    "ttft_limit_ms";

// Empty where there is none: of a number that was not measured, or a limit that was not set.
std::string number_field(const std::optional<double>& number) {
  return "," + (number ? exact_decimal(*number) : std::string());
}

// "hops: 50 questions, right -2.0 % [-6.1, 2.2]; recall: …"
std::string tasks_text(const LossPrice& price) {
  std::string out;
  for (const TaskPrice& task : price.tasks) {
    const QualityAnswers& a = task.answers;
    out += formatted("%s%s: %lld questions, right %+.1f %% [%.1f, %.1f]", out.empty() ? "" : "; ",
                     task.set.c_str(), static_cast<long long>(a.questions), 100.0 * a.change.value,
                     100.0 * a.change.low, 100.0 * a.change.high);
  }
  return out;
}

// Empty where nothing was measured: never zero.
std::string price_fields(const LossPrice& p) {
  std::string out = std::string(",") + name_of(p.from);
  for (const Estimate95& e : {p.kl_nats, p.rise_nats, p.same_token}) {
    for (const double number : {e.value, e.low, e.high}) {
      out += "," + (p.is_known() ? exact_decimal(number) : std::string());
    }
  }
  out += "," + (p.tokens > 0 ? std::to_string(p.tokens) : std::string());
  for (const std::string& text : {p.sets, p.split, p.pair.name, p.pair.sha256, p.price_of,
                                  tasks_text(p), p.unmeasured_because}) {
    out += "," + field(text);
  }
  return out;
}

std::string concurrency_fields(const PlanTable& t, const PlanEntry& e) {
  const Interval itl = inter_token_interval_ms(e.evaluation, t.concurrency);
  std::string out = "," + std::to_string(t.concurrency);
  for (const double number : {request_throughput(e.evaluation, t.concurrency),
                              inter_token_ms(e.evaluation, t.concurrency), itl.low, itl.high}) {
    out += "," + exact_decimal(number);
  }
  const Evaluation* const plain = plain_of(t, e.bucket);
  const Speculation s = plain ? speculation_of(e.evaluation, *plain) : Speculation{};
  for (const double number :
       {s.break_even, s.break_even_interval.low, s.break_even_interval.high, s.loses}) {
    out += "," + (plain ? exact_decimal(number) : std::string());
  }
  out += std::string(",") + objective_of(t.aims);
  for (const std::optional<double>& number : aims_of(t, e).numbers()) {
    out += number_field(number);
  }
  return out + number_field(t.aims.itl_ms) + number_field(t.aims.ttft_ms);
}

std::string line(const PlanTable& t, const PlanEntry& e, const std::string& origin,
                 const std::string& condition) {
  const Evaluation& v = e.evaluation;
  const ContextBucket& b = t.buckets[static_cast<std::size_t>(e.bucket)];
  std::string out = std::to_string(b.low) + "," + std::to_string(b.high) + "," +
                    name_of(e.precision) + "," + std::to_string(e.rank) + "," +
                    field(v.strategy.text());
  for (const double number : {v.expected_accepted, v.cost->time_us, v.throughput,
                              v.throughput_interval.low, v.throughput_interval.high, e.gain_over_ar,
                              e.gain_over_baseline, e.beats_baseline, v.cost->dram_bytes}) {
    out += "," + exact_decimal(number);
  }
  out += std::string(",") + name_of(bottleneck_of(*v.cost)) + "," + name_of(v.source) + "," +
         (e.lossy ? "true" : "false") + "," + field(e.note) + "," + field(e.baseline);
  const DraftChoice& d = v.strategy.draft;
  for (const std::int64_t count : {d.depth, d.width, d.nodes, v.strategy.group_size}) {
    out += "," + std::to_string(count);
  }
  return out + origin + "," + field(condition) + "," + field(sources_text(t)) +
         price_fields(e.price) + "," + std::to_string(t.requests) + "," +
         exact_decimal(compared_interval(v).low) + "," + exact_decimal(compared_interval(v).high) +
         number_field(t.max_loss);
}

}  // namespace

std::string plan_table_csv(const PlanTable& t) {
  std::string origin;  // the same in every line
  for (const std::string& text :
       {t.hardware, t.model, t.dtype, t.launch, t.provenance_note, acceptance_text(t)}) {
    origin += "," + field(text);
  }
  origin += std::string(",") + kBonusToken;
  const bool has_axis = has_concurrency(t);
  std::string out = std::string(kHeader) + (has_axis ? kConcurrencyHeader : "") + "\n";
  for (const PlanTable* of : by_concurrency(t)) {
    const RunConditionOf conditions = run_conditions(*of);
    for (const PlanEntry& e : of->entries) {
      out += line(*of, e, origin, conditions.at({e.bucket, e.precision})) +
             (has_axis ? concurrency_fields(*of, e) : "") + "\n";
    }
  }
  return out;
}

}  // namespace versieve::engine
