#include "kernels/nsa_verify/fused_step.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/common/tensor_map.h"
#include "kernels/nsa_verify/fused_kernels.cuh"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kLaunchKinds = 3;  // of FusedLaunch
constexpr std::array<FusedLaunch, kLaunchKinds> kLaunches = {
    FusedLaunch::kRoute, FusedLaunch::kAttend, FusedLaunch::kReuse};
// What the calls of one launch write for each other stays in L2.
constexpr std::size_t kLaunchScratchBytes = std::size_t{32} << 20;
constexpr std::int64_t kMostCutCalls = 16;  // that cuts are told apart by
constexpr std::size_t kMostCuts = 64;       // that are remembered

int kind_of(FusedLaunch launch) {
  return static_cast<int>(launch);
}

// What a call is cut for, and how.
struct StepCut {
  FusedCall call;
  std::int64_t tree_compressed = 0;  // bound
  bool takes = false;
  FusedCut cut[kLaunchKinds];
  Layout layout{};
  Kernel<FusedSeveral> kernel[kLaunchKinds] = {};
};

// The call by bounds of its counts, which are to be read at `counts`.
NsaVerifyParams<Bf16> bounded(const NsaVerifyParams<Bf16>& p, const StepCounts* counts) {
  NsaVerifyParams<Bf16> b = p;
  b.counts = counts;
  b.context_len = bound_of_context(p.context_len);
  b.num_compressed = compressed_count(p.nsa, b.context_len);
  b.num_tree_compressed = p.num_queries;
  b.num_blocks = (b.context_len + p.num_queries) / p.nsa.sel_block + 1;
  return b;
}

StepCut cut_for(const NsaVerifyParams<Bf16>& p, const FusedCall& call) {
  StepCut out{.call = call};
  out.takes = fused_takes(p);
  for (const FusedLaunch launch : kLaunches) {
    std::optional<FusedCut> cut = out.takes ? cut_fused(call, launch) : std::nullopt;
    out.takes = cut.has_value();
    if (cut) {
      out.cut[kind_of(launch)] = *cut;
      out.kernel[kind_of(launch)] = kernel_of<FusedSeveral>(launch, p, *cut, false);
    }
  }
  out.layout = layout_of(p);
  return out;
}

// The step's arguments as the host writes them, and as launches read them.
struct Image {
  FusedArguments* base;     // [calls, kinds]
  std::int32_t* refresh;    // [calls, layers]: the layer whose blocks are attended
  StepCounts* counts;       // [calls]
  FusedArguments* layered;  // [layers, kinds, calls], made of the others
  std::size_t bytes = 0, all_bytes = 0;

  Image(void* memory, std::int64_t calls, std::int64_t layers) {
    char* const first = static_cast<char*>(memory);
    char* at = first;
    const auto place = [&at](auto*& array, std::int64_t count) {
      array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(at);
      at += (count * static_cast<std::int64_t>(sizeof(*array)) + 255) / 256 * 256;
    };
    place(base, calls * kLaunchKinds);
    place(refresh, calls * layers);
    place(counts, calls);
    bytes = static_cast<std::size_t>(at - first);
    place(layered, calls * kLaunchKinds * layers);
    all_bytes = static_cast<std::size_t>(at - first);
  }
};

struct LayerStrides {
  std::int64_t cache_rows, compressed_rows, tree_rows;  // between two layers
  std::int64_t width;                                   // G d
  std::int64_t indices;                                 // elements
  bool older;                                           // caches are older than a layer before
};

// Grid: (call and kind, layer). A layer's arguments: those of layer 0, its own rows.
__global__ void layer_arguments_kernel(const FusedArguments* base, const std::int32_t* refresh,
                                       FusedArguments* layered, const LayerStrides strides) {
  constexpr int kWords = sizeof(FusedArguments) / 4;
  static_assert(sizeof(FusedArguments) % 4 == 0);
  const int calls = static_cast<int>(gridDim.x) / kLaunchKinds;
  const int call = static_cast<int>(blockIdx.x) / kLaunchKinds;
  const int kind = static_cast<int>(blockIdx.x) - call * kLaunchKinds;
  const int layer = static_cast<int>(blockIdx.y);
  const FusedArguments& from = base[blockIdx.x];
  FusedArguments& to = layered[(layer * kLaunchKinds + kind) * calls + call];
  for (int i = static_cast<int>(threadIdx.x); i < kWords; i += static_cast<int>(blockDim.x)) {
    reinterpret_cast<unsigned*>(&to)[i] = reinterpret_cast<const unsigned*>(&from)[i];
  }
  __syncthreads();
  if (threadIdx.x != 0) {
    return;
  }
  const int chosen = refresh[call * static_cast<int>(gridDim.y) + layer];
  const std::int64_t tree = layer * strides.tree_rows;
  to.k_tree = from.k_tree + tree * strides.width;
  to.v_tree = from.v_tree + tree * strides.width;
  to.k_cmp_tree = from.k_cmp_tree + tree * strides.width;
  to.v_cmp_tree = from.v_cmp_tree + tree * strides.width;
  to.first_row[0][0] = from.first_row[0][0] + static_cast<int>(layer * strides.cache_rows);
  to.first_row[1][0] = from.first_row[1][0] + static_cast<int>(layer * strides.compressed_rows);
  to.first_row[0][1] = from.first_row[0][1] + static_cast<int>(tree);
  to.first_row[1][1] = from.first_row[1][1] + static_cast<int>(tree);
  to.indices = from.indices + layer * strides.indices;
  to.chosen = from.indices + chosen * strides.indices;
  to.older_lists = layer > 0 && strides.older;
  to.older_blocks = layer > chosen + 1;
}

// Calls that share launches: of one schedule, cut for the same kernels.
struct Group {
  std::size_t first = 0, count = 0;  // of the plan's calls
  const StepCut* cut = nullptr;      // of one of them
  std::string_view schedule;
  unsigned blocks[kLaunchKinds] = {};
  std::size_t shared_bytes[kLaunchKinds] = {};
  std::size_t scratch_bytes = 0;
  bool one_node = false;
  Traffic traffic[kLaunchKinds];  // once there is a watcher
  bool counted_traffic = false;

  bool runs(FusedLaunch launch, std::int64_t layer) const {
    return (launch == FusedLaunch::kReuse) == (refresh_layer(schedule, layer) != layer);
  }
};

}  // namespace

struct FusedStep::Plan {
  const NsaStepParams<Bf16>* step = nullptr;
  std::vector<std::unique_ptr<StepCut>> cuts;  // remembered from step to step
  struct Call {
    std::size_t index = 0;  // of the step's
    const StepCut* cut = nullptr;
  };
  std::vector<Call> calls;  // in the order of the groups
  std::vector<Group> groups;
  std::vector<std::size_t> others;
  std::size_t counters = 0;
  TileMaps maps{};
  std::vector<const void*> mapped;  // what the maps are of
  Image image{nullptr, 0, 0};       // of the device

  const StepCut& cut_of_call(const NsaVerifyParams<Bf16>& p, std::int64_t calls_of_step);
  void group();
  void set_maps();
  void write_call(std::size_t at, const Image& host, char* scratch, unsigned* counters);
  LayerStrides strides() const;
};

const StepCut& FusedStep::Plan::cut_of_call(const NsaVerifyParams<Bf16>& p,
                                            std::int64_t calls_of_step) {
  static constexpr StepCounts kSomewhere{};
  const NsaVerifyParams<Bf16> b = bounded(p, &kSomewhere);
  FusedCall call = call_of(b);
  const auto several = static_cast<std::uint64_t>(std::min(calls_of_step, kMostCutCalls));
  // A node alone is cut one way.
  call.calls = call.num_queries == 1
                   ? 2
                   : std::max<std::int64_t>(2, static_cast<std::int64_t>(std::bit_floor(several)));
  const auto known = std::find_if(cuts.rbegin(), cuts.rend(),
                                  [&](const auto& other) { return other->call == call; });
  if (known != cuts.rend()) {
    return **known;
  }
  cuts.push_back(std::make_unique<StepCut>(cut_for(b, call)));
  return *cuts.back();
}

// By schedule and kernels, as many to a launch as have scratch in L2.
void FusedStep::Plan::group() {
  const auto key_less = [&](const Call& a, const Call& b) {
    const std::string_view left = step->calls[a.index].schedule;
    const std::string_view right = step->calls[b.index].schedule;
    return left != right
               ? left < right
               : std::lexicographical_compare(std::begin(a.cut->kernel), std::end(a.cut->kernel),
                                              std::begin(b.cut->kernel), std::end(b.cut->kernel),
                                              std::less<Kernel<FusedSeveral>>());
  };
  std::stable_sort(calls.begin(), calls.end(), key_less);
  groups.clear();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const StepCut& cut = *calls[i].cut;
    if (groups.empty() || key_less(calls[i - 1], calls[i]) ||
        groups.back().scratch_bytes + cut.layout.bytes > kLaunchScratchBytes) {
      groups.push_back({.first = i,
                        .cut = &cut,
                        .schedule = step->calls[calls[i].index].schedule,
                        .one_node = cut.call.num_queries == 1});
    }
    Group& group = groups.back();
    ++group.count;
    group.scratch_bytes += cut.layout.bytes;
    for (const FusedLaunch launch : kLaunches) {
      const int kind = kind_of(launch);
      const FusedCut& own = cut.cut[kind];
      const std::int64_t blocks =
          (std::int64_t{own.part_blocks} * own.query_tiles + own.finishers(cut.call.num_queries)) *
          cut.call.num_kv_heads;
      group.blocks[kind] = std::max(group.blocks[kind], static_cast<unsigned>(blocks));
      group.shared_bytes[kind] =
          std::max(group.shared_bytes[kind], static_cast<std::size_t>(own.shared_bytes));
    }
  }
}

// Of the whole buffers; made anew where those are others.
void FusedStep::Plan::set_maps() {
  const NsaVerifyParams<Bf16>& p = step->calls.front().first;
  const auto number = [](std::int64_t x) { return reinterpret_cast<const void*>(x); };
  const std::vector<const void*> of = {step->k,
                                       step->v,
                                       step->k_cmp,
                                       step->v_cmp,
                                       step->k_tree,
                                       step->v_tree,
                                       step->k_cmp_tree,
                                       step->v_cmp_tree,
                                       number(step->layers),
                                       number(step->cache_rows),
                                       number(step->compressed_rows),
                                       number(step->tree_rows),
                                       number(p.num_kv_heads),
                                       number(p.head_dim)};
  if (of == mapped) {
    return;
  }
  mapped = of;
  const auto map = [&](const Bf16* rows, std::int64_t count) {
    return cache_map(rows, step->layers * count, p.num_kv_heads, p.head_dim, kTileKeys);
  };
  maps = {{{map(step->k, step->cache_rows), map(step->v, step->cache_rows),
            map(step->k_tree, step->tree_rows), map(step->v_tree, step->tree_rows)},
           {map(step->k_cmp, step->compressed_rows), map(step->v_cmp, step->compressed_rows),
            map(step->k_cmp_tree, step->tree_rows), map(step->v_cmp_tree, step->tree_rows)}}};
}

LayerStrides FusedStep::Plan::strides() const {
  const NsaVerifyParams<Bf16>& p = step->calls.front().first;
  return {step->cache_rows,     step->compressed_rows,
          step->tree_rows,      p.num_kv_heads * p.head_dim,
          step->indices_stride, !step->keeps_rows_first};
}

// Arguments of call `at` for each kind of launch, its counts and the layers it reads blocks of.
void FusedStep::Plan::write_call(std::size_t at, const Image& host, char* scratch,
                                 unsigned* of_call) {
  const Call& call = calls[at];
  const StepCut& cut = *call.cut;
  const NsaVerifyParams<Bf16>& p = step->calls[call.index].first;
  const NsaVerifyParams<Bf16> b = bounded(p, image.counts + at);
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  FusedArguments a = arguments_of(b, scratch, of_call);
  const auto rows_before = [&](const Bf16* rows, const Bf16* first) {
    return static_cast<int>((rows - first) / width);
  };
  a.first_row[0][0] = rows_before(p.k, step->k);
  a.first_row[0][1] = rows_before(p.k_tree, step->k_tree);
  a.first_row[1][0] = rows_before(p.k_cmp, step->k_cmp);
  a.first_row[1][1] = rows_before(p.k_cmp_tree, step->k_cmp_tree);
  for (const FusedLaunch launch : kLaunches) {
    FusedArguments own = a;
    const bool reuses = launch == FusedLaunch::kReuse;
    own.spans_joined = cut.cut[kind_of(reuses ? launch : FusedLaunch::kRoute)].joined;
    complete(b, cut.cut[kind_of(launch)], own);
    if (launch == FusedLaunch::kAttend) {  // counts while nsa_route still does
      own.counters += counters / 2;
    }
    std::memcpy(host.base + at * kLaunchKinds + static_cast<std::size_t>(kind_of(launch)), &own,
                sizeof(own));
  }
  const std::string_view schedule = step->calls[call.index].schedule;
  for (std::int64_t layer = 0; layer < step->layers; ++layer) {
    host.refresh[static_cast<std::int64_t>(at) * step->layers + layer] =
        static_cast<std::int32_t>(refresh_layer(schedule, layer));
  }
  host.counts[at] = {.context_len = static_cast<std::int32_t>(p.context_len),
                     .tree_compressed = static_cast<std::int32_t>(p.num_tree_compressed)};
}

FusedStep::FusedStep() : plan_(std::make_unique<Plan>()) {}
FusedStep::~FusedStep() = default;

void FusedStep::plan(const NsaStepParams<Bf16>& step) {
  Plan& plan = *plan_;
  plan.step = &step;
  plan.calls.clear();
  plan.others.clear();
  plan.counters = 0;
  if (plan.cuts.size() > kMostCuts) {
    plan.cuts.clear();
  }
  const std::int64_t count = static_cast<std::int64_t>(step.calls.size());
  for (std::size_t i = 0; i < step.calls.size(); ++i) {
    const NsaVerifyParams<Bf16>& p = step.calls[i].first;
    const StepCut* const cut = p.form == NsaForm::kFused ? &plan.cut_of_call(p, count) : nullptr;
    if (cut != nullptr && cut->takes) {
      plan.calls.push_back({i, cut});
      plan.counters += static_cast<std::size_t>(4 * p.num_queries * p.num_kv_heads);
    } else {
      plan.others.push_back(i);
    }
  }
  plan.group();
  if (!plan.calls.empty()) {
    plan.set_maps();
  }
}

const std::vector<std::size_t>& FusedStep::others() const {
  return plan_->others;
}
std::size_t FusedStep::image_bytes() const {
  return Image(nullptr, static_cast<std::int64_t>(plan_->calls.size()), plan_->step->layers).bytes;
}
std::size_t FusedStep::argument_bytes() const {
  return Image(nullptr, static_cast<std::int64_t>(plan_->calls.size()), plan_->step->layers)
      .all_bytes;
}
std::size_t FusedStep::counter_count() const {
  return plan_->counters;
}
std::size_t FusedStep::scratch_bytes() const {
  std::size_t bytes = 0;
  for (const Group& group : plan_->groups) {
    bytes = std::max(bytes, group.scratch_bytes);
  }
  return bytes;
}

StepShape FusedStep::shape() const {
  if (!plan_->others.empty()) {
    return {};
  }
  StepShape shape;
  for (const void* mapped : plan_->mapped) {
    shape.push_back(reinterpret_cast<std::int64_t>(mapped));
  }
  for (const Group& group : plan_->groups) {
    shape.push_back(static_cast<std::int64_t>(group.count));
    for (int kind = 0; kind < kLaunchKinds; ++kind) {
      shape.push_back(reinterpret_cast<std::int64_t>(group.cut->kernel[kind]));
      shape.push_back(group.blocks[kind]);
      shape.push_back(static_cast<std::int64_t>(group.shared_bytes[kind]));
    }
    shape.push_back(static_cast<std::int64_t>(group.schedule.size()));
    shape.insert(shape.end(), group.schedule.begin(), group.schedule.end());
  }
  return shape;
}

void FusedStep::write(void* image, const FusedStepMemory& memory, const LaunchContext& context) {
  Plan& plan = *plan_;
  const std::int64_t count = static_cast<std::int64_t>(plan.calls.size());
  VERSIEVE_ASSERT(context.scratch_bytes >= scratch_bytes(), "scratch was sized for this step");
  plan.image = Image(memory.arguments, count, plan.step->layers);
  const Image host(image, count, plan.step->layers);
  std::memset(image, 0, host.bytes);  // between the arrays too: no pointers of an older step's
  unsigned* counters = memory.counters;
  for (const Group& group : plan.groups) {
    char* scratch = static_cast<char*>(context.scratch);
    for (std::size_t i = group.first; i < group.first + group.count; ++i) {
      plan.write_call(i, host, scratch, counters);
      const FusedCall& call = plan.calls[i].cut->call;
      scratch += plan.calls[i].cut->layout.bytes;
      counters += 2 * call.num_queries * call.num_kv_heads;
    }
  }
}

void FusedStep::enqueue_layers(const LaunchContext& context) const {
  const Plan& plan = *plan_;
  if (plan.calls.empty()) {
    return;
  }
  const dim3 grid(static_cast<unsigned>(plan.calls.size()) * kLaunchKinds,
                  static_cast<unsigned>(plan.step->layers));
  layer_arguments_kernel<<<grid, 128, 0, context.stream>>>(plan.image.base, plan.image.refresh,
                                                           plan.image.layered, plan.strides());
  check(cudaGetLastError());
}

void FusedStep::launch(std::int64_t layer, const LaunchContext& context) {
  Plan& plan = *plan_;
  for (Group& group : plan.groups) {
    if (!group.counted_traffic) {
      for (std::size_t i = group.first; i < group.first + group.count; ++i) {
        for (const FusedLaunch launch : kLaunches) {
          NsaVerifyParams<Bf16> p = plan.step->calls[plan.calls[i].index].first;
          p.indices_in = launch == FusedLaunch::kReuse ? p.indices : nullptr;
          group.traffic[kind_of(launch)] += traffic_of(launch, p);
        }
      }
      group.counted_traffic = true;
    }
    for (const FusedLaunch launch : kLaunches) {
      const int kind = kind_of(launch);
      if (!group.runs(launch, layer)) {
        continue;
      }
      const LaunchRange range(name_of(launch), group.traffic[kind], context.observer);
      const FusedSeveral several{.arguments = plan.image.layered +
                                              (layer * kLaunchKinds + kind) *
                                                  static_cast<std::int64_t>(plan.calls.size()) +
                                              static_cast<std::int64_t>(group.first),
                                 .maps = plan.maps};
      launch_dependent(
          {.grid = dim3(static_cast<unsigned>(group.count), group.blocks[kind]),
           .threads = static_cast<unsigned>(group.one_node ? kCtaWarps * 32 : kTreeThreads),
           .shared_bytes = group.shared_bytes[kind],
           .stream = context.stream},
          group.cut->kernel[kind], several);
    }
  }
}

}  // namespace versieve::kernels
