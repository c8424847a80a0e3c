// Attention over a dense cache: what the traces ask for is what the launches are said to move.
#include <catch2/catch.hpp>
#include <map>

#include "engine/analyse/sim/decode_sequences.h"
#include "engine/analyse/sim/dense_traces.h"
#include "engine/analyse/sim/simulate_point.h"
#include "model/launches/dense_pass.h"
#include "model/launches/flash_decode.h"
#include "model/launches/resa_decode.h"
#include "tests/engine/analyse/sim/touched.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

PointKey decode_key(const std::string& strategy, std::int64_t context) {
  return {.workload = WorkloadKind::kDecode,
          .model = "dense-1b",
          .strategy = strategy,
          .dtype = Dtype::kBf16,
          .cache_state = CacheState::kColdRotate,
          .context_len = context,
          .num_queries = Strategy::parse(strategy).draft.nodes};
}

std::map<std::string, Touched> touched_of(const PointKey& key) {
  std::map<std::string, Touched> touched;
  const std::vector<LaunchSequence> sets = decode_sequences(key, 1, 1e6, 1);
  for (const auto& launch : sets.front()) {
    touched[launch->shape().path] = touched_by(*launch);
  }
  return touched;
}

}  // namespace

TEST_CASE("dense attention reads each key once from the cache, whatever its queries") {
  const LlmShape shape = named_llm_shape("dense-1b");
  for (const std::string strategy :
       {"dense/ar", "dense/d7k1n8/bfs/c1/F*", "dense/d31k1n32/bfs/c1/F*", "dense/d6k8n64/bfs/c1/F*",
        "dense/d6k8n33/dfs/c1/F*"}) {
    for (const std::int64_t context : {1000, 16383, 20000}) {
      const PointKey key = decode_key(strategy, context);
      std::map<std::string, Touched> touched = touched_of(key);
      const double queries = static_cast<double>(key.num_queries);
      const double cache = 2.0 * static_cast<double>(context * shape.kv_width() * 2);
      const double tree = 2.0 * queries * static_cast<double>(shape.kv_width() * 2);
      const double q = queries * static_cast<double>(shape.q_width() * 2);
      CAPTURE(strategy, context);
      // Parents and positions beside them, by sectors.
      CHECK(touched["flash_decode"].unique_read >= cache + tree + q);
      CHECK(touched["flash_decode"].unique_read <= cache + tree + q + 8.0 * queries + 64.0);
      // Each row's chunks, as the merge reads them.
      double parts = 0.0;
      const std::int64_t rows = shape.num_heads;
      const DenseCase a = attended_case(shape, Strategy::parse(strategy), context, 2, 1);
      for (std::int64_t query = 0; query < a.num_queries(); ++query) {
        parts += static_cast<double>(rows) * flash_chunks(static_cast<double>(a.keys_of(query))) *
                 static_cast<double>((shape.head_dim + 2) * 4);
      }
      CHECK(touched["flash_decode"].written == parts);
      CHECK(touched["flash_combine"].read == parts);
      CHECK(touched["flash_combine"].written == q);
    }
  }
}

TEST_CASE("attention over a list reads the listed tokens") {
  const LlmShape shape = named_llm_shape("dense-1b");
  const PointKey key = decode_key("specattn:p0.9/d7k1n8/bfs/c1/F*", 4096);
  const DenseCase a = attended_case(shape, Strategy::parse(key.strategy), 4096, 2, 1);
  REQUIRE(a.tokens.size() > 500);
  REQUIRE(a.tokens.size() < 3000);
  CHECK(std::is_sorted(a.tokens.begin(), a.tokens.end()));
  std::map<std::string, Touched> touched = touched_of(key);
  const double keys =
      2.0 * static_cast<double>(a.tokens.size()) * static_cast<double>(shape.kv_width() * 2);
  CHECK(touched["flash_decode"].keys == keys);
  // A row of weights a draft step, once for the thresholds, once for the union.
  CHECK(touched["top_p"].unique_read >= 7.0 * 4096 * 4);
  CHECK(touched["top_p"].written == 4096.0 * 4);
}

TEST_CASE("ReSA scores the keys of all blocks but the newest and attends the chosen ones") {
  const LlmShape shape = named_llm_shape("dense-1b");
  for (const std::string method :
       {"resa:b16p0.1f32", "resa:b64p0.02f128", "resa:b16p0.1f32n_min600"}) {
    for (const std::int64_t context : {4096, 65536, 65543}) {
      const Strategy strategy = Strategy::parse(method + "/ar");
      const DenseCase a = attended_case(shape, strategy, context, 2, 1);
      const std::int64_t active = resa_active_blocks(context, strategy);
      REQUIRE(static_cast<std::int64_t>(a.blocks.size()) == active * shape.num_kv_heads);
      std::map<std::string, Touched> touched = touched_of(decode_key(method + "/ar", context));
      const double pair = 2.0 * static_cast<double>(shape.kv_width() * 2);
      const double scored = pair * static_cast<double>(context / a.key_block);
      const double attended =
          pair * static_cast<double>((active - 1) * a.key_block + context % a.key_block);
      CAPTURE(method, context);
      CHECK(touched["resa_decode"].keys == scored + attended);
      CHECK(touched["block_keys"].written == pair);
    }
  }
}

TEST_CASE("decode points are simulated range by range") {
  const SimulationPlan plan{.machine = memory_machine(hardware_by_key("h100-sxm"))};
  const PointMeasurement point = simulate_point(decode_key("resa:b16p0.1f32/ar", 4096), {}, plan);
  REQUIRE(point.status == PointStatus::kOk);
  REQUIRE(point.ranges.size() == 2);
  CHECK(point.ranges[0].path == "resa_decode");
  CHECK(point.ranges[1].path == "block_keys");
}

TEST_CASE("decode points that read no dense cache are refused") {
  const SimulationPlan plan{.machine = memory_machine(hardware_by_key("h100-sxm"))};
  PointKey key = decode_key("nsa/ar", 4096);
  key.model = "nsa-1b";
  CHECK(simulate_point(key, {}, plan).status == PointStatus::kRefused);
  key = decode_key("nsa/ar", 4096);
  CHECK(simulate_point(key, {}, plan).status == PointStatus::kRefused);
}

TEST_CASE("rectification's pass reads each key once from the cache, and its partial results") {
  for (const std::int64_t tokens : {32, 128, 256}) {
    PointKey key = decode_key("resa:b16p0.1f" + std::to_string(tokens) + "/ar", 16384);
    key.workload = WorkloadKind::kRectify;
    key.num_queries = tokens;
    std::map<std::string, Touched> touched = touched_of(key);
    const LlmShape shape = named_llm_shape("dense-1b");
    const double token = static_cast<double>(2 * shape.kv_width() * 2);
    const double rows = static_cast<double>(tokens * shape.num_heads);
    const DensePassCut cut =
        dense_pass_cut(shape.num_heads, shape.num_kv_heads, tokens, 16384 + tokens);
    const double partials =
        traffic::dense_pass_partials(tokens * shape.num_heads, cut.splits, shape.head_dim, true)
            .total();
    CAPTURE(tokens);
    CHECK(touched["dense_pass"].unique_read ==
          static_cast<double>(16384 + tokens) * token + rows * 64 * 2);
    CHECK(touched["dense_pass"].written == partials);
    CHECK(touched["dense_pass_merge"].read == partials);
    CHECK(touched["dense_pass_merge"].written == rows * 64 * 2);
  }
}

TEST_CASE("ReSA launch by launch moves what its parts are said to move") {
  // The newest blocks are attended unscored: one if nobody says otherwise.
  using Case = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [context, local] : {Case{4096, 1}, Case{65536, 1}, Case{4096, 41}}) {
    const std::string text =
        "resa:b16p0.1f0" + (local == 1 ? "" : "n_local" + std::to_string(local)) + "/ar";
    std::map<std::string, Touched> parts =
        touched_of(decode_key(text + "/bfs/c1/F*/form=vanilla", context));
    const LlmShape shape = named_llm_shape("dense-1b");
    const std::int64_t blocks = context / 16 + 1;
    const double keys = static_cast<double>((blocks - local) * 2 * shape.kv_width() * 2);
    const double queries = static_cast<double>(shape.q_width() * 2);
    CAPTURE(context, local);
    CHECK(parts["resa_score"].unique_read == keys + queries);
    CHECK(parts["resa_score"].written == static_cast<double>((blocks - local) * 8 * 4));
    CHECK(parts["resa_select"].read == parts["resa_score"].written);
    CHECK(parts["resa_combine"].read == parts["resa_attend"].written);
    CHECK(parts["resa_combine"].written == queries);
    CHECK(parts.count("resa_decode") == 0);
    const std::int64_t tokens =
        resa_active_blocks(context, Strategy::parse(text)) * 16 - 15;  // the newest alone
    const double attended = static_cast<double>(tokens * 2 * shape.kv_width() * 2);
    CHECK(parts["resa_attend"].unique_read >= attended + queries);
    CHECK(parts["resa_attend"].unique_read == Approx(attended + queries).epsilon(0.01));
  }
}

TEST_CASE("a query's weights cost its keys once, or what its attention kept of each head") {
  for (const std::int64_t context : {1000, 16384, 70000}) {
    DenseCase a = dense_case(named_llm_shape("dense-1b"), {.parent = {-1}, .depth = {0}}, context);
    a.captures = true;
    AddressSpace space;
    place_dense_shared(space, a);
    place_dense_cache(space, a);
    a.at.weights = space.place((context + 1) * 4);
    const LlmShape& shape = a.shape;
    const double weights = static_cast<double>((context + 1) * 4);
    const double heads = static_cast<double>(shape.num_heads);
    CAPTURE(context);

    LaunchSequence alone;
    append_attention_weights(a, alone);
    REQUIRE(alone.size() == 3);
    const double keys = static_cast<double>((context + 1) * shape.kv_width() * 2);
    const double q = static_cast<double>(shape.q_width() * 2);
    const Touched scores = touched_by(*alone[0]);
    CHECK(scores.unique_read == keys + q);
    CHECK(scores.written == heads * weights);
    CHECK(touched_by(*alone[1]).unique_read >= heads * weights);
    CHECK(touched_by(*alone[1]).written == heads * 8.0);
    CHECK(touched_by(*alone[2]).unique_read >= heads * (weights + 8.0));
    CHECK(touched_by(*alone[2]).written == weights);

    LaunchSequence beside;
    append_attention(a, beside);
    REQUIRE(beside.size() == 2);  // attends; merges, and means what was kept
    LaunchSequence without;
    DenseCase plain = a;
    plain.captures = false;
    append_attention(plain, without);
    const double tiles = static_cast<double>((context + 1 + 63) / 64);
    CHECK(touched_by(*beside[0]).unique_read == touched_by(*without[0]).unique_read);
    CHECK(touched_by(*beside[0]).written - touched_by(*without[0]).written ==
          heads * tiles * (64.0 * 4 + 4));
    const Touched mean = touched_by(*beside[1]), merge = touched_by(*without[1]);
    CHECK(beside[1]->shape().path == "flash_combine");
    CHECK(beside[1]->shape().ctas == without[1]->shape().ctas + (context + 1 + 511) / 512);
    CHECK(mean.keys == 0.0);
    CHECK(mean.written - merge.written == weights);
    // The heads' states are the merge's own; each tile's maximum lies in sectors of eight.
    CHECK(mean.unique_read - merge.unique_read >= heads * (weights + tiles * 4));
    CHECK(mean.unique_read - merge.unique_read <= heads * (weights + tiles * 4 + 64 + 32));
  }
}

TEST_CASE("a strategy that never rectifies has no pass to simulate") {
  const SimulationPlan plan{.machine = memory_machine(hardware_by_key("h100-sxm"))};
  PointKey key = decode_key("resa:b16p0.1f0/ar", 4096);
  for (const WorkloadKind workload : {WorkloadKind::kRectify, WorkloadKind::kRectifiedStep}) {
    key.workload = workload;
    const PointMeasurement point = simulate_point(key, {}, plan);
    CHECK(point.status == PointStatus::kRefused);
    CHECK(point.reason == "a strategy that never rectifies has no pass");
  }
}

TEST_CASE("a list takes the mask twice and leaves the chosen tokens") {
  DenseCase a{.context_len = 10000, .listed = true, .tokens = {0, 1, 4095, 4096, 9000, 9999}};
  AddressSpace space;
  a.at.mask = space.place(40000);
  a.at.tokens = space.place(40000);
  a.at.list_counts = space.place(64);
  LaunchSequence launches;
  append_token_list(a, launches);
  REQUIRE(launches.size() == 2);
  CHECK(launches[0]->shape().ctas == 3);  // of 4,096 tokens
  CHECK(touched_by(*launches[0]).read == 40000.0);
  CHECK(touched_by(*launches[0]).written == 3 * 4.0);
  CHECK(touched_by(*launches[1]).read == 40000.0 + (0 + 1 + 2) * 4.0);
  CHECK(touched_by(*launches[1]).written == 7 * 4.0);  // the tokens and how many they are
}

TEST_CASE("what SpecAttn was measured to read takes the place of a synthetic law") {
  const auto point = [](const std::string& strategy, std::int64_t context, double runs) {
    PointMeasurement measured{.key = decode_key(strategy, context)};
    measured.key.workload = WorkloadKind::kAcceptance;
    measured.unique_blocks = runs;
    return measured;
  };
  const std::string asked = "specattn:p0.9/d7k1n8/bfs/c1/F*";
  const MeasuredChoice choice({point(asked, 1024, 32.0), point(asked, 4096, 64.0),
                               point(asked, 4096, 128.0), point("resa:b16p0.1f32/ar", 4096, 16.0),
                               point("specattn:p0.97/d7k1n8/bfs/c1/F*", 4096, 256.0)});
  CHECK(*choice.share(Strategy::parse(asked), 1500) == Approx(0.5));
  CHECK(*choice.share(Strategy::parse(asked), 65536) == Approx(0.375));  // mean of 4096's two
  CHECK(!choice.share(Strategy::parse("specattn:p0.9/d3k1n4/bfs/c1/F*"), 4096));
  CHECK(!choice.share(Strategy::parse("specattn:p0.95/d7k1n8/bfs/c1/F*"), 4096));
  CHECK(MeasuredChoice({point("resa:b16p0.1f32/ar", 4096, 16.0)}).empty());

  const LlmShape shape = named_llm_shape("dense-1b");
  const DenseCase a = attended_case(shape, Strategy::parse(asked), 65536, 2, 1, &choice);
  CHECK(a.tokens.size() == 24576);
  CHECK(std::is_sorted(a.tokens.begin(), a.tokens.end()));
  for (std::size_t i = 0; i < a.tokens.size(); i += 16) {
    REQUIRE(a.tokens[i] % 16 == 0);
    REQUIRE(a.tokens[i + 15] == a.tokens[i] + 15);
  }
  // Nobody measured that one: the sweep's own weights choose.
  const Strategy other = Strategy::parse("specattn:p0.95/d7k1n8/bfs/c1/F*");
  CHECK(attended_case(shape, other, 4096, 2, 1, &choice).tokens ==
        attended_case(shape, other, 4096, 2, 1).tokens);
}
