// From a prompt to text: prefill once, then any number of runs from that point, each with its own
// strategy. A run with draft `ar` decodes token by token through the same forward, so that its
// output is what every exact strategy must reproduce. Who leads the steps is another question:
// host_led.h, recorded.h, guarded.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/run/speculate/guarded.h"
#include "engine/run/speculate/host_led.h"
#include "engine/run/speculate/prefilled.h"
#include "engine/run/speculate/recorded.h"

namespace versieve::engine {

template <class T>
class Generator {
 public:
  // A draft head, or a draft model of its own, or neither: then only `ar`. All outlive the
  // generator.
  Generator(kernels::Ops<T>& ops, Target<T>& target, Draft<T>* draft,
            Target<T>* draft_model = nullptr)
      : prefilled_(ops, target, draft, draft_model) {}
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Why that strategy cannot run here, or an empty text.
  std::string refusal(const GenerateOptions& options) const;

  // Which draft layer chooses each target layer's tokens: what specattn needs beside a draft model.
  void set_layer_map(std::vector<std::int32_t> draft_layer) {
    recorded_.set_layer_map(draft_layer);
    layer_map_ = std::move(draft_layer);
  }
  const std::vector<std::int32_t>& layer_map() const { return layer_map_; }  // or empty

  void prefill(std::span<const std::int32_t> prompt) { prefilled_.prefill(prompt); }
  double prefill_seconds() const { return prefilled_.seconds(); }
  void reserve(std::int64_t max_new_tokens) { recorded_.reserve(max_new_tokens); }

  // Runs from the prefilled prompt, whatever ran before. REQUIRES: refusal() is empty.
  Generation run(const GenerateOptions& options);
  Generation run(const GenerateOptions& options, TreeSource<T>& source) {
    return host_led_.run(options, source);
  }
  Generation run_guarded(GenerateOptions options, std::span<const Strategy> ranked,
                         RuntimeGuard& guard);
  Generation teacher_forced(const GenerateOptions& options, std::span<const std::int32_t> text);

 private:
  void require_allowed(const GenerateOptions& options) const;

  Prefilled<T> prefilled_;
  HostLedRuns<T> host_led_{prefilled_};
  RecordedRuns<T> recorded_{prefilled_};
  GuardedRuns<T> guarded_{prefilled_, recorded_};
  std::vector<std::int32_t> layer_map_;  // [target layers], or empty
};

}  // namespace versieve::engine
