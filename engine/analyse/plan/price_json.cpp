#include "engine/analyse/plan/price_json.h"

#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

void add_estimate(const std::string& name, const Estimate95& e, ordered_json& out) {
  out[name] = e.value;
  out[name + "_95"] = ordered_json::array({e.low, e.high});
}

Estimate95 estimate_at(const json& in, const std::string& name) {
  const json& ends = in.at(name + "_95");
  const Estimate95 out = {in.at(name).get<double>(), ends.at(0).get<double>(),
                          ends.at(1).get<double>()};
  if (!(out.low <= out.value && out.value <= out.high)) {
    throw Error(ExitCode::kBadInput, "an interval of " + name + " does not hold its value");
  }
  return out;
}

std::int64_t count_at(const json& in, const char* name) {
  const json& value = in.at(name);
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
    throw Error(ExitCode::kBadInput, value.dump() + " stands where a count is needed");
  }
  return value.get<std::int64_t>();
}

ordered_json json_of(const TaskPrice& task) {
  const QualityAnswers& a = task.answers;
  ordered_json out = {{"set", task.set},
                      {"questions", a.questions},
                      {"right", a.right},
                      {"gained", a.gained},
                      {"lost", a.lost}};
  add_estimate("accuracy", a.accuracy, out);
  add_estimate("accuracy_change", a.change, out);
  return out;
}

TaskPrice task_of(const json& in) {
  return {in.at("set").get<std::string>(),
          {.questions = count_at(in, "questions"),
           .right = count_at(in, "right"),
           .gained = count_at(in, "gained"),
           .lost = count_at(in, "lost"),
           .accuracy = estimate_at(in, "accuracy"),
           .change = estimate_at(in, "accuracy_change")}};
}

PriceFrom from_of(const std::string& text) {
  for (std::size_t i = 0; i < kPriceFromCount; ++i) {
    const PriceFrom from = static_cast<PriceFrom>(i);
    if (text == name_of(from) && from != PriceFrom::kUnmeasured) {
      return from;
    }
  }
  throw Error(ExitCode::kBadInput, "the word '" + text + "' is unknown");
}

}  // namespace

ordered_json price_json(const LossPrice& p) {
  if (!p.is_known()) {
    return nullptr;
  }
  ordered_json out = {{"from", name_of(p.from)}};
  add_estimate("kl_nats", p.kl_nats, out);
  add_estimate("loss_rise_nats", p.rise_nats, out);
  add_estimate("same_token", p.same_token, out);
  if (p.from == PriceFrom::kConstruction) {
    return out;
  }
  out["tokens"] = p.tokens;
  out["sets"] = p.sets;
  out["split"] = p.split;
  out["pair"] = p.pair.name;
  out["pair_sha256"] = p.pair.sha256;
  out["price_of"] = p.price_of.empty() ? ordered_json(nullptr) : ordered_json(p.price_of);
  out["tasks"] = ordered_json::array();
  for (const TaskPrice& task : p.tasks) {
    out["tasks"].push_back(json_of(task));
  }
  return out;
}

LossPrice read_price(const json& entry, const Strategy& strategy) {
  LossPrice out;
  if (!entry.contains("price") || entry.at("price").is_null()) {
    if (strategy.precision() == PrecisionClass::kStrict) {
      return price_by_construction();
    }
    const bool says = entry.contains("price_unmeasured");
    out.unmeasured_because = says ? entry.at("price_unmeasured").get<std::string>()
                                  : "the table is older than prices of losses";
    return out;
  }
  const json& in = entry.at("price");
  out.from = from_of(in.at("from").get<std::string>());
  out.kl_nats = estimate_at(in, "kl_nats");
  out.rise_nats = estimate_at(in, "loss_rise_nats");
  out.same_token = estimate_at(in, "same_token");
  if (out.from == PriceFrom::kConstruction) {
    return out;
  }
  out.pair = {in.at("pair").get<std::string>(), in.at("pair_sha256").get<std::string>()};
  out.price_of = in.at("price_of").is_null() ? "" : in.at("price_of").get<std::string>();
  out.sets = in.at("sets").get<std::string>();
  out.split = in.at("split").get<std::string>();
  out.tokens = count_at(in, "tokens");
  for (const json& task : in.at("tasks")) {
    out.tasks.push_back(task_of(task));
  }
  return out;
}

}  // namespace versieve::engine
