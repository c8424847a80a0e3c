#include "model/plan/memory_need.h"

#include <algorithm>
#include <cmath>

#include "model/words/formatted.h"

namespace versieve {
namespace {

constexpr double kGigabyte = 1e9;

double number(std::int64_t value) {
  return static_cast<double>(value);
}

// Keys and values of all layers; of NSA raw keys and compressed tokens too, of ReSA block keys.
double cache_bytes(const Strategy& s, const LlmShape& shape, std::int64_t tokens,
                   std::int64_t element_bytes) {
  double rows = 2.0 * number(tokens);
  if (shape.attention == AttentionKind::kNsa) {
    const bool raw = shape.compress_stage == CompressStage::kBeforeRope;
    rows += raw ? number(tokens) : 0.0;
    rows += 2.0 * number(compressed_count(shape.nsa, tokens));
  }
  if (s.attention == AttentionMethod::kResa) {
    rows += 2.0 * std::ceil(number(tokens) / number(s.resa_key_block));
  }
  return rows * number(shape.layers * shape.kv_width() * element_bytes);
}

std::string gigabytes(double bytes) {
  return formatted(bytes < 0.995 * kGigabyte ? "%.2f GB" : "%.1f GB", bytes / kGigabyte);
}

}  // namespace

std::int64_t MemoryNeed::requests() const {
  return static_cast<std::int64_t>(std::max(0.0, std::floor((usable - weights - draft) / request)));
}

MemoryNeed memory_need(const Strategy& s, const LlmShape& target, const DraftShape& draft,
                       const LlmShape* model, std::int64_t tokens, std::int64_t element_bytes,
                       const HardwareSpec& hardware) {
  MemoryNeed need{.weights = number(target.parameter_count() * element_bytes),
                  .request = cache_bytes(s, target, tokens, element_bytes),
                  .usable = kUsableMemory * hardware[HardwareField::kMemoryMib] * 1024.0 * 1024.0};
  if (!s.draft.speculates() || s.drafts_itself) {
    return need;
  }
  if (model != nullptr) {
    need.draft = number(model->parameter_count() * element_bytes);
    need.request +=
        cache_bytes({.attention = AttentionMethod::kDense}, *model, tokens, element_bytes);
  } else {
    need.draft = number(draft.parameter_count() * element_bytes);
    need.request += number(2 * tokens * draft.num_kv_heads * draft.head_dim * element_bytes);
  }
  return need;
}

std::string text_of(const MemoryNeed& need, std::int64_t tokens) {
  const std::int64_t fit = need.requests();
  return gigabytes(need.weights) + " of weights, " +
         (need.draft > 0.0 ? gigabytes(need.draft) + " of the draft's, " : std::string()) +
         gigabytes(need.request) + " a request of " + std::to_string(tokens) +
         " tokens: " + std::to_string(fit) + (fit == 1 ? " request fits" : " requests fit") +
         " into " + gigabytes(need.usable);
}

std::string not_fitting_text(const MemoryNeed& need, std::int64_t requests, std::int64_t tokens,
                             const std::string& machine) {
  return std::to_string(requests) + (requests == 1 ? " request of " : " requests of ") +
         std::to_string(tokens) + " tokens " + (requests == 1 ? "does" : "do") +
         " not fit into the memory of " + machine + ": " + text_of(need, tokens);
}

}  // namespace versieve
