// Where the weights that a flash_decode launch keeps lie in scratch, and what their mean moves.
#include "kernels/flash_decode/capture.cuh"

#include "model/words/traffic.h"

namespace versieve::kernels {
namespace {

std::int64_t tile_count(std::int64_t positions) {
  return (positions + kTileKeys - 1) / kTileKeys;
}

}  // namespace

std::size_t capture_bytes(const FlashParams& p, std::int64_t positions) {
  return static_cast<std::size_t>(p.num_heads * tile_count(positions) * (kTileKeys + 1)) *
         sizeof(float);
}

WeightCapture capture_at(const FlashParams& p, std::int64_t positions, void* memory) {
  WeightCapture capture{.tiles = tile_count(positions)};
  capture.weight = static_cast<float*>(memory);
  capture.top = capture.weight + p.num_heads * capture.tiles * kTileKeys;
  return capture;
}

Traffic mean_traffic(const FlashParams& p) {
  const double positions = static_cast<double>(p.context_len + p.num_nodes);
  Traffic moved;
  moved.read(TrafficTerm::kScores, static_cast<double>(p.num_heads) * positions * sizeof(float));
  moved.write(TrafficTerm::kScores, positions * sizeof(float));
  return moved;
}

}  // namespace versieve::kernels
