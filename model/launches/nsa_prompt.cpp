#include "model/launches/nsa_prompt.h"

#include <algorithm>

namespace versieve::traffic {
namespace {

// The mean of min(most, position + 1) over the tokens.
double mean_keys(double most, double context, double tokens) {
  const double whole = std::clamp(context + tokens - most, 0.0, tokens);  // see `most` keys
  const double ramp = tokens - whole;
  return (whole * most + ramp * (context + (ramp + 1.0) / 2.0)) / tokens;
}

}  // namespace

Traffic nsa_prompt(const NsaVerifyShape& s) {
  const double tokens = static_cast<double>(s.num_queries);
  const double context = static_cast<double>(s.context_len);
  const std::int64_t end = s.context_len + s.num_queries;
  const double chosen = static_cast<double>(s.nsa.sel_count * s.nsa.sel_block);
  const double window = static_cast<double>(s.nsa.window);
  const double compressed = static_cast<double>(compressed_count(s.nsa, end));
  Traffic t;
  t.read(TrafficTerm::kCompressedCache, compressed * s.kv_bytes());
  // Some token reads any block; the window's keys lie in blocks that are read.
  t.read(TrafficTerm::kSelectedBlocks, static_cast<double>(end) * s.kv_bytes());
  t.read(TrafficTerm::kQueryOutput,
         s.query_bytes() + static_cast<double>(3 * s.num_queries * s.num_heads * s.element_bytes));
  t.write(TrafficTerm::kQueryOutput, s.query_bytes());
  t.write(TrafficTerm::kScores, s.index_bytes());
  t.flops = s.attention_flops(
      (compressed + static_cast<double>(compressed_count(s.nsa, s.context_len))) / 2.0 +
      mean_keys(chosen, context, tokens) + mean_keys(window, context, tokens));
  return t;
}

}  // namespace versieve::traffic
