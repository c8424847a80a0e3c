#include "engine/measure/bench/verify_peers.h"

#include <algorithm>

#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr HeadCounts kPublicHeads{32, 8};  // of peer_nsa_triton.py

std::vector<PeerCell> cells_of(const VerifyBench& bench) {
  std::vector<PeerCell> cells;
  for (const VerifyCell& cell : bench.cells) {
    const PeerCell own{cell.context_len, cell.queries};
    if (std::find(cells.begin(), cells.end(), own) == cells.end()) {
      cells.push_back(own);
    }
  }
  return cells;
}

void add_public(const PeerFiles& files, VerifyBench& bench) {
  bench.peer = run_public_path(files.public_path, files.public_script, cells_of(bench));
  for (VerifyCell& cell : bench.cells) {
    for (const PublicPathTime& time : bench.peer->cells) {
      if (time.context_len == cell.context_len && time.queries == cell.queries) {
        cell.peer = time;
      }
    }
  }
}

void add_fla(const PeerFiles& files, VerifyBench& bench) {
  const LlmShape layer = bench_layer(bench.options);
  bench.fla = run_fla(files.fla_path, files.fla_script,
                      {.heads = fla_heads(layer),
                       .head_dim = layer.head_dim,
                       .cells = cells_of(bench),
                       .overlaps = bench.options.overlaps,
                       .warm = bench.options.warm});
  for (VerifyCell& cell : bench.cells) {
    for (const PeerTime& time : bench.fla->cells) {
      if (time.context_len == cell.context_len && time.queries == cell.queries &&
          time.overlap == cell.overlap) {
        cell.fla.push_back(time);
      }
    }
  }
}

// Its compressed keys are given: all of it is what `kept` is of the other.
PeerTime time_of(const PublicPathTime& t, double overlap) {
  return {.name = "public path",
          .heads = kPublicHeads,
          .queries = t.queries,
          .context_len = t.context_len,
          .overlap = overlap,
          .kept_us = t.busy_us,
          .given_us = t.selection_us + t.window_us,
          .routing_us = t.routing_us,
          .selection_us = t.selection_us,
          .window_us = t.window_us};
}

}  // namespace

void check_peers(const PeerFiles& files, const VerifyBenchOptions& options) {
  if (!files.public_path.empty() && (options.geometry != "nsa-1b" || has_own_layer(options))) {
    throw Error(ExitCode::kUsage, "the public operators are run at the geometry nsa-1b only");
  }
}

void run_peers(const PeerFiles& files, VerifyBench& bench) {
  if (!files.public_path.empty()) {
    add_public(files, bench);
  }
  if (!files.fla_path.empty()) {
    add_fla(files, bench);
  }
}

std::vector<PeerTime> peers_of(const VerifyCell& cell) {
  std::vector<PeerTime> peers = cell.fla;
  if (cell.peer) {
    peers.push_back(time_of(*cell.peer, cell.overlap));
  }
  return peers;
}

std::optional<StrongerPeer> stronger_peer(const VerifyCell& cell, bool reuse) {
  std::optional<StrongerPeer> found;
  const double own = cell.best(reuse).time.median;
  for (const PeerTime& peer : peers_of(cell)) {
    const double us = reuse ? peer.given_us : peer.kept_us;
    if (!found || us < found->us) {
      const double ratio = us / own;
      found = {peer, us, ratio, ratio >= (reuse ? kReuseGoal : kRefreshGoal)};
    }
  }
  return found;
}

}  // namespace versieve::engine
