// A measured kernel that is no part of a strategy by itself, and its canonical text, which stands
// where other points have a strategy's:
//   topk     = "topk:" ("sort"|"radix"|"gvr") "/k" INT [ "/hint" REAL ] [ "/index" INT "x" INT ]
//              hint: gvr alone; index: of a token-level indexer's scores, heads by their size
//   sampling = "sampling:" ("baseline"|"exact"|"sigmoid") "/" ("chain" | "k" INT) "/r" INT
//              [ "/b" INT ] [ "/topk" INT ] [ "/topp" REAL ] [ "/minp" REAL ]
//   machine  = "machine:" ( "copy" | "launch/c" INT | "gemm/k" INT "m" INT )
// A machine's copy moves `length` KiB; launch enqueues c kernels, each after the one before, that
// move next to nothing; gemm multiplies N rows by [m, k] weights (`length` is 1 there).
// A chain of N rows tests N - 1 drafted tokens, in b sequences side by side; in a tree of N nodes
// the parent of node i is (i - 1) / k. What of the rows is cut (kernels/spec_sample) is left out
// where it cuts nothing. Numbers are in their shortest form, as in strategies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/words/strategy.h"

namespace versieve {

// Of a token-level indexer (kernels/index_scores): heads of a query, and the size of their keys, of
// which a position has one.
struct IndexHeads {
  std::int64_t heads = 0;
  std::int64_t dim = 0;

  bool operator==(const IndexHeads&) const = default;
};

struct TopkCase {
  TopkAlgorithm algorithm = TopkAlgorithm::kSort;
  std::int64_t k = 1;
  std::optional<double> hint;       // share of the hinted indices that are right
  std::optional<IndexHeads> index;  // scores are computed from index keys first

  // Throws Error(kUsage) for a text that is not canonical.
  static TopkCase parse(std::string_view text);
  std::string text() const;
};

struct SamplingCase {
  SamplingAlgorithm algorithm = SamplingAlgorithm::kExact;
  std::int64_t width = 0;    // children a node; 0: a chain that the draft sampled
  std::int64_t samples = 1;  // R
  std::int64_t batch = 1;    // of chains
  // Cuts of every row: 0, 1 and 0 keep all.
  std::int64_t top_k = 0;
  double top_p = 1.0, min_p = 0.0;

  bool cuts() const { return top_k > 0 || top_p < 1.0 || min_p > 0.0; }
  static SamplingCase parse(std::string_view text);
  std::string text() const;
};

enum class MachineWork { kCopy, kLaunch, kGemm };

struct MachineCase {
  MachineWork work = MachineWork::kCopy;
  std::int64_t launches = 1;  // c
  std::int64_t k = 0, m = 0;

  static MachineCase parse(std::string_view text);
  std::string text() const;
};

}  // namespace versieve
