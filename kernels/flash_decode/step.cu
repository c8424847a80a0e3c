#include "kernels/flash_decode/step.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
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

// A context's bound, also of a list whose count the device knows; another list's is its own length.
// Grids and a recording hold so long.
std::int64_t bound_of(const FlashParams& p) {
  const bool of_known = p.selected.token != nullptr && p.selected.known_count == nullptr;
  return of_known ? shared_bound(p) : bound_of_context(shared_bound(p));
}

std::int64_t room_of(const FlashParams& p) {
  return most_chunks(bound_of(p) + p.num_nodes);
}
std::int64_t captured_positions(const FlashParams& p) {
  return bound_of(p) + p.num_nodes;
}
// Calls' parts of scratch begin at whole vectors, whatever the heads and tiles before them are.
constexpr std::size_t kPartAlignment = 16;
std::size_t aligned(std::size_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}
// Of a call's partial results and captured weights.
std::size_t bytes_of(const FlashParams& p) {
  return aligned(partials_bytes(p, room_of(p))) +
         (p.weights == nullptr ? 0 : aligned(capture_bytes(p, captured_positions(p))));
}

bool takes(const FlashParams& p) {
  return flash_decode_takes(p) && !dense_pass_takes(p) &&
         (p.weights == nullptr || flash_decode_captures(p)) && p.counts == nullptr &&
         p.num_queries <= kSliceQueries;
}

// Calls share launches that are of one kind.
struct Kind {
  int size = 0;
  bool of_lists = false;  // of selected tokens: a chunk a CTA, rows merged by a CTA
  bool captures = false;
  std::span<const std::int32_t> list_of_layer;  // of lists

  bool operator==(const Kind& other) const {
    return size == other.size && of_lists == other.of_lists && captures == other.captures &&
           std::equal(list_of_layer.begin(), list_of_layer.end(), other.list_of_layer.begin(),
                      other.list_of_layer.end());
  }
};

// Calls that share a launch.
struct Group {
  std::size_t first = 0;  // of the plan's calls
  Kind kind;
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

// The launches of layers in which each call does the same: reads its list or all tokens, keeps its
// weights or none.
struct Face {
  std::vector<int> does;  // of each call
  std::vector<Group> groups;
  std::vector<std::size_t> others;
};

struct FlashStep::Plan {
  const DenseStepParams<Bf16>* step = nullptr;
  std::vector<FlashCall> calls;  // in the order of the faces and their groups
  std::vector<Face> faces;
  std::vector<std::size_t> face_of_layer;  // of layers without a window
  CacheMaps maps{};
  StepShape mapped;  // what the maps are of
  const FlashCall* arguments = nullptr;

  void add_layer(std::int64_t layer);
  Face face_in(std::int64_t layer);
  void group(Face& face, const std::vector<std::size_t>& taken, std::int64_t layer);
  void add_call(Group& group, std::size_t number, const FlashParams& p);
  void cut(Group& group, std::span<FlashCall> own);
  void set_maps();
};

void FlashStep::Plan::add_layer(std::int64_t layer) {
  std::size_t face = 0;
  if (step->window(layer) == 0) {
    std::vector<int> does;
    for (std::size_t i = 0; i < step->calls.size(); ++i) {
      does.push_back((step->reads_list(i, layer) ? 1 : 0) +
                     (step->keeps_weights(i, layer) ? 2 : 0));
    }
    face = static_cast<std::size_t>(
        std::find_if(faces.begin(), faces.end(), [&](const Face& f) { return f.does == does; }) -
        faces.begin());
    if (face == faces.size()) {
      faces.push_back(face_in(layer));
      faces.back().does = std::move(does);
    }
  }
  face_of_layer.push_back(face);
}

Face FlashStep::Plan::face_in(std::int64_t layer) {
  Face face;
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < step->calls.size(); ++i) {
    (takes(call_of_kind(*step, i, layer)) ? taken : face.others).push_back(i);
  }
  group(face, taken, layer);
  return face;
}

void FlashStep::Plan::add_call(Group& group, std::size_t number, const FlashParams& p) {
  const CallLayers own = step->layers_of(number);
  FlashCall call{.p = p,
                 .slice = {.tree = !is_chain(p)},
                 .partials = {},
                 .list_stride = own.list_stride,
                 .weights_stride = own.weights_stride,
                 .mapped = !own.list_of_layer.empty()};
  call.slice.first_row = static_cast<int>((p.k - step->k) / step->width());
  if (p.weights != nullptr) {
    call.capture = capture_at(p, captured_positions(p), nullptr);
    group.merged += mean_traffic(p);
  }
  group.bytes += bytes_of(p);
  group.attended += tree_attention_traffic(p);
  group.attended += partials_traffic(p, true);
  group.merged += partials_traffic(p, false);
  calls.push_back(call);
}

// By kind, sizes in ascending order, as many to a launch as have scratch.
void FlashStep::Plan::group(Face& face, const std::vector<std::size_t>& taken,
                            std::int64_t layer) {
  std::vector<Kind> kinds;
  std::vector<FlashParams> params;
  for (const std::size_t i : taken) {
    const FlashParams& p = params.emplace_back(call_of_kind(*step, i, layer));
    Kind kind{.size = size_of(p),
              .of_lists = p.selected.token != nullptr,
              .captures = p.weights != nullptr,
              .list_of_layer = {}};
    if (kind.of_lists) {
      kind.list_of_layer = step->layers_of(i).list_of_layer;
    }
    kinds.push_back(kind);
  }
  std::vector<Kind> ordered;
  for (const Kind& kind : kinds) {
    if (std::find(ordered.begin(), ordered.end(), kind) == ordered.end()) {
      ordered.push_back(kind);
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const Kind& a, const Kind& b) {
    return a.size != b.size ? a.size < b.size : a.of_lists < b.of_lists;
  });
  for (const Kind& kind : ordered) {
    bool fresh = true;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (!(kinds[i] == kind)) {
        continue;
      }
      if (fresh || face.groups.back().bytes + bytes_of(params[i]) > kLaunchBytes) {
        face.groups.push_back({.first = calls.size(), .kind = kind});
        fresh = false;
      }
      add_call(face.groups.back(), taken[i], params[i]);
    }
  }
  for (std::size_t i = 0; i < face.groups.size(); ++i) {
    const std::size_t end = i + 1 < face.groups.size() ? face.groups[i + 1].first : calls.size();
    cut(face.groups[i], std::span(calls).subspan(face.groups[i].first, end - face.groups[i].first));
  }
}

// The grid follows bounds, a call's CTAs its own length.
void FlashStep::Plan::cut(Group& group, std::span<FlashCall> own) {
  const FlashParams& any = own.front().p;
  const FlashForm form = flash_form(size_of(any), any.head_dim, true);
  const std::int64_t share = group.kind.of_lists ? 1 : chunks_of_cta(own, form);
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
  plan.faces.clear();
  plan.face_of_layer.clear();
  for (std::int64_t layer = 0; layer < step.layers; ++layer) {
    plan.add_layer(layer);
  }
  if (!plan.calls.empty()) {
    plan.set_maps();
  }
}

const std::vector<std::size_t>& FlashStep::others(std::int64_t layer) const {
  return plan_->faces[plan_->face_of_layer[static_cast<std::size_t>(layer)]].others;
}
std::size_t FlashStep::argument_bytes() const {
  return plan_->calls.size() * sizeof(FlashCall);
}
std::size_t FlashStep::scratch_bytes() const {
  std::size_t most = 0;
  for (const Face& face : plan_->faces) {
    for (const Group& group : face.groups) {
      most = std::max(most, group.bytes);
    }
  }
  return most;
}

StepShape FlashStep::shape() const {
  const std::vector<Face>& faces = plan_->faces;
  if (!plan_->step->windows.empty() ||
      std::any_of(faces.begin(), faces.end(), [](const Face& f) { return !f.others.empty(); })) {
    return {};
  }
  StepShape shape = plan_->mapped;
  shape.push_back(plan_->step->tree_rows);
  for (const Face& face : faces) {
    for (const Group& group : face.groups) {
      const FlashGrid& grid = group.grid;
      for (const std::int64_t size :
           {std::int64_t{grid.size}, std::int64_t{grid.calls}, std::int64_t{grid.row_blocks},
            std::int64_t{grid.deep}, grid.queries, grid.tiles, grid.num_heads,
            std::int64_t{group.kind.of_lists}}) {
        shape.push_back(size);
      }
      const std::span<const std::int32_t> lists = group.kind.list_of_layer;
      shape.insert(shape.end(), lists.begin(), lists.end());
    }
    shape.push_back(std::ssize(face.groups));
  }
  if (faces.size() > 1) {
    shape.insert(shape.end(), plan_->face_of_layer.begin(), plan_->face_of_layer.end());
  }
  return shape;
}

void FlashStep::write(void* arguments, const void* memory, const LaunchContext& context) {
  Plan& plan = *plan_;
  VERSIEVE_ASSERT(context.scratch_bytes >= scratch_bytes(), "scratch was sized for this step");
  plan.arguments = static_cast<const FlashCall*>(memory);
  for (const Face& face : plan.faces) {
    for (const Group& group : face.groups) {
      char* scratch = static_cast<char*>(context.scratch);
      const std::size_t end = group.first + static_cast<std::size_t>(group.grid.calls);
      for (std::size_t i = group.first; i < end; ++i) {
        FlashCall& call = plan.calls[i];
        VERSIEVE_ASSERT(reinterpret_cast<std::uintptr_t>(scratch) % kPartAlignment == 0,
                        "a call's part begins at a whole vector");
        call.partials = partials_of(call.p, room_of(call.p), scratch);
        if (call.p.weights != nullptr) {
          call.capture = capture_at(call.p, captured_positions(call.p),
                                    scratch + aligned(partials_bytes(call.p, room_of(call.p))));
        }
        scratch += bytes_of(call.p);
      }
    }
  }
  std::memcpy(arguments, plan.calls.data(), argument_bytes());
}

void FlashStep::launch(std::int64_t layer, const LaunchContext& context) const {
  const Plan& plan = *plan_;
  const std::size_t at = static_cast<std::size_t>(layer);
  for (const Group& group : plan.faces[plan.face_of_layer[at]].groups) {
    const FlashGrid& grid = group.grid;
    const std::span<const std::int32_t> lists = group.kind.list_of_layer;
    const FlashSeveral several{.calls = plan.arguments + group.first,
                               .row_blocks = grid.row_blocks,
                               .layer = static_cast<int>(layer),
                               .list = lists.empty() ? 0 : lists[at],
                               .layer_rows = static_cast<int>(layer * plan.step->cache_rows),
                               .layer_nodes = layer * plan.step->tree_rows * plan.step->width(),
                               .maps = plan.maps};
    const bool narrow = plan.step->calls.front().head_dim == 64;
    {
      const LaunchRange range("flash_decode", group.attended, context.observer);
      narrow ? launch_size<64>(several, grid, context.stream)
             : launch_size<128>(several, grid, context.stream);
    }
    const LaunchRange range("flash_combine", group.merged, context.observer);
    const std::int64_t rows = grid.calls * grid.queries * grid.num_heads;
    if (rows >= kRowsPerSm * multiprocessors() && !group.kind.of_lists && !group.kind.captures) {
      narrow ? launch_combine_rows<64>(several, grid, context.stream)
             : launch_combine_rows<128>(several, grid, context.stream);
    } else {
      narrow ? launch_combine<64>(several, grid, context.stream)
             : launch_combine<128>(several, grid, context.stream);
    }
  }
}

}  // namespace versieve::kernels
