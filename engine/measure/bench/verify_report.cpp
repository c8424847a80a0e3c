// A verification bench as JSON and as text.
#include <nlohmann/json.hpp>

#include "engine/io/formatted.h"
#include "engine/measure/bench/cold_reads_report.h"
#include "engine/measure/bench/peer_report.h"
#include "engine/measure/bench/report_parts.h"
#include "engine/measure/bench/verify_bench.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const VerifyVariant& v) {
  return {{"name", v.name},
          {"layer", v.variant.reuse ? "reuse" : "refresh"},
          {"form", name_of(v.variant.form)},
          {"group_size", v.variant.group_size},
          {"group_mode", v.variant.group_mode == GroupMode::kExact ? "exact" : "approx"},
          {"time_us", summary_json(v.time)},
          {"ratio_over_vanilla", summary_json(v.over_vanilla)},
          {"overlap", v.overlap},
          {"unique_blocks", v.unique_blocks},
          {"floor_bytes", v.floor_bytes},
          {"floor_us", or_null(v.floor_us)},
          {"distance_to_floor",
           v.floor_us ? ordered_json(v.time.median / *v.floor_us) : ordered_json()}};
}

ordered_json json_of(const std::optional<PublicPathTime>& t, const VerifyCell& cell) {
  if (!t) {
    return {};
  }
  return {{"busy_us", t->busy_us},
          {"routing_us", t->routing_us},
          {"selection_us", t->selection_us},
          {"window_us", t->window_us},
          {"ratio_of_vanilla", t->busy_us / cell.vanilla().time.median},
          {"ratio_of_refresh", t->busy_us / cell.best(false).time.median},
          {"ratio_of_reuse", t->busy_us / cell.best(true).time.median}};
}

ordered_json json_of(const VerifyCell& cell) {
  ordered_json variants = ordered_json::array();
  for (const VerifyVariant& v : cell.variants) {
    variants.push_back(json_of(v));
  }
  ordered_json out = {{"n", cell.queries},
                      {"context", cell.context_len},
                      {"overlap", cell.overlap},
                      {"best_refresh", cell.best(false).name},
                      {"best_reuse", cell.best(true).name},
                      {"variants", variants},
                      {"public_recorded", json_of(cell.recorded, cell)},
                      {"public_same_run", json_of(cell.peer, cell)}};
  add_peers_json(cell, out);
  return out;
}

// The layer that was timed.
ordered_json layer_json(const LlmShape& layer) {
  return {{"num_heads", layer.num_heads},       {"num_kv_heads", layer.num_kv_heads},
          {"head_dim", layer.head_dim},         {"cmp_block", layer.nsa.cmp_block},
          {"cmp_stride", layer.nsa.cmp_stride}, {"sel_block", layer.nsa.sel_block},
          {"sel_count", layer.nsa.sel_count},   {"window", layer.nsa.window}};
}

std::string layer_text(const VerifyBenchOptions& options) {
  if (!has_own_layer(options)) {
    return options.geometry;
  }
  const LlmShape layer = bench_layer(options);
  return options.geometry + formatted(" with %lld/%lld heads, compression %lld/%lld",
                                      static_cast<long long>(layer.num_heads),
                                      static_cast<long long>(layer.num_kv_heads),
                                      static_cast<long long>(layer.nsa.cmp_block),
                                      static_cast<long long>(layer.nsa.cmp_stride));
}

std::string floor_column(const VerifyVariant& v) {
  return v.floor_us ? formatted("%7.1f %5.2fx", *v.floor_us, v.time.median / *v.floor_us)
                    : formatted("%7s %6s", "-", "-");
}

std::string public_column(const std::optional<PublicPathTime>& t, const VerifyCell& cell) {
  if (!t) {
    return formatted("%7s %7s %7s", "-", "-", "-");
  }
  return formatted("%7.0f %6.1fx %6.1fx", t->busy_us, t->busy_us / cell.best(false).time.median,
                   t->busy_us / cell.best(true).time.median);
}

std::string best_column(const VerifyVariant& v) {
  const std::size_t space = v.name.find(' ');
  return formatted("%8.1f %-3s %5.2fx", v.time.median, v.name.substr(space + 1).c_str(),
                   v.over_vanilla.median);
}

std::string cell_line(const VerifyCell& cell, bool peer) {
  std::string line =
      formatted("%7lld %4lld %5.2f %9.1f", static_cast<long long>(cell.context_len),
                static_cast<long long>(cell.queries), cell.overlap, cell.vanilla().time.median);
  for (const bool reuse : {false, true}) {
    const VerifyVariant& v = cell.best(reuse);
    line += "  " + best_column(v) + " " + floor_column(v);
  }
  line += "  " + public_column(cell.recorded, cell);
  return line + (peer ? "  " + public_column(cell.peer, cell) : std::string()) + "\n";
}

// Every contender: median [95 % interval].
std::string contender_lines(const VerifyCell& cell) {
  std::string out = formatted("%7lld %4lld %5.2f", static_cast<long long>(cell.context_len),
                              static_cast<long long>(cell.queries), cell.overlap);
  for (const VerifyVariant& v : cell.variants) {
    out += formatted("  %s %.1f [%.1f, %.1f]", v.name.c_str(), v.time.median, v.time.median_low,
                     v.time.median_high);
  }
  return out + "\n";
}

const char* cache_text(const VerifyBenchOptions& options) {
  if (!options.on_gpu) {
    return "caches as they are";
  }
  return options.warm ? "warm" : "buffers rotated (cold)";
}

const char* cache_word(const VerifyBenchOptions& options) {
  if (!options.on_gpu) {
    return "as_is";
  }
  return options.warm ? "warm" : "cold_rotate";
}

std::string head_line(bool peer) {
  std::string line =
      "      L    N   rho   vanilla   refresh      over  floor    dist     reuse"
      "      over  floor    dist   public refresh   reuse";
  return line + (peer ? "  same run refresh reuse" : "") + "\n";
}

}  // namespace

std::string verify_bench_json(const VerifyBench& b) {
  ordered_json cells = ordered_json::array();
  for (const VerifyCell& cell : b.cells) {
    cells.push_back(json_of(cell));
  }
  ordered_json out = head_json("verify", b, b.options.geometry);
  out["layer"] = layer_json(bench_layer(b.options));
  out["cache"] = cache_word(b.options);
  out["samples"] = b.options.samples;
  out["seed"] = b.options.seed;
  out["interval"] = kMedianInterval;
  out["cold_reads"] = cold_reads_json(b.cold_reads);
  out["public_source"] = recorded_public_path_source();
  out["cells"] = cells;
  if (b.peer) {
    out["public_same_run"] = {{"versions", b.peer->versions},
                              {"missing_because", b.peer->missing_because}};
  }
  if (b.fla) {
    out["fla_same_run"] = fla_json(b);
  }
  return out.dump(1) + "\n";
}

std::string verify_bench_text(const VerifyBench& b) {
  const bool peer = b.peer && b.peer->missing_because.empty();
  std::string out =
      formatted("one layer of %s, %s, on %s (%s), %s, median of %lld interleaved samples, us\n",
                layer_text(b.options).c_str(), b.dtype.c_str(), b.device.c_str(), b.backend.c_str(),
                cache_text(b.options), static_cast<long long>(b.options.samples));
  out += head_line(peer);
  for (const VerifyCell& cell : b.cells) {
    out += cell_line(cell, peer);
  }
  out += "\nevery contender, median [95 % interval]\n      L    N   rho\n";
  for (const VerifyCell& cell : b.cells) {
    out += contender_lines(cell);
  }
  out +=
      "\nover: vanilla / it, round by round. floor: cold read of the bytes it must fetch; dist: "
      "time / floor.\npublic: " +
      std::string(recorded_public_path_source()) + "; ratios of its time to ours.\n";
  return out + peers_text(b) + cold_reads_line(b.cold_reads);
}

}  // namespace versieve::engine
