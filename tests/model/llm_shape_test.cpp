// Names of geometries: what may follow one, and that a pair has one name.
#include "model/words/llm_shape.h"

#include <catch2/catch.hpp>

#include "model/words/error.h"

using namespace versieve;

TEST_CASE("a name with a draft's vocabulary is the same target with that draft") {
  const LlmShape plain = named_llm_shape("nsa-1b");
  const LlmShape pair = named_llm_shape("nsa-1b:v32000");
  CHECK(pair.name == "nsa-1b:v32000");
  CHECK(pair.vocab == plain.vocab);
  CHECK(pair.parameter_count() == plain.parameter_count());
  const DraftShape all = draft_shape_for(plain);
  const DraftShape some = draft_shape_for(pair);
  CHECK(all.vocab == 128256);
  CHECK(some.vocab == 32000);
  CHECK(all.parameter_count() - some.parameter_count() == (128256 - 32000) * 2048);
  CHECK(usual_draft(plain).vocab == 32000);  // where nobody says
  CHECK(usual_draft(named_llm_shape("nsa-1b:v64000")).vocab == 64000);
  CHECK(usual_draft(named_llm_shape("demo")).vocab == 272);
  CHECK(draft_shape_for(named_llm_shape("demo:v1")).vocab == 1);
  CHECK(draft_shape_for(named_llm_shape("demo:v271")).vocab == 271);
  CHECK(named_llm_shape("dense-1b:v32000").attention == AttentionKind::kDense);
}

TEST_CASE("a target's name is what a pair's says without its draft") {
  CHECK(target_name("nsa-1b:v32000") == "nsa-1b");
  CHECK(target_name("nsa-1b") == "nsa-1b");
}

TEST_CASE("a pair has one name, and others are refused with what may be said") {
  for (const char* name :
       {"nsa-1b:v", "nsa-1b:v0", "nsa-1b:v032000", "nsa-1b:v+5", "nsa-1b:v-5", "nsa-1b:v 5",
        "nsa-1b:v5 ", "nsa-1b:v5:v6", "nsa-1b:v1e3", "nsa-1b:v128256", "nsa-1b:v128257",
        "nsa-1b:v99999999999999999999", "demo:v272", "dense-1b:vmany"}) {
    CAPTURE(name);
    try {
      named_llm_shape(name);
      FAIL("a shape");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::kUsage);
      CHECK_THAT(e.what(), Catch::Contains("after :v stands") && Catch::Contains("it is "));
    }
  }
  for (const char* name : {"", "nsa-1b:x3", "nsa-1b:", "nsa-1b:V32000", "nsa-9b:v32000", ":v5"}) {
    CAPTURE(name);
    CHECK_THROWS_WITH(named_llm_shape(name), Catch::Contains("the named ones are nsa-1b") &&
                                                 Catch::Contains("nsa-1b:v32000"));
  }
}
