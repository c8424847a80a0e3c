#include "engine/analyse/sim/kernel_sequences.h"

#include <algorithm>

#include "engine/analyse/sim/address_space.h"
#include "engine/analyse/sim/kernel_traces.h"
#include "engine/analyse/sim/row_trace.h"
#include "engine/analyse/sim/trace_linear.h"
#include "engine/measure/sweep/cold_sets.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;  // of all copies, as the sweep has it
constexpr std::int64_t kMostSets = 2048;
constexpr std::int64_t kMachineSets = 96;
constexpr std::int64_t kTinyBytes = 64;    // that a launch of no interest copies
constexpr std::int64_t kCopyBytes = 4096;  // of a CTA

class Sets {
 public:
  // Of `elements` values that a run reads `touched` of.
  Sets(const PointKey& key, std::int64_t elements, std::int64_t touched, double cold_bytes,
       std::int64_t most)
      : bytes_(elements * bytes_of(key.dtype)) {
    if (key.cache_state == CacheState::kColdRotate) {
      const double each = static_cast<double>(touched * bytes_of(key.dtype));
      count_ = std::min({cold_sets(cold_bytes, each, std::min(most, kMostSets)),
                         std::max<std::int64_t>(2, kMostElements / elements), most});
    }
  }
  std::int64_t count() const { return count_; }
  std::uint64_t place(AddressSpace& space) const { return space.place(bytes_); }

 private:
  std::int64_t bytes_;
  std::int64_t count_ = 1;
};

std::vector<LaunchSequence> topk_sequences(const PointKey& key, double cold_bytes,
                                           std::int64_t most) {
  const TopkCase wanted = TopkCase::parse(key.strategy);
  const std::int64_t elements = key.num_queries * key.context_len;
  const std::int64_t rotated =
      wanted.index ? key.context_len * wanted.index->dim : elements;  // keys or scores
  const Sets sets(key, rotated, rotated, cold_bytes, most);
  TopkLaunch launch{.rows = key.num_queries,
                    .length = key.context_len,
                    .k = wanted.k,
                    .element_bytes = bytes_of(key.dtype)};
  AddressSpace space;
  launch.indices = space.place(launch.rows * launch.k * 4);
  launch.values = space.place(launch.rows * launch.k * launch.element_bytes);
  launch.hint = wanted.hint ? space.place(launch.rows * launch.k * 4) : 0;
  launch.scratch = space.place(2 * elements * (launch.element_bytes + 4));
  const std::uint64_t scores =
      wanted.index ? space.place(elements * launch.element_bytes) : 0;  // of each set in turn
  std::vector<LaunchSequence> sequences(static_cast<std::size_t>(sets.count()));
  for (LaunchSequence& sequence : sequences) {
    launch.scores = sets.place(space);
    if (wanted.index) {
      const std::uint64_t keys = launch.scores;
      launch.scores = scores;
      sequence.push_back(trace_index_scores({.rows = launch.rows,
                                             .length = launch.length,
                                             .dim = wanted.index->dim,
                                             .element_bytes = launch.element_bytes,
                                             .keys = keys,
                                             .scores = scores}));
    }
    append_topk(launch, wanted.algorithm, sequence);
  }
  return sequences;
}

// Rows of logits that any form of a sampler reads, as the sweep counts them.
std::int64_t touched_rows(const SamplingCase& wanted, std::int64_t nodes, std::int64_t rows) {
  if (wanted.width > 0) {
    return std::min(rows, (nodes - 2) / wanted.width + 2);
  }
  return wanted.algorithm == SamplingAlgorithm::kSigmoid ? 1 : rows;
}

std::vector<LaunchSequence> sampling_sequences(const PointKey& key, double cold_bytes,
                                               std::int64_t most) {
  const SamplingCase wanted = SamplingCase::parse(key.strategy);
  const std::int64_t nodes = key.num_queries;
  const std::int64_t vocab = key.context_len;
  if (wanted.width == 0 && nodes < 2) {
    throw Error(ExitCode::kAnswerNo, "a chain has a row more than drafted tokens: at least two");
  }
  if (wanted.batch > 1 || wanted.cuts()) {
    throw Error(ExitCode::kAnswerNo,
                "samplers of several sequences and of cut rows have no traces: leave /b, /topk, "
                "/topp and /minp out");
  }
  const std::int64_t rows = wanted.width == 0 ? 2 * nodes - 1 : nodes;
  const Sets sets(key, rows * vocab, touched_rows(wanted, nodes, rows) * vocab, cold_bytes, most);
  AddressSpace space;
  SamplingLaunch launch{.nodes = nodes, .vocab = vocab, .element_bytes = bytes_of(key.dtype)};
  launch.laws = space.place(3 * nodes * vocab * kFloat);
  launch.results = space.place(64 * nodes * wanted.samples);
  std::vector<LaunchSequence> sequences(static_cast<std::size_t>(sets.count()));
  for (LaunchSequence& sequence : sequences) {
    launch.logits = sets.place(space);
    append_sampling(launch, wanted, sequence);
  }
  return sequences;
}

std::unique_ptr<LaunchTrace> copied(std::uint64_t from, std::uint64_t to, std::int64_t bytes) {
  const std::int64_t each = std::min(bytes, kCopyBytes);
  return trace_rows({.path = "copy_rows",
                     .rows = (bytes + each - 1) / each,
                     .reads = {{from, each, each}},
                     .writes = {{to, each, each}}});
}

std::vector<LaunchSequence> machine_sequences(const PointKey& key, double cold_bytes,
                                              std::int64_t most) {
  const MachineCase wanted = MachineCase::parse(key.strategy);
  const std::int64_t e = bytes_of(key.dtype);
  std::int64_t elements = kTinyBytes / e;
  if (wanted.work == MachineWork::kCopy) {
    elements = std::max<std::int64_t>(1, key.context_len * 1024 / e);
  } else if (wanted.work == MachineWork::kGemm) {
    elements = wanted.k * wanted.m;
  }
  const Sets sets(key, elements, elements, cold_bytes, std::min(most, kMachineSets));
  AddressSpace space;
  const std::uint64_t out = space.place(key.num_queries * std::max(wanted.m, kTinyBytes) * e);
  const std::uint64_t x = space.place(key.num_queries * wanted.k * e);
  std::vector<LaunchSequence> sequences(static_cast<std::size_t>(sets.count()));
  for (LaunchSequence& sequence : sequences) {
    const std::uint64_t in = sets.place(space);
    switch (wanted.work) {
      case MachineWork::kCopy:
        sequence.push_back(copied(in, sets.place(space), elements * e));
        break;
      case MachineWork::kLaunch:
        for (std::int64_t i = 0; i < wanted.launches; ++i) {
          sequence.push_back(copied(in, out, kTinyBytes));
        }
        break;
      case MachineWork::kGemm:
        sequence.push_back(trace_linear({.n = key.num_queries,
                                         .k = wanted.k,
                                         .m = wanted.m,
                                         .element_bytes = e,
                                         .x = x,
                                         .w = in,
                                         .y = out}));
        break;
    }
  }
  return sequences;
}

}  // namespace

std::vector<LaunchSequence> kernel_sequences(const PointKey& key, double cold_bytes,
                                             std::int64_t most) {
  switch (key.workload) {
    case WorkloadKind::kTopk:
      return topk_sequences(key, cold_bytes, most);
    case WorkloadKind::kSampling:
      return sampling_sequences(key, cold_bytes, most);
    case WorkloadKind::kMachine:
      return machine_sequences(key, cold_bytes, most);
    case WorkloadKind::kAttention:
    case WorkloadKind::kStep:
    case WorkloadKind::kAcceptance:
    case WorkloadKind::kDecode:
    case WorkloadKind::kRectify:
    case WorkloadKind::kRectifiedStep:
    case WorkloadKind::kBatch:
      break;
  }
  VERSIEVE_ASSERT(false, "the point is of a kernel alone");
  return {};
}

}  // namespace versieve::engine
