// The four matrices of a layer in decode_layers as stages: from the packets of their row to those
// of what they make of it.
#pragma once

#include "kernels/decode_layers/products.cuh"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/global_memory.cuh"
#include "kernels/rms_norm/square_sum.cuh"
#include "kernels/swiglu/activation.cuh"

namespace versieve::kernels {

__device__ __forceinline__ uint2 packed(float4 x) {
  return make_uint2(pack_bf16(x.x, x.y), pack_bf16(x.z, x.w));
}
__device__ __forceinline__ float4 unpacked(uint2 x) {
  return make_float4(__uint_as_float(x.x << 16), __uint_as_float(x.x & 0xFFFF0000U),
                     __uint_as_float(x.y << 16), __uint_as_float(x.y & 0xFFFF0000U));
}

// The squares that came with a row, added up; a whole warp.
__device__ __forceinline__ SquareSum received_squares(const uint2* squares, int count,
                                                      unsigned epoch) {
  constexpr int kFlying = 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  SquareSum sum = 0;
#pragma unroll 1
  for (int base = lane; base < count; base += 32 * kFlying) {
    const int mine = min((count - base + 31) / 32, kFlying);
    uint4 x[kFlying];
    receive(squares + base * 2, 64, mine, epoch, x);
#pragma unroll
    for (int i = 0; i < kFlying; ++i) {
      sum += i < mine ? (static_cast<SquareSum>(x[i].z) << 32) | x[i].x : 0U;
    }
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, apart);
  }
  return sum;
}

// What a stage reads and writes.
struct StageRows {
  int groups;      // of 64 rows in a unit: 2 for gate and up
  bool normed;     // x is a weighted row: sums are divided by its RMS
  bool streams;    // adds to the residual stream
  int which;       // of mail.x, squares and stream: read if normed, written if it streams
  const uint2* x;  // null: the rows that a launch before left
  unsigned x_epoch;

  __device__ __forceinline__ StageRows(const DecodeCta& c, int stage, int layer, unsigned epoch) {
    const DecodeMail& mail = c.a.mail;
    groups = stage == kGateUp ? 2 : 1;
    normed = stage == kJoint || stage == kGateUp;
    streams = !normed;
    which = stage == kJoint || stage == kDown ? 1 : 0;
    const uint2* const own = c.mail(layer);
    x_epoch = stage == kJoint ? epoch - 1 : epoch;
    x = stage == kJoint    ? (layer == 0 ? nullptr : c.mail(layer + 1) + mail.x[1])
        : stage == kOutput ? own + mail.attended
        : stage == kGateUp ? own + mail.x[0]
                           : own + mail.mlp;
  }
};

// What the finished rows of the residual stream need beside their sums: asked for before the
// products, looked at behind them.
struct StreamInputs {
  uint2 weight = {};                   // of the next norm
  const uint2* residual_at = nullptr;  // packets of the stream; null: `residual` is from memory
  uint4 residual = {};
  unsigned residual_epoch = 0;

  __device__ __forceinline__ void ask(const DecodeCta& c, int stage, int layer, const Bf16* norm,
                                      int row, unsigned epoch) {
    weight = __ldg(reinterpret_cast<const uint2*>(norm + row));
    if (stage == kOutput && layer == 0) {
      const uint2 x = __ldcg(reinterpret_cast<const uint2*>(c.a.hidden_rows + row));
      residual = make_uint4(x.x, 0U, x.y, 0U);
      return;
    }
    const bool before = stage == kOutput;  // written by the layer before
    residual_at = c.mail(before ? layer + 1 : layer) + c.a.mail.stream[before ? 1 : 0] + row / 2;
    residual_epoch = before ? epoch - 1 : epoch;
    residual = load_packets(residual_at);
  }
  __device__ __forceinline__ float4 residual_rows() {
    if (residual_at != nullptr && !arrived(residual, residual_epoch)) {
      residual = receive(residual_at, residual_epoch);
    }
    return unpacked(make_uint2(residual.x, residual.z));
  }
};

// A quad of the stream: it, it times the next norm's weight, and its square; whole warp 0.
__device__ __forceinline__ void finish_stream(const DecodeCta& c, const DecodeMatrix& m, int unit,
                                              int layer, const StageRows& rows, bool last,
                                              Bf16* captured, const RowQuad& quad, StreamInputs& in,
                                              float4 y, unsigned epoch) {
  const DecodeArguments& a = c.a;
  uint2* const mail = c.mail(layer);
  float square = 0.0F;
  if (quad.exists) {
    const float4 residual = in.residual_rows();
    const float4 weight = unpacked(in.weight);
    y.x += residual.x;
    y.y += residual.y;
    y.z += residual.z;
    y.w += residual.w;
    const uint2 stored = packed(y);
    y = unpacked(stored);
    const uint2 next =
        packed(make_float4(y.x * weight.x, y.y * weight.y, y.z * weight.z, y.w * weight.w));
    send_packets(mail + a.mail.x[rows.which] + quad.row / 2, next.x, next.y, epoch);
    send_packets(mail + a.mail.stream[rows.which] + quad.row / 2, stored.x, stored.y, epoch);
    square = fmaf(y.w, y.w, fmaf(y.z, y.z, fmaf(y.y, y.y, y.x * y.x)));
    if (captured != nullptr) {
      *reinterpret_cast<uint2*>(captured + quad.row) = stored;
    }
    if (last) {
      *reinterpret_cast<uint2*>(a.hidden_rows + quad.row) = stored;
      *reinterpret_cast<uint2*>(a.weighted + quad.row) = next;
    }
  }
#pragma unroll 1
  for (int apart = (kMatrixRows >> m.slice_bits) / 8; apart > 0; apart /= 2) {
    square += __shfl_xor_sync(0xFFFFFFFFU, square, apart);
  }
  if (threadIdx.x == 0) {
    const SquareSum sum = square_sum(square);
    send_packets(mail + a.mail.squares[rows.which] + unit * 2, static_cast<std::uint32_t>(sum),
                 static_cast<std::uint32_t>(sum >> 32), epoch);
  }
}

// 1 / RMS of the row that stage kJoint or kGateUp of a layer reads, worked out by the scaling warp.
__device__ __forceinline__ float row_scale(const DecodeCta& c, int stage, int layer) {
  const int which = stage == kJoint ? 0 : 1;
  barrier_wait(c.scaled(which), layer & 1);
  return c.shared.scale[layer & 1][which];
}

// The scaling warp: adds up the squares that come with rows while others wait for the rows.
__device__ __forceinline__ void scale_layers(const DecodeCta& c) {
  const DecodeArguments& a = c.a;
  wait_for_predecessors();
  unsigned epoch = load_relaxed(a.epoch);
#pragma unroll 1
  for (int layer = 0; layer < a.layers; ++layer) {
#pragma unroll 1
    for (int which = 0; which < 2; ++which) {
      if (which == 0 ? !c.wants_joint_scale() : !c.works_on(a.matrix[kGateUp])) {
        continue;
      }
      const int source = 1 - which;  // of the layer before, or of this one
      const SquareSum squares =
          which == 0 && layer == 0
              ? __ldcg(a.squares)
              : received_squares(c.mail(layer + source) + a.mail.squares[source],
                                 a.matrix[which == 0 ? kDown : kOutput].units,
                                 epoch + 1U - static_cast<unsigned>(source));
      const float mean = static_cast<float>(static_cast<double>(squares) * a.mean_unit);
      if (threadIdx.x % 32 == 0) {
        c.shared.scale[layer & 1][which] = 1.0F / sqrtf(mean + a.eps);
        barrier_arrive(c.scaled(which));
      }
      __syncwarp();
    }
    ++epoch;
  }
}

// gate_up's rows that this unit finishes, a thread each: silu(gate) * up. Whole warps of those that
// have some.
__device__ __forceinline__ void finish_mlp(const DecodeCta& c, const DecodeMatrix& m, int unit,
                                           int layer, unsigned epoch) {
  const int i = static_cast<int>(threadIdx.x);
  const int share = kMatrixRows >> m.slice_bits;
  const int row = (unit >> m.slice_bits) * kMatrixRows + (unit & ((1 << m.slice_bits) - 1)) * share;
  const float scale = row_scale(c, kGateUp, layer);
  const float y = silu_product(c.shared.sums[0][i] * scale, c.shared.sums[1][i] * scale);
  const std::uint32_t first = pack_bf16(y, __shfl_down_sync(0xFFFFFFFFU, y, 1));
  const std::uint32_t second = __shfl_down_sync(0xFFFFFFFFU, first, 2);
  if (i < share && i % 4 == 0 && row + i < m.rows) {
    send_packets(c.mail(layer) + c.a.mail.mlp + (row + i) / 2, first, second, epoch);
  }
}

// One matrix of a layer: this CTA's units, from x's packets to y's.
__device__ __forceinline__ void matrix_stage(const DecodeCta& c, int stage, int layer,
                                             const DecodeTable* t, StageCursor& at,
                                             unsigned epoch) {
  const DecodeArguments& a = c.a;
  const DecodeMatrix& m = a.matrix[stage];
  const StageRows rows(c, stage, layer, epoch);
  uint2* const mail = c.mail(layer);
  const bool finishes = threadIdx.x < 32 && !(stage == kJoint && c.joint_in_slices());
#pragma unroll 1
  for (int unit = c.first_unit(m); unit < m.units; unit += a.ctas) {
    const RowQuad quad = quad_of_unit(m, unit);
    StreamInputs in;
    if (rows.streams && finishes && quad.exists) {
      in.ask(c, stage, layer, stage == kOutput ? t->post_norm : t->next_norm, quad.row, epoch);
    }
    if (unit < a.ctas) {  // all units of a CTA read the same x
      const KRange k(m, unit);
      const int first = k.first * static_cast<int>(kLinearTileK);
      const int count = k.count * static_cast<int>(kLinearTileK) / 4;
      if (rows.x == nullptr) {
        read_row(c, a.weighted + first, count);
      } else {
        receive_row(c, rows.x + first / 2, count, m.gathered, rows.x_epoch);
      }
    }
    make_sums(c, m, unit, rows.groups, finishes, at, mail + a.mail.partials[stage], epoch);
    if (stage == kGateUp) {
      if (threadIdx.x < max(kMatrixRows >> m.slice_bits, 32)) {
        finish_mlp(c, m, unit, layer, epoch);
        __syncwarp();
      }
    } else if (finishes) {
      float4 y = {};
      if (quad.finishes) {
        const float4* const sums = reinterpret_cast<const float4*>(c.shared.sums[0]) + threadIdx.x;
        y = sums[0];
#pragma unroll
        for (int slice = 1; slice < kMostGathered; ++slice) {
          if (slice < m.gathered) {
            const float4 x = sums[slice * (kMatrixRows / 4 >> m.slice_bits)];
            y = make_float4(y.x + x.x, y.y + x.y, y.z + x.z, y.w + x.w);
          }
        }
      }
      if (rows.streams) {
        finish_stream(c, m, unit, layer, rows, stage == kDown && layer + 1 == a.layers,
                      stage == kDown ? t->captured : nullptr, quad, in, y, epoch);
      } else if (quad.exists) {
        const float scale = row_scale(c, stage, layer);
        y = make_float4(y.x * scale, y.y * scale, y.z * scale, y.w * scale);
        const uint2 words = packed(y);
        send_packets(mail + a.mail.joint + quad.row / 2, words.x, words.y, epoch);
      }
      __syncwarp();
    }
    if (m.whole()) {
      compute_sync();  // the sums have been read
    }
  }
}

}  // namespace versieve::kernels
