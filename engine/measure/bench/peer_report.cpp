#include "engine/measure/bench/peer_report.h"

#include "engine/io/formatted.h"
#include "engine/measure/bench/verify_peers.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

std::string heads_text(const HeadCounts& heads) {
  return std::to_string(heads.query) + "/" + std::to_string(heads.kv);
}

// A part that a peer does not have is null.
ordered_json part(double us) {
  return us > 0.0 ? ordered_json(us) : ordered_json();
}

ordered_json json_of(const PeerTime& t) {
  return {{"name", t.name},
          {"heads", heads_text(t.heads)},
          {"whole_us", part(t.whole_us)},
          {"kept_us", t.kept_us},
          {"given_us", t.given_us},
          {"pooling_us", part(t.pooling_us)},
          {"routing_us", t.routing_us},
          {"selection_us", t.selection_us},
          {"window_us", t.window_us}};
}

ordered_json json_of(const std::optional<StrongerPeer>& s, bool reuse) {
  if (!s) {
    return {};
  }
  return {{"name", s->peer.name}, {"heads", heads_text(s->peer.heads)},        {"us", s->us},
          {"ratio", s->ratio},    {"goal", reuse ? kReuseGoal : kRefreshGoal}, {"met", s->met}};
}

std::string part_column(double us) {
  return us > 0.0 ? formatted(" %7.1f", us) : formatted(" %7s", "-");
}

std::string peer_line(const PeerTime& t) {
  std::string line = formatted(
      "%7lld %4lld %5.2f  %-12s %7s", static_cast<long long>(t.context_len),
      static_cast<long long>(t.queries), t.overlap, t.name.c_str(), heads_text(t.heads).c_str());
  for (const double us : {t.pooling_us, t.routing_us, t.selection_us, t.window_us, t.whole_us,
                          t.kept_us, t.given_us}) {
    line += part_column(us);
  }
  return line + "\n";
}

std::string verdict(const VerifyCell& cell, bool reuse) {
  const std::optional<StrongerPeer> s = stronger_peer(cell, reuse);
  return formatted("  %s %.1f: %.2fx over %s %s, %gx %s", reuse ? "reuse" : "refresh",
                   cell.best(reuse).time.median, s->ratio, s->peer.name.c_str(),
                   heads_text(s->peer.heads).c_str(), reuse ? kReuseGoal : kRefreshGoal,
                   s->met ? "met" : "not met");
}

std::string goal_line(const VerifyCell& cell) {
  return formatted("%7lld %4lld %5.2f  ours", static_cast<long long>(cell.context_len),
                   static_cast<long long>(cell.queries), cell.overlap) +
         verdict(cell, false) + ";" + verdict(cell, true) + "\n";
}

std::string met_line(const VerifyBench& bench) {
  long long met[2] = {0, 0};
  long long cells = 0;
  for (const VerifyCell& cell : bench.cells) {
    if (peers_of(cell).empty()) {
      continue;
    }
    cells += 1;
    for (const bool reuse : {false, true}) {
      met[reuse ? 1 : 0] += stronger_peer(cell, reuse)->met ? 1 : 0;
    }
  }
  return formatted("goals met: refresh %lld of %lld cells, reuse %lld of %lld\n", met[0], cells,
                   met[1], cells);
}

// What is compared, and how the shapes differ.
std::string legend(const VerifyBench& bench) {
  std::string out =
      "kept: a refresh, compressed keys kept as ours are; given: selection, window and gates of "
      "given blocks,\nbeside our reuse layer, which attends the compressed tokens too.\n";
  if (bench.fla && bench.fla->missing_because.empty()) {
    const LlmShape layer = bench_layer(bench.options);
    out += formatted(
        "parallel_nsa: %s, %s, window by %s; a chain behind the cache, one compressed token in 64 "
        "keys.\nours: %lld/%lld heads of %lld, a tree, one compressed token of %lld keys in %lld\n",
        bench.fla->package.c_str(), bench.fla->versions.c_str(), bench.fla->window_by.c_str(),
        static_cast<long long>(layer.num_heads), static_cast<long long>(layer.num_kv_heads),
        static_cast<long long>(layer.head_dim), static_cast<long long>(layer.nsa.cmp_block),
        static_cast<long long>(layer.nsa.cmp_stride));
  }
  return out;
}

std::string table(const VerifyBench& bench) {
  std::string out =
      "\npeers of this run, us\n      L    N   rho  peer           heads pooling routing  select  "
      "window   whole    kept   given\n";
  for (const VerifyCell& cell : bench.cells) {
    for (const PeerTime& peer : peers_of(cell)) {
      out += peer_line(peer);
    }
    if (!peers_of(cell).empty()) {
      out += goal_line(cell);
    }
  }
  return out + met_line(bench) + legend(bench);
}

}  // namespace

void add_peers_json(const VerifyCell& cell, ordered_json& out) {
  out["peers"] = ordered_json::array();
  for (const PeerTime& peer : peers_of(cell)) {
    out["peers"].push_back(json_of(peer));
  }
  out["stronger_peer"] = {{"refresh", json_of(stronger_peer(cell, false), false)},
                          {"reuse", json_of(stronger_peer(cell, true), true)}};
}

ordered_json fla_json(const VerifyBench& bench) {
  VERSIEVE_ASSERT(bench.fla, "somebody asked for the peer");
  return {{"package", bench.fla->package},
          {"versions", bench.fla->versions},
          {"window_by", bench.fla->window_by},
          {"missing_because", bench.fla->missing_because}};
}

std::string peers_text(const VerifyBench& bench) {
  const bool ran = (bench.fla && bench.fla->missing_because.empty()) ||
                   (bench.peer && bench.peer->missing_because.empty());
  std::string out = ran ? table(bench) : "";
  if (bench.peer) {
    out += bench.peer->missing_because.empty()
               ? "public path: the public operators, " + bench.peer->versions +
                     ", sums of kernel times, warm.\n"
               : bench.peer->missing_because + "\n";
  }
  if (bench.fla && !bench.fla->missing_because.empty()) {
    out += bench.fla->missing_because + "\n";
  }
  return out;
}

}  // namespace versieve::engine
