// What one strategy costs a trained pair on one set of questions or texts, beside the exact run of
// the same target in the same number format. Results leave the engine as this type, the database
// stores it, a plan prices its choices with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/words/pair_id.h"
#include "model/words/point_words.h"

namespace versieve {

// With the ends of its 95 % interval.
struct Estimate95 {
  double value = 0.0, low = 0.0, high = 0.0;
  bool operator==(const Estimate95&) const = default;
};

struct QualityAnswers {
  std::int64_t questions = 0, right = 0;
  std::int64_t gained = 0, lost = 0;  // right here and not in the exact run; there and not here
  Estimate95 accuracy, change;        // shares; the change against the exact run
  bool operator==(const QualityAnswers&) const = default;
};

struct QualityPoint {
  // The key within a run.
  PairId pair;
  std::string set;  // a task set's name, or of texts their group's
  // Tokens between what is asked for and the question; of texts tokens decoded so far; empty: all.
  std::string distance;
  std::string split;     // test, calibration; empty: not said
  std::string strategy;  // canonical text
  Dtype dtype = Dtype::kUnstated;
  Backend backend = Backend::kCpu;

  std::string set_sha256;                 // of the files that were read
  std::string read_as;                    // what was verified together (engine/run/quality)
  std::int64_t tokens = 0;                // scored
  double loss_nats = 0.0;                 // a token
  Estimate95 kl_nats;                     // KL(exact || strategy) a token
  Estimate95 rise_nats;                   // of the loss, over the exact run's
  Estimate95 same_token;                  // share with the exact run's likeliest token
  std::optional<QualityAnswers> answers;  // of a task set

  bool operator==(const QualityPoint&) const = default;
};

inline bool same_key(const QualityPoint& a, const QualityPoint& b) {
  return a.pair == b.pair && a.set == b.set && a.distance == b.distance && a.split == b.split &&
         a.strategy == b.strategy && a.dtype == b.dtype && a.backend == b.backend;
}

}  // namespace versieve
