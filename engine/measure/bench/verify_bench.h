// One NSA layer's verification of a tree, all forms and groups against each other: what does a cell
// (queries, context, overlap) take, how far is that from the floor, and what does the peer take?
// Samples of all contenders take turns, so that a drift of the machine meets all alike.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/measure/bench/peer_fla.h"
#include "engine/measure/bench/public_path.h"
#include "engine/measure/sweep/synthetic_layer.h"
#include "model/launches/nsa_shape.h"
#include "model/words/hardware.h"
#include "model/words/llm_shape.h"
#include "profiler/sample_statistics.h"

namespace versieve::engine {

struct Compression {
  std::int64_t block = 0;   // l: keys in one compressed token
  std::int64_t stride = 0;  // s: keys from one to the next
};

struct VerifyBenchOptions {
  std::string geometry = "nsa-1b";
  std::optional<HeadCounts> heads;         // in the place of the geometry's
  std::optional<Compression> compression;  // likewise
  std::vector<std::int64_t> queries = {4, 16, 64, 128};
  std::vector<std::int64_t> contexts = {4096, 16384, 65536};
  std::vector<double> overlaps = {0.2, 0.5, 0.8, 0.95};
  std::vector<std::string> groups = {"c1", "c2e", "c4e", "c8e", "c8a"};
  bool warm = false;          // false: buffers rotate through three times the L2
  std::int64_t samples = 31;  // of each contender
  std::uint64_t seed = 1;
  bool on_gpu = true;  // false: the CPU's f32 reference by the host's clock
  int threads = 1;     // of the CPU
};

// One contender in one cell; times in us.
struct VerifyVariant {
  std::string name;  // "vanilla", "refresh c8e", "reuse c1"
  LayerVariant variant;
  profiler::SampleSummary time;
  profiler::SampleSummary over_vanilla;  // vanilla's time / its time, round by round
  double overlap = 0.0;                  // measured; 1 for one query
  double unique_blocks = 0.0;            // over all queries
  double floor_bytes = 0.0;              // what it must fetch
  std::optional<double> floor_us;        // cold read of those bytes on this machine; none on a CPU
};

struct VerifyCell {
  std::int64_t queries = 0;
  std::int64_t context_len = 0;
  double overlap = 0.0;                 // declared
  std::vector<VerifyVariant> variants;  // vanilla first
  std::optional<PublicPathTime> recorded;
  std::optional<PublicPathTime> peer;  // of this run
  std::vector<PeerTime> fla;           // of this run, one a shape

  const VerifyVariant& vanilla() const { return variants.front(); }
  const VerifyVariant& best(bool reuse) const;  // the least median
};

struct VerifyBench {
  std::string device;
  std::string backend;
  std::string dtype;
  VerifyBenchOptions options;
  std::vector<ReadTime> cold_reads;  // measured in this run, before the cells
  std::vector<VerifyCell> cells;
  std::optional<PublicPathRun> peer;
  std::optional<FlaRun> fla;
};

// The unique bytes that a layer must read: compressed cache, selected blocks and window counted
// once, tree, queries, gates. `selected` [N, G, n].
double fetched_bytes(const traffic::NsaVerifyShape& shape,
                     const std::vector<std::int32_t>& selected);
// The tree that stands for that many queries, 1 to 256.
DraftChoice bench_tree(std::int64_t queries);

// The geometry with the options' own heads and compression. Throws Error(kUsage) for an unknown
// geometry and for a layer that cannot be.
LlmShape bench_layer(const VerifyBenchOptions& options);
bool has_own_layer(const VerifyBenchOptions& options);
// Throws Error(kUsage) for a count, share, list or layer that cannot be.
void check_options(const VerifyBenchOptions& options);
// Checks its options. Throws Error(kEnvironment) without a GPU when one is asked for.
VerifyBench bench_verify(const VerifyBenchOptions& options,
                         const std::function<void(const VerifyCell&)>& on_cell);

std::string verify_bench_json(const VerifyBench& bench);
std::string verify_bench_text(const VerifyBench& bench);

}  // namespace versieve::engine
