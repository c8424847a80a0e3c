// The launches of one layer's sparse attention in both forms, with what each thread block loads.
#include <algorithm>
#include <cmath>

#include "model/launch_parts.h"

namespace versieve {
namespace {

constexpr double kSpanKeys = 512.0;         // compressed tokens of a block, vanilla form
constexpr double kCombineElements = 512.0;  // of a block of nsa_combine

}  // namespace

traffic::NsaVerifyShape attention_shape(const StepShape& s, double growth) {
  const LlmShape& t = s.target;
  const double blocks = std::floor(number(s.context_len) / number(t.nsa.sel_block)) + 1.0;
  const double chosen = number(t.nsa.sel_count);
  const bool approx = s.group_mode == GroupMode::kApprox && s.group_size > 1;
  // Representatives are C queries apart, so they share less than neighbours do.
  const double routed =
      approx ? std::ceil(number(s.num_queries) / number(s.group_size)) : number(s.num_queries);
  const double shared =
      approx ? std::max(0.0, 1.0 - number(s.group_size) * (1.0 - s.overlap)) : s.overlap;
  const double unique = s.unique_blocks > 0.0
                            ? s.unique_blocks
                            : distinct_blocks(routed, chosen, blocks, shared, growth);
  const double grouped = distinct_blocks(number(std::min(s.group_size, s.num_queries)), chosen,
                                         blocks, s.overlap, growth);
  return {.nsa = t.nsa,
          .num_heads = t.num_heads,
          .num_kv_heads = t.num_kv_heads,
          .head_dim = t.head_dim,
          .context_len = s.context_len,
          .num_queries = s.num_queries,
          .element_bytes = s.element_bytes,
          .unique_blocks = unique,
          .group_size = s.group_size,
          .group_mode = s.group_mode,
          .group_blocks = grouped};
}

namespace {

// The five launches of the baseline: a thread block a query and KV head.
void add_vanilla(const traffic::NsaVerifyShape& s, bool reuse, double layers, StepWork& out) {
  const double rows = number(s.num_queries);
  const double row_blocks = rows * number(s.num_kv_heads);
  const double blocks = std::floor(number(s.context_len) / number(s.nsa.sel_block)) + 1.0;
  const double chosen = std::min(number(s.nsa.sel_count), blocks);
  const double kv = 2.0 * number(s.num_kv_heads * s.head_dim * s.element_bytes);
  const double keys = number(compressed_count(s.nsa, s.context_len));
  const double window = number(std::min(s.nsa.window, s.context_len));
  const double chosen_keys = std::min(chosen * number(s.nsa.sel_block), number(s.context_len));
  if (keys > 0.0) {
    out.add(reloading(LaunchKind::kNsaCompressed, Phase::kAttention, layers,
                      traffic::nsa_compressed(s), TrafficTerm::kCompressedCache, rows * keys * kv,
                      row_blocks * std::ceil(keys / kSpanKeys),
                      std::min(keys, kSpanKeys) / kKeysPerStep));
  }
  if (!reuse) {
    out.add(streaming(LaunchKind::kNsaSelect, Phase::kAttention, layers, traffic::nsa_select(s),
                      row_blocks, keys / kElementsPerBlock + chosen));
  }
  out.add(reloading(LaunchKind::kNsaSelected, Phase::kAttention, layers, traffic::nsa_selected(s),
                    TrafficTerm::kSelectedBlocks, rows * chosen_keys * kv, row_blocks,
                    chosen_keys / kKeysPerStep));
  out.add(reloading(LaunchKind::kNsaWindow, Phase::kAttention, layers, traffic::nsa_window(s),
                    TrafficTerm::kWindow, rows * window * kv, row_blocks, window / kKeysPerStep));
  out.add(streaming(LaunchKind::kNsaCombine, Phase::kAttention, layers, traffic::nsa_combine(s),
                    rows * number(s.num_heads * s.head_dim) / kCombineElements, 1.0));
}

// Launches whose thread blocks load the bytes of several cached terms again and again.
struct FusedLoads {
  double loaded = 0.0;
  double reused = 0.0;
  double blocks = 0.0;
  double steps = 0.0;

  void add(double loads, double unique) {
    loaded += std::max(loads, unique);
    reused += unique;
  }
};

// Compressed attention by tiles of queries and spans of keys.
FusedLoads route_loads(const traffic::NsaVerifyShape& s, const Traffic& unique) {
  const double tiles = std::ceil(number(s.num_queries) / traffic::kRouteTileQueries);
  const std::int64_t compressed = compressed_count(s.nsa, s.context_len);
  const double spans = traffic::nsa_route_spans(compressed);
  const double cached = unique.read_bytes[static_cast<std::size_t>(TrafficTerm::kCompressedCache)];
  FusedLoads loads;
  loads.add(tiles * cached, cached);
  const double heads = number(s.num_heads / s.num_kv_heads);
  loads.blocks = tiles * number(s.num_kv_heads) * std::ceil(heads / traffic::kRouteTileHeads) *
                 at_least_one(spans);
  loads.steps = number(compressed) / at_least_one(spans) / kKeysPerStep;
  return loads;
}

// Selected blocks once a group, window once for those who share it; segments run side by side.
FusedLoads attend_loads(const traffic::NsaVerifyShape& s, const Traffic& unique) {
  const double kv = 2.0 * number(s.num_kv_heads * s.head_dim * s.element_bytes);
  const auto read = [&](TrafficTerm term) {
    return unique.read_bytes[static_cast<std::size_t>(term)];
  };
  const double group_keys =
      std::min(s.blocks_of_group() * number(s.nsa.sel_block), number(s.context_len));
  const double sharing = std::ceil(number(s.num_queries) / traffic::nsa_window_sharers(s));
  FusedLoads loads;
  loads.add(s.group_count() * group_keys * kv, read(TrafficTerm::kSelectedBlocks));
  loads.add(sharing * read(TrafficTerm::kWindow), read(TrafficTerm::kWindow));
  loads.blocks = number(s.num_kv_heads) * (traffic::kSelectedSegments * s.group_count() +
                                           traffic::kWindowSegments * sharing);
  loads.steps = group_keys / traffic::kSelectedSegments / kKeysPerStep;
  return loads;
}

LaunchWork fused(LaunchKind kind, double layers, const Traffic& traffic, const FusedLoads& loads) {
  LaunchWork work = streaming(kind, Phase::kAttention, layers, traffic, loads.blocks, loads.steps);
  work.loaded = loads.loaded;
  work.reused = loads.reused;
  work.reuse_distance = work.working_set;
  work.dependent = true;
  return work;
}

void add_fused(const traffic::NsaVerifyShape& s, bool reuse, double layers, StepWork& out) {
  if (!reuse) {
    const Traffic route = traffic::nsa_route(s);
    const Traffic attend = traffic::nsa_attend(s);
    FusedLoads loads = route_loads(s, route);
    loads.steps += s.chosen_blocks();  // top-n takes one block after the other
    out.add(fused(LaunchKind::kNsaRoute, layers, route, loads));
    out.add(fused(LaunchKind::kNsaAttend, layers, attend, attend_loads(s, attend)));
    return;
  }
  const Traffic traffic = traffic::nsa_reuse(s);
  FusedLoads loads = route_loads(s, traffic);
  const FusedLoads attend = attend_loads(s, traffic);
  loads.loaded += attend.loaded;
  loads.reused += attend.reused;
  loads.blocks += attend.blocks;
  loads.steps = std::max(loads.steps, attend.steps);
  out.add(fused(LaunchKind::kNsaReuse, layers, traffic, loads));
}

}  // namespace

void add_attention(const traffic::NsaVerifyShape& shape, NsaForm form, bool reuse, double layers,
                   StepWork& out) {
  traffic::NsaVerifyShape s = shape;
  s.routing = !reuse;
  if (form == NsaForm::kVanilla) {
    add_vanilla(s, reuse, layers, out);
  } else {
    add_fused(s, reuse, layers, out);
  }
}

}  // namespace versieve
