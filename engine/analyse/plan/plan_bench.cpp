#include "engine/analyse/plan/plan_bench.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>

#include "engine/analyse/fit/statistics.h"
#include "engine/io/formatted.h"
#include "model/plan/strategy_space.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFirstContext = 1024;
constexpr std::int64_t kContextStep = 512;
constexpr std::size_t kBest = 12;

double milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Contexts that make up the wanted number of tuples.
std::vector<std::int64_t> contexts_for(std::int64_t tuples, const LlmShape& target) {
  std::int64_t strategies = 0;
  for (const Strategy& s : enumerate_space(target)) {
    strategies += illegal_because(s, target).empty() ? 1 : 0;
  }
  std::vector<std::int64_t> contexts;
  while (static_cast<std::int64_t>(contexts.size()) * strategies < tuples) {
    contexts.push_back(kFirstContext + kContextStep * static_cast<std::int64_t>(contexts.size()));
  }
  return contexts;
}

void evaluate_all(const StrategySpace& space, const HardwareSpec& hardware, int threads,
                  std::vector<float>& throughput) {
  const StrategySpace::Times times = space.times_on(hardware);
  const std::int64_t each = (space.size() + threads - 1) / threads;
  std::vector<std::jthread> workers;
  for (std::int64_t first = 0; first < space.size(); first += each) {
    const std::span<float> part(throughput.data() + first,
                                static_cast<std::size_t>(std::min(each, space.size() - first)));
    if (threads == 1) {
      space.evaluate(times, first, part);
    } else {
      workers.emplace_back([&space, &times, first, part] { space.evaluate(times, first, part); });
    }
  }
}

std::vector<std::int64_t> best_of(const std::vector<float>& throughput) {
  std::vector<std::int64_t> order(throughput.size());
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](std::int64_t a, std::int64_t b) {
    return throughput[static_cast<std::size_t>(a)] > throughput[static_cast<std::size_t>(b)];
  };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(kBest, order.size()));
  std::partial_sort(order.begin(), end, order.end(), better);
  return {order.begin(), end};
}

}  // namespace

PlanBench bench_plan(const FittedModel& fit, const PlanBenchOptions& options) {
  if (fit.acceptance.positional.empty()) {
    throw Error(ExitCode::kAnswerNo, "the fit has no acceptance to rank tuples by");
  }
  const LlmShape target = named_llm_shape(fit.geometry);
  PlanBench out{.threads = options.threads};
  std::optional<StrategySpace> space;
  const std::vector<std::int64_t> contexts = contexts_for(options.tuples, target);
  out.build_ms = milliseconds([&] {
    space.emplace(fit, target, contexts);
    space->add_yields();
  });
  out.tuples = space->size();
  out.contexts = static_cast<std::int64_t>(contexts.size());
  std::vector<float> throughput(static_cast<std::size_t>(space->size()));
  const HardwareSpec& measured = hardware_by_key(fit.hardware_key);
  const HardwareSpec& other = hardware_by_key(fit.hardware_key == "b200" ? "h200-sxm" : "b200");
  std::vector<std::int64_t> best;
  std::vector<double> one_core;
  std::vector<double> rerank;
  for (int i = 0; i < options.samples; ++i) {
    one_core.push_back(milliseconds([&] { evaluate_all(*space, measured, 1, throughput); }));
    rerank.push_back(milliseconds([&] {
      evaluate_all(*space, other, options.threads, throughput);
      best = best_of(throughput);
    }));
  }
  out.one_core_ns = 1e6 * *median(one_core) / static_cast<double>(out.tuples);
  out.rerank_ms = *median(rerank);
  out.hardware = other.key;
  const std::size_t count = space->strategies().size();
  const std::size_t first = static_cast<std::size_t>(best.front());
  out.best = space->strategies()[first % count].text() + " at L " +
             std::to_string(space->contexts()[first / count]);
  return out;
}

std::string text_of(const PlanBench& b) {
  return formatted(
      "%lld tuples (%lld contexts), built once in %.0f ms\n"
      "one evaluation on one core: %.1f ns, tables of the machine included\n"
      "all re-ranked for %s on %d threads: %.1f ms; first %s\n",
      static_cast<long long>(b.tuples), static_cast<long long>(b.contexts), b.build_ms,
      b.one_core_ns, b.hardware.c_str(), b.threads, b.rerank_ms, b.best.c_str());
}

}  // namespace versieve::engine
