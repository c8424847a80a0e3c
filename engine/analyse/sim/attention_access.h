// Accesses that several attention launches make: rows of the caches, a node's query rows.
#pragma once

#include <vector>

#include "engine/analyse/sim/attention_case.h"
#include "engine/analyse/sim/memory_trace.h"

namespace versieve::engine {

// Keys and values of KV head g of `count` consecutive tokens from `first` of a cache.
void append_rows(const AttentionCase& a, std::uint64_t k, std::uint64_t v, std::int64_t g,
                 std::int64_t first, std::int64_t count, AccessKind kind, std::vector<Access>& out);
// Tokens [first, last] of the node's path: committed ones from the cache, drafted ones from the
// tree's rows.
void append_path_tokens(const AttentionCase& a, std::int64_t node, std::int64_t g,
                        std::int64_t first, std::int64_t last, AccessKind kind,
                        std::vector<Access>& out);
// Compressed tokens [first, end) that the node sees, path-local ones from the tree's rows.
void append_path_compressed(const AttentionCase& a, std::int64_t node, std::int64_t g,
                            std::int64_t first, std::int64_t end, AccessKind kind,
                            std::vector<Access>& out);
void append_read(std::uint64_t address, std::int64_t bytes, std::vector<Access>& out);
void append_write(std::uint64_t address, std::int64_t bytes, std::vector<Access>& out);
// By requests of one sector each.
void append_sectors(std::uint64_t address, std::int64_t bytes, AccessKind kind,
                    std::vector<Access>& out);

}  // namespace versieve::engine
