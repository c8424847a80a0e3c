// Does the engine's host side keep the rules of the CUDA runtime, whatever it
// enqueues? Over a mock of it: what the kernels would compute is drawn
// (answers.h), texts are nonsense.
#include <catch2/catch.hpp>
#include <cstdio>
#include <random>

#include "engine/run/model/kv_pool.h"
#include "engine/run/speculate/prefilled.h"
#include "kernels/choose_together.h"
#include "tests/engine/run/batch/batch_cases.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/gpu/host_side/answers.h"
#include "tests/support/mock_cuda/mock_cuda.h"

namespace versieve::engine {
namespace {

// What a case enqueues breaks no rule, to the end of its engine.
class Watched {
 public:
  Watched() {
    test::answer_host_reads();
    mock_cuda::take_findings();
    before_ = mock_cuda::counts();
  }
  ~Watched() {
    const std::vector<mock_cuda::Finding> found = mock_cuda::take_findings();
    INFO(mock_cuda::text_of(found));
    CHECK(found.empty());
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  std::int64_t captures() const { return mock_cuda::counts().captures - before_.captures; }
  std::int64_t replays() const { return mock_cuda::counts().replays - before_.replays; }
  std::int64_t launches() const { return mock_cuda::counts().launches - before_.launches; }

 private:
  mock_cuda::Counts before_;
};

// The geometry of real models, whose kernels are theirs, with few layers.
LlmShape demo_shape(AttentionKind attention) {
  LlmShape shape = named_llm_shape("demo");
  shape.layers = 3;
  shape.attention = attention;
  return shape;
}

struct Play {
  std::int64_t requests = 0, tokens = 0, shared_tokens = 0, rectifications = 0;
};

// All requests in one session; `joins` are there at first, then one more before
// every so many steps.
template <class Pair>
Play play(Pair& engine, const std::vector<BatchRequest>& requests, const SessionOptions& options,
          std::size_t joins, std::int64_t every = 1) {
  auto session = tiny::session_of(engine, options);
  Play play;
  std::size_t submitted = 0;
  while (play.requests < std::ssize(requests)) {
    std::size_t more = submitted == 0 ? joins : session.steps() % every == 0 ? 1 : 0;
    for (; more > 0 && submitted < requests.size(); --more) {
      session.submit(static_cast<std::int64_t>(submitted), requests[submitted]);
      ++submitted;
    }
    for (const FinishedRequest& finished : session.step()) {
      ++play.requests;
      play.tokens += std::ssize(finished.generation.tokens);
      play.shared_tokens += finished.shared_tokens;
      play.rectifications += finished.generation.rectifications;
    }
  }
  return play;
}

// Random requests of every class that the pair has, whose prompts begin alike
// in places.
template <class Pair>
Play play_random(Pair& engine, int batches, std::int64_t longest, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Play all;
  for (int batch = 0; batch < batches; ++batch) {
    std::vector<BatchRequest> requests;
    while (requests.size() < 10) {
      requests.push_back(tiny::random_request(tiny::strategies_of_pair(engine), longest, random));
      requests.back().prompt =
          tiny::prompt_with_prefix(std::ssize(requests.back().prompt), 2, random);
    }
    const Play one = play(engine, requests,
                          {.concurrency = 6,
                           .pages = 24 + 2 * pages_of(longest),
                           .prefill_rows = 150,
                           .shuffled_pages = 1 + random() % 1000},
                          4);
    all.tokens += one.tokens;
    all.shared_tokens += one.shared_tokens;
    all.rectifications += one.rectifications;
  }
  return all;
}

std::vector<BatchRequest> alike_requests(const std::vector<std::string>& strategies,
                                         std::size_t count, std::int64_t shortest,
                                         std::int64_t new_tokens) {
  std::vector<BatchRequest> requests;
  for (std::size_t i = 0; i < count; ++i) {
    requests.push_back({.prompt = tiny::prompt(shortest + 2 * static_cast<std::int64_t>(i), i),
                        .options = tiny::options(strategies[i % strategies.size()], new_tokens)});
  }
  return requests;
}

}  // namespace

TEMPLATE_TEST_CASE("batches that join and leave keep the runtime's rules", "[host_side]", float,
                   Bf16) {
  const Watched watched;
  tiny::Engine<TestType> nsa(kernels::make_cuda_ops<TestType>(), demo_shape(AttentionKind::kNsa));
  CHECK(play_random(nsa, 4, 500, 1).shared_tokens > 0);
  tiny::Engine<TestType> dense(kernels::make_cuda_ops<TestType>(),
                               demo_shape(AttentionKind::kDense));
  const Play choosing = play_random(dense, 5, 500, 2);
  CHECK(choosing.rectifications > 0);
  CHECK(choosing.shared_tokens > 0);
  tiny::ChoosingEngine<TestType> specattn(kernels::make_cuda_ops<TestType>(),
                                          demo_shape(AttentionKind::kDense), 12);
  CHECK(play_random(specattn, 4, 500, 3).tokens > 0);
  CHECK(watched.launches() > 10000);
}

// Contexts pass a bound one after the other, and scratch memory grows with
// them.
TEST_CASE("recorded steps keep the runtime's rules while contexts and scratch grow",
          "[host_side]") {
  for (const AttentionKind attention : {AttentionKind::kDense, AttentionKind::kNsa}) {
    const Watched watched;
    const bool dense = attention == AttentionKind::kDense;
    tiny::Engine<Bf16> engine(kernels::make_cuda_ops<Bf16>(), demo_shape(attention));
    for (const std::int64_t concurrency : {1, 8}) {
      play(engine, alike_requests({dense ? "dense/ar" : "nsa/ar"}, 8, 1000, 40),
           {.concurrency = concurrency, .pages = 8 * pages_of(1200), .prefill_rows = 9000}, 8);
    }
    // Calls of the vanilla form run apart, with scratch of their own size.
    play(engine,
         alike_requests(dense ? std::vector<std::string>{"dense/ar", "dense/d3k4n16/dfs/c1/F*"}
                              : std::vector<std::string>{"nsa/ar", "nsa/d4k3n12/bfs/c4e/F*",
                                                         "nsa/ar/bfs/c1/FRR/form=vanilla"},
                        8, 1010, 20),
         {.concurrency = 6, .pages = 8 * pages_of(1200), .prefill_rows = 2000}, 5);
    CHECK(watched.captures() > 3);
    CHECK(watched.replays() > 100);
  }
}

// A call of a step that runs apart needs more scratch memory than any before:
// what the step's shared launches were told of it is gone, and so is what steps
// recorded before name.
TEST_CASE("arguments and recordings follow scratch memory that grows within a step",
          "[host_side]") {
  for (const AttentionKind attention : {AttentionKind::kDense, AttentionKind::kNsa}) {
    const Watched watched;
    const bool dense = attention == AttentionKind::kDense;
    tiny::Engine<Bf16> engine(kernels::make_cuda_ops<Bf16>(), demo_shape(attention));
    const std::string plain = dense ? "dense/ar" : "nsa/ar";
    const std::string apart =
        dense ? "dense/d7k20n130/bfs/c1/F*" : "nsa/d7k32n200/bfs/c1/F*/form=vanilla";
    for (const std::int64_t length : {100, 400, 1900}) {
      std::vector<BatchRequest> requests = alike_requests({plain}, 3, length, 60);
      requests.insert(requests.begin() + 2, alike_requests({apart}, 1, length, 3)[0]);
      play(engine, requests, {.concurrency = 4, .pages = 4 * pages_of(2200), .prefill_rows = 200},
           2, 20);
    }
    CHECK(watched.replays() > 50);
  }
}

// Of a request with buffers of its own: keys that it chooses tokens by, or the
// laws that its chains draw from. While plain requests run on, others of that
// kind come and go; scratch memory grows once.
TEST_CASE("recordings outlive the buffers of requests that come and go", "[host_side]") {
  const auto [passing, captures] =
      GENERATE(std::pair("indexer:k96w16/ar", 2), std::pair("resa:b16p0.1f8/ar", 2),
               std::pair("dense/d4k1n5/bfs/c1/F*", 3));
  const Watched watched;
  tiny::Engine<Bf16> engine(kernels::make_cuda_ops<Bf16>(), demo_shape(AttentionKind::kDense));
  std::vector<BatchRequest> requests = alike_requests({"dense/ar"}, 2, 300, 300);
  for (BatchRequest& request : alike_requests({passing}, 8, 300, 6)) {
    request.options.temperature = 0.8;
    request.options.strategy.sampling = SamplingAlgorithm::kExact;
    requests.push_back(std::move(request));
  }
  play(engine, requests, {.concurrency = 4, .pages = 4 * pages_of(700), .prefill_rows = 400}, 2,
       30);
  INFO(passing);
  CHECK(watched.captures() <= captures);
  CHECK(watched.replays() > 200);
}

// A piece of more than 256 tokens has an attention launch of its own, whose scratch memory may grow
// while trees' calls are prepared that name it.
TEST_CASE("long pieces of prompts keep the runtime's rules beside trees", "[host_side]") {
  const Watched watched;
  std::int64_t prompts = 0;
  mock_cuda::compute("nsa_prompt_kernel", [&](const mock_cuda::LaunchedKernel&) { ++prompts; });
  {
    tiny::Engine<Bf16> engine(kernels::make_cuda_ops<Bf16>(), demo_shape(AttentionKind::kNsa));
    for (const std::int64_t length : {300, 700, 1900}) {
      play(engine, alike_requests({"nsa/d4k4n16/bfs/c8e/F*", "nsa/ar"}, 5, length, 12),
           {.concurrency = 3, .pages = 3 * pages_of(2200), .prefill_rows = 600}, 2, 2);
    }
  }
  mock_cuda::compute("nsa_prompt_kernel", [](const mock_cuda::LaunchedKernel&) {});
  CHECK(prompts > 50);
}

// Launches a step, nothing recorded, while so many requests of SpecAttn run.
template <class T>
double launches_a_step(std::size_t requests) {
  const Watched watched;
  tiny::ChoosingEngine<T> engine(kernels::make_cuda_ops<T>(), demo_shape(AttentionKind::kDense),
                                 12);
  engine.draft.set_records(false);
  const std::int64_t count = static_cast<std::int64_t>(requests);
  auto session = tiny::session_of(engine, {.concurrency = count,
                                           .pages = count * pages_of(400),
                                           .prefill_rows = 2000,
                                           .records = false});
  for (const BatchRequest& request :
       alike_requests({"specattn:p0.3/d3k1n4/bfs/c1/F*"}, requests, 250, 40)) {
    session.submit(session.waiting(), request);
  }
  session.step();
  const std::int64_t before = watched.launches();
  const std::int64_t first = session.steps();
  while (session.running() == count && session.steps() < 9) {
    session.step();
  }
  CHECK(session.steps() > first);
  return static_cast<double>(watched.launches() - before) /
         static_cast<double>(session.steps() - first);
}

TEMPLATE_TEST_CASE("a step of six requests of SpecAttn takes about as many launches as one of one",
                   "[host_side]", float, Bf16) {
  const double one = launches_a_step<TestType>(1), six = launches_a_step<TestType>(6);
  CAPTURE(one, six);
  CHECK(six < 1.25 * one);  // of six one more often has rows that its draft model catches up with
}

TEST_CASE("steps that read lists made before them, or keep weights, are recorded",
          "[host_side]") {
  const Watched watched;
  tiny::ChoosingEngine<Bf16> engine(kernels::make_cuda_ops<Bf16>(),
                                    demo_shape(AttentionKind::kDense), 12);
  play(engine, alike_requests({"specattn:p0.3/d3k1n4/bfs/c1/F*"}, 6, 990, 60),
       {.concurrency = 6, .pages = 6 * pages_of(1100), .prefill_rows = 9000}, 6);
  CHECK(engine.target.recordings().replays() > 5);
  CHECK(engine.draft.recordings().replays() > 20);
  play(engine,
       alike_requests({"specattn:p0.3/d3k1n4/bfs/c1/F*", "dense/ar", "dense/d3k1n4/bfs/c1/F*",
                       "specattn:p0.6/d3k1n4/bfs/c1/F*", "indexer:k96w16/ar"},
                      15, 400, 30),
       {.concurrency = 6, .pages = 8 * pages_of(600), .prefill_rows = 900}, 4);
}

// As tests/gpu's, whose tokens are a GPU's: one recording, and one of a further bound.
TEST_CASE("shares of long rows are cut for several sequences before any was alone", "[host_side]") {
  const Watched watched;
  const std::unique_ptr<kernels::Ops<float>> ops = test::try_gpu_ops<float>();
  REQUIRE(ops != nullptr);
  constexpr std::int64_t kRows = 2, kLength = 70000;  // clusters of 16 blocks
  const kernels::OpsBuffer<float> weights(*ops, kRows * kLength), mass(*ops, 2 * kRows);
  const kernels::OpsBuffer<float, std::int32_t> mask(*ops, 2 * kLength);
  std::vector<kernels::TopPParams<float>> calls;
  for (std::int64_t i = 0; i < 2; ++i) {
    calls.push_back({.rows = kRows,
                     .length = kLength,
                     .p = 0.9,
                     .weights = weights.data(),
                     .mask = mask.data() + i * kLength,
                     .mass = mass.data() + i * kRows});
  }
  kernels::top_p_together<float>(*ops, calls);
  ops->synchronize();
  CHECK(watched.launches() == 2);
}

// Many requests that leave one by one, some steps each. Steps that idle requests fill up to a size
// class have a recording a class; without them there is one for each number of requests.
std::int64_t recordings_of_leaving(AttentionKind attention, const std::string& strategy,
                                   std::int64_t requests, Padding padding) {
  const Watched watched;
  tiny::Engine<Bf16> engine(kernels::make_cuda_ops<Bf16>(), demo_shape(attention));
  std::vector<BatchRequest> all;
  for (std::int64_t i = 0; i < requests; ++i) {
    all.push_back({.prompt = tiny::prompt(40, static_cast<std::uint64_t>(i)),
                   .options = tiny::options(strategy, 10 + 4 * i)});
  }
  play(engine, all,
       {.concurrency = requests,
        .pages = requests * pages_of(40 + 10 + 4 * requests + kDeepestTree),
        .prefill_rows = 9000,
        .padding = padding},
       all.size());
  const StepRecordings<Bf16>& recordings = engine.target.recordings();
  CHECK((padding == Padding::kNever || recordings.replays() > 5 * recordings.recordings()));
  return recordings.recordings();
}

TEST_CASE("requests that leave one by one share a recording a size class", "[host_side]") {
  const auto [attention, strategy] = GENERATE(std::pair(AttentionKind::kNsa, "nsa/ar"),
                                              std::pair(AttentionKind::kDense, "dense/ar"));
  const std::int64_t never = recordings_of_leaving(attention, strategy, 64, Padding::kNever);
  const std::int64_t padded =
      recordings_of_leaving(attention, strategy, 64, Padding::kWhereRecorded);
  std::printf("%s: %d recordings, %d of size classes\n", strategy, static_cast<int>(never),
              static_cast<int>(padded));
  CHECK(never >= 60);
  CHECK(padded >= 10);
  CHECK(padded <= 18);
}

TEST_CASE("trees of requests that leave share a recording a size class", "[host_side]") {
  const auto [attention, strategy] =
      GENERATE(std::pair(AttentionKind::kNsa, "nsa/d7k1n8/bfs/c8e/F*"),
               std::pair(AttentionKind::kDense, "dense/d7k1n8/bfs/c1/F*"));
  const std::int64_t never = recordings_of_leaving(attention, strategy, 40, Padding::kNever);
  const std::int64_t padded =
      recordings_of_leaving(attention, strategy, 40, Padding::kWhereRecorded);
  std::printf("%s: %d recordings, %d of size classes\n", strategy, static_cast<int>(never),
              static_cast<int>(padded));
  CHECK(2 * padded < never);
}

// Steps of a draft model and its target's, which read lists or all tokens, while requests leave;
// contexts pass a bound.
TEST_CASE("filled up steps keep the runtime's rules, by a draft model too", "[host_side]") {
  const Watched watched;
  tiny::ChoosingEngine<Bf16> engine(kernels::make_cuda_ops<Bf16>(),
                                    demo_shape(AttentionKind::kDense), 12);
  for (const std::string strategy :
       {"dense/d3k1n4/bfs/c1/F*", "dense/d3k2n6/bfs/c1/F*", "specattn:p0.3/d3k1n4/bfs/c1/F*"}) {
    std::vector<BatchRequest> requests;
    for (std::int64_t i = 0; i < 14; ++i) {
      requests.push_back({.prompt = tiny::prompt(990 + 2 * i, static_cast<std::uint64_t>(i)),
                          .options = tiny::options(strategy, 10 + 5 * i)});
    }
    auto session = tiny::session_of(
        engine, {.concurrency = 14, .pages = 14 * pages_of(1200), .prefill_rows = 9000});
    for (const BatchRequest& request : requests) {
      session.submit(session.waiting(), request);
    }
    while (session.running() + session.waiting() > 0) {
      session.step();
    }
    INFO(strategy);
    CHECK(session.steps_padded() > 5);
  }
  CHECK(engine.target.recordings().replays() > 50);
  CHECK(engine.draft.recordings().replays() > 150);
}

TEST_CASE("short prompts that are a little longer each time leave recordings as they are",
          "[host_side]") {
  const Watched watched;
  tiny::Engine<Bf16> engine(kernels::make_cuda_ops<Bf16>(), tiny::shape());
  for (std::int64_t tokens = 130; tokens <= 250; tokens += 20) {
    engine.generator.prefill(tiny::prompt(tokens));
    GenerateOptions options = tiny::options("nsa/ar", 40);
    options.records_steps = true;
    engine.generator.run(options);
  }
  CHECK(watched.captures() == 2);
  CHECK(watched.replays() > 200);
}

TEMPLATE_TEST_CASE("requests alone keep the runtime's rules", "[host_side]", float, Bf16) {
  const Watched watched;
  // A longer prompt makes caches anew, which recordings of the tuples before it name.
  const auto run_all = [](auto& engine, std::vector<std::string> strategies) {
    const std::size_t count = strategies.size();
    for (std::size_t i = 0; i < 3; ++i) {
      strategies.push_back(strategies[i]);
    }
    for (std::size_t i = 0; i < strategies.size(); ++i) {
      const std::string& text = strategies[i];
      engine.generator.prefill(tiny::prompt(i == count ? 1300 : 490));
      GenerateOptions options = tiny::options(text, 40);  // contexts pass a recording's bound
      options.records_steps = true;
      CHECK(std::ssize(engine.generator.run(options).tokens) == 40);
      options.records_steps = false;
      if (options.strategy.attention != AttentionMethod::kSpecAttn) {
        options.temperature = 0.7;
        engine.generator.run(options);
      }
    }
  };
  for (const AttentionKind attention : {AttentionKind::kDense, AttentionKind::kNsa}) {
    tiny::Engine<TestType> engine(kernels::make_cuda_ops<TestType>(), demo_shape(attention));
    run_all(engine, tiny::batch_strategies(engine.target.shape()));
    if (attention == AttentionKind::kNsa) {
      tiny::impatient_runs(engine, 60,
                           true);  // recorded tuples take over from each other
    }
  }
  tiny::ChoosingEngine<TestType> specattn(kernels::make_cuda_ops<TestType>(),
                                          demo_shape(AttentionKind::kDense), 12);
  run_all(specattn,
          {"specattn:p0.1/d6k1n7/bfs/c1/F*", "specattn:p0.5/d1k1n2/bfs/c1/F*", "dense/ar"});
  CHECK(watched.replays() > 100);
}

}  // namespace versieve::engine
