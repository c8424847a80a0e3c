#include "kernels/nsa_verify/input_check.h"

#include <vector>

namespace versieve::kernels {
namespace {

template <class T>
std::string shape_error(const NsaVerifyParams<T>& p) {
  if (p.num_kv_heads < 1 || p.num_heads < 1 || p.num_heads % p.num_kv_heads != 0) {
    return "the number of query heads must be a multiple of the number of KV heads";
  }
  if (p.head_dim < 1 || p.num_queries < 1) {
    return "there must be at least one query row and a head size of at least 1";
  }
  if (p.num_compressed != compressed_count(p.nsa, p.context_len)) {
    return "k_cmp must have " + std::to_string(compressed_count(p.nsa, p.context_len)) +
           " rows for a context of " + std::to_string(p.context_len) + " tokens, not " +
           std::to_string(p.num_compressed);
  }
  return {};
}

template <class T>
std::string tree_error(const NsaVerifyParams<T>& p) {
  if (p.parent[0] != -1 || p.position[0] != p.context_len) {
    return "row 0 must be the root (parent -1) at position " + std::to_string(p.context_len);
  }
  for (std::int64_t i = 1; i < p.num_queries; ++i) {
    if (p.parent[i] < 0 || p.parent[i] >= i) {
      return "parent[" + std::to_string(i) + "] must name an earlier row";
    }
    if (p.position[i] != p.position[p.parent[i]] + 1) {
      return "position[" + std::to_string(i) + "] must be the context length plus the depth";
    }
  }
  return {};
}

template <class T>
std::string owner_error(const NsaVerifyParams<T>& p) {
  if (p.num_tree_compressed == 0) {
    return {};
  }
  std::vector<std::int32_t> expected;
  for (std::int64_t i = 0; i < p.num_queries; ++i) {
    const std::int64_t tokens = p.position[i] + std::int64_t{1};
    if (tokens >= p.nsa.cmp_block && (tokens - p.nsa.cmp_block) % p.nsa.cmp_stride == 0) {
      expected.push_back(static_cast<std::int32_t>(i));
    }
  }
  const std::vector<std::int32_t> given(p.cmp_tree_owner, p.cmp_tree_owner + p.num_tree_compressed);
  if (given != expected) {
    return "cmp_tree_owner must name each node that completes a compression block once, ascending";
  }
  return {};
}

// A row is ascending and unique, then -1.
bool is_index_row(const std::int32_t* row, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const bool ends = row[i] == -1;
    const bool grows = row[i] >= 0 && (i == 0 || (row[i - 1] >= 0 && row[i] > row[i - 1]));
    if (!ends && !grows) {
      return false;
    }
  }
  return true;
}

template <class T>
std::string indices_error(const NsaVerifyParams<T>& p) {
  if (p.indices_in == nullptr) {
    return {};
  }
  for (std::int64_t row = 0; row < p.num_queries * p.num_kv_heads; ++row) {
    if (!is_index_row(p.indices_in + row * p.nsa.sel_count, p.nsa.sel_count)) {
      return "indices_in must be ascending and unique in each row, then -1 (row " +
             std::to_string(row) + ")";
    }
  }
  return {};
}

}  // namespace

template <class T>
std::string nsa_verify_input_error(const NsaVerifyParams<T>& p) {
  // In this order: each check may rely on those before it.
  using Check = std::string (*)(const NsaVerifyParams<T>&);
  const Check geometry = [](const NsaVerifyParams<T>& q) { return geometry_error(q.nsa); };
  for (const Check check :
       {geometry, &shape_error<T>, &tree_error<T>, &owner_error<T>, &indices_error<T>}) {
    const std::string error = check(p);
    if (!error.empty()) {
      return error;
    }
  }
  return {};
}

template std::string nsa_verify_input_error<double>(const NsaVerifyParams<double>&);
template std::string nsa_verify_input_error<float>(const NsaVerifyParams<float>&);
template std::string nsa_verify_input_error<Bf16>(const NsaVerifyParams<Bf16>&);

}  // namespace versieve::kernels
