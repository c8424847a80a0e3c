// What a byte was moved for, and bytes and arithmetic of a launch by that term.
#pragma once

#include <array>
#include <cstddef>

namespace versieve {

// What a byte was moved for. Database rows and reports use name_of(term).
enum class TrafficTerm {
  kCompressedCache,  // "compressed": block keys and values of NSA (ReSA: "block keys" later)
  kSelectedBlocks,   // "selected": the sparse KV blocks
  kWindow,           // "window": the sliding window
  kTreeBuffer,       // "tree": draft K, V and their compressed tokens
  kQueryOutput,      // "query_output": q, gates, branch outputs, final output
  kScores,           // "scores": probabilities and importance that pass through memory
  kWeights,          // "weights": target matrices and norms
  kDraft,            // "draft": draft model's weights and cache
  kLogits,           // "logits": logits written and read for acceptance
  kKvAppend,         // "kv_append": K, V and compressed tokens written at commit
  kActivations,      // "activations": hidden states between launches
};
inline constexpr std::size_t kTrafficTermCount = 11;
const char* name_of(TrafficTerm term);

struct Traffic {
  std::array<double, kTrafficTermCount> read_bytes{};
  std::array<double, kTrafficTermCount> write_bytes{};
  double flops = 0.0;

  void read(TrafficTerm term, double bytes) { read_bytes[static_cast<std::size_t>(term)] += bytes; }
  void write(TrafficTerm term, double bytes) {
    write_bytes[static_cast<std::size_t>(term)] += bytes;
  }
  double total_read() const;
  double total_write() const;
  double total() const { return total_read() + total_write(); }
  Traffic& operator+=(const Traffic& other);
};

}  // namespace versieve
