#include "engine/analyse/sim/attention_access.h"

#include <algorithm>

namespace versieve::engine {

void append_read(std::uint64_t address, std::int64_t bytes, std::vector<Access>& out) {
  if (bytes > 0) {
    out.push_back({.address = address, .bytes = static_cast<std::uint32_t>(bytes)});
  }
}

void append_write(std::uint64_t address, std::int64_t bytes, std::vector<Access>& out) {
  if (bytes > 0) {
    out.push_back({.address = address,
                   .bytes = static_cast<std::uint32_t>(bytes),
                   .kind = AccessKind::kWrite});
  }
}

void append_sectors(std::uint64_t address, std::int64_t bytes, AccessKind kind,
                    std::vector<Access>& out) {
  constexpr std::int64_t kSector = 32;
  out.push_back({.address = address,
                 .bytes = kSector,
                 .count = static_cast<std::uint32_t>((bytes + kSector - 1) / kSector),
                 .stride = kSector,
                 .kind = kind});
}

void append_rows(const AttentionCase& a, std::uint64_t k, std::uint64_t v, std::int64_t g,
                 std::int64_t first, std::int64_t count, AccessKind kind,
                 std::vector<Access>& out) {
  if (count <= 0) {
    return;
  }
  const std::uint64_t offset =
      static_cast<std::uint64_t>(first * a.token_bytes() + g * a.row_bytes());
  for (const std::uint64_t cache : {k, v}) {
    out.push_back({.address = cache + offset,
                   .bytes = static_cast<std::uint32_t>(a.row_bytes()),
                   .count = static_cast<std::uint32_t>(count),
                   .stride = static_cast<std::uint64_t>(a.token_bytes()),
                   .kind = kind});
  }
}

void append_path_tokens(const AttentionCase& a, std::int64_t node, std::int64_t g,
                        std::int64_t first, std::int64_t last, AccessKind kind,
                        std::vector<Access>& out) {
  const std::int64_t t = a.position[static_cast<std::size_t>(node)];
  append_rows(a, a.at.k, a.at.v, g, first, std::min(last + 1, a.context_len) - first, kind, out);
  for (std::int64_t p = std::max(first, a.context_len); p <= std::min(last, t); ++p) {
    append_rows(a, a.at.k_tree, a.at.v_tree, g, a.ancestor(node, t - p), 1, kind, out);
  }
}

void append_path_compressed(const AttentionCase& a, std::int64_t node, std::int64_t g,
                            std::int64_t first, std::int64_t end, AccessKind kind,
                            std::vector<Access>& out) {
  const std::int64_t committed = a.committed_compressed();
  append_rows(a, a.at.k_cmp, a.at.v_cmp, g, first, std::min(end, committed) - first, kind, out);
  for (std::int64_t i = std::max(first, committed); i < std::min(end, a.seen_compressed(node));
       ++i) {
    const std::int64_t row = a.path_row(node, i);
    if (row >= 0) {
      append_rows(a, a.at.k_cmp_tree, a.at.v_cmp_tree, g, row, 1, kind, out);
    }
  }
}

}  // namespace versieve::engine
