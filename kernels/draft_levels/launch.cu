// draft_levels: a greedy draft tree, from the newest entries to its last level, in one launch.
//
// A level as launches is a chain of eight, of which each starts anew and fetches its weights. Here
// the chain lies on the chip: every CTA is one of its links for all levels (64 rows of a matrix, a
// head of a node, the tree), keeps its weights or its window in shared memory, and hands rows on in
// packets (kernels/ptx/packets.cuh). While a level's logits become the next frontier, its
// outputs already go through the next projection.
//
// Progress: all CTAs are resident at once (one an SM, no more than SMs), and a link waits for
// packets of earlier links alone. Packets of a pass are overwritten two passes later, by CTAs that
// have seen what every reader made of them. Bits: those of the launches that it replaces. Bound by
// its chain of hops and of products one after the other, not by bytes.
#include "kernels/launch.h"

#include <array>
#include <bit>
#include <cmath>

#include "kernels/common/cuda_check.h"
#include "kernels/common/lasting_memory.h"
#include "kernels/common/launch_range.h"
#include "kernels/draft_levels/attend.cuh"
#include "kernels/draft_levels/features.cuh"
#include "kernels/draft_levels/growth.cuh"
#include "kernels/draft_levels/mlp.cuh"
#include "kernels/rope_append/angles.cuh"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr std::size_t kAlignmentBytes = 1024;
constexpr std::size_t kSharedBytes = kAlignmentBytes + static_cast<std::size_t>(kDraftCtaBytes);
static_assert(kSharedBytes <= 227 * 1024, "of a CTA on compute capability 9.0");
static_assert(sizeof(AttendShared) <= draft_attention_bytes(0, 0) &&
              sizeof(GrowthShared) <= kDraftCtaBytes);
static_assert(kMostRows * kMostRows <= kEarlyChildren);

// Before the wait: weights are older.
__device__ __forceinline__ void load_own_weights(const DraftCta& c, int role) {
  const DraftLevelsArguments& a = c.a;
  const Bf16* weights = nullptr;
  int stride = a.hidden;
  int k = a.hidden;
  int rows = a.hidden;
  int groups = 1;
  if (role == kFuse) {
    weights = a.fuse;
    stride = k = 3 * a.hidden;
  } else if (role == kFeature) {
    weights = a.joint + a.hidden;
    stride = 2 * a.hidden;
    rows = a.joint_rows;
  } else if (role == kOutput) {
    weights = a.output;
    stride = k = a.heads * kHeadDim;
  } else if (role == kGateUp) {
    weights = a.gate_up;
    rows = a.intermediate;
    groups = 2;
  } else if (role == kDown) {
    weights = a.down;
    stride = k = a.intermediate;
  } else if (role == kHead) {
    weights = a.head;
    rows = a.vocab;
  } else {
    return;
  }
  const int first = c.index * kDraftMatrixRows;
#pragma unroll 1
  for (int group = 0; group < groups; ++group) {
    load_weights(weights + static_cast<std::int64_t>(group * rows + first) * stride, stride, k,
                 rows - first,
                 shared_address(c.shared) +
                     static_cast<std::uint32_t>(group * k / static_cast<int>(kLinearTileK) *
                                                kWeightTileBytes));
  }
}

__device__ __forceinline__ void run_role(const DraftCta& c, int role) {
  switch (role) {
    case kFuse:
      return fuse_entries(c);
    case kFeature:
      return project_features(c);
    case kAttend:
      return attend_nodes(c);
    case kOutput:
      return project_output(c);
    case kGateUp:
      return project_gate_up(c);
    case kDown:
      return project_down(c);
    case kHead:
      return project_head(c);
    default:
      return;
  }
}

template <int kQuads>
__global__ void __launch_bounds__(kDraftThreads, 1)
    draft_levels_kernel(const __grid_constant__ DraftLevelsArguments a) {
  extern __shared__ unsigned char unaligned[];
  unsigned char* const shared =
      unaligned + (kAlignmentBytes - shared_address(unaligned) % kAlignmentBytes) % kAlignmentBytes;
  const int cta = static_cast<int>(blockIdx.x);
  int role = 0;
  while (cta >= a.first_cta[role + 1]) {
    ++role;
  }
  DraftCta c{.a = a, .shared = shared, .index = cta - a.first_cta[role], .epoch = 0};
  load_own_weights(c, role);
  release_successors();
  wait_for_predecessors();
  c.epoch = __ldcg(a.epoch);
  await_fetched();
  __syncthreads();
  if (role == kGrow) {
    grow_levels<kQuads>(c);
  } else {
    run_role(c, role);
  }
  __syncthreads();
  // The last CTA to end leaves the epoch for the next launch: by then all have read theirs.
  if (threadIdx.x == 0 && atomicAdd(a.ended, 1U) == gridDim.x - 1) {
    *a.ended = 0;
    *a.epoch = c.epoch + static_cast<unsigned>(a.levels);
  }
}

DraftMatrix matrix_of(std::int64_t k, std::int64_t m, bool swiglu) {
  const unsigned slices = static_cast<unsigned>(linear_cut(k, m, swiglu).slices);
  return {.k_tiles = static_cast<int>(k / kLinearTileK),
          .slices = static_cast<int>(slices),
          .slice_bits = std::countr_zero(slices)};
}

DraftMail mail_of(const DraftLevelsParams<Bf16>& p) {
  const DraftShape& d = p.shape;
  int used = 0;
  const auto place = [&](std::int64_t pairs) {
    const int at = used;
    used += static_cast<int>(pairs);
    return at;
  };
  const std::int64_t stream = kDraftRows * d.hidden / 4;
  const std::int64_t squares = d.hidden / kLinearGroupRows * kDraftRows;
  DraftMail mail{};
  mail.feature = place(kDraftEntries * d.hidden / 4);
  mail.joint = place(kDraftEntries * d.joint_rows() / 2);
  mail.attended = place(kDraftRows * d.num_heads * d.head_dim / 4);
  mail.output = place(stream);
  mail.output_weighted = place(stream);
  mail.output_squares = place(squares);
  mail.mlp = place(kDraftRows * d.intermediate / 4);
  mail.down = place(stream);
  mail.down_weighted = place(stream);
  mail.down_squares = place(squares);
  mail.logits = place(kDraftRows * ((d.vocab + 3) / 4));
  mail.grown = place(kDraftRows);
  mail.half = used;
  return mail;
}

// Everything that does not lie in a workspace.
DraftLevelsArguments arguments_of(const DraftLevelsParams<Bf16>& p) {
  const DraftShape& d = p.shape;
  const std::int64_t levels = p.choice.levels();
  const std::int64_t branch = std::min(p.choice.width, d.vocab);
  DraftLevelsArguments a{};
  a.fuse = p.fuse;
  a.joint = p.joint;
  a.output = p.output;
  a.gate_up = p.gate_up;
  a.down = p.down;
  a.head = p.head;
  a.hidden_norm = p.hidden_norm;
  a.post_norm = p.post_norm;
  a.norm = p.norm;
  a.token_rows = p.token_rows;
  a.captured = p.captured;
  a.entry_token = p.entry_token;
  a.entry_row = p.entry_row;
  a.entry_position = p.entry_position;
  a.k = p.k;
  a.v = p.v;
  a.state = p.state;
  const DraftCtas ctas = draft_ctas(d, p.choice);
  const std::array<std::int64_t, kRoles> counts = {
      ctas.fuse, ctas.feature, ctas.attention, ctas.output, ctas.gate_up, ctas.down, ctas.head, 1};
  for (int role = 0; role < kRoles; ++role) {
    a.first_cta[role + 1] =
        a.first_cta[role] + static_cast<int>(counts[static_cast<std::size_t>(role)]);
  }
  a.mail = mail_of(p);
  a.fuse_cut = matrix_of(3 * d.hidden, d.hidden, false);
  a.output_cut = matrix_of(d.num_heads * d.head_dim, d.hidden, false);
  a.gate_up_cut = matrix_of(d.hidden, d.intermediate, true);
  a.down_cut = matrix_of(d.intermediate, d.hidden, false);
  a.head_cut = matrix_of(d.hidden, d.vocab, false);
  a.hidden = static_cast<int>(d.hidden);
  a.intermediate = static_cast<int>(d.intermediate);
  a.heads = static_cast<int>(d.num_heads);
  a.kv_heads = static_cast<int>(d.num_kv_heads);
  a.group_heads = static_cast<int>(d.num_heads / d.num_kv_heads);
  a.vocab = static_cast<int>(d.vocab);
  a.joint_rows = static_cast<int>(d.joint_rows());
  a.window = static_cast<int>(d.window);
  a.levels = static_cast<int>(levels);
  a.width = static_cast<int>(p.choice.width);
  a.entries = static_cast<int>(p.entries);
  a.eps = d.norm_eps;
  a.mean_unit = kSquareSumUnit / static_cast<double>(d.hidden);
  a.log_half = -std::log(2.0F);
  const RotaryFrequencies frequencies = rotary_frequencies(d.rope_theta, d.head_dim);
  std::copy_n(frequencies.value, kDraftHeadDim / 2, a.frequency);
  a.grow = {.choice = p.choice,
            .branch = branch,
            .scores_by_rank = p.scores_by_rank,
            .target_token = p.target_token};
  return a;
}

}  // namespace

class DraftWorkspace {
 public:
  void prepare(const DraftLevelsParams<Bf16>& p, cudaStream_t stream) {
    if (epoch_ == nullptr) {
      epoch_ = memory_.allocate<unsigned>(2, stream);
    }
    const std::size_t count = packet_count_of(p);
    if (count > packet_count_) {
      packets_ = memory_.allocate<uint2>(count, stream);
      packet_count_ = count;
    }
  }
  void place(const DraftLevelsParams<Bf16>& p, DraftLevelsArguments& a) const {
    VERSIEVE_ASSERT(packet_count_of(p) <= packet_count_, "a launch was prepared");
    a.packets = packets_;
    a.epoch = epoch_;
    a.ended = epoch_ + 1;
  }

 private:
  static std::size_t packet_count_of(const DraftLevelsParams<Bf16>& p) {
    return 2 * 2 * static_cast<std::size_t>(mail_of(p).half);
  }

  LastingMemory memory_;
  uint2* packets_ = nullptr;
  std::size_t packet_count_ = 0;
  unsigned* epoch_ = nullptr;
};

std::shared_ptr<DraftWorkspace> make_draft_workspace() {
  return std::make_shared<DraftWorkspace>();
}

bool draft_levels_takes(const DraftLevelsParams<Bf16>& p) {
  return p.entries == longest_path(p.choice) &&
         drafts_in_one_launch(p.shape, p.target_vocab, p.choice, multiprocessors());
}

void launch_draft_token_rows(const DraftLevelsParams<Bf16>& p, float* rows,
                             const LaunchContext& context) {
  const DraftShape& d = p.shape;
  const std::size_t shared_bytes =
      kAlignmentBytes + static_cast<std::size_t>(d.hidden) * (kLinearGroupRows + 8) * sizeof(Bf16);
  check(cudaFuncSetAttribute(draft_token_rows_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)));
  const dim3 grid(
      static_cast<unsigned>((p.target_vocab + 7) / 8),
      static_cast<unsigned>((d.joint_rows() + kLinearGroupRows - 1) / kLinearGroupRows));
  draft_token_rows_kernel<<<grid, 128, shared_bytes, context.stream>>>(
      p.embedding, p.input_norm, p.joint, static_cast<int>(d.hidden),
      static_cast<int>(d.joint_rows()), static_cast<int>(p.target_vocab), d.norm_eps, rows);
  check(cudaGetLastError());
}

void prepare_draft_levels(DraftWorkspace& workspace, const DraftLevelsParams<Bf16>& p,
                          const LaunchContext& context) {
  workspace.prepare(p, context.stream);
}

void launch_draft_levels(DraftWorkspace& workspace, const DraftLevelsParams<Bf16>& p,
                         const LaunchContext& context) {
  VERSIEVE_ASSERT(p.token_rows != nullptr, "the tokens' table was made");
  DraftLevelsArguments a = arguments_of(p);
  workspace.place(p, a);
  const LaunchRange range("draft_levels",
                          traffic::draft_levels(p.shape, p.choice, p.context_len, sizeof(Bf16)),
                          context.observer);
  const DependentGrid grid{.grid = dim3(static_cast<unsigned>(a.first_cta[kRoles])),
                           .threads = kDraftThreads,
                           .shared_bytes = kSharedBytes,
                           .stream = context.stream};
  // Four logits each of a row's quads a lane.
  if (p.shape.vocab <= 3 * 128) {
    launch_dependent(grid, draft_levels_kernel<3>, a);
  } else {
    launch_dependent(grid, draft_levels_kernel<kDraftMostVocab / 128>, a);
  }
}

}  // namespace versieve::kernels
