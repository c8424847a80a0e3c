// Random requests for a tiny engine, and what each of them decodes alone: for the CPU's tests and
// the GPU's.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/run/batch/batch_session.h"
#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine::tiny {

inline const std::vector<std::string>& batch_strategies(const LlmShape& shape) {
  static const std::vector<std::string> nsa = {"nsa/ar",
                                               "nsa/ar/bfs/c1/FRR",
                                               "nsa/d1k1n2/bfs/c1/F*",
                                               "nsa/d4k3n12/bfs/c1/F*",
                                               "nsa/d3k4n16/dfs/c4e/F*",
                                               "nsa/d5k2n9/bfs/c2e/FRR",
                                               "nsa/d6k1n7/bfs/c1/F*",
                                               "nsa/d4k2n9/dfs/c4a/FRF"};
  static const std::vector<std::string> windowed = {
      "dense/ar", "dense/d4k3n12/bfs/c1/F*", "dense/d6k1n7/bfs/c1/F*", "dense/d3k4n16/dfs/c1/F*"};
  static const std::vector<std::string> chosen = {
      "resa:b4p0.1f8n_min2/ar",          "resa:b16p0.1f5n_min1n_local2/ar",
      "resa:b8p0.2f0n_min3/ar",          "indexer:k24w8/ar",
      "indexer:k16w4/d4k3n12/bfs/c1/F*", "dense/d5k1n6/bfs/c1/F*/draft=resa:b4p0.1n_min2"};
  static const std::vector<std::string> dense = [] {
    std::vector<std::string> all = windowed;
    all.insert(all.end(), chosen.begin(), chosen.end());
    return all;
  }();
  return shape.attention == AttentionKind::kNsa ? nsa : shape.has_windows() ? windowed : dense;
}

// A dense pair whose draft model chooses tokens for the target, which has three layers that let it.
template <class T>
struct ChoosingEngine {
  explicit ChoosingEngine(std::uint64_t draft_seed, std::int64_t draft_layers = 3)
      : ChoosingEngine(kernels::make_cpu_ops<T>(1), shape(AttentionKind::kDense), draft_seed,
                       draft_layers) {}
  // `llm`: of both, but for their layers.
  ChoosingEngine(std::unique_ptr<kernels::Ops<T>> device, const LlmShape& llm,
                 std::uint64_t draft_seed, std::int64_t draft_layers = 3)
      : ops(std::move(device)),
        target(make(llm, 5, 11)),
        draft(make(llm, draft_layers, draft_seed)),
        generator(*ops, target, nullptr, &draft) {
    const std::int32_t last = static_cast<std::int32_t>(draft_layers) - 1;
    generator.set_layer_map({0, 0, 1, last, last});
  }
  Target<T> make(LlmShape llm, std::int64_t layers, std::uint64_t seed) {
    llm.layers = layers;
    return make_synthetic_target<T>(*ops, llm, tiny::draft_shape(tiny::shape()), seed);
  }

  std::unique_ptr<kernels::Ops<T>> ops;
  Target<T> target, draft;
  Generator<T> generator;
};

// What the requests of a pair are decoded by.
template <class Pair>
const std::vector<std::string>& strategies_of_pair(Pair& pair) {
  return batch_strategies(pair.target.shape());
}
template <class T>
const std::vector<std::string>& strategies_of_pair(ChoosingEngine<T>&) {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> with = {
        "specattn:p0.05/d4k1n5/bfs/c1/F*", "specattn:p0.1/d6k1n7/bfs/c1/F*",
        "specattn:p0.02/d1k1n2/bfs/c1/F*", "specattn:p1/d3k1n4/bfs/c1/F*",
        "specattn:p0.5/d5k1n6/bfs/c1/F*"};
    const std::vector<std::string>& other = batch_strategies(shape(AttentionKind::kDense));
    with.insert(with.end(), other.begin(), other.end());
    return with;
  }();
  return all;
}

// Above temperature 0: by samplers that share no noise, of trees and of chains that are drawn, with
// cut laws; by sigmoids, which test chains alone.
inline void choose_sampler(GenerateOptions& options, std::mt19937_64& random) {
  const DraftChoice& draft = options.strategy.draft;
  const bool chain = draft.width == 1 && draft.speculates() && !options.strategy.drafts_itself;
  const std::uint64_t choice = random() % (chain ? 4 : 3);
  constexpr SamplingAlgorithm kSamplers[] = {SamplingAlgorithm::kCoupled, SamplingAlgorithm::kExact,
                                             SamplingAlgorithm::kBaseline,
                                             SamplingAlgorithm::kSigmoid};
  options.strategy.sampling = kSamplers[choice];
  if (choice == 1 || choice == 2) {
    options.truncation.top_k = random() % 2 == 0 ? 0 : 5;
    options.truncation.top_p = random() % 2 == 0 ? 1.0 : 0.8;
  }
  if (choice == 3) {
    options.sigmoid = {.alpha = -10.0, .beta = 10.0};
  }
}

inline BatchRequest random_request(const std::vector<std::string>& strategies, std::int64_t longest,
                                   std::mt19937_64& random) {
  const auto below = [&](std::uint64_t count) { return random() % count; };
  BatchRequest request{
      .prompt = prompt(1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(longest))),
                       below(1000)),
      .options =
          options(strategies[below(strategies.size())], 1 + static_cast<std::int64_t>(below(40)))};
  if (below(2) == 0) {
    request.options.temperature = 0.5 + 0.25 * static_cast<double>(below(4));
    request.options.seed = below(1000);
    choose_sampler(request.options, random);
  }
  const DraftChoice& draft = request.options.strategy.draft;
  const bool chooses = request.options.strategy.attention == AttentionMethod::kSpecAttn;
  if (draft.width == 1 && draft.levels() > 1 && !chooses) {
    request.options.strategy.adapts_length = below(3) == 0;
  }
  if (below(3) == 0) {
    request.options.eos = {static_cast<std::int32_t>(below(40))};
  }
  return request;
}

// A prompt whose first half at least is that of one of so many.
inline std::vector<std::int32_t> prompt_with_prefix(std::int64_t tokens, std::int64_t prefixes,
                                                    std::mt19937_64& random) {
  const std::uint64_t seed = 500 + random() % static_cast<std::uint64_t>(prefixes);
  std::vector<std::int32_t> out = prompt(tokens, seed);
  const std::int64_t own =
      static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(tokens / 2 + 1));
  for (std::int64_t i = tokens - own; i < tokens; ++i) {
    out[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(random() % 40);
  }
  return out;
}

struct BatchTally {
  int requests = 0;
  int identical = 0;
  std::int64_t prompt_tokens = 0, shared_tokens = 0;
  std::int64_t steps = 0;    // of requests, with a draft
  std::int64_t yielded = 0;  // tokens of those
  std::int64_t rectifications = 0;
  std::int64_t steps_ahead = 0;  // of sessions
  std::int64_t steps_padded = 0;
  int choosing = 0;              // requests of SpecAttn
  double reads_saved = 0.0;      // of those, summed
};

template <class T>
BatchSession<T> session_of(Engine<T>& engine, const SessionOptions& options) {
  return {*engine.ops, engine.target, &engine.draft, options};
}
template <class T>
BatchSession<T> session_of(DenseEngine<T>& engine, const SessionOptions& options) {
  return {*engine.ops, engine.target, nullptr, options, &engine.draft};
}
template <class T>
BatchSession<T> session_of(ChoosingEngine<T>& engine, SessionOptions options) {
  options.layer_map = engine.generator.layer_map();
  return {*engine.ops, engine.target, nullptr, options, &engine.draft};
}

// Runs the requests in one session, in that order, and each alone; `joins` of them are there at
// first, then one more joins before each step.
template <class Pair>
void compare_batch(Pair& engine, const std::vector<BatchRequest>& requests,
                   const SessionOptions& options, std::size_t joins, BatchTally& tally) {
  auto session = session_of(engine, options);
  std::map<std::int64_t, FinishedRequest> together;
  std::size_t submitted = 0;
  while (together.size() < requests.size()) {
    for (std::size_t more = submitted == 0 ? joins : 1; more > 0 && submitted < requests.size();
         --more) {
      session.submit(static_cast<std::int64_t>(submitted), requests[submitted]);
      ++submitted;
    }
    for (FinishedRequest& finished : session.step()) {
      together[finished.id] = std::move(finished);
    }
  }
  tally.steps_ahead += session.steps_ahead();
  tally.steps_padded += session.steps_padded();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    engine.generator.prefill(requests[i].prompt);
    const Generation alone = engine.generator.run(requests[i].options);
    const FinishedRequest& finished = together.at(static_cast<std::int64_t>(i));
    const Generation& batched = finished.generation;
    const bool chooses = requests[i].options.strategy.attention == AttentionMethod::kSpecAttn;
    ++tally.requests;
    tally.choosing += chooses ? 1 : 0;
    tally.reads_saved += chooses ? batched.reads_saved : 0.0;
    tally.prompt_tokens += static_cast<std::int64_t>(requests[i].prompt.size());
    tally.shared_tokens += finished.shared_tokens;
    tally.rectifications += batched.rectifications;
    tally.identical += batched.tokens == alone.tokens && batched.stopped == alone.stopped &&
                               batched.accepted_histogram == alone.accepted_histogram &&
                               // alone a pass may follow the last step
                               alone.rectifications - batched.rectifications <= 1 &&
                               (!chooses || alone.reads_saved == batched.reads_saved)
                           ? 1
                           : 0;
    if (requests[i].options.strategy.draft.speculates()) {
      tally.steps += batched.steps;
      for (std::size_t a = 0; a < batched.accepted_histogram.size(); ++a) {
        tally.yielded += static_cast<std::int64_t>(a) * batched.accepted_histogram[a];
      }
    }
  }
}

// Random batches of one or two strategies, whose steps idle requests fill up to a size class: they
// join and leave one by one, some behind prompts that begin alike.
template <class Pair>
BatchTally compare_padded_batches(Pair& engine, const std::vector<std::string>& strategies,
                                  int batches, std::int64_t longest, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  BatchTally tally;
  for (int batch = 0; batch < batches; ++batch) {
    std::vector<std::string> some;
    for (int i = 0; i <= batch % 2; ++i) {
      some.push_back(strategies[random() % strategies.size()]);
    }
    std::vector<BatchRequest> requests;
    const std::size_t count = 7 + random() % 20;
    while (requests.size() < count) {
      requests.push_back(random_request(some, longest, random));
      requests.back().options.strategy.adapts_length = false;
      if (batch % 4 == 3) {
        requests.back().prompt = prompt_with_prefix(
            static_cast<std::int64_t>(requests.back().prompt.size()), 2, random);
      }
    }
    const std::int64_t concurrency = 6 + static_cast<std::int64_t>(random() % 16);
    compare_batch(engine, requests,
                  {.concurrency = concurrency,
                   .pages = concurrency * pages_of(longest + 40 + kDeepestTree),
                   .prefill_rows = 200 + static_cast<std::int64_t>(random() % 600),
                   .shuffled_pages = batch % 3 == 0 ? 0 : 1 + random() % 1000,
                   .padding = Padding::kAlways},
                  1 + random() % count, tally);
  }
  return tally;
}

// `prefixes`: so many different beginnings of prompts; 0: each has its own.
template <class Pair>
BatchTally compare_random_batches(Pair& engine, int batches, std::int64_t longest,
                                  std::uint64_t seed, std::int64_t prefixes = 0) {
  std::mt19937_64 random(seed);
  BatchTally tally;
  for (int batch = 0; batch < batches; ++batch) {
    std::vector<BatchRequest> requests;
    const std::size_t count = 2 + random() % 7;
    while (requests.size() < count) {
      requests.push_back(random_request(strategies_of_pair(engine), longest, random));
      if (prefixes > 0) {
        requests.back().prompt = prompt_with_prefix(
            static_cast<std::int64_t>(requests.back().prompt.size()), prefixes, random);
      }
    }
    const SessionOptions options{.concurrency = 1 + static_cast<std::int64_t>(random() % 8),
                                 .pages = 24 + 2 * pages_of(longest),
                                 .prefill_rows = 1 + static_cast<std::int64_t>(random() % 300),
                                 .shuffled_pages = batch % 3 == 0 ? 0 : 1 + random() % 1000};
    compare_batch(engine, requests, options, 1 + random() % count, tally);
  }
  return tally;
}

// 2,000 sampled batches, or VERSIEVE_BATCHES in hundreds, half of them of prompts that begin alike,
// in rounds of 100 that say how far they came: minutes. Round r has the seed 100 + r.
template <class Pair>
BatchTally compare_long(Pair& engine, std::int64_t longest) {
  const char* const given = std::getenv("VERSIEVE_BATCHES");
  const long batches = given == nullptr ? 2000 : std::atol(given);
  BatchTally all;
  for (std::uint64_t round = 1; 100 * static_cast<long>(round) <= batches; ++round) {
    const BatchTally tally =
        compare_random_batches(engine, 100, longest, 100 + round, round % 2 == 0 ? 2 : 0);
    all.requests += tally.requests;
    all.identical += tally.identical;
    all.prompt_tokens += tally.prompt_tokens;
    all.shared_tokens += tally.shared_tokens;
    all.steps += tally.steps;
    all.yielded += tally.yielded;
    all.choosing += tally.choosing;
    all.reads_saved += tally.reads_saved;
    std::printf(
        "%d batches: %d of %d requests identical, %lld of %lld prompt tokens shared, %.2f "
        "tokens a drafted step, %d requests of SpecAttn\n",
        static_cast<int>(100 * round), all.identical, all.requests,
        static_cast<long long>(all.shared_tokens), static_cast<long long>(all.prompt_tokens),
        static_cast<double>(all.yielded) / static_cast<double>(all.steps), all.choosing);
    std::fflush(stdout);
  }
  return all;
}

}  // namespace versieve::engine::tiny
