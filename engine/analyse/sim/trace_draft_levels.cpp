#include "engine/analyse/sim/trace_draft_levels.h"

#include <algorithm>

#include "model/launches/draft_levels.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kStreams = 3;
constexpr std::int64_t kPacketShare = 2;  // a packet's bytes over its content's: half is its tag
constexpr double kHopCycles = 1500.0;     // from a row's packets to the next link's

// What a CTA is for all levels: weights once, then for each pass the rows that the link before
// handed on, and its own. Weights, window and tokens' rows come past L1; packets by loads.
class DraftLevelsTrace final : public LaunchTrace {
 public:
  DraftLevelsTrace(const DraftCase& draft, AddressSpace& space)
      : LaunchTrace({.path = "draft_levels",
                     .ctas = draft_ctas(draft.shape, draft.choice).total(),
                     .threads = 512 + 32,
                     .registers = 96,
                     .shared_bytes = kDraftCtaBytes,
                     .step_cycles = kHopCycles}),
        c_(draft),
        d_(c_.shape),
        ctas_(draft_ctas(c_.shape, c_.choice)),
        entries_(draft.choice.levels() + 1) {
    const std::int64_t e = c_.element_bytes;
    weights_ = space.place(weight_count() * e);
    token_rows_ =
        space.place((entries_ + rows_before(c_.choice.levels())) * d_.joint_rows() * kFloat);
    k_ = space.place((c_.context_len + entries_) * kv_width() * e);
    v_ = space.place((c_.context_len + entries_) * kv_width() * e);
    packets_ = space.place(2 * kPassPackets);
  }

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;

 private:
  static constexpr std::int64_t kPassPackets = 1 << 20;  // a role's bytes of a pass, with room
  static constexpr std::int64_t kRoleBytes = kPassPackets / 8;

  std::int64_t q_width() const { return d_.num_heads * d_.head_dim; }
  std::int64_t kv_width() const { return d_.num_kv_heads * d_.head_dim; }
  std::int64_t weight_count() const {
    return d_.hidden *
           (kStreams * d_.hidden + d_.joint_rows() + q_width() + 3 * d_.intermediate + d_.vocab);
  }
  std::int64_t rows_of(std::int64_t pass) const { return pass == 0 ? 1 : c_.choice.width; }
  // Nodes behind the newest token that passes before `pass` ran.
  std::int64_t rows_before(std::int64_t pass) const {
    return std::max<std::int64_t>(0, pass - 1) * c_.choice.width;
  }

  struct Link {
    std::int64_t ctas = 0;
    std::int64_t k = 0;       // inputs of a row
    std::int64_t rows = 0;    // of its matrix; of attention: none
    std::int64_t groups = 1;  // gate and up rows
    std::int64_t wide = 1;    // f32 packets: twice
  };
  std::vector<Link> links() const {
    return {{ctas_.fuse, kStreams * d_.hidden, d_.hidden},
            {ctas_.feature, d_.hidden, d_.joint_rows(), 1, 2},
            {ctas_.attention, d_.joint_rows(), 0},
            {ctas_.output, q_width(), d_.hidden},
            {ctas_.gate_up, d_.hidden, d_.intermediate, 2},
            {ctas_.down, d_.intermediate, d_.hidden},
            {ctas_.head, d_.hidden, d_.vocab},
            {1, d_.vocab, 0}};
  }
  std::uint64_t packets_of(std::int64_t pass, std::int64_t link) const {
    return packets_ + static_cast<std::uint64_t>(pass % 2 * kPassPackets + link * kRoleBytes);
  }
  void append(std::uint64_t at, std::int64_t bytes, AccessKind kind,
              std::vector<Access>& out) const {
    if (bytes > 0) {
      out.push_back({.address = at, .bytes = static_cast<std::uint32_t>(bytes), .kind = kind});
    }
  }
  void append_weights(const Link& link, std::uint64_t at, std::int64_t index,
                      std::vector<Access>& out) const;
  void append_window(std::int64_t head, std::vector<Access>& out) const;
  void append_matrix_pass(std::int64_t number, const Link& link, std::int64_t index,
                          std::int64_t pass, std::vector<Access>& out) const;
  void append_attention_pass(std::int64_t index, std::int64_t pass, std::vector<Access>& out) const;

  DraftCase c_;
  const DraftShape& d_;
  DraftCtas ctas_;
  std::int64_t entries_;
  std::uint64_t weights_ = 0, token_rows_ = 0, k_ = 0, v_ = 0, packets_ = 0;
};

// 64 rows of the CTA's matrix (64 pairs of gate and up), whole.
void DraftLevelsTrace::append_weights(const Link& link, std::uint64_t at, std::int64_t index,
                                      std::vector<Access>& out) const {
  const std::int64_t first = index * kLinearGroupRows;
  const std::int64_t rows = std::min(kLinearGroupRows, link.rows - first);
  for (std::int64_t group = 0; group < link.groups; ++group) {
    const std::int64_t from = (group * link.rows + first) * link.k;
    append(at + static_cast<std::uint64_t>(from * c_.element_bytes),
           rows * link.k * c_.element_bytes, AccessKind::kBulkRead, out);
  }
}

// Keys and values of the head's KV head before the entries.
void DraftLevelsTrace::append_window(std::int64_t head, std::vector<Access>& out) const {
  const std::int64_t g = head / (d_.num_heads / d_.num_kv_heads);
  const std::int64_t keys = std::min(d_.window, c_.context_len);
  const std::int64_t row = kv_width() * c_.element_bytes;
  const std::int64_t first = (c_.context_len - keys) * row + g * d_.head_dim * c_.element_bytes;
  for (const std::uint64_t cache : {k_, v_}) {
    out.push_back({.address = cache + static_cast<std::uint64_t>(first),
                   .bytes = static_cast<std::uint32_t>(d_.head_dim * c_.element_bytes),
                   .count = static_cast<std::uint32_t>(keys),
                   .stride = static_cast<std::uint64_t>(row),
                   .kind = AccessKind::kBulkRead});
  }
}

// Rows of the link before, as packets; its own 64 outputs of each.
void DraftLevelsTrace::append_matrix_pass(std::int64_t number, const Link& link, std::int64_t index,
                                          std::int64_t pass, std::vector<Access>& out) const {
  const bool enters = number < 2;  // entries are fused and projected in the first pass
  const std::int64_t rows = enters && pass == 0 ? entries_ : rows_of(pass);
  const std::int64_t e = c_.element_bytes * kPacketShare;
  if (number == 0) {
    if (pass == 0) {
      append(c_.captured, rows * link.k * c_.element_bytes, AccessKind::kBulkRead, out);
      append(packets_of(pass, number) + static_cast<std::uint64_t>(index * rows * 64 * e),
             rows * kLinearGroupRows * e, AccessKind::kWrite, out);
    }
    return;
  }
  // Features of later passes are what the link `down` handed on in the pass before.
  const bool turns_back = number == 1 && pass > 0;
  append(packets_of(turns_back ? pass - 1 : pass, turns_back ? 5 : number - 1), rows * link.k * e,
         AccessKind::kRead, out);
  const std::int64_t bytes = rows * kLinearGroupRows * e * link.wide;
  append(packets_of(pass, number) + static_cast<std::uint64_t>(index * bytes), bytes,
         AccessKind::kWrite, out);
}

// A node's head: the tokens' half of its joint rows from the table, the features' half as packets;
// of the first pass all entries', whose keys and values the first head of a KV head keeps.
void DraftLevelsTrace::append_attention_pass(std::int64_t index, std::int64_t pass,
                                             std::vector<Access>& out) const {
  const std::int64_t node = index / d_.num_heads;
  const std::int64_t head = index % d_.num_heads;
  if (node >= (pass == 0 ? 1 : rows_of(pass))) {
    return;
  }
  const std::int64_t group = d_.num_heads / d_.num_kv_heads;
  const std::int64_t g = head / group;
  const std::int64_t rows = pass == 0 ? entries_ : 1;
  const std::int64_t first = pass == 0 ? 0 : entries_ + rows_before(pass) + node;
  const std::int64_t packet = kFloat * kPacketShare;
  for (const std::int64_t part : {head, d_.num_heads + g, d_.num_heads + d_.num_kv_heads + g}) {
    for (const bool table : {true, false}) {
      const std::int64_t unit = table ? kFloat : packet;
      const std::int64_t row = table ? first : (pass == 0 ? 0 : node);
      out.push_back({.address = (table ? token_rows_ : packets_of(pass, 1)) +
                                static_cast<std::uint64_t>(
                                    (row * d_.joint_rows() + part * d_.head_dim) * unit),
                     .bytes = static_cast<std::uint32_t>(d_.head_dim * unit),
                     .count = static_cast<std::uint32_t>(rows),
                     .stride = static_cast<std::uint64_t>(d_.joint_rows() * unit),
                     .kind = table ? AccessKind::kBulkRead : AccessKind::kRead});
    }
  }
  const std::int64_t width = d_.head_dim * c_.element_bytes;
  for (const std::uint64_t cache : {k_, v_}) {
    const std::int64_t row = kv_width() * c_.element_bytes;
    if (pass == 0 && head % group == 0) {
      out.push_back(
          {.address = cache + static_cast<std::uint64_t>(c_.context_len * row + g * width),
           .bytes = static_cast<std::uint32_t>(width),
           .count = static_cast<std::uint32_t>(entries_),
           .stride = static_cast<std::uint64_t>(row),
           .kind = AccessKind::kWrite});
    }
  }
  append(packets_of(pass, 2) +
             static_cast<std::uint64_t>((node * d_.num_heads + head) * width * kPacketShare),
         width * kPacketShare, AccessKind::kWrite, out);
}

bool DraftLevelsTrace::append_step(std::int64_t cta, std::int64_t step,
                                   std::vector<Access>& out) const {
  if (step > c_.choice.levels()) {
    return false;
  }
  std::int64_t index = cta;
  std::int64_t number = 0;
  std::uint64_t at = weights_;
  const std::vector<Link> all = links();
  for (; index >= all[static_cast<std::size_t>(number)].ctas; ++number) {
    const Link& link = all[static_cast<std::size_t>(number)];
    index -= link.ctas;
    at += static_cast<std::uint64_t>(link.groups * link.rows * link.k * c_.element_bytes);
  }
  const Link& link = all[static_cast<std::size_t>(number)];
  const bool attends = number == 2;
  const bool grows = number == 7;
  if (step == 0) {
    if (attends) {
      append_window(index % d_.num_heads, out);
    } else if (!grows) {
      append_weights(link, at, index, out);
    }
    return true;
  }
  const std::int64_t pass = step - 1;
  if (attends) {
    append_attention_pass(index, pass, out);
  } else if (grows) {
    append(packets_of(pass, number - 1), rows_of(pass) * link.k * c_.element_bytes * kPacketShare,
           AccessKind::kRead, out);
  } else {
    append_matrix_pass(number, link, index, pass, out);
  }
  return true;
}

}  // namespace

void append_draft_levels(const DraftCase& draft, AddressSpace& space, LaunchSequence& out) {
  out.push_back(std::make_unique<DraftLevelsTrace>(draft, space));
}

}  // namespace versieve::engine
