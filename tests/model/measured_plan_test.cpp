// What a plan says of what was measured: tuples and steps on their own machine, other machines by
// scaling or by measured rates, and whose form, draft and geometry a step speaks of.
#include "model/plan/planner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "model/launches/step_composition.h"
#include "model/words/error.h"
#include "tests/model/planner_case.h"

using namespace versieve;
using synthetic::fitted_by_hand;
using test::first_baselines;
using test::first_bucket;
using test::planned;

TEST_CASE("a measured tuple is quoted as measured, and only on the machine that measured it") {
  FittedModel fit = fitted_by_hand();
  const PlanTable before = planned(fit, first_bucket());
  const Strategy best = before.entries.at(0).evaluation.strategy;
  const double predicted = before.entries.at(0).evaluation.cost->time_us;
  fit.acceptance.measured.push_back({best.draft, Traversal::kBfs, "F*", 2048, 6.0, 0.05, 500});
  Strategy measured = best;
  measured.form = NsaForm::kVanilla;  // as the fit says of the steps of a device without the other
  fit.steps.push_back({measured, 2048, predicted * 1.1, 0.005, predicted, Provenance::kMeasured,
                       kPublishedDraftVocab, "nsa-1b"});
  const auto find = [&](const PlanTable& table) {
    return *std::find_if(table.entries.begin(), table.entries.end(), [&](const PlanEntry& e) {
      return e.bucket == 0 && e.evaluation.strategy == best;
    });
  };
  const PlanEntry here = find(planned(fit, first_bucket()));
  CHECK(here.evaluation.source == Provenance::kMeasured);
  CHECK(here.evaluation.expected_accepted == Approx(6.0));
  CHECK(here.evaluation.cost->time_us == Approx(predicted * 1.1));
  const PlanTable elsewhere =
      plan(fit, hardware_by_key("h100-sxm"), named_llm_shape("nsa-1b"), first_bucket());
  CHECK(elsewhere.scaled);
  CHECK(elsewhere.evidence == Provenance::kPredicted);
  CHECK(elsewhere.provenance_note.find("scaled") != std::string::npos);
  for (const PlanEntry& e : elsewhere.entries) {
    CHECK(e.evaluation.source == Provenance::kPredicted);
  }
}

TEST_CASE("another machine gets wider intervals, another chip much wider ones") {
  const FittedModel fit = fitted_by_hand();
  const auto width = [&](const HardwareSpec& hardware) {
    const Interval us = plan(fit, hardware, named_llm_shape("nsa-1b"), first_baselines())
                            .baselines.at(0)
                            .evaluation.latency_interval_us;
    return 0.5 * std::log(us.high / us.low);
  };
  const double here = width(hardware_by_key("h200-sxm"));
  CHECK(width(hardware_by_key("h100-sxm")) == Approx(here + 0.05));  // the same SMs
  CHECK(width(hardware_by_key("h100-pcie")) == Approx(here + 0.30));
  CHECK(width(hardware_by_key("b200")) == Approx(here + 0.30));
  // Of the other systems fewer points judged that.
  CHECK(fit.carried_system_half_width(hardware_by_key("h200-sxm")) == 0.0);
  CHECK(fit.carried_system_half_width(hardware_by_key("h100-sxm")) == Approx(0.10));
  CHECK(fit.carried_system_half_width(hardware_by_key("b200")) == Approx(0.30));
  CHECK(fit.carried_batch_half_width(hardware_by_key("h200-sxm")) == 0.0);
  CHECK(fit.carried_batch_half_width(hardware_by_key("h100-sxm")) == Approx(0.07));
  CHECK(fit.carried_batch_half_width(hardware_by_key("b200")) == Approx(0.30));
  // The same SMs with memories farther apart than those two machines': in proportion, and never
  // more than another chip.
  HardwareSpec what_if = hardware_by_key("h200-sxm");
  what_if.key = "what-if";
  const auto set = [&](HardwareField field, double value) {
    what_if.fields[static_cast<std::size_t>(field)].value = value;
  };
  const double sheet = what_if[HardwareField::kRawBandwidthGbps];
  set(HardwareField::kRawBandwidthGbps, 1.1 * sheet);
  CHECK(width(what_if) == Approx(here + 0.05));
  set(HardwareField::kRawBandwidthGbps, sheet * std::pow(4917.0 / 3352.0, 2.0));
  CHECK(width(what_if) == Approx(here + 0.10).epsilon(0.01));
  set(HardwareField::kRawBandwidthGbps, 100.0 * sheet);
  CHECK(width(what_if) == Approx(here + 0.30));
  set(HardwareField::kRawBandwidthGbps, sheet);
  set(HardwareField::kL2Mib, 120.0);
  CHECK(width(what_if) > here + 0.15);
}

TEST_CASE("a carried plan says how much further its intervals reach, other systems' apart") {
  FittedModel fit = fitted_by_hand();
  const auto note = [&](const char* machine) {
    return plan(fit, hardware_by_key(machine), named_llm_shape("nsa-1b"), first_baselines())
        .provenance_note;
  };
  const auto says = [&](const char* machine, const char* words) {
    return note(machine).find(words) != std::string::npos;
  };
  fit.systems.clear();
  CHECK(says("h100-sxm", "so intervals reach 5 % further than the fit's;"));
  fit.systems.push_back({});
  CHECK(says("h100-sxm", "so intervals reach 5 % further than the fit's (of other systems 11 %);"));
  CHECK(says("b200", "so intervals reach 35 % further than the fit's;"));  // of all alike
  CHECK(!says("h200-sxm", "further"));
}

TEST_CASE("a fit that began at another machine's prices its own by the scale between them") {
  FittedModel fit = fitted_by_hand();
  fit.machine = {.read = 0.8};
  const HardwareSpec& h100 = hardware_by_key("h100-sxm");
  fit.prior = PriorFit{"NVIDIA H100", 1, {}, {.read = 0.9, .graph_gap = 1.5}};
  CHECK(fit.priced_on(hardware_by_key("h200-sxm")).scale ==
        RateScale{.read = 0.9, .graph_gap = 1.5});
  HardwareSpec measured = h100;
  measured.key = "measured";
  measured.measured = {{"read_rate", {0.4 * h100.raw_bandwidth() * 1e-9, "a test", true}}};
  CHECK(fit.priced_on(measured).scale.read == Approx(0.5 * 0.9));
  CHECK(fit.priced_on(measured).scale.graph_gap == Approx(1.5));
  const double us = predicted_step_us(fit, hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"),
                                      Strategy::parse("nsa/ar"), 16384);
  fit.prior->scale.read = 0.45;
  CHECK(predicted_step_us(fit, hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"),
                          Strategy::parse("nsa/ar"), 16384) > 1.25 * us);
}

TEST_CASE("a machine whose rates were measured is priced by them, with intervals in between") {
  FittedModel fit = fitted_by_hand();
  fit.machine = {.read = 0.86,
                 .copy = 0.81,
                 .l2 = 20.0,
                 .products = 7.5,
                 .graph_launch = 0.75,
                 .stream_launch = 5.0};
  const LlmShape target = named_llm_shape("nsa-1b");
  // Its own data sheet, but half of the rates that the fit's machine gave of the same sheet.
  HardwareSpec slow = hardware_by_key("h200-sxm");
  slow.key = "slow";
  const PlanTable by_sheet = plan(fit, slow, target, first_baselines());
  const MachineShares& of_fit = fit.machine;
  const double clocks = slow[HardwareField::kSmCount] * slow.l2_clock_hz();
  for (const auto& [name, value] :
       {std::pair{"read_rate", 0.5e-9 * of_fit.read * slow.raw_bandwidth()},
        {"l2_copy_rate", 0.5e-9 * of_fit.l2 * clocks},
        {"gemm_rate", 0.5e-12 * of_fit.products * slow.fp32_flops()},
        {"graph_launch", 2.0 * of_fit.graph_launch},
        {"stream_launch", 2.0 * of_fit.stream_launch}}) {
    slow.measured.push_back({name, {value, "here", true}});
  }
  const PlanTable measured = plan(fit, slow, target, first_baselines());
  CHECK(!by_sheet.calibrated);
  CHECK(measured.calibrated);
  CHECK(measured.provenance_note.find("rates measured there") != std::string::npos);
  const auto width = [](const PlanTable& table) {
    const Interval us = table.baselines.at(0).evaluation.latency_interval_us;
    return std::log(us.high / us.low);
  };
  const PlanTable own = plan(fit, hardware_by_key("h200-sxm"), target, first_baselines());
  CHECK(width(own) < width(measured));
  CHECK(width(measured) < width(by_sheet));
  const double slower = measured.baselines.at(0).evaluation.cost->time_us /
                        by_sheet.baselines.at(0).evaluation.cost->time_us;
  CHECK(slower > 1.3);
  CHECK(slower < 2.001);
}

TEST_CASE("the same inputs give the same table") {
  const PlanTable a = planned(fitted_by_hand());
  const PlanTable b = planned(fitted_by_hand());
  REQUIRE(a.entries.size() == b.entries.size());
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    CHECK(a.entries[i].evaluation.strategy == b.entries[i].evaluation.strategy);
    CHECK(a.entries[i].evaluation.throughput == b.entries[i].evaluation.throughput);
  }
}

TEST_CASE("a table is about the form whose launches were measured, and says which") {
  const PlanTable vanilla = planned(fitted_by_hand(), first_bucket());
  CHECK(vanilla.form == NsaForm::kVanilla);
  CHECK(vanilla.provenance_note.find("vanilla launches, as the fused") != std::string::npos);
  const PlanTable fused = planned(fitted_by_hand(0.8, 0.9, true), first_bucket());
  CHECK(fused.form == NsaForm::kFused);
  CHECK(fused.provenance_note.find("by the fused launches") != std::string::npos);
  // Groups change what the fused launches load, so they are candidates of their own.
  CHECK(fused.runnable > 3 * vanilla.runnable);
  const PlanBaseline& before = vanilla.baselines.at(1);
  const PlanBaseline& after = fused.baselines.at(1);
  REQUIRE(before.evaluation.strategy == after.evaluation.strategy);
  CHECK(after.evaluation.cost->launches < before.evaluation.cost->launches - 2 * 16);
}

TEST_CASE("a step measured with one form's launches says nothing about the other's") {
  FittedModel fit = fitted_by_hand(0.8, 0.9, true);
  const Strategy ar = Strategy::parse("nsa/ar");
  Strategy old = ar;
  old.form = NsaForm::kVanilla;
  const auto plain_us = [&] {
    return planned(fit, first_baselines()).baselines.at(0).evaluation.cost->time_us;
  };
  const double predicted = plain_us();
  fit.steps.push_back(
      {old, 2048, predicted * 2.0, 0.005, predicted, Provenance::kMeasured, 0, "nsa-1b"});
  CHECK(plain_us() == Approx(predicted));
  fit.steps.push_back(
      {ar, 2048, predicted * 1.1, 0.005, predicted, Provenance::kMeasured, 0, "nsa-1b"});
  CHECK(plain_us() == Approx(1.1 * predicted));
}

TEST_CASE("a measured step speaks of pairs whose draft proposes as many tokens") {
  FittedModel fit = fitted_by_hand(0.8, 0.9, true);
  const Strategy fixed = Strategy::parse(PlanOptions{}.baseline);
  const auto time_with = [&](std::int64_t draft_vocab) {
    PlanOptions options = first_baselines();
    options.draft = draft_shape_for(named_llm_shape("nsa-1b"));
    options.draft->vocab = draft_vocab;
    return planned(fit, options).baselines.at(1).evaluation.cost->time_us;
  };
  const auto note_with = [&](const std::string& model) {
    PlanOptions options = first_baselines();
    options.draft = draft_shape_for(named_llm_shape(model));
    return planned(fit, options).provenance_note;
  };
  const double all = time_with(128256);
  const double some = time_with(32000);
  const double fewer = time_with(16000);
  CHECK_THAT(note_with("nsa-1b:v32000"), Catch::EndsWith("tokens, which no measured step does"));
  const auto add_step = [&](double factor, std::int64_t draft_vocab) {
    fit.steps.push_back({fixed, 2048, 1000.0 * factor, 0.005, 1000.0, Provenance::kMeasured,
                         draft_vocab, "nsa-1b"});
  };
  add_step(1.1, 0);
  CHECK(time_with(128256) == Approx(1.1 * all));
  CHECK(time_with(32000) == Approx(some));
  add_step(1.3, 32000);
  CHECK(time_with(128256) == Approx(1.1 * all));
  CHECK(time_with(32000) == Approx(1.3 * some));
  CHECK(time_with(16000) == Approx(fewer));
  CHECK_THAT(note_with("nsa-1b:v32000"), Catch::EndsWith("proposes 32000 of 128256 tokens"));
  CHECK_THAT(note_with("nsa-1b:v16000"), Catch::EndsWith("tokens, which no measured step does"));
  // A target that names its draft is planned with it.
  const auto named = [&](const LlmShape& target) {
    return plan(fit, hardware_by_key("h200-sxm"), target, first_baselines())
        .baselines.at(1)
        .evaluation.cost->time_us;
  };
  LlmShape target = named_llm_shape("nsa-1b:v32000");
  target.name = "nsa-1b";
  CHECK(named(target) == Approx(1.3 * some));
}

TEST_CASE("a plan quotes the steps of its own geometry, and says which it borrows") {
  FittedModel fit = fitted_by_hand(0.8, 0.9, true);
  const auto planned_for = [&](const std::string& geometry) {
    return plan(fit, hardware_by_key("h200-sxm"), named_llm_shape(geometry), first_baselines());
  };
  const auto plain_us = [](const PlanTable& table) {
    return table.baselines.at(0).evaluation.cost->time_us;
  };
  const double large = plain_us(planned_for("nsa-8b"));
  const double small = plain_us(planned_for("nsa-1b"));
  const auto add_step = [&](const std::string& geometry, double factor) {
    fit.steps.push_back({Strategy::parse("nsa/ar"), 2048, 1000.0 * factor, 0.005, 1000.0,
                         Provenance::kMeasured, 0, geometry});
  };
  add_step("nsa-1b", 1.2);
  add_step("nsa-1b", 1.2);
  PlanTable table = planned_for("nsa-8b");
  CHECK(plain_us(table) == Approx(large));
  CHECK(table.sources->times == EvidenceFrom::kBorrowed);
  CHECK(table.sources->times_of == "nsa-1b");
  CHECK(table.sources->timed_steps == 2);
  add_step("nsa-8b", 1.5);
  table = planned_for("nsa-8b");
  CHECK(plain_us(table) == Approx(1.5 * large));
  CHECK(table.sources->times == EvidenceFrom::kOwn);
  CHECK(table.sources->times_of == "nsa-8b");
  CHECK(table.sources->timed_steps == 1);
  CHECK(plain_us(planned_for("nsa-1b")) == Approx(1.2 * small));
  CHECK(planned_for("nsa-1b").sources->timed_steps == 2);
}
