// The report of `versieve generate --prompts` as JSON (a stable contract) and as text.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/io/formatted.h"
#include "engine/io/utf8.h"
#include "engine/run/batch/batch_request.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

// The least value that at least that share of the values does not exceed; null without values.
json percentile(std::vector<double> values, double share) {
  if (values.empty()) {
    return nullptr;
  }
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

json percentiles(const std::vector<double>& values) {
  return {{"p50", percentile(values, 0.5)}, {"p99", percentile(values, 0.99)}};
}

std::vector<double> first_token_times(const BatchReport& report) {
  std::vector<double> ms;
  for (const BatchRow& row : report.rows) {
    ms.push_back(row.ttft_ms());
  }
  return ms;
}

std::vector<double> token_gaps(const BatchRow& row) {
  std::vector<double> ms;
  for (const double gap : row.result.gaps) {
    ms.push_back(1e3 * gap);
  }
  return ms;
}

std::vector<double> token_gaps(const BatchReport& report) {
  std::vector<double> ms;
  for (const BatchRow& row : report.rows) {
    const std::vector<double> own = token_gaps(row);
    ms.insert(ms.end(), own.begin(), own.end());
  }
  return ms;
}

// Text for JSON: bytes that are not UTF-8 (a cut character, an untrained model) become U+FFFD.
json printable(const std::optional<std::string>& bytes) {
  if (!bytes) {
    return nullptr;
  }
  return json::parse(json(*bytes).dump(-1, ' ', false, json::error_handler_t::replace));
}

double accepted_mean(const BatchReport& report) {
  double steps = 0.0, yielded = 0.0;
  for (const BatchRow& row : report.rows) {
    steps += static_cast<double>(row.result.generation.steps);
    yielded += row.result.generation.accepted_per_step() *
               static_cast<double>(row.result.generation.steps);
  }
  return steps > 0.0 ? yielded / steps : 0.0;
}

std::string milliseconds(const json& value) {
  return value.is_null() ? std::string("-") : formatted("%.1f", value.get<double>());
}

// The strategy, or which tuples of a plan verified most steps.
std::string batch_tuples_text(const BatchReport& report) {
  if (!report.plan) {
    return report.strategy.text();
  }
  std::map<std::size_t, std::int64_t> steps;
  for (const auto& [place, count] : report.played) {
    steps[place.second] += count;
  }
  std::string out;
  for (const auto& [tuple, count] : steps) {
    out += (out.empty() ? "" : ", ") + report.plan->tuples()[tuple].text() + " in " +
           std::to_string(count) + " steps of requests";
  }
  return out;
}

}  // namespace

double BatchRow::tokens_per_second() const {
  const double taken = result.finished - result.first_token;
  const std::size_t tokens = result.generation.tokens.size();
  return tokens > 1 && taken > 0.0 ? static_cast<double>(tokens - 1) / taken : 0.0;
}

std::int64_t BatchReport::tokens() const {
  std::int64_t count = 0;
  for (const BatchRow& row : rows) {
    count += static_cast<std::int64_t>(row.result.generation.tokens.size());
  }
  return count;
}

std::int64_t BatchReport::prompt_tokens() const {
  std::int64_t count = 0;
  for (const BatchRow& row : rows) {
    count += static_cast<std::int64_t>(row.prompt.tokens.size());
  }
  return count;
}

std::int64_t BatchReport::shared_tokens() const {
  std::int64_t count = 0;
  for (const BatchRow& row : rows) {
    count += row.result.shared_tokens;
  }
  return count;
}

double BatchReport::tokens_per_second() const {
  return seconds > 0.0 ? static_cast<double>(tokens()) / seconds : 0.0;
}

std::string BatchReport::failure() const {
  if (!claims_autoregressive_text(precision())) {
    return {};
  }
  for (const BatchRow& row : rows) {
    if (!row.identical_to_ar.value_or(true)) {
      return "request '" + one_line(row.prompt.id) + "' left the text of plain decoding";
    }
  }
  return {};
}

json batch_row_json(const BatchRow& row, const TuplePlan* plan) {
  const Generation& generation = row.result.generation;
  json out = {{"id", printable(row.prompt.id)},
              {"prompt", printable(row.prompt.text)},
              {"prompt_tokens", row.prompt.tokens.size()},
              {"shared_prompt_tokens", row.result.shared_tokens},
              {"text", printable(row.text)},
              {"tokens", generation.tokens},
              {"generated_tokens", generation.tokens.size()},
              {"steps", generation.steps},
              {"accepted_per_step_mean", generation.accepted_per_step()},
              {"stopped", name_of(generation.stopped)},
              {"queued_ms", 1e3 * (row.result.joined - row.result.submitted)},
              {"ttft_ms", row.ttft_ms()},
              {"itl_ms", percentiles(token_gaps(row))},
              {"tokens_per_s", row.tokens_per_second()}};
  if (plan != nullptr) {
    out["tuples"] = json::array();
    for (std::size_t i = 0; i < row.result.tuple_steps.size(); ++i) {
      if (row.result.tuple_steps[i] > 0) {
        out["tuples"].push_back(
            {{"strategy", plan->tuples()[i].text()}, {"steps", row.result.tuple_steps[i]}});
      }
    }
    out["tuple_moves"] = row.result.tuple_moves;
  }
  return out;
}

namespace {

// What each number of running requests was decoded by; null without a plan.
json plan_json(const BatchReport& report) {
  if (!report.plan) {
    return nullptr;
  }
  json steps = json::array();
  for (const auto& [place, count] : report.played) {
    steps.push_back({{"running", place.first},
                     {"strategy", report.plan->tuples()[place.second].text()},
                     {"steps", count}});
  }
  return {{"class", name_of(report.plan_class)}, {"steps", steps}};
}

}  // namespace

json batch_report_json(const BatchReport& report) {
  json rows = json::array();
  for (const BatchRow& row : report.rows) {
    rows.push_back(batch_row_json(row, report.plan.get()));
    rows.back()["identical_to_ar"] =
        row.identical_to_ar ? json(*row.identical_to_ar) : json(nullptr);
  }
  json out = {{"backend", name_of(report.backend)},
              {"device", report.device},
              {"dtype", name_of(report.dtype)},
              {"strategy", report.plan ? json(nullptr) : json(report.strategy.text())},
              {"plan", plan_json(report)},
              {"precision_class", name_of(report.precision())},
              {"concurrency", report.concurrency},
              {"most_running", report.most_running},
              {"arrivals", report.arrivals ? json{{"poisson", *report.arrivals}} : json(nullptr)},
              {"requests", rows},
              {"prompt_tokens", report.prompt_tokens()},
              {"shared_prompt_tokens", report.shared_tokens()},
              {"generated_tokens", report.tokens()},
              {"tokens_per_s", report.tokens_per_second()},
              {"seconds", report.seconds},
              {"steps", report.steps},
              {"accepted_per_step_mean", accepted_mean(report)},
              {"ttft_ms", percentiles(first_token_times(report))},
              {"itl_ms", percentiles(token_gaps(report))},
              {"step_s",
               {{"enqueue", report.spent.enqueue},
                {"ahead", report.spent.ahead},
                {"accept", report.spent.accept},
                {"commit", report.spent.commit},
                {"draft", report.spent.draft},
                {"rectify", report.spent.rectify}}},
              {"kv_pages", report.pages},
              {"kv_pages_used", report.most_pages},
              {"kv_pages_saved", report.most_saved_pages},
              {"kv_bytes", report.pages * report.page_bytes + report.sequence_bytes},
              {"kv_bytes_used", report.most_pages * report.own_page_bytes},
              {"kv_bytes_saved", report.most_saved_pages * report.own_page_bytes},
              {"remarks", report.remarks}};
  if (const std::string reason = report.failure(); !reason.empty()) {
    out["reason"] = reason;
  }
  return out;
}

std::string batch_report_text(const BatchReport& report) {
  std::string out;
  for (const BatchRow& row : report.rows) {
    out += "== " + one_line(row.prompt.id) + ": " +
           formatted("%zu tokens after %zu, first after %.1f ms, then %.1f tokens/s",
                     row.result.generation.tokens.size(), row.prompt.tokens.size(), row.ttft_ms(),
                     row.tokens_per_second());
    if (row.identical_to_ar) {
      out += *row.identical_to_ar ? "; the text of plain decoding"
                                  : "; DIFFERENT from the text of plain decoding";
    }
    out += "\n" + row.text.value_or("") + "\n";
  }
  const json ttft = percentiles(first_token_times(report));
  const json itl = percentiles(token_gaps(report));
  out += report.device + ", " + name_of(report.dtype) + ", " + batch_tuples_text(report) + ": " +
         formatted(
             "%zu requests, at most %lld at once; %lld tokens in %.2f s, %.1f tokens/s in "
             "all, %.2f tokens a request's step\n",
             report.rows.size(), static_cast<long long>(report.most_running),
             static_cast<long long>(report.tokens()), report.seconds, report.tokens_per_second(),
             accepted_mean(report));
  out += "first token after " + milliseconds(ttft["p50"]) + " ms (99th percentile " +
         milliseconds(ttft["p99"]) + "), then a token every " + milliseconds(itl["p50"]) + " ms (" +
         milliseconds(itl["p99"]) + ")\n";
  if (report.shared_tokens() > 0) {
    out +=
        formatted("%lld of %lld prompt tokens were not computed again: their prompts begin alike\n",
                  static_cast<long long>(report.shared_tokens()),
                  static_cast<long long>(report.prompt_tokens()));
    out +=
        formatted("%.1f MiB of keys and values held at most, %.1f MiB spared by shared pages\n",
                  static_cast<double>(report.most_pages * report.own_page_bytes) / (1 << 20),
                  static_cast<double>(report.most_saved_pages * report.own_page_bytes) / (1 << 20));
  }
  const std::string reason = report.failure();
  return reason.empty() ? out : out + reason + "\n";
}

}  // namespace versieve::engine
