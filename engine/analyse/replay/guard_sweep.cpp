// One constant of the guard at a time, the others as given (table 4 of Sparse Speculative
// Verification).
#include <algorithm>
#include <array>

#include "engine/analyse/replay/replay.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

struct PaperRow {
  double throughput;
  std::int64_t moves;
};
// As given; alpha, drop ratio, warm-up and hysteresis, the lower value first.
constexpr std::array<PaperRow, 9> kPaperRows = {{{209.7, 1},
                                                 {207.3, 2},
                                                 {209.0, 1},
                                                 {209.6, 1},
                                                 {207.8, 1},
                                                 {209.5, 1},
                                                 {209.0, 1},
                                                 {197.9, 6},
                                                 {199.1, 0}}};

GuardSetting::Gain gain_of(const Replay& replay, const Refined ReplayRow::*policy) {
  GuardSetting::Gain out;
  for (const ReplayRow& row : replay.rows) {
    const double throughput = (row.*policy).throughput;
    out.over_static += throughput / row.static_best - 1.0;
    out.below_plain += throughput < row.no_speculation ? 1 : 0;
  }
  out.over_static /= std::max<double>(1.0, static_cast<double>(replay.rows.size()));
  return out;
}

}  // namespace

std::vector<GuardSetting> sweep_guard(const PlanTable& table, const Walks& walks,
                                      const ReplayOptions& options) {
  std::vector<GuardSetting> settings = {{.name = "as given", .guard = options.guard}};
  for (const VariedGuard& varied : one_factor_settings(options.guard)) {
    settings.push_back({.name = varied.name, .guard = varied.constants});
  }
  VERSIEVE_ASSERT(settings.size() == kPaperRows.size(), "the paper's sweep has as many rows");
  for (std::size_t i = 0; i < settings.size(); ++i) {
    GuardSetting& setting = settings[i];
    setting.replay =
        replay(table, walks, {.guard = setting.guard, .most_tokens = options.most_tokens});
    setting.best_r = gain_of(setting.replay, &ReplayRow::best_r);
    setting.best_p = gain_of(setting.replay, &ReplayRow::best_p);
    setting.paper_throughput = kPaperRows[i].throughput;
    setting.paper_moves = kPaperRows[i].moves;
  }
  return settings;
}

}  // namespace versieve::engine
