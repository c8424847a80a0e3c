// Plans of several requests at a time: what a cell holds, what memory and a bound between tokens
// leave out, and where one kind of draft yields to another.
#include "model/plan/concurrency.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "model/plan/cell_pricer.h"
#include "model/words/error.h"
#include "tests/support/errors.h"
#include "tests/support/planned.h"

using namespace versieve;
using synthetic::fitted_by_hand;

namespace {

PlanOptions strict_options(std::vector<std::int64_t> concurrency) {
  PlanOptions options;
  options.buckets = {default_buckets().front()};
  options.classes = {PrecisionClass::kStrict};
  options.schedules = {"F*"};
  options.concurrency = std::move(concurrency);
  return options;
}

PlanTable planned(const PlanOptions& options, const std::string& geometry = "nsa-1b",
                  const std::string& machine = "h200-sxm") {
  return plan(fitted_by_hand(0.8, 0.9, true), hardware_by_key(machine), named_llm_shape(geometry),
              options);
}

// Products as fast as tensor cores make them, so that many requests are bound by them and few are
// not; about what db/measured/h100.db says.
FittedModel fitted_to_products() {
  FittedModel fit = fitted_by_hand(0.55, 0.7, true);
  const auto set = [&fit](LaunchKind kind, KindParameter parameter, double value) {
    fit.estimates[index_of(kind, parameter)].value = value;
  };
  set(LaunchKind::kLinear, KindParameter::kBaseUs, 2.4);
  set(LaunchKind::kLinear, KindParameter::kComputeShare, 6.45);
  fit.estimates[index_of(SharedParameter::kStreamL2)].value = 32.8;
  for (const LaunchKind kind :
       {LaunchKind::kNsaRoute, LaunchKind::kNsaAttend, LaunchKind::kNsaReuse}) {
    set(kind, KindParameter::kComputeShare, 3.0);
    set(kind, KindParameter::kResident, 2.0);
  }
  return fit;
}

double log_width(const Interval& interval) {
  return std::log(interval.high / interval.low);
}

}  // namespace

TEST_CASE("numbers of requests at a time are read strictly, and one is always among them") {
  CHECK(parse_concurrency("1") == std::vector<std::int64_t>{1});
  CHECK(parse_concurrency("1,4,16,64") == std::vector<std::int64_t>{1, 4, 16, 64});
  CHECK(parse_concurrency("8") == std::vector<std::int64_t>{1, 8});
  CHECK(parse_concurrency("256") == std::vector<std::int64_t>{1, 256});
  for (const char* text : {"", "0", "1,", ",1", "4,1", "4,4", "1,1", "257", "1,-4", "04", "4 ",
                           "1;4", "1e2", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_concurrency(text), Error);
  }
}

TEST_CASE("a plan of several requests holds the plan of one, and more cells of the same kind") {
  const PlanTable one = planned(strict_options({1}));
  const PlanTable table = planned(strict_options({1, 4, 16}));
  CHECK(!has_concurrency(one));
  CHECK(one.memory.empty());
  REQUIRE(table.batched.size() == 2);
  REQUIRE(table.entries.size() == one.entries.size());
  for (std::size_t i = 0; i < one.entries.size(); ++i) {
    CHECK(table.entries[i].evaluation.strategy == one.entries[i].evaluation.strategy);
    CHECK(table.entries[i].evaluation.throughput == one.entries[i].evaluation.throughput);
  }
  for (const PlanTable* of : by_concurrency(table)) {
    const double requests = static_cast<double>(of->concurrency);
    REQUIRE(of->entries.size() == 12);
    REQUIRE(plain_of(*of, 0) != nullptr);
    for (const PlanEntry& e : of->entries) {
      const Evaluation& v = e.evaluation;
      CHECK(v.throughput == Approx(requests * v.expected_accepted / v.cost->time_us * 1e6));
      CHECK(request_throughput(v, of->concurrency) == Approx(v.throughput / requests));
      CHECK(inter_token_ms(v, of->concurrency) ==
            Approx(v.cost->time_us * 1e-3 / v.expected_accepted));
      const Speculation s = speculation_of(v, *plain_of(*of, 0));
      CHECK(s.break_even_interval.low <= s.break_even);
      CHECK(s.break_even <= s.break_even_interval.high);
      CHECK(s.break_even_interval.low >=
            1.0);  // all are Strict: such a step does a plain one's work
      // It loses as likely as not where it yields what it breaks even at.
      if (v.strategy.draft.speculates()) {
        CHECK((s.loses < 0.5) == (v.expected_accepted > s.break_even));
      } else {
        CHECK((s.break_even == 1.0 && s.loses == 0.0));
      }
    }
  }
}

TEST_CASE("intervals of several requests are wider by what is assumed of them") {
  const PlanTable table = planned(strict_options({1, 16}));
  const Evaluation& one = *plain_of(table, 0);
  const Evaluation& many = *plain_of(table.batched[0], 0);
  CHECK(log_width(many.latency_interval_us) > log_width(one.latency_interval_us));
  CHECK(log_width(compared_interval(many)) > log_width(compared_interval(one)));
  CHECK(batch_text(table).find("assumptions") != std::string::npos);
  CHECK(batch_text(planned(strict_options({1}))).empty());
}

TEST_CASE("where steps of many requests were measured, their times and intervals are theirs") {
  FittedModel fit = fitted_by_hand(0.8, 0.9, true);
  const PlanOptions options = strict_options({1, 16, 64});
  const LlmShape target = named_llm_shape("nsa-1b");
  const PlanTable assumed = plan(fit, hardware_by_key("h200-sxm"), target, options);
  fit.batch = {.points = 40,
               .launch = LaunchMode::kStream,
               .log_latency = 0.08,
               .most_requests = 64,
               .most_rows = 4096};
  for (const BatchTermInfo& info : batch_term_table()) {
    fit.batch.terms.push_back({info.initial, info.low, info.high, true});
  }
  StepShape shape;
  shape.target = target;
  const Regime regime = batch_regime(shape);  // of this geometry
  fit.batch.time.families = {{.family = regime.family, .anchors = {regime.at}, .weights = {0.0}}};
  const PlanTable table = plan(fit, hardware_by_key("h200-sxm"), target, options);
  CHECK(batch_text(table).find("40 measured ones") != std::string::npos);
  CHECK(batch_text(table).find("as its sessions run them") != std::string::npos);
  // One request at a time is as before.
  CHECK(plain_of(table, 0)->cost->time_us == plain_of(assumed, 0)->cost->time_us);
  // The host's time for 64 requests of 16 layers, 5 us each, stands beside the device's.
  CHECK(plain_of(table.batched[1], 0)->cost->time_us > 64 * 16 * 5.0);
  const Evaluation& many = *plain_of(table.batched[0], 0);
  CHECK(log_width(many.latency_interval_us) >= Approx(2.0 * 0.08));
  CHECK(log_width(many.latency_interval_us) <
        log_width(plain_of(assumed.batched[0], 0)->latency_interval_us));
  // On another machine's memory that is said, as much as it is.
  CHECK(batch_text(table).find("further") == std::string::npos);
  const PlanTable carried = plan(fit, hardware_by_key("h100-sxm"), target, options);
  CHECK(batch_text(carried).find("reach 7 % further") != std::string::npos);
  CHECK(log_width(plain_of(carried.batched[0], 0)->latency_interval_us) ==
        Approx(log_width(many.latency_interval_us) + 2.0 * 0.07));
  // However wide its numbers are, the sentence ends.
  fit.batch.log_latency = 700.0;
  const std::string wide = batch_text(fit, target.attention, hardware_by_key("h200-sxm"));
  CHECK(wide.size() > 960);
  CHECK(wide.substr(wide.size() - 15) == "(an assumption)");
  // Points of sparse targets say nothing of a dense one.
  CHECK(batch_text(fit, AttentionKind::kDense, hardware_by_key("h200-sxm")).find("assumptions") !=
        std::string::npos);
}

TEST_CASE("a step measured of one request says nothing of several") {
  FittedModel fit = fitted_by_hand(0.8, 0.9, true);
  const PlanOptions options = strict_options({1, 4});
  const LlmShape target = named_llm_shape("nsa-1b");
  const PlanTable before = plan(fit, hardware_by_key("h200-sxm"), target, options);
  fit.steps.push_back({.strategy = Strategy::parse("nsa/ar"),
                       .context_len = 2048,
                       .time_us = 50.0,
                       .predicted_us = 100.0,
                       .geometry = "nsa-1b"});
  const PlanTable after = plan(fit, hardware_by_key("h200-sxm"), target, options);
  CHECK(plain_of(after, 0)->throughput == Approx(2.0 * plain_of(before, 0)->throughput));
  CHECK(plain_of(after.batched[0], 0)->throughput == plain_of(before.batched[0], 0)->throughput);
}

TEST_CASE("requests that memory does not hold have no cells, and a sentence says how many do") {
  PlanOptions options = strict_options({1, 256});
  options.buckets = {{12288, 16384}};
  const PlanTable table = planned(options, "nsa-8b", "rtx4090");
  REQUIRE(table.memory.size() == 1);
  const MemoryNeed& need = table.memory[0];
  CHECK(need.weights == 2.0 * static_cast<double>(named_llm_shape("nsa-8b").parameter_count()));
  // Keys, values and raw keys of 16,384 tokens in 32 layers, and compressed tokens of them.
  CHECK(need.request > 3.0 * 16384 * 32 * 8 * 128 * 2.0);
  CHECK(need.requests() >= 1);
  CHECK(need.requests() < 256);
  CHECK(need.weights + need.draft + static_cast<double>(need.requests()) * need.request <=
        need.usable);
  CHECK(!table.entries.empty());
  const PlanTable& many = table.batched[0];
  CHECK(many.entries.empty());
  REQUIRE(many.unavailable.size() == 1);
  CHECK(many.unavailable[0].reason.find("256 requests of 16384 tokens do not fit") == 0);
  CHECK(many.unavailable[0].reason.find("fit into") != std::string::npos);
}

TEST_CASE("where a draft's weights do not fit beside the requests plain decoding is left") {
  PlanOptions options = strict_options({1, 2});
  options.buckets = {{12288, 16384}};
  const LlmShape target = named_llm_shape("nsa-8b");
  HardwareSpec machine = hardware_by_key("h200-sxm");
  const FittedModel fit = fitted_by_hand(0.8, 0.9, true);
  const CellPricer prices(fit, machine, target, options, 2);
  const MemoryNeed plain = prices.memory(plain_decoding(target), options.buckets[0]);
  machine.fields[static_cast<std::size_t>(HardwareField::kMemoryMib)].value =
      (plain.weights + 2.0 * plain.request) / kUsableMemory / 1024.0 / 1024.0 + 1.0;
  const PlanTable table = plan(fit, machine, target, options);
  CHECK(std::any_of(table.entries.begin(), table.entries.end(),
                    [](const PlanEntry& e) { return e.evaluation.strategy.draft.speculates(); }));
  REQUIRE(table.batched[0].entries.size() == 1);
  CHECK(!table.batched[0].entries[0].evaluation.strategy.draft.speculates());
  REQUIRE(table.batched[0].unavailable.size() == 1);
  CHECK(table.batched[0].unavailable[0].reason.find("some tuples are left out") == 0);
}

TEST_CASE("a bound between tokens leaves out what may not keep it, and says where nothing does") {
  PlanOptions options = strict_options({1, 4, 64});
  const PlanTable free = planned(options);
  const auto itl_of = [](const PlanTable& t) {
    return inter_token_interval_ms(best_of(t, 0, PrecisionClass::kStrict)->evaluation,
                                   t.concurrency);
  };
  // All that four can keep, and sixty-four cannot.
  const double bound = 1.001 * itl_of(free.batched[0]).high;
  REQUIRE(itl_of(free.batched[1]).high > bound);
  options.aims.itl_ms = bound;
  const PlanTable table = planned(options);
  for (const PlanTable* of : by_concurrency(table)) {
    for (const PlanEntry& e : of->entries) {
      CHECK(inter_token_interval_ms(e.evaluation, of->concurrency).high <= bound);
    }
  }
  CHECK(!table.batched[0].entries.empty());
  CHECK(table.batched[1].entries.empty());
  REQUIRE(table.batched[1].unavailable.size() == 1);
  CHECK(table.batched[1].unavailable[0].reason.find("no tuple keeps") == 0);
  const OperatingPoint point = operating_point(table, 0, PrecisionClass::kStrict);
  REQUIRE(point.entry != nullptr);
  CHECK(point.table->concurrency == 4);
  CHECK(operating_point(free, 0, PrecisionClass::kStrict).table->concurrency == 64);
}

TEST_CASE("kinds of draft switch where the next one yields more") {
  const FittedModel fit = fitted_to_products();
  const LlmShape target = named_llm_shape("nsa-1b");
  const PlanOptions options = strict_options({1, 16, 512});
  const PlanTable table = plan(fit, hardware_by_key("h200-sxm"), target, options);
  REQUIRE(table.switches.size() == 2);
  CHECK(draft_kind_of(table.switches[0].from) == DraftKind::kTree);
  CHECK(draft_kind_of(table.switches[1].to) == DraftKind::kPlain);
  CHECK(table.switches[0].requests <= table.switches[1].requests);
  for (const SwitchPoint& s : table.switches) {
    CAPTURE(text_of(s, table));
    CHECK(s.requests >= 2);
    CHECK(s.low <= s.requests);
    CHECK((s.high == 0 || s.high >= s.requests));
    CHECK(draft_kind_of(s.from) != draft_kind_of(s.to));
    CHECK(draft_kind_of(s.from) != DraftKind::kPlain);
    std::string note;
    const auto yields = [&](const Strategy& strategy, std::int64_t requests) {
      return CellPricer(fit, hardware_by_key("h200-sxm"), target, options, requests)
          .evaluate(strategy, options.buckets[0], note)
          .throughput;
    };
    CHECK(yields(s.to, s.requests) >= yields(s.from, s.requests));
    CHECK(yields(s.to, s.requests - 1) < yields(s.from, s.requests - 1) * 1.05);
  }
  CHECK(planned(strict_options({1})).switches.empty());
}

TEST_CASE("classes that are left out of a table leave its cells of several requests too") {
  PlanOptions options = strict_options({1, 4});
  options.classes = {PrecisionClass::kStrict, PrecisionClass::kApproxOnly};
  const PlanTable strict = of_classes(planned(options), {PrecisionClass::kStrict});
  REQUIRE(strict.batched.size() == 1);
  CHECK(!strict.batched[0].entries.empty());
  for (const PlanEntry& e : strict.batched[0].entries) {
    CHECK(e.precision == PrecisionClass::kStrict);
  }
}

TEST_CASE("what is not known of times puts no Strict tuple's break-even below one token") {
  const auto told = [](const char* strategy, double us) {
    Evaluation e;
    e.strategy = Strategy::parse(strategy);
    e.cost = StepCost{.time_us = us};
    e.throughput = 1e6 / us;
    e.latency_interval_us = {us / 3.0, us * 3.0};
    e.throughput_interval = {e.throughput / 3.0, e.throughput * 3.0};
    return e;
  };
  const Evaluation plain = told("nsa/ar", 100.0);
  const Speculation strict = speculation_of(told("nsa/d3k1n4/bfs/c1/F*", 150.0), plain);
  CHECK(strict.break_even_interval.low == 1.0);
  CHECK(strict.break_even_interval.high > 3.0);
  // Fewer blocks are read where some are reused: that may take less time.
  CHECK(speculation_of(told("nsa/d3k1n4/bfs/c1/(FR)*", 150.0), plain).break_even_interval.low <
        1.0);
}
