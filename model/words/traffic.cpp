#include "model/words/traffic.h"

#include <numeric>

namespace versieve {

const char* name_of(TrafficTerm term) {
  switch (term) {
    case TrafficTerm::kCompressedCache:
      return "compressed";
    case TrafficTerm::kSelectedBlocks:
      return "selected";
    case TrafficTerm::kWindow:
      return "window";
    case TrafficTerm::kTreeBuffer:
      return "tree";
    case TrafficTerm::kQueryOutput:
      return "query_output";
    case TrafficTerm::kScores:
      return "scores";
    case TrafficTerm::kWeights:
      return "weights";
    case TrafficTerm::kDraft:
      return "draft";
    case TrafficTerm::kLogits:
      return "logits";
    case TrafficTerm::kKvAppend:
      return "kv_append";
    case TrafficTerm::kActivations:
      return "activations";
  }
  return "";
}

double Traffic::total_read() const {
  return std::accumulate(read_bytes.begin(), read_bytes.end(), 0.0);
}

double Traffic::total_write() const {
  return std::accumulate(write_bytes.begin(), write_bytes.end(), 0.0);
}

Traffic& Traffic::operator+=(const Traffic& other) {
  for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
    read_bytes[i] += other.read_bytes[i];
    write_bytes[i] += other.write_bytes[i];
  }
  flops += other.flops;
  return *this;
}

}  // namespace versieve
