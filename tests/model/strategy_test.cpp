// Strategy text: one canonical form, every refusal names the part.
#include "model/strategy.h"

#include <catch2/catch.hpp>

#include "model/error.h"

using namespace versieve;

TEST_CASE("canonical strategy texts are read back to themselves") {
  for (const char* text :
       {"nsa/ar", "nsa/ar/bfs/c1/(FR)*", "dense/ar", "nsa/d6k8n64/dfs/c4e/(FR)*",
        "nsa/d7k1n8/bfs/c1/F*", "nsa/d6k8n64/dfs/c8a/FRRFRRFR", "resa:b16p0.1f32/ar",
        "specattn:p0.97/d4k2n8/bfs/c1/F*", "nsa/d6k8n64/dfs/c4e/(FRR)*/topk=gvr/sampling=exact",
        "nsa/d2k2n4/bfs/c1/F*/sampling=greedy", "nsa/ar/bfs/c1/F*/form=vanilla",
        "nsa/d2k2n4/bfs/c1/(FR)*/topk=gvr/form=vanilla"}) {
    CAPTURE(text);
    CHECK(Strategy::parse(text).text() == text);
  }
}

TEST_CASE("texts that are not canonical are refused, not repaired") {
  for (const char* text : {"",
                           "nsa",
                           "nsa/",
                           "nsa/AR",
                           "NSA/ar",
                           " nsa/ar",
                           "nsa/ar ",
                           "nsa/ar/bfs/c1/F*",
                           "nsa/ar/dfs/c1/F*",
                           "nsa/d6k8n64",
                           "nsa/d6k8n64/dfs",
                           "nsa/d06k8n64/dfs/c4e/F*",
                           "nsa/d6k8n64/dfs/c4/F*",
                           "nsa/d6k8n64/dfs/c1e/F*",
                           "nsa/d6k8n64/dfs/c3e/F*",
                           "nsa/d6k8n64/dfs/c4e/R*",
                           "nsa/d6k8n64/dfs/c4e/(FRFR)*",
                           "nsa/d6k8n64/dfs/c4e/(F)*",
                           "nsa/d6k8n64/dfs/c4e/FR*",
                           "nsa/d6k8n64/dfs/c4e/",
                           "nsa/d6k8n64/dfs/c4e/F*/",
                           "nsa/d6k8n64/dfs/c4e/F*/topk=heap",
                           "nsa/d6k8n64/dfs/c4e/F*/sampling=exact/topk=gvr",
                           "nsa/d6k8n64/dfs/c4e/F*/topk=gvr/topk=gvr",
                           "nsa/d2k2n4/bfs/c1/F*/form=fused",
                           "nsa/d2k2n4/bfs/c1/F*/form=vanilla/topk=gvr",
                           "resa:b16p0.10f32/ar",
                           "resa:b16p0f32/ar",
                           "specattn:p1.5/ar",
                           "nsa/d1k1n3/bfs/c1/F*",
                           "nsa/d99999999999999999999k1n3/bfs/c1/F*",
                           "nsa/d-1k1n3/bfs/c1/F*",
                           "nsa/d6k8n300/dfs/c1/F*"}) {
    CAPTURE(text);
    try {
      Strategy::parse(text);
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::kUsage);
      CHECK(std::string(e.what()).find("strategy '") == 0);
    }
  }
}

TEST_CASE("the precision class follows from grouping and schedule") {
  CHECK(Strategy::parse("nsa/ar").precision() == PrecisionClass::kStrict);
  CHECK(Strategy::parse("nsa/d6k8n64/dfs/c4e/F*").precision() == PrecisionClass::kStrict);
  CHECK(Strategy::parse("nsa/d6k8n64/dfs/c4e/(FR)*").precision() == PrecisionClass::kReuseOnly);
  CHECK(Strategy::parse("nsa/d6k8n64/dfs/c4a/F*").precision() == PrecisionClass::kApproxOnly);
  CHECK(Strategy::parse("nsa/d6k8n64/dfs/c4a/(FR)*").precision() == PrecisionClass::kApproxReuse);
}

TEST_CASE("a schedule is one letter a layer") {
  CHECK(Strategy::parse("nsa/d6k8n64/dfs/c1/(FRR)*").schedule_for(8) == "FRRFRRFR");
  CHECK(Strategy::parse("nsa/d6k8n64/dfs/c1/FRFF").schedule_for(4) == "FRFF");
  CHECK_THROWS_AS(Strategy::parse("nsa/d6k8n64/dfs/c1/FRFF").schedule_for(8), Error);
}
