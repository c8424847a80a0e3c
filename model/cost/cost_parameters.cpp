#include "model/cost/cost_parameters.h"

#include <algorithm>
#include <string>

namespace versieve {
namespace {

struct Range {
  const char* unit;
  double low;
  double high;
  double initial;
  Evidence evidence;
};

struct NamedRange {
  const char* name;
  Range range;
};

// Initial values: the fields measured on an H200 before the first campaign where there is one
// (effective L2 40 of 60 MiB, 4.64 of 4.92 TB/s, 6.8 TB/s of L2, gaps of 3.0 and 0.5 us), else the
// middle of what is possible.
constexpr std::array<NamedRange, kSharedParameterCount> kShared = {{
    {"effective_l2", {"of L2", 0.2, 1.2, 0.5, Evidence::kBytes}},
    {"l2_knee", {"1", 1.0, 12.0, 5.0, Evidence::kBytes}},
    {"reload_miss", {"of reloads", 0.001, 1.0, 0.3, Evidence::kBytes}},
    {"handover_miss", {"of bytes", 1e-5, 1.0, 0.01, Evidence::kBytes}},
    {"handover_l2", {"of L2", 0.3, 1.5, 0.62, Evidence::kBytes}},
    {"handover_knee", {"1", 2.0, 12.0, 5.0, Evidence::kBytes}},
    {"write_back", {"of bytes", 1e-5, 1.0, 0.05, Evidence::kBytes}},
    {"write_l2", {"of L2", 0.005, 1.5, 0.1, Evidence::kBytes}},
    {"write_knee", {"1", 0.5, 8.0, 2.0, Evidence::kBytes}},
    {"write_fill", {"of a byte", 0.01, 4.0, 1.0, Evidence::kBytes}},
    {"fixed_write", {"B", 100.0, 4e6, 2e3, Evidence::kBytes}},
    {"overfetch_sparse", {"1", 1.0, 2.0, 1.005, Evidence::kBytes}},
    {"overfetch_stream", {"1", 1.0, 2.0, 1.005, Evidence::kBytes}},
    // Weights that stream by leave L2 first: of ReSA's steps on an H100 the next read 12 of 22 MB
    // from DRAM and 87 of 88 (db/measured/h100-terms.db).
    {"kept_l2", {"of L2", 0.02, 1.2, 0.4, Evidence::kBytes}},
    {"kept_knee", {"1", 1.0, 8.0, 2.5, Evidence::kBytes}},
    {"unique_growth", {"1", 0.05, 0.999, 0.6, Evidence::kBytes}},
    {"dram_efficiency", {"of raw", 0.2, 1.0, 0.9, Evidence::kTime}},
    {"l2_rate", {"B/clock/SM", 4.0, 128.0, 26.0, Evidence::kTime}},
    // What regressions of the linear layers' ranges alone give, and of kernels/linear's own
    // timings.
    {"stream_l2_rate", {"B/clock/SM", 4.0, 128.0, 21.0, Evidence::kTime}},
    {"stream_gap", {"us", 0.1, 20.0, 3.0, Evidence::kTime}},
    {"graph_gap", {"us", 0.1, 5.0, 0.6, Evidence::kTime}},
    {"host_trip", {"us", 1.0, 500.0, 20.0, Evidence::kTime}},
    // A launch cannot hide more than itself, and what reads its predecessor's results waits.
    {"overlap", {"of a launch", 0.001, 0.8, 0.05, Evidence::kTime}},
    {"start_overlap", {"of its base", 0.001, 0.8, 0.2, Evidence::kTime}},
}};

constexpr std::array<NamedRange, kKindParameterCount> kPerKind = {{
    {".fixed_read", {"B", 100.0, 4e6, 2e4, Evidence::kBytes}},
    {".write_share", {"of bytes", 0.05, 5.0, 1.0, Evidence::kBytes}},
    {".compute_share", {"of fp32 peak", 1e-3, 16.0, 0.2, Evidence::kTime}},
    {".base", {"us", 0.2, 50.0, 2.0, Evidence::kTime}},
    {".step", {"ns", 1.0, 1e5, 500.0, Evidence::kTime}},
    {".resident", {"blocks/SM", 1.0, 32.0, 4.0, Evidence::kTime}},
    {".round", {"us", 0.2, 200.0, 12.0, Evidence::kNone}},
}};

// Launches whose thread blocks meet within have rounds, which begin as measured on an H200:
// decode_layers at 24 tiles of keys a layer; draft_levels, in whole steps, at 37 us for the newest
// tokens' entries and the first level, 12 us a further level, 0.8 us a node more than four of it
// (ranges of h200-demo-step). Where a machine's ranges move none of them, predictions stand on
// these.
void set_rounds(LaunchKind kind, KindParameter parameter, Range& r) {
  const bool of_draft = kind == LaunchKind::kDraftLevels;
  if (parameter == KindParameter::kRoundUs && (of_draft || kind == LaunchKind::kDecodeLayers)) {
    r.evidence = Evidence::kTime;
  } else if (of_draft && parameter == KindParameter::kBaseUs) {
    r.high = 500.0;
    r.initial = 37.0;
  } else if (of_draft && parameter == KindParameter::kStepNs) {
    r.initial = 800.0;
  }
}

struct KindStart {
  LaunchKind kind;
  KindParameter parameter;
  double initial;
};

// Where the fit of ReSA's launches and of its pass begins: as ranges of the sweep `terms` on an
// H100 had them. Of a launch whose blocks run side by side on an SM, each takes its own share.
constexpr KindStart kResaStarts[] = {
    {LaunchKind::kDensePass, KindParameter::kComputeShare, 14.0},
    {LaunchKind::kDensePass, KindParameter::kBaseUs, 5.0},
    {LaunchKind::kDensePass, KindParameter::kRoundUs, 3.0},
    {LaunchKind::kDensePass, KindParameter::kStepNs, 800.0},
    {LaunchKind::kDensePass, KindParameter::kResident, 1.0},
    {LaunchKind::kResaDecode, KindParameter::kBaseUs, 9.0},
    {LaunchKind::kResaDecode, KindParameter::kRoundUs, 1.5},
    {LaunchKind::kResaDecode, KindParameter::kStepNs, 500.0},
    {LaunchKind::kResaDecodeScore, KindParameter::kStepNs, 350.0},
    {LaunchKind::kResaDecodeSelect, KindParameter::kRoundUs, 1.0},
    {LaunchKind::kResaScore, KindParameter::kBaseUs, 2.0},
    {LaunchKind::kResaScore, KindParameter::kRoundUs, 2.0},
    {LaunchKind::kResaScore, KindParameter::kStepNs, 300.0},
    {LaunchKind::kResaScore, KindParameter::kResident, 1.0},
    {LaunchKind::kResaSelect, KindParameter::kBaseUs, 3.5},
    {LaunchKind::kResaSelect, KindParameter::kRoundUs, 3.5},
    {LaunchKind::kResaSelect, KindParameter::kStepNs, 400.0},
    {LaunchKind::kResaAttend, KindParameter::kBaseUs, 0.5},
    {LaunchKind::kResaAttend, KindParameter::kRoundUs, 3.5},
    {LaunchKind::kResaAttend, KindParameter::kStepNs, 1000.0},
    {LaunchKind::kResaAttend, KindParameter::kResident, 2.0},
    {LaunchKind::kResaCombine, KindParameter::kBaseUs, 2.0},
    {LaunchKind::kResaCombine, KindParameter::kRoundUs, 1.0},
    {LaunchKind::kResaCombine, KindParameter::kStepNs, 10.0},
};

// Of a token-level indexer's launches and of its selection: timings of index_scores alone on an
// H100 (kernels/index_scores), of one query 1.1 to 1.5 times its keys' time and of 32 a quarter of
// the bf16 rate; the other two are a launch and next to nothing else.
constexpr KindStart kIndexerStarts[] = {
    {LaunchKind::kIndexScores, KindParameter::kComputeShare, 4.0},
    {LaunchKind::kIndexScores, KindParameter::kBaseUs, 3.0},
    {LaunchKind::kIndexScores, KindParameter::kStepNs, 300.0},
    {LaunchKind::kIndexScores, KindParameter::kResident, 2.0},
    {LaunchKind::kIndexKeys, KindParameter::kStepNs, 100.0},
    {LaunchKind::kIndexQuery, KindParameter::kStepNs, 100.0},
    // Of rows of one block: 7.3 us of 8,192 scores, 11 of 16,384 (kernels/topk).
    {LaunchKind::kTopkShort, KindParameter::kBaseUs, 3.5},
    {LaunchKind::kTopkShort, KindParameter::kStepNs, 4300.0},
    // Of so few bytes those that no term names count: as an H100's counters have them.
    {LaunchKind::kTopkShort, KindParameter::kFixedRead, 2e3},
    {LaunchKind::kIndexKeys, KindParameter::kFixedRead, 7.5e3},
    {LaunchKind::kIndexQuery, KindParameter::kFixedRead, 1.5e4},
    {LaunchKind::kIndexQuery, KindParameter::kWriteShare, 0.1},
};

// Noise on logits, as ranges of the sweep `sampled-steps` on an H100 had it: 2.8 us for 128,256
// logits, 6 ns for 1,000 more. Where a machine's ranges move none, predictions stand on these.
constexpr KindStart kNoiseStarts[] = {
    {LaunchKind::kGumbelNoise, KindParameter::kComputeShare, 0.1},
    {LaunchKind::kGumbelNoise, KindParameter::kBaseUs, 2.2},
    {LaunchKind::kGumbelNoise, KindParameter::kStepNs, 50.0},
};

// Of chains' samplers: as ranges of the sweep `samplers` on an H100 had them (h100-sampled.db).
constexpr KindStart kSamplerStarts[] = {
    {LaunchKind::kSpecSoftmax, KindParameter::kBaseUs, 1.6},
    {LaunchKind::kSpecSoftmax, KindParameter::kStepNs, 200.0},
    {LaunchKind::kSpecSum, KindParameter::kBaseUs, 3.0},
    {LaunchKind::kSpecSum, KindParameter::kStepNs, 54.0},
    {LaunchKind::kSpecDraw, KindParameter::kBaseUs, 8.5},
    {LaunchKind::kSpecDraw, KindParameter::kStepNs, 36.0},
    {LaunchKind::kSpecChain, KindParameter::kBaseUs, 5.3},
    {LaunchKind::kSpecChain, KindParameter::kStepNs, 128.0},
};

// What tells each parameter of these launches apart is their shape: products and waves of a phase
// grow as its steps do, and a phase has no start of its own.
bool is_told_apart(LaunchKind kind, KindParameter parameter) {
  const bool pass = kind == LaunchKind::kDensePass;
  const bool phase = launch_of(kind) != kind;
  switch (parameter) {
    case KindParameter::kComputeShare:
      return pass;
    case KindParameter::kResident:
      return kind == LaunchKind::kResaAttend;
    case KindParameter::kFixedRead:
    case KindParameter::kBaseUs:
      return !phase;
    case KindParameter::kStepNs:
      return kind != LaunchKind::kResaDecodeSelect;
    case KindParameter::kRoundUs:
      return kind != LaunchKind::kResaDecodeScore;
    case KindParameter::kWriteShare:
      return true;
  }
  return true;
}

void set_resa(LaunchKind kind, KindParameter parameter, Range& r) {
  const bool own = kind == LaunchKind::kDensePass || launch_of(kind) == LaunchKind::kResaDecode ||
                   is_resa_vanilla(kind);
  if (!own) {
    return;
  }
  if (parameter == KindParameter::kRoundUs) {
    r.evidence = Evidence::kTime;
  }
  if (!is_told_apart(kind, parameter)) {
    r.evidence = Evidence::kNone;
    r.initial = parameter == KindParameter::kComputeShare ? r.high : r.low;
  }
  for (const KindStart& start : kResaStarts) {
    if (start.kind == kind && start.parameter == parameter) {
      r.initial = start.initial;
    }
  }
}

void set_indexer(LaunchKind kind, KindParameter parameter, Range& r) {
  for (const KindStart& start : kIndexerStarts) {
    if (start.kind == kind && start.parameter == parameter) {
      r.initial = start.initial;
    }
  }
}

// The launches around a tree are a block or a few that walk over its nodes: 1 to 3 us for 8 to 64
// nodes, up to 7 for 256 (kernels/draft_tree, ranges of h200-demo-step). Wider bounds would let
// them stand for what is missed elsewhere in a step.
Range range_of(LaunchKind kind, std::size_t parameter) {
  Range r = kPerKind[parameter].range;
  const bool of_tree = kind == LaunchKind::kGrowTree || kind == LaunchKind::kFinishTree ||
                       kind == LaunchKind::kAcceptTree || kind == LaunchKind::kCommitPath;
  if (of_tree && parameter == static_cast<std::size_t>(KindParameter::kBaseUs)) {
    r.high = 5.0;
  } else if (of_tree && parameter == static_cast<std::size_t>(KindParameter::kStepNs)) {
    r.high = 2e3;
  }
  set_rounds(kind, static_cast<KindParameter>(parameter), r);
  set_resa(kind, static_cast<KindParameter>(parameter), r);
  set_indexer(kind, static_cast<KindParameter>(parameter), r);
  for (const std::span<const KindStart> starts :
       {std::span<const KindStart>(kNoiseStarts), std::span<const KindStart>(kSamplerStarts)}) {
    for (const KindStart& start : starts) {
      if (start.kind == kind && start.parameter == static_cast<KindParameter>(parameter)) {
        r.initial = start.initial;
      }
    }
  }
  return r;
}

struct Table {
  std::array<std::string, kParameterCount> names;
  std::array<ParameterInfo, kParameterCount> rows;

  Table() {
    for (std::size_t i = 0; i < kSharedParameterCount; ++i) {
      set(i, kShared[i].name, kShared[i].range);
    }
    for (std::size_t kind = 0; kind < kLaunchKindCount; ++kind) {
      for (std::size_t p = 0; p < kKindParameterCount; ++p) {
        const std::string name = name_of(static_cast<LaunchKind>(kind));
        set(index_of(static_cast<LaunchKind>(kind), static_cast<KindParameter>(p)),
            name + kPerKind[p].name, range_of(static_cast<LaunchKind>(kind), p));
      }
    }
  }

  void set(std::size_t index, const std::string& name, const Range& r) {
    names[index] = name;
    rows[index] = {names[index].c_str(), r.unit, r.low, r.high, r.initial, r.evidence};
  }
};

const Table& table() {
  static const Table instance;
  return instance;
}

}  // namespace

std::span<const ParameterInfo, kParameterCount> parameter_table() {
  return table().rows;
}

CostParameters initial_parameters() {
  CostParameters values;
  std::transform(table().rows.begin(), table().rows.end(), values.begin(),
                 [](const ParameterInfo& info) { return info.initial; });
  return values;
}

}  // namespace versieve
