// Strategies that are composed once yield on every machine what the pricer says.
#include "model/plan/candidate_prices.h"

#include <catch2/catch.hpp>

#include "model/plan/tuple_pricer.h"
#include "tests/support/planned.h"

using namespace versieve;

TEST_CASE("candidates composed once are priced on machine after machine as the pricer does") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  const LlmShape& target = named_llm_shape("nsa-1b");
  const DraftShape draft = usual_draft(target);
  const ContextBucket bucket = parse_buckets("4096-8192").front();
  CandidatePrices prices(fit, target, draft, bucket);
  for (const double factor : {0.5, 1.0, 3.0}) {
    HardwareSpec machine = hardware_by_key("h200-sxm");
    machine.key += " turned";
    machine.fields[static_cast<std::size_t>(HardwareField::kRawBandwidthGbps)].value *= factor;
    for (const std::int64_t concurrency : {1, 4}) {
      const Pricer pricer(fit, machine, target, draft, kUsualRequests, concurrency);
      for (const char* text : {"nsa/ar", "nsa/d6k8n64/dfs/c4e/F*", "nsa/d3k1n4/bfs/c1/(FR)*",
                               "nsa/d15k1n16/bfs/c1/F*/gamma=adapt"}) {
        const Strategy strategy = Strategy::parse(text);
        std::string note;
        CAPTURE(factor, concurrency, text);
        CHECK(prices.throughput(strategy, machine, concurrency) ==
              Approx(pricer.evaluate(strategy, bucket, note).throughput).epsilon(1e-12));
      }
    }
  }
}
