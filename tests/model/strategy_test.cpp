// Strategy text: one canonical form, every refusal names the part.
#include "model/words/strategy.h"

#include <catch2/catch.hpp>

#include "model/launches/resa_decode.h"
#include "model/words/error.h"

using namespace versieve;

TEST_CASE("canonical strategy texts are read back to themselves") {
  for (const char* text :
       {"nsa/ar",
        "nsa/ar/bfs/c1/(FR)*",
        "dense/ar",
        "nsa/d6k8n64/dfs/c4e/(FR)*",
        "nsa/d7k1n8/bfs/c1/F*",
        "nsa/d6k8n64/dfs/c8a/FRRFRRFR",
        "resa:b16p0.1f32/ar",
        "specattn:p0.97/d4k2n8/bfs/c1/F*",
        "nsa/d6k8n64/dfs/c4e/(FRR)*/topk=gvr/sampling=exact",
        "nsa/d2k2n4/bfs/c1/F*/sampling=greedy",
        "nsa/ar/bfs/c1/F*/form=vanilla",
        "nsa/d2k2n4/bfs/c1/(FR)*/topk=gvr/form=vanilla",
        "resa:b16p0.1f32n_min4/ar",
        "resa:b16p0.1f0n_local4/ar",
        "resa:b64p0.02f128n_min1n_local2/ar",
        "dense/d15k1n16/bfs/c1/F*/draft=resa:b16p0.1",
        "indexer:k2048/ar",
        "indexer:k512w0/d6k8n64/dfs/c4e/F*",
        "indexer:k1w128/ar/bfs/c1/F*/topk=radix",
        "dense/d3k1n4/bfs/c1/F*/sampling=exact/draft=resa:b32p0.05n_min4n_local2"}) {
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
                           "resa:b16p0.1f32n_min16/ar",
                           "resa:b16p0.1f32n_local1/ar",
                           "resa:b16p0.1f32n_min0/ar",
                           "resa:b16p0.1f32n_local0/ar",
                           "resa:b16p0.1f32n_min/ar",
                           "resa:b16p0.1f32n_local2n_min4/ar",
                           "resa:b16p0.1f32n_min1048577/ar",
                           "resa:b16p0.1n_min4f32/ar",
                           "nsa/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1",
                           "resa:b16p0.1f32/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1",
                           "dense/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1f32",
                           "dense/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1n_min16",
                           "dense/d3k1n4/bfs/c1/F*/draft=resa:",
                           "dense/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1/sampling=exact",
                           "specattn:p1.5/ar",
                           "indexer/ar",
                           "indexer:/ar",
                           "indexer:k0/ar",
                           "indexer:k02048/ar",
                           "indexer:k2048w64/ar",
                           "indexer:k2048w/ar",
                           "indexer:k2048w-1/ar",
                           "indexer:w64k2048/ar",
                           "indexer:k1048577/ar",
                           "indexer:k8/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1",
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

TEST_CASE("chosen tokens, and samplers of another law, have classes of their own") {
  const auto class_of = [](const char* text) { return Strategy::parse(text).precision(); };
  CHECK(class_of("dense/d3k1n4/bfs/c1/F*/sampling=exact") == PrecisionClass::kStrict);
  CHECK(class_of("resa:b16p0.1f32/ar") == PrecisionClass::kSparseRectified);
  CHECK(class_of("resa:b16p0.1f0/ar") == PrecisionClass::kSparse);
  CHECK(class_of("specattn:p0.97/d4k1n5/bfs/c1/F*") == PrecisionClass::kSparse);
  CHECK(class_of("indexer:k2048/ar") == PrecisionClass::kSparse);
  CHECK(class_of("indexer:k2048/d4k4n16/bfs/c1/F*/sampling=exact") == PrecisionClass::kSparse);
  // The weakest promise names the class.
  for (const char* text :
       {"nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid", "nsa/d3k1n4/bfs/c4a/(FR)*/sampling=sigmoid",
        "specattn:p0.97/d4k1n5/bfs/c1/F*/sampling=sigmoid"}) {
    CHECK(class_of(text) == PrecisionClass::kApproxSampling);
  }
  CHECK(std::string(name_of(PrecisionClass::kApproxSampling)) == "Approx-sampling");
  for (int i = 0; i < kPrecisionClassCount; ++i) {
    const PrecisionClass precision = static_cast<PrecisionClass>(i);
    CHECK(std::string(name_of(precision)) != "");
    CHECK(std::string(loss_of(precision)) != "");
    CHECK(claims_autoregressive_text(precision) == (i < 2));
  }
}

TEST_CASE("n_min and n_local are those of Rectified Sparse Attention where they are not written") {
  const Strategy usual = Strategy::parse("resa:b16p0.1f32/ar");
  CHECK(usual.resa_n_min == 16);
  CHECK(usual.resa_n_local == 1);
  const Strategy own = Strategy::parse("resa:b16p0.1f32n_min4n_local2/ar");
  CHECK(own.resa_n_min == 4);
  CHECK(own.resa_n_local == 2);
  CHECK(!(own == usual));
  CHECK(own.precision() == PrecisionClass::kSparseRectified);
  // M = 257 blocks of 16, of which ten percent are 26.
  CHECK(resa_active_blocks(4096, usual) == 26);
  CHECK(resa_active_blocks(4096, Strategy::parse("resa:b16p0.1f32n_min40/ar")) == 40);
  CHECK(resa_active_blocks(4096, Strategy::parse("resa:b16p0.1f32n_local50/ar")) == 50);
  CHECK(resa_active_blocks(160, usual) == 11);
  CHECK(resa_active_blocks(160, Strategy::parse("resa:b16p0.1f32n_min1/ar")) == 2);
}

TEST_CASE("a target that drafts for itself keeps the text of dense decoding") {
  const Strategy own = Strategy::parse("dense/d15k1n16/bfs/c1/F*/draft=resa:b32p0.05n_min4");
  CHECK(own.precision() == PrecisionClass::kStrict);
  CHECK(own.drafts_itself);
  CHECK(drafting_steps(own).text() == "resa:b32p0.05f0n_min4/ar");
  CHECK(!Strategy::parse("dense/d15k1n16/bfs/c1/F*").drafts_itself);
}

TEST_CASE("a chain's length follows what is accepted where the text says so, in one spelling") {
  const Strategy adapted = Strategy::parse("nsa/d15k1n16/bfs/c1/F*/gamma=adapt");
  CHECK(adapted.adapts_length);
  CHECK(adapted.precision() == PrecisionClass::kStrict);
  CHECK(!(adapted == Strategy::parse("nsa/d15k1n16/bfs/c1/F*")));
  const char* const whole =
      "dense/d15k1n16/bfs/c1/F*/sampling=exact/draft=resa:b16p0.1/gamma=adapt";
  CHECK(Strategy::parse(whole).text() == whole);
  CHECK(!drafting_steps(Strategy::parse(whole)).adapts_length);
  for (const char* text :
       {"nsa/d7k1n8/bfs/c1/F*/gamma=adapt/sampling=exact", "nsa/d7k1n8/bfs/c1/F*/gamma=7",
        "nsa/d7k1n8/bfs/c1/F*/gamma=adapt/gamma=adapt", "nsa/d7k1n8/bfs/c1/F*/gamma=fixed"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(Strategy::parse(text), Error);
  }
}

TEST_CASE("how a step chooses tokens depends on temperature, strategy and draft") {
  const auto at = [](const char* text, double temperature) {
    return sampling_at(Strategy::parse(text), temperature);
  };
  CHECK(at("nsa/d3k1n4/bfs/c1/F*/sampling=exact", 0.0) == SamplingAlgorithm::kGreedy);
  CHECK(at("nsa/d3k1n4/bfs/c1/F*/sampling=exact", 0.5) == SamplingAlgorithm::kExact);
  CHECK(at("nsa/d3k1n4/bfs/c1/F*", 0.5) == SamplingAlgorithm::kCoupled);
  const DraftChoice chain{.depth = 3, .width = 1, .nodes = 4}, tree{3, 2, 6};
  CHECK(draws_chain(chain, SamplingAlgorithm::kExact, false));
  CHECK(!draws_chain(chain, SamplingAlgorithm::kExact, true));
  CHECK(draws_chain(chain, SamplingAlgorithm::kSigmoid, true));
  CHECK(!draws_chain(chain, SamplingAlgorithm::kCoupled, false));
  CHECK(!draws_chain(tree, SamplingAlgorithm::kExact, false));
  CHECK(!draws_chain({}, SamplingAlgorithm::kExact, false));
  const auto led = [](const char* text, double temperature) {
    return is_led_by_host(Strategy::parse(text), temperature);
  };
  CHECK(!led("nsa/d3k1n4/bfs/c1/F*", 0.7));
  CHECK(!led("nsa/d3k1n4/bfs/c1/F*/sampling=exact", 0.0));
  CHECK(led("nsa/d3k1n4/bfs/c1/F*/sampling=exact", 0.7));
  CHECK(led("nsa/d3k1n4/bfs/c1/F*/gamma=adapt", 0.0));
}

TEST_CASE("a strategy that cannot run says what is missing") {
  const LlmShape sparse = named_llm_shape("nsa-1b");
  LlmShape dense = sparse;
  dense.attention = AttentionKind::kDense;
  const auto reason = [](const char* text, const LlmShape& target) {
    return illegal_because(Strategy::parse(text), target);
  };
  CHECK(reason("nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid", sparse) == "");
  CHECK(reason("nsa/d3k1n4/bfs/c1/F*/topk=gvr/form=vanilla", sparse) == "");
  CHECK(reason("nsa/d3k1n4/bfs/c1/F*/topk=sort", sparse) == "");
  CHECK(reason("resa:b16p0.1f0/ar", dense) == "");
  using Catch::Contains;
  CHECK_THAT(reason("nsa/d3k1n4/bfs/c1/F*/topk=radix", sparse), Contains("form=vanilla"));
  CHECK_THAT(reason("dense/d3k1n4/bfs/c1/F*/topk=gvr", dense), Contains("every token"));
  CHECK_THAT(reason("specattn:p0.9/d3k1n4/bfs/c1/F*/topk=gvr", dense), Contains("by their share"));
  CHECK_THAT(reason("resa:b16p0.1f32/ar/bfs/c1/F*/topk=gvr", dense),
             Contains("rank blocks within"));
  CHECK_THAT(reason("nsa/ar/bfs/c1/F*/sampling=sigmoid", sparse), Contains("drafted"));
  CHECK_THAT(reason("nsa/d3k2n6/bfs/c1/F*/sampling=sigmoid", sparse), Contains("width 1"));
  CHECK(reason("nsa/d3k1n4/bfs/c1/F*/gamma=adapt", sparse) == "");
  CHECK_THAT(reason("nsa/d3k2n6/bfs/c1/F*/gamma=adapt", sparse), Contains("width 1"));
  CHECK_THAT(reason("nsa/ar/bfs/c1/F*/gamma=adapt", sparse), Contains("ar drafts nothing"));
  CHECK_THAT(reason("nsa/d1k1n2/bfs/c1/F*/gamma=adapt", sparse), Contains("one token has one"));
  CHECK_THAT(reason("specattn:p0.9/d3k1n4/bfs/c1/F*/gamma=adapt", dense),
             Contains("drafts shorter ones"));
  CHECK_THAT(reason("nsa/ar", dense), Contains("Native Sparse Attention"));
  CHECK_THAT(reason("specattn:p0.9/d3k1n4/bfs/c1/F*", sparse), Contains("specattn needs a dense"));
  CHECK_THAT(reason("dense/ar/bfs/c1/(FR)*", dense), Contains("R layer"));
  CHECK_THAT(reason("dense/d3k1n4/bfs/c4a/F*", dense), Contains("approximate group"));
  CHECK_THAT(reason("resa:b16p0.1f32/d3k1n4/bfs/c1/F*", dense), Contains("no draft"));
  const std::string own = "/draft=resa:b16p0.1";
  CHECK(reason(("dense/d3k1n4/bfs/c1/F*" + own).c_str(), dense) == "");
  CHECK_THAT(reason(("dense/d3k2n4/bfs/c1/F*" + own).c_str(), dense), Contains("width 1"));
  CHECK_THAT(reason(("dense/ar/bfs/c1/F*" + own).c_str(), dense), Contains("ar asks for no draft"));
  CHECK_THAT(reason(("dense/d3k1n4/bfs/c1/F*/sampling=sigmoid" + own).c_str(), dense),
             Contains("the text of resa"));
  LlmShape windows = dense;
  windows.dense_layers.assign(static_cast<std::size_t>(windows.layers), {.window = 128});
  CHECK_THAT(reason(("dense/d3k1n4/bfs/c1/F*" + own).c_str(), windows), Contains("draft=resa"));
}

TEST_CASE("a schedule is one letter a layer") {
  CHECK(Strategy::parse("nsa/d6k8n64/dfs/c1/(FRR)*").schedule_for(8) == "FRRFRRFR");
  CHECK(Strategy::parse("nsa/d6k8n64/dfs/c1/FRFF").schedule_for(4) == "FRFF");
  CHECK_THROWS_AS(Strategy::parse("nsa/d6k8n64/dfs/c1/FRFF").schedule_for(8), Error);
}
