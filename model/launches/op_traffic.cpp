#include "model/launches/op_traffic.h"

namespace versieve::traffic {
namespace {

constexpr std::int64_t kF32Bytes = 4;
constexpr std::int64_t kIntBytes = 4;

Traffic moved(TrafficTerm term, std::int64_t read, std::int64_t written, double flops) {
  Traffic t;
  t.read(term, static_cast<double>(read));
  t.write(term, static_cast<double>(written));
  t.flops = flops;
  return t;
}

}  // namespace

Traffic linear_swiglu(std::int64_t n, std::int64_t k, std::int64_t m, std::int64_t element_bytes,
                      TrafficTerm weights) {
  Traffic t = moved(TrafficTerm::kActivations, n * k * element_bytes, n * m * element_bytes,
                    static_cast<double>(n * m) * (4.0 * static_cast<double>(k) + 5.0));
  t.read(weights, static_cast<double>(2 * m * k * element_bytes));
  return t;
}

Traffic weighted_rows(std::int64_t n, std::int64_t m, std::int64_t element_bytes) {
  Traffic t =
      moved(TrafficTerm::kActivations, 0, n * m * element_bytes, 3.0 * static_cast<double>(n * m));
  t.read(TrafficTerm::kWeights, static_cast<double>(m * element_bytes));
  return t;
}

Traffic rms_norm(std::int64_t n, std::int64_t k, std::int64_t element_bytes) {
  Traffic t = moved(TrafficTerm::kActivations, n * k * element_bytes, n * k * element_bytes,
                    4.0 * static_cast<double>(n * k));
  t.read(TrafficTerm::kWeights, static_cast<double>(k * element_bytes));
  return t;
}

Traffic kept_rows(std::int64_t n, std::int64_t k, std::int64_t element_bytes) {
  return moved(TrafficTerm::kActivations, 0, n * k * element_bytes, 0.0);
}

Traffic rope(std::int64_t n, std::int64_t heads, std::int64_t head_dim,
             std::int64_t element_bytes) {
  const std::int64_t count = n * heads * head_dim;
  return moved(TrafficTerm::kActivations, count * element_bytes, count * element_bytes,
               3.0 * static_cast<double>(count));
}

Traffic rope_table(std::int64_t n, std::int64_t head_dim, std::int64_t element_bytes) {
  return moved(TrafficTerm::kActivations, n * kF32Bytes, n * head_dim * element_bytes,
               20.0 * static_cast<double>(n * head_dim));
}

Traffic rope_append(std::int64_t n, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, std::int64_t gates, bool keeps_raw_keys,
                    std::int64_t element_bytes) {
  const std::int64_t in = n * ((heads + 2 * kv_heads) * head_dim + gates);
  const std::int64_t raw = keeps_raw_keys ? n * kv_heads * head_dim : 0;
  return moved(TrafficTerm::kActivations, in * element_bytes, (in + raw) * element_bytes,
               3.0 * static_cast<double>(in));
}

Traffic turned_rows(std::int64_t n, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, std::int64_t element_bytes) {
  const std::int64_t kept = n * 2 * kv_heads * head_dim * element_bytes;
  return moved(TrafficTerm::kActivations, kept, kept,
               3.0 * static_cast<double>(n * (heads + 2 * kv_heads) * head_dim));
}

Traffic elementwise(std::int64_t count, std::int64_t inputs, std::int64_t element_bytes,
                    double flops_per_element) {
  return moved(TrafficTerm::kActivations, inputs * count * element_bytes, count * element_bytes,
               flops_per_element * static_cast<double>(count));
}

Traffic copy_rows(std::int64_t rows, std::int64_t width, std::int64_t element_bytes,
                  TrafficTerm term) {
  return moved(term, rows * width * element_bytes, rows * width * element_bytes, 0.0);
}

// A logit of a list is compared, bounded and exponentiated; one of which the largest alone is
// wanted is compared, two an instruction (kernels/top_logits).
constexpr double kListed = 8.0, kCompared = 1.0;

Traffic top_logits(std::int64_t rows, std::int64_t vocab, std::int64_t k,
                   std::int64_t element_bytes) {
  return moved(TrafficTerm::kLogits, rows * vocab * element_bytes, rows * k * 2 * kF32Bytes,
               (k > 1 ? kListed : kCompared) * static_cast<double>(rows * vocab));
}

Traffic topk(std::int64_t rows, std::int64_t length, std::int64_t k, std::int64_t element_bytes,
             std::int64_t hints) {
  return moved(TrafficTerm::kScores, rows * (length * element_bytes + hints * kF32Bytes),
               rows * k * (element_bytes + kF32Bytes), 0.0);
}

Traffic attention_weights(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                          std::int64_t context_len, std::int64_t element_bytes) {
  return moved(TrafficTerm::kDraft, context_len * kv_heads * head_dim * element_bytes,
               context_len * kF32Bytes, 2.0 * static_cast<double>(context_len * heads * head_dim));
}

Traffic layer_map(std::int64_t draft_layers, std::int64_t verifier_layers) {
  const std::int64_t cells = draft_layers * verifier_layers;
  const std::int64_t f64_bytes = 2 * kF32Bytes;
  return moved(TrafficTerm::kScores, cells * f64_bytes, verifier_layers * kF32Bytes + f64_bytes,
               2.0 * static_cast<double>(cells));
}

Traffic top_p(std::int64_t rows, std::int64_t length) {
  const std::int64_t bytes = rows * length * kF32Bytes;
  return moved(TrafficTerm::kScores, 2 * bytes, length * kF32Bytes + rows * kF32Bytes,
               static_cast<double>(rows * length));
}

Traffic token_list(std::int64_t lists, std::int64_t length) {
  const std::int64_t bytes = lists * length * kF32Bytes;
  return moved(TrafficTerm::kScores, bytes, bytes, 0.0);
}

Traffic softmax_rows(std::int64_t rows, std::int64_t vocab, std::int64_t element_bytes) {
  return moved(TrafficTerm::kLogits, rows * vocab * element_bytes, rows * vocab * kF32Bytes,
               4.0 * static_cast<double>(rows * vocab));
}

Traffic sample_difference(std::int64_t gamma, std::int64_t vocab) {
  const std::int64_t bytes = gamma * vocab * kF32Bytes;
  return moved(TrafficTerm::kLogits, 2 * bytes, bytes, 2.0 * static_cast<double>(gamma * vocab));
}

Traffic sample_rows_read(std::int64_t rows, std::int64_t vocab) {
  return moved(TrafficTerm::kLogits, rows * vocab * kF32Bytes, 0,
               static_cast<double>(rows * vocab));
}

Traffic spec_chain(std::int64_t gamma, std::int64_t vocab, std::int64_t element_bytes) {
  const std::int64_t logits = (2 * gamma + 1) * vocab;
  return moved(TrafficTerm::kLogits, logits * element_bytes, 0, 6.0 * static_cast<double>(logits));
}

Traffic spec_pick(std::int64_t samples, std::int64_t gamma) {
  const std::int64_t tokens = samples * (gamma + 1);
  return moved(TrafficTerm::kLogits, 2 * tokens * kIntBytes, tokens * kIntBytes, 0.0);
}

Traffic tree_tests(std::int64_t parents, std::int64_t vocab, std::int64_t element_bytes) {
  const std::int64_t logits = parents * vocab;
  return moved(TrafficTerm::kLogits, logits * element_bytes, 0, 4.0 * static_cast<double>(logits));
}

Traffic grow_tree(std::int64_t nodes, std::int64_t children) {
  return copy_rows(nodes + children, 4, kIntBytes, TrafficTerm::kDraft);
}

Traffic finish_tree(std::int64_t nodes) {
  return copy_rows(nodes, 5, kIntBytes, TrafficTerm::kDraft);
}

Traffic accept_tree(std::int64_t nodes) {
  return copy_rows(nodes, 4, kIntBytes, TrafficTerm::kDraft);
}

Traffic commit_path(std::int64_t layers, std::int64_t max_path, std::int64_t width,
                    std::int64_t element_bytes) {
  return copy_rows(2 * layers * max_path, width, element_bytes, TrafficTerm::kKvAppend);
}

}  // namespace versieve::traffic
