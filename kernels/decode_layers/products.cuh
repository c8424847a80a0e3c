// Matrices of decode_layers: a CTA's units of 64 rows and a slice of K times the node's row, with
// the products of kernels/linear/stream.cu (64-row wgmma, steps of 16 ascending, slices added
// ascending by the CTA that finishes the rows), so with its bits.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/decode_layers/work.cuh"
#include "kernels/linear/wgmma.cuh"
#include "kernels/rms_norm/square_sum.cuh"
#include "kernels/swiglu/activation.cuh"

namespace versieve::kernels {

// Describes x in the right operand: one row of elements in a piece. Matrices of 8 rows by 16 bytes
// stand 16 bytes apart in K, so that row 0 runs through x and rows 1 to 7 are what follows, whose
// products nobody takes.
__device__ __forceinline__ std::uint64_t row_operand(std::uint32_t address) {
  return (std::uint64_t{1} << 32) | (std::uint64_t{1} << 16) |
         static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4);
}

// `count` pairs of words (4 elements each) from packets into x.
__device__ __forceinline__ void receive_row(const DecodeCta& c, const uint2* from, int count,
                                            unsigned epoch) {
  constexpr int kFlying = 4;
  const int thread = static_cast<int>(threadIdx.x);
  uint2* const x = reinterpret_cast<uint2*>(c.shared.work);
  bool first = true;
#pragma unroll 1
  for (int base = 0; base < count; base += kFlying * kComputeThreads) {
    const int mine = min(max((count - base - thread + kComputeThreads - 1) / kComputeThreads, 0),
                         kFlying);
    uint4 packets[kFlying];
    receive(from + (base + thread) * 2, 2 * kComputeThreads, mine, epoch, packets);
    if (first) {
      compute_sync();  // the row before has been read
      first = false;
    }
#pragma unroll
    for (int i = 0; i < kFlying; ++i) {
      if (i < mine) {
        x[base + thread + i * kComputeThreads] = make_uint2(packets[i].x, packets[i].z);
      }
    }
  }
  fence_for_copies();
  compute_sync();
}
// The same from memory that an earlier launch wrote.
__device__ __forceinline__ void read_row(const DecodeCta& c, const Bf16* from, int count) {
  uint2* const x = reinterpret_cast<uint2*>(c.shared.work);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kComputeThreads) {
    x[i] = __ldcg(reinterpret_cast<const uint2*>(from) + i);
  }
  fence_for_copies();
  compute_sync();
}

// A warpgroup's products of 64 rows. Stages of the unit: `each` a K tile, of which this group
// takes number `group`.
__device__ __forceinline__ void multiply(const DecodeCta& c, StageCursor at, int k_tiles, int each,
                                         int group, float (&sum)[1][4]) {
  const bool signals = threadIdx.x % 32 == 0;
  const std::uint32_t x = shared_address(c.shared.work);
  at.advance(group, c.stages);
  int before = 0;
#pragma unroll 1
  for (int i = 0; i < k_tiles; ++i) {
    const std::uint64_t a = wgmma_operand(c.stage(at.place));
    const std::uint64_t b = row_operand(x + static_cast<std::uint32_t>(i * kLinearTileK * 2));
    barrier_wait(c.full(at.place), at.parity);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kLinearTileK / 16; ++step) {
      wgmma<8>(sum, a + static_cast<std::uint64_t>(2 * step),
               b + static_cast<std::uint64_t>(2 * step));
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (i > 0 && signals) {
      barrier_arrive(c.empty(before));
    }
    before = at.place;
    at.advance(each, c.stages);
  }
  wgmma_wait<0>();
  if (signals) {
    barrier_arrive(c.empty(before));
  }
}

// Where a quad of finished rows goes.
struct RowQuad {
  int row;        // first of the four, of the matrix
  bool exists;    // rows are there
  bool finishes;  // this lane has one
};

// This lane's quad of the share that unit `unit` finishes; lanes of warp 0.
__device__ __forceinline__ RowQuad quad_of_unit(const DecodeMatrix& m, int unit) {
  const int lane = static_cast<int>(threadIdx.x);
  const int slice = unit & ((1 << m.slice_bits) - 1);
  const int share = kMatrixRows >> m.slice_bits;
  RowQuad quad;
  quad.finishes = lane < share / 4;
  quad.row = (unit >> m.slice_bits) * kMatrixRows + slice * share + lane * 4;
  quad.exists = quad.finishes && quad.row < m.rows;
  return quad;
}

// Sums of a quad's rows over the slices, ascending.
template <int kSlices>
__device__ __forceinline__ float4 add_slices(const uint2* at, unsigned epoch) {
  uint4 x[2 * kSlices];
  receive(at, 2, 2 * kSlices, epoch, x);
  float sum[4] = {0.0F, 0.0F, 0.0F, 0.0F};
#pragma unroll
  for (int i = 0; i < 4 * kSlices; ++i) {
    sum[i / kSlices] += __uint_as_float(i % 2 == 0 ? x[i / 2].x : x[i / 2].z);
  }
  return make_float4(sum[0], sum[1], sum[2], sum[3]);
}

__device__ __forceinline__ float4 add_slices(const DecodeMatrix& m, const uint2* at,
                                             unsigned epoch) {
  return m.slice_bits == 1   ? add_slices<2>(at, epoch)
         : m.slice_bits == 2 ? add_slices<4>(at, epoch)
                             : add_slices<8>(at, epoch);
}

// A unit's products: on return lanes of warp 0 hold the finished sums of their quads (of gate rows
// and of up rows, if `pairs`).
struct UnitSums {
  float4 first = {}, second = {};
};
__device__ __forceinline__ UnitSums unit_sums(const DecodeCta& c, const DecodeMatrix& m, int unit,
                                              bool pairs, StageCursor& at, uint2* partials,
                                              unsigned epoch) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = warp / 4;
  const int each = pairs ? 2 : 1;
  const KRange k(m, unit);
  const int row = warp % 4 * 16 + lane / 4;
  if (group < each) {
    float sum[1][4] = {};
    multiply(c, at, k.count, each, group, sum);
    if (lane % 4 == 0) {
      if (m.slice_bits == 0) {
        c.shared.sums[group][row] = sum[0][0];
        c.shared.sums[group][row + 8] = sum[0][2];
      } else {
        const int slice = unit & ((1 << m.slice_bits) - 1);
        const int block = unit >> m.slice_bits;
        uint2* const to =
            partials + ((((block * each + group) * kMatrixRows + row) << m.slice_bits) + slice);
        send_packet(to, __float_as_uint(sum[0][0]), epoch);
        send_packet(to + (8 << m.slice_bits), __float_as_uint(sum[0][2]), epoch);
      }
    }
  }
#pragma unroll 1
  for (int left = k.count * each; left > 0; left -= c.stages) {
    at.advance(min(left, c.stages), c.stages);
  }
  UnitSums sums;
  if (m.slice_bits == 0) {
    compute_sync();
    if (warp == 0 && lane < kMatrixRows / 4) {
      sums.first = *reinterpret_cast<const float4*>(c.shared.sums[0] + lane * 4);
      if (pairs) {
        sums.second = *reinterpret_cast<const float4*>(c.shared.sums[1] + lane * 4);
      }
      sums.first.x += 0.0F;  // as a sum over slices begins: -0 becomes 0
      sums.first.y += 0.0F;
      sums.first.z += 0.0F;
      sums.first.w += 0.0F;
      sums.second.x += 0.0F;
      sums.second.y += 0.0F;
      sums.second.z += 0.0F;
      sums.second.w += 0.0F;
    }
    return sums;
  }
  const RowQuad quad = quad_of_unit(m, unit);
  if (warp == 0 && quad.finishes) {
    const int block = unit >> m.slice_bits;
    const uint2* const from =
        partials + ((block * each * kMatrixRows + quad.row % kMatrixRows) << m.slice_bits);
    sums.first = add_slices(m, from, epoch);
    if (pairs) {
      sums.second = add_slices(m, from + (kMatrixRows << m.slice_bits), epoch);
    }
  }
  return sums;
}

__device__ __forceinline__ float4 times(float4 x, float scale) {
  return make_float4(x.x * scale, x.y * scale, x.z * scale, x.w * scale);
}
__device__ __forceinline__ uint2 packed(float4 x) {
  return make_uint2(pack_bf16(x.x, x.y), pack_bf16(x.z, x.w));
}
__device__ __forceinline__ float4 unpacked(uint2 x) {
  return make_float4(__uint_as_float(x.x << 16), __uint_as_float(x.x & 0xFFFF0000U),
                     __uint_as_float(x.y << 16), __uint_as_float(x.y & 0xFFFF0000U));
}

// 1 / RMS of a row from the squares that came with it; whole warp 0.
__device__ __forceinline__ float received_scale(const DecodeCta& c, const uint2* squares,
                                                int count, unsigned epoch,
                                                SquareSum* total = nullptr) {
  SquareSum sum = 0;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 32) {
    const uint4 x = receive(squares + i * 2, epoch);
    sum += (static_cast<SquareSum>(x.z) << 32) | x.x;
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, apart);
  }
  if (total != nullptr) {
    *total = sum;
  }
  return inverse_rms(sum, c.a.hidden, c.a.eps);
}

// The residual stream's rows that this lane will finish: written a stage ago, or by the launch
// before.
__device__ __forceinline__ float4 stream_rows(const DecodeCta& c, int layer, DecodeStage stage,
                                              const RowQuad& quad, unsigned epoch) {
  const DecodeArguments& a = c.a;
  if (stage == kOutput && layer == 0) {
    return unpacked(__ldcg(reinterpret_cast<const uint2*>(a.hidden_rows + quad.row)));
  }
  const bool before = stage == kOutput;  // of the layer before
  const uint2* const from = c.mail(before ? layer + 1 : layer) + a.mail.stream[before ? 1 : 0];
  const uint4 x = receive(from + quad.row / 2, before ? epoch - 1 : epoch);
  return unpacked(make_uint2(x.x, x.z));
}

// joint: sums times 1 / RMS of the row behind x, as packets.
__device__ __forceinline__ void joint_stage(const DecodeCta& c, int layer, StageCursor& at,
                                            unsigned epoch) {
  const DecodeArguments& a = c.a;
  const DecodeMatrix& m = a.matrix[kJoint];
  uint2* const mail = c.mail(layer);
  const uint2* const before = c.mail(layer + 1);  // of the layer before
  float scale = 1.0F;
  bool received = false;
#pragma unroll 1
  for (int unit = c.first_unit(m); unit < m.units; unit += a.ctas) {
    const KRange k(m, unit);
    if (!received) {
      received = true;
      const int first = k.first * static_cast<int>(kLinearTileK);
      const int count = k.count * static_cast<int>(kLinearTileK) / 4;
      if (layer == 0) {
        read_row(c, a.weighted + first, count);
        scale = inverse_rms(__ldcg(a.squares), a.hidden, a.eps);
      } else {
        receive_row(c, before + a.mail.x[1] + first / 2, count, epoch - 1);
        if (threadIdx.x < 32) {
          scale = received_scale(c, before + a.mail.squares[1], a.matrix[kDown].units, epoch - 1);
        }
      }
    }
    const UnitSums sums =
        unit_sums(c, m, unit, false, at, mail + a.mail.partials[kJoint], epoch);
    const RowQuad quad = quad_of_unit(m, unit);
    if (threadIdx.x < 32 && quad.exists) {
      const uint2 y = packed(times(sums.first, scale));
      send_packets(mail + a.mail.joint + quad.row / 2, y.x, y.y, epoch);
    }
    if (m.slice_bits == 0) {
      compute_sync();  // the sums have been read
    }
  }
}

// output, down: the residual stream, and it times the next norm's weight with its squares.
__device__ __forceinline__ void stream_stage(const DecodeCta& c, int layer, DecodeStage stage,
                                             const Bf16* norm, Bf16* captured, StageCursor& at,
                                             unsigned epoch) {
  const DecodeArguments& a = c.a;
  const DecodeMatrix& m = a.matrix[stage];
  uint2* const mail = c.mail(layer);
  const int unit = c.first_unit(m);
  if (unit >= m.units) {
    return;
  }
  const int which = stage == kOutput ? 0 : 1;
  const KRange k(m, unit);
  const RowQuad quad = quad_of_unit(m, unit);
  const bool writes = threadIdx.x < 32 && quad.exists;
  float4 weight = {};
  float4 residual = {};
  if (writes) {
    residual = stream_rows(c, layer, stage, quad, epoch);
    weight = unpacked(__ldg(reinterpret_cast<const uint2*>(norm + quad.row)));
  }
  receive_row(c,
              mail + (stage == kOutput ? a.mail.attended : a.mail.mlp) +
                  k.first * static_cast<int>(kLinearTileK) / 2,
              k.count * static_cast<int>(kLinearTileK) / 4, epoch);
  const UnitSums sums = unit_sums(c, m, unit, false, at, mail + a.mail.partials[stage], epoch);
  if (threadIdx.x >= 32) {
    return;
  }
  float square = 0.0F;
  const bool last = stage == kDown && layer + 1 == a.layers;
  if (writes) {
    float4 y = sums.first;
    y.x += residual.x;
    y.y += residual.y;
    y.z += residual.z;
    y.w += residual.w;
    const uint2 stored = packed(y);
    y = unpacked(stored);
    const uint2 next =
        packed(make_float4(y.x * weight.x, y.y * weight.y, y.z * weight.z, y.w * weight.w));
    send_packets(mail + a.mail.x[which] + quad.row / 2, next.x, next.y, epoch);
    send_packets(mail + a.mail.stream[which] + quad.row / 2, stored.x, stored.y, epoch);
    square = fmaf(y.w, y.w, fmaf(y.z, y.z, fmaf(y.y, y.y, y.x * y.x)));
    if (captured != nullptr) {
      *reinterpret_cast<uint2*>(captured + quad.row) = stored;
    }
    if (last) {
      *reinterpret_cast<uint2*>(a.hidden_rows + quad.row) = stored;
      *reinterpret_cast<uint2*>(a.weighted + quad.row) = next;
    }
  }
  const int quads = (kMatrixRows >> m.slice_bits) / 4;
#pragma unroll 1
  for (int apart = quads / 2; apart > 0; apart /= 2) {
    square += __shfl_xor_sync(0xFFFFFFFFU, square, apart);
  }
  if (threadIdx.x == 0) {
    const SquareSum sum = square_sum(square);
    send_packets(mail + a.mail.squares[which] + unit * 2, static_cast<std::uint32_t>(sum),
                 static_cast<std::uint32_t>(sum >> 32), epoch);
  }
}

// gate_up: silu(gate) * up.
__device__ __forceinline__ void mlp_stage(const DecodeCta& c, int layer, StageCursor& at,
                                          unsigned epoch) {
  const DecodeArguments& a = c.a;
  const DecodeMatrix& m = a.matrix[kGateUp];
  uint2* const mail = c.mail(layer);
  float scale = 1.0F;
  bool received = false;
#pragma unroll 1
  for (int unit = c.first_unit(m); unit < m.units; unit += a.ctas) {
    if (!received) {
      received = true;
      const KRange k(m, unit);
      receive_row(c, mail + a.mail.x[0] + k.first * static_cast<int>(kLinearTileK) / 2,
                  k.count * static_cast<int>(kLinearTileK) / 4, epoch);
      if (threadIdx.x < 32) {
        scale = received_scale(c, mail + a.mail.squares[0], a.matrix[kOutput].units, epoch);
      }
    }
    const UnitSums sums =
        unit_sums(c, m, unit, true, at, mail + a.mail.partials[kGateUp], epoch);
    const RowQuad quad = quad_of_unit(m, unit);
    if (threadIdx.x < 32 && quad.exists) {
      const float4 gate = times(sums.first, scale);
      const float4 up = times(sums.second, scale);
      const uint2 y = packed(make_float4(silu_product(gate.x, up.x), silu_product(gate.y, up.y),
                                         silu_product(gate.z, up.z), silu_product(gate.w, up.w)));
      send_packets(mail + a.mail.mlp + quad.row / 2, y.x, y.y, epoch);
    }
    if (m.slice_bits == 0) {
      compute_sync();  // the sums have been read
    }
  }
}

}  // namespace versieve::kernels
