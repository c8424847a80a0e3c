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

// Upper words of operand descriptors. Weights: rows of 128 bytes, 128-byte swizzle, 1,024 bytes
// between groups of 8 rows. x: one row of elements in a piece; matrices of 8 rows by 16 bytes stand
// 16 bytes apart in K, so that row 0 runs through x and rows 1 to 7 are what follows, whose
// products nobody takes. Lower words: (1 << 16) + address / 16.
inline constexpr std::uint32_t kWeightOperand = (1U << 30) | (1024U >> 4);
inline constexpr std::uint32_t kRowOperand = 1U;
__device__ __forceinline__ std::uint32_t operand_word(std::uint32_t address) {
  return (1U << 16) | ((address & 0x3FFFFU) >> 4);
}

__device__ __forceinline__ std::uint64_t operand(std::uint32_t upper, std::uint32_t lower) {
  return static_cast<std::uint64_t>(upper) << 32 | lower;
}

// x past its `count` pairs of words, up to whole stages.
__device__ __forceinline__ void clear_tail(uint2* x, int count) {
  constexpr int kPairs = kStageBoxes * static_cast<int>(kLinearTileK) / 4;
  const int end = (count + kPairs - 1) / kPairs * kPairs;
  const int i = count + static_cast<int>(threadIdx.x);
  if (i < end) {
    x[i] = make_uint2(0U, 0U);
  }
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
    const int mine =
        min(max((count - base - thread + kComputeThreads - 1) / kComputeThreads, 0), kFlying);
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
  clear_tail(x, count);
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
  clear_tail(x, count);
  fence_for_copies();
  compute_sync();
}

// Stages of `boxes` boxes.
__device__ __forceinline__ int stages_of(int boxes) {
  return (boxes + kStageBoxes - 1) / kStageBoxes;
}

// Products of a box: four steps of 16.
__device__ __forceinline__ void multiply_box(std::uint32_t a, std::uint32_t b, float (&sum)[1][4]) {
#pragma unroll
  for (std::uint32_t step = 0; step < kLinearTileK / 16; ++step) {
    wgmma<8>(sum, operand(kWeightOperand, a + 2 * step), operand(kRowOperand, b + 2 * step));
  }
}

// A warpgroup's products of 64 rows, whole stages: x is zero past the unit's slice of K. `each`
// stages hold the same K tiles, of which this group takes number `group`.
__device__ __forceinline__ void multiply(const DecodeCta& c, StageCursor at, int count, int each,
                                         int group, float (&sum)[1][4]) {
  const bool signals = threadIdx.x % 32 == 0;
  std::uint32_t x = operand_word(shared_address(c.shared.work));
  at.advance(group);
  int before = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    barrier_wait(c.full(at.place), at.parity);
    // The same in a warp, and behind the wait the compiler knows it: one transfer to uniform
    // registers instead of one for each product.
    const std::uint32_t a = __shfl_sync(0xFFFFFFFFU, operand_word(c.stage(at.place)), 0);
    const std::uint32_t b = __shfl_sync(0xFFFFFFFFU, x, 0);
    wgmma_fence();
#pragma unroll
    for (std::uint32_t box = 0; box < kStageBoxes; ++box) {
      multiply_box(a + box * (kBoxBytes / 16), b + box * (kLinearTileK * 2 / 16), sum);
    }
    wgmma_commit();
    x += kStageBoxes * kLinearTileK * 2 / 16;
    wgmma_wait<1>();
    if (i > 0 && signals) {
      barrier_arrive(c.empty(before));
    }
    before = at.place;
    at.advance(each);
  }
  wgmma_wait<0>();
  if (signals) {
    barrier_arrive(c.empty(before));
  }
}

// Where a quad of finished rows goes.
struct RowQuad {
  int row;        // first of the four, of the matrix
  bool finishes;  // this lane has one
  bool exists;    // and its rows are there
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

// Sums of the rows that this unit finishes over the slices, ascending, into shared.sums; warp 0.
__device__ __forceinline__ void add_slices(const DecodeCta& c, const DecodeMatrix& m, int unit,
                                           int groups, const uint2* partials, unsigned epoch) {
  const int lane = static_cast<int>(threadIdx.x);
  const int slices = 1 << m.slice_bits;
  const int share = kMatrixRows >> m.slice_bits;
  const int block = unit >> m.slice_bits;
  const int row = (unit & (slices - 1)) * share + lane;
#pragma unroll 1
  for (int group = 0; group < groups && lane < share; ++group) {
    uint4 x[kLinearMostSlices / 2];
    receive(partials + (((block * groups + group) * kMatrixRows + row) << m.slice_bits), 2,
            slices / 2, epoch, x);
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kLinearMostSlices / 2; ++i) {
      if (i < slices / 2) {
        sum += __uint_as_float(x[i].x);
        sum += __uint_as_float(x[i].z);
      }
    }
    c.shared.sums[group][lane] = sum;
  }
  __syncwarp();
}

// A unit's products; on return warp 0 finds the sums of the rows that it finishes, if it does, in
// shared.sums.
__device__ __forceinline__ void make_sums(const DecodeCta& c, const DecodeMatrix& m, int unit,
                                          int groups, bool finishes, StageCursor& at,
                                          uint2* partials, unsigned epoch) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = __shfl_sync(0xFFFFFFFFU, warp / 4, 0);
  const KRange k(m, unit);
  if (group < groups) {
    float sum[1][4] = {};
    multiply(c, at, stages_of(k.count), groups, group, sum);
    const int row = warp % 4 * 16 + lane / 4;
    if (lane % 4 == 0) {
      if (m.slice_bits == 0) {
        c.shared.sums[group][row] = 0.0F + sum[0][0];  // as a sum over slices: -0 becomes 0
        c.shared.sums[group][row + 8] = 0.0F + sum[0][2];
      } else {
        const int slice = unit & ((1 << m.slice_bits) - 1);
        const int block = unit >> m.slice_bits;
        uint2* const to =
            partials + ((((block * groups + group) * kMatrixRows + row) << m.slice_bits) + slice);
        send_packet(to, __float_as_uint(sum[0][0]), epoch);
        send_packet(to + (8 << m.slice_bits), __float_as_uint(sum[0][2]), epoch);
      }
    }
  }
#pragma unroll 1
  for (int left = stages_of(k.count) * groups; left > 0; left -= kMostStages) {
    at.advance(min(left, kMostStages));
  }
  if (m.slice_bits == 0) {
    compute_sync();
  } else if (warp == 0 && finishes) {
    add_slices(c, m, unit, groups, partials, epoch);
  }
}

__device__ __forceinline__ uint2 packed(float4 x) {
  return make_uint2(pack_bf16(x.x, x.y), pack_bf16(x.z, x.w));
}
__device__ __forceinline__ float4 unpacked(uint2 x) {
  return make_float4(__uint_as_float(x.x << 16), __uint_as_float(x.x & 0xFFFF0000U),
                     __uint_as_float(x.y << 16), __uint_as_float(x.y & 0xFFFF0000U));
}

// The epoch that the launch before this one ended with.
__device__ __forceinline__ unsigned load_epoch(const DecodeArguments& a) {
  unsigned epoch;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];\n" : "=r"(epoch) : "l"(a.epoch) : "memory");
  return epoch;
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
  unsigned epoch = load_epoch(a);
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
        receive_row(c, rows.x + first / 2, count, rows.x_epoch);
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
        y = reinterpret_cast<const float4*>(c.shared.sums[0])[threadIdx.x];
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
    if (m.slice_bits == 0) {
      compute_sync();  // the sums have been read
    }
  }
}

}  // namespace versieve::kernels
