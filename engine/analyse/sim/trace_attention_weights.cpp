// attention_weights: how much one query attends to each key, the mean of its heads, by three
// launches of its own: scores, a thread a key; maximum and sum of each head; the mean. Beside an
// attention that keeps each head's weights (DenseCase::captures) flash_combine makes the mean.
#include <algorithm>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/dense_traces.h"

namespace versieve::engine {
namespace {

constexpr const char* kPath = "attention_weights";
constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kState = 8;  // maximum and sum of a head
constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kHeadThreads = 1024;
constexpr std::int64_t kStepBytes = 8192;     // of a head's scores
constexpr std::int64_t kL1Bytes = 192 << 10;  // of them, that are read once

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// A CTA 256 keys of a KV head, for all of its query heads.
class ScoresTrace final : public LaunchTrace {
 public:
  explicit ScoresTrace(const DenseCase& a)
      : LaunchTrace({.path = kPath,
                     .ctas = ceil_of(a.keys_of(0), kThreads) * a.shape.num_kv_heads,
                     .threads = kThreads,
                     .registers = 64,
                     .shared_bytes = 8 * 1024}),
        a_(a) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    const std::int64_t chunks = ceil_of(a_.keys_of(0), kThreads);
    const std::int64_t first = cta % chunks * kThreads;
    const std::int64_t end = std::min(a_.keys_of(0), first + kThreads);
    const std::int64_t g = cta / chunks;
    const std::int64_t group = a_.group_heads();
    if (step == 0) {
      append_read(a_.at.q + static_cast<std::uint64_t>(g * group * a_.row_bytes()),
                  group * a_.row_bytes(), out);
      append_dense_rows(a_, a_.at.k, g, first, std::min(a_.context_len, end) - first,
                        AccessKind::kRead, out);
      append_dense_rows(a_, a_.at.k_tree, g, 0, end - a_.context_len, AccessKind::kRead, out);
      return true;
    }
    for (std::int64_t h = 0; step == 1 && h < group; ++h) {
      append_write(a_.at.capture + static_cast<std::uint64_t>(
                                       ((g * group + h) * a_.captured_keys() + first) * kFloat),
                   (end - first) * kFloat, out);
    }
    return step == 1;
  }

 private:
  DenseCase a_;
};

// A CTA a head, whose scores it reads twice.
class SumsTrace final : public LaunchTrace {
 public:
  explicit SumsTrace(const DenseCase& a)
      : LaunchTrace(
            {.path = kPath, .ctas = a.shape.num_heads, .threads = kHeadThreads, .registers = 32}),
        a_(a) {}

  bool append_step(std::int64_t head, std::int64_t step, std::vector<Access>& out) const override {
    const std::int64_t bytes = a_.keys_of(0) * kFloat;
    const std::int64_t once = ceil_of(bytes, kStepBytes);
    const std::int64_t again = ceil_of(std::max<std::int64_t>(0, bytes - kL1Bytes), kStepBytes);
    if (step < once + again) {
      const std::int64_t from = (step < once ? step : step - once) * kStepBytes;
      append_read(
          a_.at.capture + static_cast<std::uint64_t>(head * a_.captured_keys() * kFloat + from),
          std::min(bytes, from + kStepBytes) - from, out);
      return true;
    }
    if (step == once + again) {
      append_write(a_.at.capture_states + static_cast<std::uint64_t>(head * kState), kState, out);
    }
    return step == once + again;
  }

 private:
  DenseCase a_;
};

// A CTA 256 positions of all heads.
class MeanTrace final : public LaunchTrace {
 public:
  explicit MeanTrace(const DenseCase& a)
      : LaunchTrace({.path = kPath,
                     .ctas = ceil_of(a.keys_of(0), kThreads),
                     .threads = kThreads,
                     .registers = 40}),
        a_(a) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    const std::int64_t first = cta * kThreads;
    const std::int64_t bytes = (std::min(a_.keys_of(0), first + kThreads) - first) * kFloat;
    const std::int64_t heads = a_.shape.num_heads;
    if (step == 0) {
      append_read(a_.at.capture_states, heads * kState, out);
      return true;
    }
    if (step == 1) {
      for (std::int64_t h = 0; h < heads; ++h) {
        append_read(
            a_.at.capture + static_cast<std::uint64_t>((h * a_.captured_keys() + first) * kFloat),
            bytes, out);
      }
      return true;
    }
    if (step == 2) {
      append_write(a_.at.weights + static_cast<std::uint64_t>(first * kFloat), bytes, out);
    }
    return step == 2;
  }

 private:
  DenseCase a_;
};

}  // namespace

void append_attention_weights(const DenseCase& a, LaunchSequence& out) {
  out.push_back(std::make_unique<ScoresTrace>(a));
  out.push_back(std::make_unique<SumsTrace>(a));
  out.push_back(std::make_unique<MeanTrace>(a));
}

}  // namespace versieve::engine
