#include "engine/run/batch/batch_memory.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "engine/io/available_memory.h"
#include "engine/io/formatted.h"
#include "engine/run/speculate/step.h"
#include "kernels/ops_cuda.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

template <class T>
std::int64_t free_bytes(kernels::Ops<T>& ops, bool on_gpu) {
  if constexpr (!std::is_same_v<T, double>) {
    if (on_gpu) {
      return kernels::free_memory(ops);
    }
  }
  return available_memory();
}

std::string mebibytes(std::int64_t bytes) {
  return formatted("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

// A step's rows of all requests at once: activations, logits, what draws perturb, the draft's.
template <class T>
std::int64_t step_bytes(const LlmShape& shape, const DraftShape* draft, const LlmShape* draft_model,
                        std::span<const BatchRequest> requests, const SessionOptions& options) {
  std::int64_t nodes = 1, slots = 1, levels = 0, drawn = 0;
  for (const BatchRequest& request : requests) {
    for (const Strategy& strategy : strategies_of(request)) {
      const DraftChoice& choice = strategy.draft;
      nodes = std::max(nodes, choice.nodes);
      if (strategy.attention == AttentionMethod::kResa) {
        nodes = std::max(nodes, strategy.resa_rectify_every);  // of a dense pass
      }
      slots = std::max(slots, draft_slots(choice));
      if (request.options.temperature > 0.0 && !samples_coupled(strategy) && choice.width == 1) {
        levels = std::max(levels, choice.levels());  // laws of chains that are drawn
      } else if (request.options.temperature > 0.0 && choice.speculates()) {
        drawn = std::max(drawn, choice.width);  // rows of a draft's level, perturbed
      }
    }
  }
  const std::int64_t rows = options.concurrency * nodes;
  std::int64_t bytes =
      Target<T>::step_bytes(shape, rows + options.prefill_rows, rows + 1) +
      options.concurrency * drawn * shape.vocab *
          static_cast<std::int64_t>(sizeof(kernels::SumOf<T>)) +
      options.concurrency * levels * shape.vocab * static_cast<std::int64_t>(sizeof(T));
  if (draft != nullptr) {
    bytes += Draft<T>::step_bytes(*draft, std::max(rows, options.prefill_rows),
                                  options.concurrency * (slots + 1));
  }
  if (draft_model != nullptr) {  // a tree is run whole, a prompt in pieces
    const std::int64_t most = options.concurrency * std::max(nodes, Target<T>::kMostTogether);
    bytes += Target<T>::step_bytes(*draft_model, most, rows) +
             rows * draft_model->vocab * static_cast<std::int64_t>(sizeof(T));
  }
  return bytes;
}

// Scratch memory of the launches that attend long pieces of prompts, which one after the other use.
template <class T>
std::int64_t prompt_bytes(kernels::Ops<T>& ops, const LlmShape& shape,
                          std::span<const BatchRequest> requests, std::int64_t rows) {
  std::int64_t most = 0;
  for (const BatchRequest& request : requests) {
    most = std::max(most, Target<T>::prompt_bytes(ops, shape, std::ssize(request.prompt), rows));
  }
  return most;
}

// What a page of a request keeps beside keys and values to choose tokens by.
template <class T>
std::int64_t choice_bytes(const LlmShape& shape, std::span<const BatchRequest> requests) {
  std::int64_t most = 0;
  for (const BatchRequest& request : requests) {
    for (const Strategy& strategy : strategies_of(request)) {
      const VerifyOptions options = strategy.drafts_itself ? drafting_options(strategy, shape)
                                                           : verify_options(strategy, shape);
      most = std::max(most, ChoiceKeys<T>::bytes(shape, options, kPageTokens));
    }
  }
  return most;
}

// What the chains of a request attend to, and what they choose.
template <class T>
std::int64_t chain_choice_bytes(const LlmShape& shape, const LlmShape& draft_model,
                                std::span<const BatchRequest> requests,
                                const std::vector<std::int32_t>& layer_map) {
  std::int64_t most = 0;
  for (const BatchRequest& request : requests) {
    const std::int64_t positions = BatchSession<T>::pages_needed(shape, request) * kPageTokens;
    const std::optional<ChainChoiceShape> choice =
        chain_choice_shape(request, positions, draft_model.layers, layer_map);
    if (choice && !layer_map.empty()) {  // without a map the request is refused
      most = std::max(most, ChainChoice<T>::bytes(*choice, {}));
    }
  }
  return most;
}

}  // namespace

template <class T>
MemoryPlan plan_memory(kernels::Ops<T>& ops, bool on_gpu, const LlmShape& shape,
                       const DraftShape* draft, const LlmShape* draft_model,
                       std::span<const BatchRequest> requests, const SessionOptions& options,
                       std::optional<std::int64_t> given) {
  MemoryPlan plan{.own_page_bytes = KvPool<T>::page_bytes(shape, draft),
                  .step_bytes = step_bytes<T>(shape, draft, draft_model, requests, options) +
                                prompt_bytes(ops, shape, requests, options.prefill_rows)};
  plan.page_bytes = plan.own_page_bytes + choice_bytes<T>(shape, requests) +
                    (draft_model == nullptr ? 0 : KvPool<T>::page_bytes(*draft_model, nullptr));
  std::vector<std::int64_t> needed;
  for (const BatchRequest& request : requests) {
    needed.push_back(BatchSession<T>::pages_needed(shape, request));
  }
  const std::int64_t most = *std::max_element(needed.begin(), needed.end());
  plan.sequence_bytes =
      KvPool<T>::sequence_bytes(shape, most) +
      (draft_model == nullptr
           ? 0
           : KvPool<T>::sequence_bytes(*draft_model, most) +
                 chain_choice_bytes<T>(shape, *draft_model, requests, options.layer_map));
  SessionOptions at_once = options;
  at_once.concurrency = std::min<std::int64_t>(options.concurrency, std::ssize(needed));
  for (const LlmShape* const of : {&shape, draft_model}) {
    if (of != nullptr && may_pad(ops, *of, at_once)) {
      plan.idle_bytes += KvPool<T>::idle_bytes(*of, of == &shape ? draft : nullptr, most);
    }
  }
  std::int64_t all =
      (given ? *given : free_bytes(ops, on_gpu) / 10 * 9 - plan.step_bytes) - plan.idle_bytes;
  const auto fitting = [&](std::int64_t limit) {
    return std::clamp<std::int64_t>((all - most * plan.page_bytes) / plan.sequence_bytes, 1, limit);
  };
  plan.concurrency = fitting(at_once.concurrency);
  if (plan.idle_bytes > 0 && plan.concurrency <= kLeastClasses) {  // a session of so few has none
    all += std::exchange(plan.idle_bytes, 0);
    plan.concurrency = fitting(kLeastClasses);
  }
  const std::int64_t room = all - plan.concurrency * plan.sequence_bytes;
  if (most * plan.page_bytes > room) {
    throw Error(ExitCode::kAnswerNo, "a request that may come to hold " +
                                         std::to_string(most * kPageTokens) + " tokens needs " +
                                         mebibytes(most * plan.page_bytes + plan.sequence_bytes) +
                                         " of keys and values, and there is memory for " +
                                         mebibytes(std::max<std::int64_t>(all, 0)));
  }
  std::sort(needed.begin(), needed.end(), std::greater<>());
  needed.resize(std::min(needed.size(), static_cast<std::size_t>(options.concurrency)));
  plan.pages = std::min(std::accumulate(needed.begin(), needed.end(), std::int64_t{0}),
                        room / plan.page_bytes);
  return plan;
}

template MemoryPlan plan_memory(kernels::Ops<double>&, bool, const LlmShape&, const DraftShape*,
                                const LlmShape*, std::span<const BatchRequest>,
                                const SessionOptions&, std::optional<std::int64_t>);
template MemoryPlan plan_memory(kernels::Ops<float>&, bool, const LlmShape&, const DraftShape*,
                                const LlmShape*, std::span<const BatchRequest>,
                                const SessionOptions&, std::optional<std::int64_t>);
template MemoryPlan plan_memory(kernels::Ops<Bf16>&, bool, const LlmShape&, const DraftShape*,
                                const LlmShape*, std::span<const BatchRequest>,
                                const SessionOptions&, std::optional<std::int64_t>);

}  // namespace versieve::engine
