// A node's head: a CTA for each place of a level and query head, which keeps the window's keys and
// values of its KV head, and the tree's as they come, in shared memory. It adds the two halves of
// the joint rows, turns queries and keys, and attends with the sums of kernels/tree_attention.
#pragma once

#include "kernels/common/warp_attention.cuh"
#include "kernels/draft_levels/grown.cuh"
#include "kernels/draft_levels/work.cuh"
#include "kernels/rope_append/turn.cuh"

namespace versieve::kernels {

inline constexpr int kPairs = kHeadDim / 2;
inline constexpr int kTeamsOfHead = 4;
inline constexpr int kLanesOfKey = 8;
inline constexpr int kTaskPairs = 4;  // of rotary, a thread's
inline constexpr int kTasks = kPairs / kTaskPairs;

// A key in shared memory, and whether the query sees it.
struct SeenRow {
  const Bf16* k;
  const Bf16* v;
  bool seen;

  __device__ bool visible() const { return seen; }
  __device__ static uint4 load(const Bf16* from) { return *reinterpret_cast<const uint4*>(from); }
};
using HeadAttention = WarpAttention<Bf16, kLanesOfKey, kTeamsOfHead, 1>;

// Behind the keys and values of window and tree.
struct AttendShared {
  float joint[kMostEntries][3][kHeadDim];  // features' half: query, key, value
  float states[kTeamsOfHead * kWarpsPerTile * (kHeadDim + 2)];
  float cosine[kMostEntries][kPairs], sine[kMostEntries][kPairs];  // of positions L + i
  float entry_cosine[kMostEntries][kPairs], entry_sine[kMostEntries][kPairs];
  alignas(16) Bf16 query[kHeadDim];
  GrownNode node[kMostRows];
  std::int32_t entry_token[kMostEntries], entry_position[kMostEntries];
  std::int8_t path[2][kMostRows][kMostEntries];  // places by depth, 1 the first level's
};

struct AttendCta {
  const DraftCta& c;
  AttendShared& s;
  // [window + levels - 1]: position L - window + 1 first, then the node's path; behind them, by
  // level and place, [levels - 1, W].
  Bf16 *k, *v;
  Bf16 *tree_k, *tree_v;
  int node, head, g;
  int context_len, oldest;  // L, L - window + 1

  __device__ __forceinline__ explicit AttendCta(const DraftCta& cta)
      : c(cta), s(*reinterpret_cast<AttendShared*>(cta.shared + rows_of(cta.a) * kHeadDim * 4)) {
    const DraftLevelsArguments& a = c.a;
    k = reinterpret_cast<Bf16*>(c.shared);
    v = k + rows_of(a) * kHeadDim;
    tree_k = k + (a.window + a.levels - 1) * kHeadDim;
    tree_v = v + (a.window + a.levels - 1) * kHeadDim;
    node = c.index / a.heads;
    head = c.index - node * a.heads;
    g = head / a.group_heads;
    context_len = __ldcg(&a.state->counts.context_len);
    oldest = context_len - a.window + 1;
  }
  __device__ __forceinline__ static int rows_of(const DraftLevelsArguments& a) {
    return a.window + (a.levels - 1) * (a.width + 1);
  }
};

// The window's committed keys and values; those of this step's entries follow.
__device__ __forceinline__ void load_window(const AttendCta& t) {
  const DraftLevelsArguments& a = t.c.a;
  constexpr int kPieces = kHeadDim / 8;
  const int first = max(t.oldest, 1);  // position 0 has no entry
  const std::uint32_t k = shared_address(t.k);
  const std::uint32_t v = shared_address(t.v);
  for (int i = static_cast<int>(threadIdx.x); i < (t.context_len - first) * kPieces;
       i += kDraftThreads) {
    const int position = first + i / kPieces;
    const std::int64_t from =
        (static_cast<std::int64_t>(position) * a.kv_heads + t.g) * kHeadDim + i % kPieces * 8;
    const std::uint32_t to =
        static_cast<std::uint32_t>((position - t.oldest) * kHeadDim * 2 + i % kPieces * 16);
    fetch_16(k + to, a.k + from);
    fetch_16(v + to, a.v + from);
  }
}

// Angles of the tree's positions and of the entries'.
__device__ __forceinline__ void make_angles(const AttendCta& t) {
  const DraftLevelsArguments& a = t.c.a;
  for (int i = static_cast<int>(threadIdx.x); i < kMostEntries * kPairs; i += kDraftThreads) {
    const int row = i / kPairs;
    const int pair = i - row * kPairs;
    if (row < a.levels) {
      double sine;
      double cosine;
      sincos((t.context_len + row) * a.frequency[pair], &sine, &cosine);
      t.s.cosine[row][pair] = static_cast<float>(cosine);
      t.s.sine[row][pair] = static_cast<float>(sine);
    }
    if (row < a.entries) {
      double sine;
      double cosine;
      sincos(__ldcg(a.entry_position + row) * a.frequency[pair], &sine, &cosine);
      t.s.entry_cosine[row][pair] = static_cast<float>(cosine);
      t.s.entry_sine[row][pair] = static_cast<float>(sine);
    }
  }
  if (const int i = static_cast<int>(threadIdx.x); i < a.entries) {
    t.s.entry_token[i] = __ldcg(a.entry_token + i);
    t.s.entry_position[i] = __ldcg(a.entry_position + i);
  }
}

// The features' half of this head's query and of its KV head's key and value, of all features.
__device__ __forceinline__ void receive_joint(const AttendCta& t, int pass) {
  constexpr int kRowPairs = 3 * kHeadDim / 2;
  constexpr int kFlying = kMostEntries * kRowPairs / kDraftThreads;
  const DraftLevelsArguments& a = t.c.a;
  const int count = t.c.features(pass) * kRowPairs;
  const uint2* const from = t.c.mail(pass, a.mail.joint);
  const unsigned epoch = t.c.epoch_of(pass);
  const int thread = static_cast<int>(threadIdx.x);
  await_packet(from, epoch);
  int at[kFlying];
#pragma unroll
  for (int i = 0; i < kFlying; ++i) {
    const int pair = thread + i * kDraftThreads;
    const int row = pair / kRowPairs;
    const int part = pair % kRowPairs / (kHeadDim / 2);
    const int column = part == 0 ? t.head : a.heads + (part - 1) * a.kv_heads + t.g;
    at[i] = row * (a.joint_rows / 2) + column * (kHeadDim / 2) + pair % (kHeadDim / 2);
  }
  uint4 x[kFlying];
  bool waits;
  do {
    waits = false;
#pragma unroll
    for (int i = 0; i < kFlying; ++i) {
      if (thread + i * kDraftThreads < count) {
        x[i] = load_packets(from + 2 * at[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kFlying; ++i) {
      waits |= thread + i * kDraftThreads < count && !arrived(x[i], epoch);
    }
  } while (waits);
  float2* const to = reinterpret_cast<float2*>(&t.s.joint[0][0][0]);
#pragma unroll
  for (int i = 0; i < kFlying; ++i) {
    if (thread + i * kDraftThreads < count) {
      to[thread + i * kDraftThreads] =
          make_float2(__uint_as_float(x[i].x), __uint_as_float(x[i].z));
    }
  }
}

__device__ __forceinline__ float4 table_quad(const float* at) {
  return __ldg(reinterpret_cast<const float4*>(at));
}

// Four pairs of a part of a joint row: both halves added, rounded, turned (not a value), to `to`
// and, if not null, `also`.
struct JointTask {
  const float *token, *feature;  // [64] of the part
  const float *cosine, *sine;    // null: a value
  Bf16 *to, *also;
};
__device__ __forceinline__ void finish_joint(const JointTask& task, int first) {
  const float4 halves[2] = {table_quad(task.token + first),
                            table_quad(task.token + first + kPairs)};
  const float* const tokens = reinterpret_cast<const float*>(halves);
  uint2 out[2];
  Bf16* const low_out = reinterpret_cast<Bf16*>(&out[0]);
  Bf16* const high_out = reinterpret_cast<Bf16*>(&out[1]);
#pragma unroll
  for (int i = 0; i < kTaskPairs; ++i) {
    Bf16 pair[2];
    store_f32(pair, (0.0F + tokens[i]) + task.feature[first + i]);
    store_f32(pair + 1, (0.0F + tokens[kTaskPairs + i]) + task.feature[first + kPairs + i]);
    low_out[i] = pair[0];
    high_out[i] = pair[1];
    if (task.cosine != nullptr) {
      const float low = device_float(pair[0]);
      const float high = device_float(pair[1]);
      const float c = task.cosine[first + i];
      const float s = task.sine[first + i];
      store_f32(low_out + i, turned_low(low, high, c, s));
      store_f32(high_out + i, turned_high(low, high, c, s));
    }
  }
  for (Bf16* const to : {task.to, task.also}) {
    if (to != nullptr) {
      *reinterpret_cast<uint2*>(to + first) = out[0];
      *reinterpret_cast<uint2*>(to + first + kPairs) = out[1];
    }
  }
}

// Task i of a pass: the own query first, then key and value of each row.
__device__ __forceinline__ void run_joint_task(const AttendCta& t, int pass, int i) {
  const DraftLevelsArguments& a = t.c.a;
  const int part = i < kTasks ? 0 : 1 + (i - kTasks) / kTasks % 2;
  const int row = part == 0 ? (pass == 0 ? 0 : t.node) : (i - kTasks) / (2 * kTasks);
  const int first = i % kTasks * kTaskPairs;
  const int column = part == 0 ? t.head : a.heads + (part - 1) * a.kv_heads + t.g;
  JointTask task{};
  int token;
  int feature;
  if (pass == 0) {
    token = t.s.entry_token[row];
    feature = row;
    task.cosine = t.s.entry_cosine[row];
    task.sine = t.s.entry_sine[row];
  } else {
    const GrownNode node = t.s.node[row];
    if (!node.exists()) {
      return;
    }
    token = node.token();
    feature = node.parent();
    task.cosine = t.s.cosine[pass];
    task.sine = t.s.sine[pass];
  }
  task.token = a.token_rows + static_cast<std::int64_t>(token) * a.joint_rows + column * kHeadDim;
  task.feature = t.s.joint[feature][part];
  if (part == 2) {
    task.cosine = nullptr;
  }
  if (part == 0) {
    task.to = t.s.query;
  } else if (pass > 0) {
    task.to = (part == 1 ? t.tree_k : t.tree_v) + ((pass - 1) * a.width + row) * kHeadDim;
    if (row == t.node) {
      task.also = (part == 1 ? t.k : t.v) + (a.window - 1 + pass) * kHeadDim;
    }
  } else {
    const int position = t.s.entry_position[row];
    if (position <= t.context_len) {
      task.to = (part == 1 ? t.k : t.v) + (position - t.oldest) * kHeadDim;
    }
    if (t.node == 0 && t.head % a.group_heads == 0) {
      task.also = (part == 1 ? a.k : a.v) +
                  (static_cast<std::int64_t>(position) * a.kv_heads + t.g) * kHeadDim;
    }
  }
  finish_joint(task, first);
}

// The node's ancestors of the tree behind the window, so that positions are rows; paths of all
// places for the levels to come. By the second half of the threads.
__device__ __forceinline__ void follow_paths(const AttendCta& t, int pass) {
  constexpr int kPieces = kHeadDim / 8;
  const int i = static_cast<int>(threadIdx.x) - kFinishAt;
  if (pass == 0 || i < 0) {
    return;
  }
  const auto& before = t.s.path[(pass - 1) & 1];
  if (i < (pass - 1) * 2 * kPieces) {
    const int depth = 1 + i / (2 * kPieces);
    const int place = before[t.s.node[t.node].parent()][depth];
    const int piece = i % kPieces;
    const bool key = i / kPieces % 2 == 0;
    const Bf16* const from =
        (key ? t.tree_k : t.tree_v) + ((depth - 1) * t.c.a.width + place) * kHeadDim;
    Bf16* const to = (key ? t.k : t.v) + (t.c.a.window - 1 + depth) * kHeadDim;
    reinterpret_cast<uint4*>(to)[piece] = reinterpret_cast<const uint4*>(from)[piece];
  }
  if (i < kMostRows * kMostEntries) {
    const int place = i / kMostEntries;
    const int depth = i % kMostEntries;
    const int parent = place < t.c.a.width ? t.s.node[place].parent() : 0;
    t.s.path[pass & 1][place][depth] =
        depth == pass ? static_cast<std::int8_t>(place) : before[parent][depth];
  }
}
static_assert((kMostEntries - 2) * 2 * kHeadDim / 8 <= kFinishAt);

__device__ __forceinline__ void attend(const AttendCta& t, int pass) {
  const int position = t.context_len + pass;
  const int first = max(position - t.c.a.window + 1, 1);  // position 0 has no entry
  const Bf16* const rows = t.k - static_cast<std::int64_t>(t.oldest) * kHeadDim;
  const std::int64_t values = t.v - t.k;
  const auto row_at = [&](std::int64_t at) -> SeenRow {
    const int p = static_cast<int>(at);
    const Bf16* const key = rows + p * kHeadDim;
    return {key, key + values, p >= first && p <= position};
  };
  const auto seen_row = [&](std::int64_t at) -> SeenRow {
    const Bf16* const key = rows + static_cast<int>(at) * kHeadDim;
    return {key, key + values, true};
  };
  HeadAttention attention(t.s.query, 1, kHeadDim);
  int chunk = first / kDeviceChunk;
  chunk += (attention.team() - chunk) & (kTeamsOfHead - 1);
#pragma unroll 1
  for (; chunk * kDeviceChunk <= position; chunk += kTeamsOfHead) {
    const int base = chunk * kDeviceChunk;
    if (base >= first && base + kDeviceChunk - 1 <= position) {
      attention.absorb(base, seen_row, NoScores{});
    } else {
      attention.absorb(base, row_at, NoScores{});
    }
  }
  attention.merge_one(t.s.states, [&](int element, float value, float, float sum) {
    Bf16 out;
    store_f32(&out, sum > 0.0F ? value / sum : 0.0F);
    const unsigned own = out.bits;
    const unsigned word = own | __shfl_down_sync(0xFFFFFFFFU, own, 1) << 16;
    const unsigned next = __shfl_down_sync(0xFFFFFFFFU, word, 2);
    if (element % 4 == 0) {
      const int at = (t.node * t.c.a.heads + t.head) * kHeadDim / 4 + element / 4;
      send_packets(t.c.mail(pass, t.c.a.mail.attended + at), word, next, t.c.epoch_of(pass));
    }
  });
}

__device__ __forceinline__ void attend_nodes(const DraftCta& c) {
  const DraftLevelsArguments& a = c.a;
  const AttendCta t(c);
  const int thread = static_cast<int>(threadIdx.x);
  load_window(t);
  make_angles(t);
  await_fetched();
  __syncthreads();
#pragma unroll 1
  for (int pass = 0; pass < a.levels; ++pass) {
    receive_joint(t, pass);
    if (pass > 0 && thread < a.width) {
      t.s.node[thread] = {receive(c.mail(pass - 1, a.mail.grown + thread), c.epoch_of(pass - 1)).x};
    }
    __syncthreads();
    const bool exists = pass == 0 ? t.node == 0 : t.s.node[t.node].exists();
    const int tasks = kTasks + (pass == 0 ? a.entries : a.width) * 2 * kTasks;
    if (thread < tasks) {
      run_joint_task(t, pass, thread);
    }
    follow_paths(t, pass);
    __syncthreads();
    if (exists) {
      attend(t, pass);
    } else if (pass > 0 && thread < kHeadDim / 4) {
      send_packets(c.mail(pass, a.mail.attended + c.index * kHeadDim / 4 + thread), 0U, 0U,
                   c.epoch_of(pass));
    }
  }
}

}  // namespace versieve::kernels
