#include "model/launches/topk_layout.h"

namespace versieve {

TopkLayout topk_layout(const TopkRows& p) {
  constexpr std::int64_t kMostBlocks = 512;  // of radix rows in registers
  const bool wide = p.element_bytes == 4;
  TopkLayout out;
  out.least_items = wide ? 4 : 8;
  out.most_items = p.guesses && wide ? 16 : 32;
  int cluster = 1;
  const auto fits_registers = [&] {
    return p.length <= std::int64_t{cluster} * out.most_items * kTopkThreads;
  };
  const auto share = [&] { return p.length / cluster; };
  while (!p.guesses && cluster < kMostTopkBlocks && !fits_registers()) {
    cluster *= 2;
  }
  if (p.rows * cluster > kMostBlocks) {
    cluster = 1;  // streams
  }
  while (cluster < 8 && ((p.rows * cluster * 2 <= 64 && share() > (p.guesses ? 4096 : 2048)) ||
                         (!p.guesses && p.rows * cluster * 2 <= 128 && share() > 8192))) {
    cluster *= 2;
  }
  if (!p.guesses && cluster == 8 && p.rows <= 2 && share() > 8192) {
    cluster = 16;
  }
  while (cluster < kMostTopkBlocks && (share() > 131072 || (cluster == 1 && share() > 65536))) {
    cluster *= 2;
  }
  out.cluster = cluster;
  out.registers = !p.guesses && fits_registers();
  return out;
}

bool topk_is_short(std::int64_t length, std::int64_t rows) {
  constexpr std::int64_t kShortRow = 16384;
  constexpr std::int64_t kShortRowOfFew = 32768;
  constexpr std::int64_t kFewRows = 32;
  return length <= kShortRow || (length <= kShortRowOfFew && rows <= kFewRows);
}

}  // namespace versieve
