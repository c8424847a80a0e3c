// The file for a serving engine: its settings under comments that say which tuple they are of, what
// that tuple yields, what was lost on the way, and where the numbers come from.

#include "engine/analyse/plan/deployment.h"
#include "engine/analyse/plan/entry_aims.h"
#include "engine/analyse/plan/yaml_text.h"
#include "engine/io/formatted.h"

namespace versieve::engine {
namespace {

std::string decimal(double value, const char* form = "%.1f") {
  return formatted(form, value);
}

std::string with_interval(double value, const Interval& i, const char* form = "%.1f") {
  return decimal(value, form) + " [" + decimal(i.low, form) + ", " + decimal(i.high, form) + "]";
}

std::string draft_text(const DraftChoice& d) {
  return "depth " + std::to_string(d.depth) + ", width " + std::to_string(d.width) + ", " +
         std::to_string(d.nodes) + " nodes";
}

// Per cent of the best's throughput.
std::string less_than_best(const DeploymentChoice& choice, double throughput) {
  return decimal(100.0 * (1.0 - throughput / choice.best->evaluation.throughput)) + " % less";
}

// What its entries were chosen by, where that is more than tokens a second.
std::string aims_line(const PlanTable& t) {
  const bool energy = t.aims.objective == Objective::kEnergy;
  if (!energy && !t.aims.bounds()) {
    return "";
  }
  const std::string kept =
      t.aims.bounds() ? ", and only those are listed that 90 % of such requests see" +
                            within_text(t.aims)
                      : "";
  return yaml_comment(std::string("Objective ") + objective_of(t.aims) +
                      ": entries are ranked by tokens " + (energy ? "a joule" : "a second") + kept +
                      ".");
}

std::string head(const PlanTable& t, const ServingEngine& engine) {
  return yaml_comment(std::string("Speculative decoding for ") + engine.name +
                      ", from a planner table of versieve, schema " +
                      std::to_string(PlanTable::kSchema) + ".") +
         yaml_comment(std::string("Use: ") + engine.command) +
         yaml_comment(std::string("Written for ") + engine.name + " " + engine.versions +
                      ": names and rules are those of its argument reader, and no server was "
                      "started. Hold them against the help text of yours.") +
         "#\n" +
         yaml_comment("Planned for " + t.hardware + ", geometry " + t.model + " (" + t.dtype +
                      ", " + t.launch + " launches): " + t.provenance_note + ".") +
         yaml_comment("Acceptance: " + acceptance_text(t) +
                      ". All numbers are of versieve's own kernels, one request at a "
                      "time; they rank drafts for " +
                      engine.name + " and do not predict its speed.") +
         aims_line(t) + (t.sources ? yaml_comment("Evidence of " + sources_text(t) + ".") : "");
}

std::string source_line(const DeploymentChoice& c, const DeploymentWish& wish) {
  const std::string place = " for contexts of " + name_of(*c.bucket) + " tokens";
  const std::string tuple = "Tuple: " + c.evaluation->strategy.text() + ", ";
  if (c.entry != nullptr || c.is_cut()) {
    const PlanEntry& e = c.entry != nullptr ? *c.entry : *c.best;
    return yaml_comment(tuple + "rank " + std::to_string(e.rank) + " of class " +
                        name_of(wish.precision) + place + ".") +
           (e.note.empty() ? "" : yaml_comment("Its note: " + e.note + "."));
  }
  return yaml_comment(tuple + "a baseline" + place + ": none of the entries of class " +
                      name_of(wish.precision) + " can be taken.");
}

std::string numbers_line(const PlanTable& t, const Evaluation& v) {
  return yaml_comment(
      std::string("Its numbers (") + name_of(v.source) + ", intervals 90 % for " +
      requests_text(t.requests) + "): " + with_interval(v.throughput, v.throughput_interval) +
      " accepted tokens/s; " + with_interval(v.expected_accepted, v.accepted_interval, "%.2f") +
      " tokens a step of " + with_interval(v.cost->time_us, v.latency_interval_us) + " us.");
}

std::string loss_line(const ServingEngine& engine, const DeploymentChoice& c) {
  if (c.entry == c.best) {
    return yaml_comment("It is the best of its class and contexts.");
  }
  const Evaluation& best = c.best->evaluation;
  const Evaluation& last = c.last->evaluation;
  const std::string limit =
      std::string(engine.name) + " cannot take it: " +
      (best.strategy.drafts_itself
           ? "none of its settings drafts by the target's own steps over chosen blocks"
       : best.strategy.adapts_length
           ? "it drafts chains of one length, or chooses by a rule of its own"
           : engine.limit) +
      ".";
  if (c.is_cut()) {
    return yaml_comment(limit + " Nor any other that is listed. Cut to " + draft_text(c.draft) +
                        ", for which the table has no number; the lowest that it lists has " +
                        decimal(last.throughput) + " tokens/s (" + name_of(last.source) + "), " +
                        less_than_best(c, last.throughput) + ": expect to lose at least that.");
  }
  return yaml_comment("The best is " + best.strategy.text() + " with " +
                      with_interval(best.throughput, best.throughput_interval) + " tokens/s (" +
                      name_of(best.source) + "). " + limit + " What is taken yields " +
                      less_than_best(c, c.evaluation->throughput) + ".");
}

std::string budget_line(const ServingEngine& engine, const DraftChoice& d) {
  return yaml_comment("A step verifies " + std::to_string(d.nodes) + " nodes with the root, " +
                      std::to_string(d.nodes - 1) + " without it; " + engine.name +
                      (engine.counts_root ? " counts the root." : " does not count the root."));
}

// What follows the draft in a strategy's text: order, group, schedule, options.
std::string tail_of(const Strategy& s) {
  const std::string text = s.text();
  const std::size_t draft = text.find('/');
  const std::size_t tail = text.find('/', draft + 1);
  return tail == std::string::npos ? "" : text.substr(tail + 1);
}

std::string dropped_tuple(const ServingEngine& engine, const Strategy& s) {
  const std::string tail = tail_of(s);
  return yaml_comment(
      std::string("Dropped, having no counterpart: attention ") + name_of(s.attention) + " (" +
      engine.name + " verifies with the target's own)" +
      (tail.empty() ? ""
                    : "; traversal order, group, schedule and options " + tail +
                          " (c: queries that share loads, e exact, a approximate; F "
                          "refreshes a layer's blocks, R reuses them)") +
      ".");
}

// Reuse, approximate groups and chosen tokens are what those classes are about.
std::string dropped_promise(const ServingEngine& engine, const Evaluation& v) {
  const PrecisionClass precision = v.strategy.precision();
  if (precision == PrecisionClass::kStrict || v.strategy.sampling == SamplingAlgorithm::kSigmoid) {
    return "";
  }
  const bool chooses = v.strategy.attention == AttentionMethod::kSpecAttn ||
                       v.strategy.attention == AttentionMethod::kIndexer;
  return yaml_comment(
      std::string("The numbers count on what is dropped (") + name_of(precision) + ": " +
      loss_of(precision) + "). " + engine.name + " keeps the stronger promise of Strict" +
      (chooses ? std::string(" and reads all tokens at each step: ") + engine.other_attention + "."
               : ", and a draft chosen in that class suits it better."));
}

// Whose rule says which drafted tokens stay.
std::string acceptance_line(const ServingEngine& engine, const DeploymentFacts& facts) {
  if (!facts.tests_by_sigmoids) {
    return yaml_comment(
        "Acceptance stays the engine's exact rule: no threshold and no relaxed rule is "
        "set, and none belongs here.");
  }
  return yaml_comment(std::string("LOSSY: ") + engine.keeping +
                      ". The table's loss is of sigmoids, and nobody measured this setting's.");
}

std::string dropped_table(const PlanTable& t, const DeploymentChoice& c) {
  std::string others;
  for (const ContextBucket& b : t.buckets) {
    others += b == *c.bucket ? "" : (others.empty() ? "" : ", ") + name_of(b);
  }
  const GuardConstants& g = t.guard;
  return yaml_comment("Dropped, because one setting serves all requests: the other contexts (" +
                      (others.empty() ? "none" : others) +
                      "), classes and ranks, and the guard (alpha " + decimal(g.alpha, "%g") +
                      ", drop ratio " + decimal(g.drop_ratio, "%g") + ", warm-up " +
                      std::to_string(g.warmup) + ", hysteresis " + std::to_string(g.hysteresis) +
                      ", at most " + std::to_string(g.max_transitions) + " transitions).");
}

std::string batch_line(const DeploymentFacts& facts, const std::string& hardware) {
  if (!facts.batch_limit) {
    return yaml_comment("No limit of the batch is known for " + hardware +
                        ", which is not in the catalogue: larger batches want fewer nodes.");
  }
  const std::string limit = std::to_string(*facts.batch_limit);
  return yaml_comment(
      "Up to " + limit + (limit == "1" ? " request" : " requests") +
      " at once the products of weights are bound by bandwidth on " + hardware + "; beyond, " +
      std::to_string(facts.draft.nodes) +
      " nodes a request cost time of their own, which the numbers above do not count.");
}

std::string draft_caution(const ServingEngine& engine, const DeploymentFacts& facts) {
  return facts.draft_model.empty()
             ? yaml_comment(
                   std::string("NOT COMPLETE: a table does not know where the draft's weights "
                               "are. Their path replaces the text in <>, which ") +
                   engine.name + " cannot load; export --draft-model writes it.")
             : "";
}

std::string settings(const ServingEngine& engine, const DeploymentChoice& c,
                     const DeploymentFacts& facts, const std::string& hardware) {
  if (!c.draft.speculates()) {
    // An empty mapping: a file of comments alone is refused by some of the readers.
    return yaml_comment(
               "Plain decoding is the fastest that it can take, so nothing is set here and "
               "speculation stays off.") +
           "{}\n";
  }
  const std::string caution = engine.caution(facts);
  return budget_line(engine, c.draft) + batch_line(facts, hardware) +
         acceptance_line(engine, facts) + (caution.empty() ? "" : yaml_comment(caution)) +
         draft_caution(engine, facts) + "\n" + engine.settings(facts) +
         (facts.tests_by_sigmoids ? engine.keeps_drafted : "");
}

}  // namespace

std::string deployment_file(const PlanTable& table, const ServingEngine& engine,
                            const DeploymentWish& wish) {
  const DeploymentChoice choice = chosen_deployment(table, engine, wish);
  const Evaluation& taken = *choice.evaluation;
  return head(table, engine) + "#\n" + source_line(choice, wish) + numbers_line(table, taken) +
         loss_line(engine, choice) + dropped_tuple(engine, taken.strategy) +
         dropped_promise(engine, taken) + dropped_table(table, choice) +
         settings(engine, choice, facts_of(table, choice, wish), table.hardware);
}

}  // namespace versieve::engine
