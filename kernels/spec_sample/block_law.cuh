// Laws and draws by one block, whatever its number of warps: what the launches that go one step at
// a time are made of, and what the fused ones fall back to in rare cases. Bits are those of
// chunk_law.cuh.
#pragma once

#include "kernels/spec_sample/chunk_law.cuh"

namespace versieve::kernels {

struct BlockLawShared {
  LawStat chunk[kMaxLawChunks];
  LawStat tile[kMaxTiles];
};

// The row's statistics; shared.chunk keeps those of its chunks. load(first, z) gives a lane's
// logits of a round.
template <class T, class Load>
__device__ LawStat block_law(const Load& load, const LawCut& cut, const LawScale& scale,
                             BlockLawShared& shared) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int member = lane % 16;
  __syncthreads();  // an earlier law was read
  for (int chunk = warp; chunk < cut.chunks; chunk += warps) {
    const LawStat stat = chunk_stat<T>(load, chunk, cut, scale);
    if (lane == 0) {
      shared.chunk[chunk] = stat;
    }
  }
  __syncthreads();
  for (int tile = warp; tile < cut.tiles; tile += warps) {
    const int chunk = tile * cut.tile_chunks + member;
    const bool any = member < cut.tile_chunks && chunk < cut.chunks;
    const LawStat stat = combine16(any ? shared.chunk[chunk] : empty_stat(), scale);
    if (lane == 0) {
      shared.tile[tile] = stat;
    }
  }
  __syncthreads();
  return combine16(member < cut.tiles ? shared.tile[member] : empty_stat(), scale);
}

// Sums of a row's chunks, which `weights(first, w)` gives, into `sums`.
template <class T, class Real, class Weights>
__device__ void block_chunk_sums(const Weights& weights, const LawCut& cut,
                                 Real* sums /* [kMaxLawChunks], shared */) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  __syncthreads();  // earlier sums were read
  for (int chunk = static_cast<int>(threadIdx.x) / 32; chunk < cut.chunks; chunk += warps) {
    Real sum = 0;
    for (int round = 0; round < cut.rounds; ++round) {
      Real w[kLaneElements];
      weights(chunk * cut.chunk + round * kRoundElements, w);
#pragma unroll
      for (int j = 0; j < kLaneElements; ++j) {
        sum += w[j];
      }
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
      sums[chunk] = sum;
    }
  }
  __syncthreads();
}

// Visits chunks in order with where they lie in the running sum, tile by tile; returns the total.
template <class Real, class Visit>
__device__ Real walk_chunks(const LawCut& cut, const Real* sums, const Visit& visit) {
  Real tile_before = 0;
  for (int begin = 0; begin < cut.chunks; begin += cut.tile_chunks) {
    Real inside = 0;
    for (int chunk = begin; chunk < begin + cut.tile_chunks && chunk < cut.chunks; ++chunk) {
      const Real before = tile_before + inside;
      inside += sums[chunk];
      visit(chunk, before, tile_before + inside);
    }
    tile_before += inside;
  }
  return tile_before;
}

template <class Real>
__device__ Real walk_total(const LawCut& cut, const Real* sums) {
  return walk_chunks(cut, sums, [](int, Real, Real) {});
}

// A draw from a row of weights, or -1 if there is none. The same on all threads.
template <class T, class Real, class Weights>
__device__ int block_draw(const Weights& weights, const LawCut& cut, float u,
                          Real* sums /* [kMaxLawChunks], shared */) {
  block_chunk_sums<T>(weights, cut, sums);
  const Real total = walk_total(cut, sums);
  if (!(total > Real{0})) {
    return -1;
  }
  const Real target = static_cast<Real>(u) * total;
  int hit = -1;
  Real hit_before = 0;
  walk_chunks(cut, sums, [&](int chunk, Real before, Real after) {
    if (DrawRange<Real>{before, after, total}.hit(target)) {
      hit = chunk;
      hit_before = before;
    }
  });
  return chunk_draw<T, Real>(weights, hit, cut, hit_before, target);
}

// A draw from the softmax of the logits that load(first, z) gives.
template <class T, class Load>
__device__ int block_draw_softmax(const Load& load, const LawCut& cut, const LawScale& scale,
                                  float u, BlockLawShared& shared,
                                  float* sums /* [kMaxLawChunks], shared */) {
  const LawStat row = block_law<T>(load, cut, scale, shared);
  if (scale.one_hot) {
    return row.argmax();
  }
  const auto weights = [&](int first, float(&w)[kLaneElements]) {
    load(first, w);
    const LawStat chunk = shared.chunk[first / cut.chunk];
    weigh(w, chunk.largest, scale.per_logit);
    const float factor = chunk_factor(chunk, row, scale);
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      w[j] = __fmul_rn(w[j], factor);
    }
  };
  return block_draw<T, float>(weights, cut, u, sums);
}

// Of a row's chunks the one that a draw hits, by one warp.
struct ChunkHit {
  int chunk = -1;
  float before = 0.0F, target = 0.0F;
};

// A lane walks a tile. REQUIRES: some mass. The same on all lanes.
__device__ inline ChunkHit find_chunk(const LawCut& cut, const float* mass /* [chunks] */,
                                      float u) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int begin = lane * cut.tile_chunks;
  const int count = min(cut.tile_chunks, cut.chunks - begin);  // below 1 past the last tile
  float own[kMaxTiles];
  float inside = 0.0F;
#pragma unroll
  for (int i = 0; i < kMaxTiles; ++i) {
    own[i] = i < count ? mass[begin + i] : 0.0F;
    inside += own[i];
  }
  float tile_before = 0.0F, total = 0.0F;
#pragma unroll
  for (int tile = 0; tile < kMaxTiles; ++tile) {
    tile_before = tile == lane ? total : tile_before;
    total += __shfl_sync(0xFFFFFFFFU, inside, tile);
  }
  ChunkHit hit{.target = u * total};
  float running = 0.0F;
#pragma unroll
  for (int i = 0; i < kMaxTiles; ++i) {
    const float before = tile_before + running;
    running += own[i];
    if (i < count && DrawRange<float>{before, tile_before + running, total}.hit(hit.target)) {
      hit.chunk = begin + i;
      hit.before = before;
    }
  }
  const unsigned owner = __ballot_sync(0xFFFFFFFFU, hit.chunk >= 0);
  const int source = owner == 0 ? 0 : __ffs(static_cast<int>(owner)) - 1;
  hit.chunk = __shfl_sync(0xFFFFFFFFU, hit.chunk, source);
  hit.before = __shfl_sync(0xFFFFFFFFU, hit.before, source);
  return hit;
}

// By one warp: a draw inside a chunk from the softmax that `row` are the statistics of.
template <class T, class Load>
__device__ int draw_in_chunk(const Load& load, const ChunkHit& hit, const LawCut& cut,
                             const LawStat& chunk, const LawStat& row, const LawScale& scale) {
  const float factor = chunk_factor(chunk, row, scale);
  const auto weights = [&](int first, float(&w)[kLaneElements]) {
    load(first, w);
    weigh(w, chunk.largest, scale.per_logit);
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      w[j] = __fmul_rn(w[j], factor);
    }
  };
  return chunk_draw<T, float>(weights, hit.chunk, cut, hit.before, hit.target);
}

// A draw from the softmax of the logits that load(first, z) gives, by the masses that the chunks'
// statistics give: the elements of one chunk alone are looked at again.
template <class T, class Load>
__device__ int block_draw_by_mass(const Load& load, const LawCut& cut, const LawScale& scale,
                                  float u, BlockLawShared& shared,
                                  float* mass /* [kMaxLawChunks], shared */) {
  const LawStat row = block_law<T>(load, cut, scale, shared);
  if (scale.one_hot) {
    return row.argmax();
  }
  for (int chunk = static_cast<int>(threadIdx.x); chunk < cut.chunks;
       chunk += static_cast<int>(blockDim.x)) {
    mass[chunk] = chunk_mass(shared.chunk[chunk], row, scale);
  }
  __syncthreads();
  const ChunkHit hit = find_chunk(cut, mass, u);
  return draw_in_chunk<T>(load, hit, cut, shared.chunk[hit.chunk], row, scale);
}

}  // namespace versieve::kernels
