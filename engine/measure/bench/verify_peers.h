// Peers beside a verification bench: they run in the same call on the same card once ours are done,
// and each cell is judged against the stronger of those that ran.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/measure/bench/verify_bench.h"

namespace versieve::engine {

// Folders of other people's files and the scripts that run them; an empty folder: not asked for.
struct PeerFiles {
  std::string public_path;
  std::string public_script;
  std::string fla_path;
  std::string fla_script;
};

// How much faster than the stronger peer a layer is meant to be.
inline constexpr double kRefreshGoal = 4.0;  // over its refresh, compressed keys kept
inline constexpr double kReuseGoal = 3.0;    // over its selection and window, blocks given

struct StrongerPeer {
  PeerTime peer;
  double us = 0.0;     // of that peer: kept_us or given_us
  double ratio = 0.0;  // over our best variant
  bool met = false;    // the goal
};

// Throws Error(kUsage) for a layer that the peers asked for are never run at.
void check_peers(const PeerFiles& files, const VerifyBenchOptions& options);
// Runs those whose folder is given; what is absent becomes a sentence in the bench.
void run_peers(const PeerFiles& files, VerifyBench& bench);
// Times of this run, at whatever shape the peer takes.
std::vector<PeerTime> peers_of(const VerifyCell& cell);
// None where no peer ran.
std::optional<StrongerPeer> stronger_peer(const VerifyCell& cell, bool reuse);

}  // namespace versieve::engine
