// From attention to logits: output projection, MLP and head, a CTA 64 rows of one of them (64 pairs
// of gate and up rows). The threads that finish rows ask for what they add while others multiply.
#pragma once

#include "kernels/draft_levels/grown.cuh"
#include "kernels/draft_levels/work.cuh"
#include "kernels/swiglu/activation.cuh"

namespace versieve::kernels {

// Where a finished row of the residual stream goes.
struct StreamMail {
  int rows, weighted, squares;
};

// y = sums + residual to whoever reads the stream, times the next norm's weight to the next matrix,
// and its squares; the threads that finish.
__device__ __forceinline__ void send_stream(const DraftCta& c, int pass, const DraftQuad& q,
                                            const StreamMail& mail, const DraftMatrix& m,
                                            float4 sum, float4 residual, float4 weight) {
  const DraftLevelsArguments& a = c.a;
  const unsigned epoch = c.epoch_of(pass);
  const bool exists = q.within(c.rows(pass));
  const int at = q.node * (a.hidden / 4) + c.index * kRowQuads + q.quad;
  const uint2 packed = rounded_quad(
      make_float4(sum.x + residual.x, sum.y + residual.y, sum.z + residual.z, sum.w + residual.w));
  const float4 y = quad_values(packed.x, packed.y);
  if (exists) {  // what is waited for first goes first
    const uint2 weighted =
        rounded_quad(make_float4(y.x * weight.x, y.y * weight.y, y.z * weight.z, y.w * weight.w));
    send_packets(c.mail(pass, mail.weighted + at), weighted.x, weighted.y, epoch);
  }
  const SquareSum squares =
      row_squares(fmaf(y.w, y.w, fmaf(y.z, y.z, fmaf(y.y, y.y, y.x * y.x))), m);
  if (exists) {
    if (q.quad == 0) {
      send_packets(c.mail(pass, mail.squares + c.index * kMostRows + q.node),
                   static_cast<std::uint32_t>(squares), static_cast<std::uint32_t>(squares >> 32),
                   epoch);
    }
    send_packets(c.mail(pass, mail.rows + at), packed.x, packed.y, epoch);
  }
}

__device__ __forceinline__ float4 norm_weight(const DraftCta& c, const Bf16* weight,
                                              const DraftQuad& q) {
  const uint2 packed = __ldg(reinterpret_cast<const uint2*>(weight) + c.index * kRowQuads + q.quad);
  return quad_values(packed.x, packed.y);
}

// The stream that a node continues: the newest entry's feature, or its parent's output.
__device__ __forceinline__ float4 parent_stream(const DraftCta& c, int pass, const DraftQuad& q) {
  const DraftLevelsArguments& a = c.a;
  const int column = c.index * kRowQuads + q.quad;
  if (pass == 0) {
    return received_quad(c.mail(0, a.mail.feature + column), c.epoch_of(0));
  }
  const unsigned epoch = c.epoch_of(pass - 1);
  const GrownNode node{receive(c.mail(pass - 1, a.mail.grown + q.node), epoch).x};
  return received_quad(c.mail(pass - 1, a.mail.down + node.parent() * (a.hidden / 4) + column),
                       epoch);
}

__device__ __forceinline__ void project_output(const DraftCta& c) {
  const DraftLevelsArguments& a = c.a;
  const DraftMatrix& m = a.output_cut;
  const DraftProduct at = product_memory<kMostRows>(c, m.k_tiles, 1);
  const DraftQuad q;
  const float4 weight = norm_weight(c, a.post_norm, q);
  const SliceOfRows own = own_slice(m);
#pragma unroll 1
  for (int pass = 0; pass < a.levels; ++pass) {
    const int rows = c.rows(pass);
    await_packet(pass == 0 ? c.mail(0, a.mail.feature) : c.mail(pass - 1, a.mail.grown),
                 c.epoch_of(pass == 0 ? 0 : pass - 1));
    const float4 residual = q.within(rows) ? parent_stream(c, pass, q) : float4{};
    multiply_received(at, m, own, c.mail(pass, a.mail.attended), rows, c.epoch_of(pass));
    __syncthreads();
    if (q.node >= 0) {
      const float4 sum = q.within(rows) ? add_slices<kMostRows>(at.sums, m, 0, q) : float4{};
      send_stream(c, pass, q, {a.mail.output, a.mail.output_weighted, a.mail.output_squares}, m,
                  sum, residual, weight);
    }
  }
}

__device__ __forceinline__ float4 scaled_quad(float4 x, float scale) {
  return make_float4(x.x * scale, x.y * scale, x.z * scale, x.w * scale);
}

__device__ __forceinline__ void project_gate_up(const DraftCta& c) {
  const DraftLevelsArguments& a = c.a;
  const DraftMatrix& m = a.gate_up_cut;
  const DraftProduct at = product_memory<kMostRows>(c, m.k_tiles, 2);
  const DraftQuad q;
  const WholeRows whole(0, a.hidden / 4, a.hidden / 4, static_cast<int>(threadIdx.x));
#pragma unroll 1
  for (int pass = 0; pass < a.levels; ++pass) {
    const int rows = c.rows(pass);
    const unsigned epoch = c.epoch_of(pass);
    await_packet(c.mail(pass, a.mail.attended), epoch);
    whole.receive_rows(c.mail(pass, a.mail.output_weighted), rows, epoch, at.x);
    multiply_rows<kMostRows>(at, m, 2);
    float scale = 1.0F;
    if (q.node >= 0) {
      scale = received_scale(c, c.mail(pass, a.mail.output_squares), q, rows, epoch);
    }
    __syncthreads();
    if (q.within(rows)) {
      const float4 gate = scaled_quad(add_slices<kMostRows>(at.sums, m, 0, q), scale);
      const float4 up = scaled_quad(add_slices<kMostRows>(at.sums, m, 1, q), scale);
      const uint2 y =
          rounded_quad(make_float4(silu_product(gate.x, up.x), silu_product(gate.y, up.y),
                                   silu_product(gate.z, up.z), silu_product(gate.w, up.w)));
      send_packets(
          c.mail(pass, a.mail.mlp + q.node * (a.intermediate / 4) + c.index * kRowQuads + q.quad),
          y.x, y.y, epoch);
    }
  }
}

__device__ __forceinline__ void project_down(const DraftCta& c) {
  const DraftLevelsArguments& a = c.a;
  const DraftMatrix& m = a.down_cut;
  const DraftProduct at = product_memory<kMostRows>(c, m.k_tiles, 1);
  const DraftQuad q;
  const float4 weight = norm_weight(c, a.norm, q);
  const SliceOfRows own = own_slice(m);
#pragma unroll 1
  for (int pass = 0; pass < a.levels; ++pass) {
    const int rows = c.rows(pass);
    const unsigned epoch = c.epoch_of(pass);
    await_packet(c.mail(pass, a.mail.output_weighted), epoch);
    const float4 residual =
        q.within(rows) ? received_quad(c.mail(pass, a.mail.output + q.node * (a.hidden / 4) +
                                                        c.index * kRowQuads + q.quad),
                                       epoch)
                       : float4{};
    multiply_received(at, m, own, c.mail(pass, a.mail.mlp), rows, epoch);
    __syncthreads();
    if (q.node >= 0) {
      const float4 sum = q.within(rows) ? add_slices<kMostRows>(at.sums, m, 0, q) : float4{};
      send_stream(c, pass, q, {a.mail.down, a.mail.down_weighted, a.mail.down_squares}, m, sum,
                  residual, weight);
    }
  }
}

__device__ __forceinline__ void project_head(const DraftCta& c) {
  const DraftLevelsArguments& a = c.a;
  const DraftMatrix& m = a.head_cut;
  const DraftProduct at = product_memory<kMostRows>(c, m.k_tiles, 1);
  const DraftQuad q;
  const WholeRows whole(0, a.hidden / 4, a.hidden / 4, static_cast<int>(threadIdx.x));
  const int row_quads = (a.vocab + 3) / 4;
  const int column = c.index * kRowQuads + q.quad;
#pragma unroll 1
  for (int pass = 0; pass < a.levels; ++pass) {
    const int rows = c.rows(pass);
    const unsigned epoch = c.epoch_of(pass);
    await_packet(c.mail(pass, a.mail.mlp), epoch);
    whole.receive_rows(c.mail(pass, a.mail.down_weighted), rows, epoch, at.x);
    multiply_rows<kMostRows>(at, m, 1);
    float scale = 1.0F;
    if (q.node >= 0) {
      scale = received_scale(c, c.mail(pass, a.mail.down_squares), q, rows, epoch);
    }
    __syncthreads();
    if (q.within(rows) && column < row_quads) {
      const uint2 y = rounded_quad(scaled_quad(add_slices<kMostRows>(at.sums, m, 0, q), scale));
      send_packets(c.mail(pass, a.mail.logits + q.node * row_quads + column), y.x, y.y, epoch);
    }
  }
}

}  // namespace versieve::kernels
