#include "kernels/flash_decode/step.h"

#include <cstring>
#include <numeric>
#include <span>

#include "kernels/common/launch_range.h"
#include "kernels/flash_decode/flash_kernels.cuh"
#include "kernels/launch.h"
#include "kernels/tree_attention/traffic.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr std::size_t kLaunchBytes = std::size_t{256} << 20;  // of a launch's partial results

// From so many rows an SM on a warp merges a row, a CTA before.
constexpr std::int64_t kRowsPerSm = 4;

// A context's bound; a list's is its own length. Grids and a recording hold so long.
std::int64_t bound_of(const FlashParams& p) {
  return p.selected.token != nullptr ? shared_bound(p) : bound_of_context(p.context_len);
}

std::int64_t room_of(const FlashParams& p) {
  return most_chunks(bound_of(p) + p.num_nodes);
}

bool takes(const FlashParams& p) {
  return flash_decode_takes(p) && !dense_pass_takes(p) && p.weights == nullptr &&
         p.counts == nullptr && p.num_queries <= kSliceQueries;
}

// Calls that share a launch.
struct Group {
  std::size_t first = 0;  // of the plan's calls
  bool of_lists = false;  // of selected tokens: a chunk a CTA, rows merged by a CTA
  FlashGrid grid;
  std::size_t bytes = 0;  // of partial results
  Traffic attended, merged;
};

// Chunks that a CTA attends one after the other: few CTAs do less beside, many share the chip more
// evenly. What a CTA does beside its chunks counts as much as kBeside of them. Powers of two, so
// that contexts which pass a bound seldom change it, and recordings hold.
std::int64_t chunks_of_cta(std::span<const FlashCall> calls, const FlashForm& form) {
  constexpr double kBeside = 1.5;
  constexpr std::int64_t kMostShare = 16;
  const double places = form.resident * multiprocessors();
  double least = 0.0;
  std::int64_t best = 1;
  for (std::int64_t share = 1; share <= kMostShare; share *= 2) {
    double ctas = 0.0, paths = 0.0;
    for (FlashCall call : calls) {
      // About the middle of the lengths that have one bound.
      cut_call(call, form, most_chunks(bound_of(call.p) - kBoundTokens / 2 + call.p.num_nodes),
               share);
      const double blocks = static_cast<double>(call.row_blocks * call.p.num_kv_heads);
      ctas += blocks * call.splits;
      paths += blocks * call.slice.path_blocks;
    }
    const double longest = static_cast<double>(share) + kBeside;
    const double time = ctas + paths <= places
                            ? longest
                            : (ctas * longest + paths * (1.0 + kBeside)) / places + longest / 2.0;
    if (share == 1 || time < least) {
      least = time;
      best = share;
    }
  }
  return best;
}

}  // namespace

struct FlashStep::Plan {
  const DenseStepParams<Bf16>* step = nullptr;
  std::vector<FlashCall> calls;  // in the order of the groups
  std::vector<Group> groups;
  std::vector<std::size_t> others;
  CacheMaps maps{};
  StepShape mapped;  // what the maps are of
  const FlashCall* arguments = nullptr;

  void group(const std::vector<std::size_t>& taken);
  void cut(Group& group, std::span<FlashCall> own);
  void set_maps();
};

// By size, and whether they read lists, as many to a launch as have scratch.
void FlashStep::Plan::group(const std::vector<std::size_t>& taken) {
  const std::int64_t width = step->width();
  for (int kind = 0; kind < 8; ++kind) {
    const bool of_lists = kind % 2 == 1;
    bool fresh = true;
    for (const std::size_t i : taken) {
      const FlashParams& p = step->calls[i];
      if (size_of(p) != kind / 2 || (p.selected.token != nullptr) != of_lists) {
        continue;
      }
      const std::size_t bytes = partials_bytes(p, room_of(p));
      if (fresh || groups.back().bytes + bytes > kLaunchBytes) {
        groups.push_back({.first = calls.size(), .of_lists = of_lists});
        fresh = false;
      }
      FlashCall call{.p = p, .slice = {.tree = !is_chain(p)}, .partials = {}};
      call.slice.first_row = static_cast<int>((p.k - step->k) / width);
      Group& own = groups.back();
      call.list_stride = step->list_strides.empty() ? 0 : step->list_strides[i];
      own.bytes += bytes;
      own.attended += tree_attention_traffic(p);
      own.attended += partials_traffic(p, true);
      own.merged += partials_traffic(p, false);
      calls.push_back(call);
    }
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::size_t end = i + 1 < groups.size() ? groups[i + 1].first : calls.size();
    cut(groups[i], std::span(calls).subspan(groups[i].first, end - groups[i].first));
  }
}

// The grid follows bounds, a call's CTAs its own length.
void FlashStep::Plan::cut(Group& group, std::span<FlashCall> own) {
  const FlashParams& any = own.front().p;
  const FlashForm form = flash_form(size_of(any), any.head_dim, true);
  const std::int64_t share = group.of_lists ? 1 : chunks_of_cta(own, form);
  for (FlashCall& call : own) {
    cut_call(call, form, room_of(call.p), share);
    group.grid.add(call);
    cut_call(call, form, most_chunks(shared_bound(call.p) + call.p.num_nodes), share);
  }
}

// Of all caches and layers; made anew where those are others.
void FlashStep::Plan::set_maps() {
  const FlashParams& p = step->calls.front();
  const std::int64_t rows = step->layers * step->cache_rows;
  VERSIEVE_ASSERT(rows < INT32_MAX, "the copy engine counts rows in 32 bits");
  const StepShape of = {reinterpret_cast<std::int64_t>(step->k),
                        reinterpret_cast<std::int64_t>(step->v),
                        rows,
                        p.num_kv_heads,
                        p.head_dim,
                        step->cache_rows};
  if (of != mapped) {
    mapped = of;
    const auto map = [&](const Bf16* cache, int box) {
      return cache_map(cache, rows, p.num_kv_heads, p.head_dim, box);
    };
    maps = {.k = map(step->k, kTileKeys),
            .v = map(step->v, kTileKeys),
            .k_run = map(step->k, kRunRows),
            .v_run = map(step->v, kRunRows),
            .k_row = map(step->k, 1),
            .v_row = map(step->v, 1)};
  }
}

FlashStep::FlashStep() : plan_(std::make_unique<Plan>()) {}
FlashStep::~FlashStep() = default;

void FlashStep::plan(const DenseStepParams<Bf16>& step) {
  Plan& plan = *plan_;
  plan.step = &step;
  plan.calls.clear();
  plan.groups.clear();
  plan.others.clear();
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < step.calls.size(); ++i) {
    (takes(step.calls[i]) ? taken : plan.others).push_back(i);
  }
  if (!taken.empty()) {
    plan.group(taken);
    plan.set_maps();
  }
}

const std::vector<std::size_t>& FlashStep::others() const {
  return plan_->others;
}
std::size_t FlashStep::argument_bytes() const {
  return plan_->calls.size() * sizeof(FlashCall);
}
std::size_t FlashStep::scratch_bytes() const {
  return std::transform_reduce(
      plan_->groups.begin(), plan_->groups.end(), std::size_t{0},
      [](std::size_t a, std::size_t b) { return std::max(a, b); },
      [](const Group& group) { return group.bytes; });
}

StepShape FlashStep::shape() const {
  if (!plan_->others.empty() || !plan_->step->windows.empty()) {
    return {};
  }
  StepShape shape = plan_->mapped;
  shape.push_back(plan_->step->tree_rows);
  for (const Group& group : plan_->groups) {
    const FlashGrid& grid = group.grid;
    for (const std::int64_t size :
         {std::int64_t{grid.size}, std::int64_t{grid.calls}, std::int64_t{grid.row_blocks},
          std::int64_t{grid.deep}, grid.queries, grid.num_heads}) {
      shape.push_back(size);
    }
  }
  return shape;
}

void FlashStep::write(void* arguments, const void* memory, const LaunchContext& context) {
  Plan& plan = *plan_;
  VERSIEVE_ASSERT(context.scratch_bytes >= scratch_bytes(), "scratch was sized for this step");
  plan.arguments = static_cast<const FlashCall*>(memory);
  for (const Group& group : plan.groups) {
    char* scratch = static_cast<char*>(context.scratch);
    for (std::size_t i = group.first; i < group.first + static_cast<std::size_t>(group.grid.calls);
         ++i) {
      FlashCall& call = plan.calls[i];
      call.partials = partials_of(call.p, room_of(call.p), scratch);
      scratch += partials_bytes(call.p, room_of(call.p));
    }
  }
  std::memcpy(arguments, plan.calls.data(), argument_bytes());
}

void FlashStep::launch(std::int64_t layer, const LaunchContext& context) const {
  const Plan& plan = *plan_;
  for (const Group& group : plan.groups) {
    const FlashGrid& grid = group.grid;
    const FlashSeveral several{.calls = plan.arguments + group.first,
                               .row_blocks = grid.row_blocks,
                               .layer = static_cast<int>(layer),
                               .layer_rows = static_cast<int>(layer * plan.step->cache_rows),
                               .layer_nodes = layer * plan.step->tree_rows * plan.step->width(),
                               .maps = plan.maps};
    const bool narrow = plan.step->calls.front().head_dim == 64;
    {
      const LaunchRange range("flash_decode", group.attended, context.observer);
      narrow ? launch_size<64>(several, grid, {}, context.stream)
             : launch_size<128>(several, grid, {}, context.stream);
    }
    const LaunchRange range("flash_combine", group.merged, context.observer);
    const std::int64_t rows = grid.calls * grid.queries * grid.num_heads;
    if (rows >= kRowsPerSm * multiprocessors() && !group.of_lists) {
      narrow ? launch_combine_rows<64>(several, grid, context.stream)
             : launch_combine_rows<128>(several, grid, context.stream);
    } else {
      narrow ? launch_combine<64>(several, grid, {}, context.stream)
             : launch_combine<128>(several, grid, {}, context.stream);
    }
  }
}

}  // namespace versieve::kernels
