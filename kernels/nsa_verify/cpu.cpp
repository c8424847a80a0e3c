#include "kernels/cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/attention_chunk.h"
#include "kernels/common/parallel_for.h"
#include "kernels/nsa_verify/routing.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// Of a node's and KV head's row in [N, G, n].
template <class T>
std::int64_t index_offset(const NsaVerifyParams<T>& p, std::int64_t node, std::int64_t g) {
  return (node * p.num_kv_heads + g) * p.nsa.sel_count;
}

// What all nodes of a call share.
template <class T>
struct Call {
  const NsaVerifyParams<T>& p;
  ImportanceWeights weights;
  std::vector<std::int32_t> owned_row;  // [N]: the node's row of k_cmp_tree, or -1
  std::vector<std::int32_t> hint;       // [G, n] or empty: a copy, since it may lie in `indices`

  explicit Call(const NsaVerifyParams<T>& params)
      : p(params), weights(importance_weights(params.nsa)), owned_row(at(params.num_queries), -1) {
    for (std::int64_t e = 0; e < p.num_tree_compressed; ++e) {
      VERSIEVE_ASSERT(p.cmp_tree_owner[e] >= 0 && p.cmp_tree_owner[e] < p.num_queries,
                      "a compressed token's owner is a node");
      owned_row[at(p.cmp_tree_owner[e])] = static_cast<std::int32_t>(e);
    }
    if (p.hint != nullptr && p.indices_in == nullptr) {
      hint.assign(p.hint, p.hint + p.num_kv_heads * p.nsa.sel_count);
    }
  }
};

// Memory that a thread keeps between nodes.
template <class S>
struct Workspace {
  std::vector<std::int32_t> path;     // [depth + 1]: the node's ancestors, root first, and itself
  std::vector<std::int32_t> cmp_row;  // row of k_cmp_tree for compressed indices from Lc on, or -1
  std::vector<S> q;                   // [H/G, padded d]
  std::vector<S> probability;         // [H/G, chunks * 64]: of compressed tokens
  std::vector<S> probability_sum;     // [chunks * 64]: over heads
  std::vector<S> importance;          // [own + 1]
  std::vector<std::int32_t> order;    // [own + 1]
  std::vector<S> ranked;              // [own + 1]: importance as kernels/topk ranks it
  std::vector<S> values;              // [n]
  std::vector<S> compressed;          // [H/G, padded d]: output of the compressed branch
};

// One node and KV head.
template <class T>
class NodeAttention {
 public:
  using S = SumOf<T>;

  NodeAttention(const Call<T>& call, Workspace<S>& work, std::int64_t node, std::int64_t g)
      : call_(call),
        p_(call.p),
        work_(work),
        node_(node),
        g_(g),
        t_(p_.position[node]),
        own_(t_ / p_.nsa.sel_block),
        rows_(p_.num_heads / p_.num_kv_heads),
        row_size_(padded<S>(p_.head_dim)),
        scale_(static_cast<S>(1.0 / std::sqrt(static_cast<double>(p_.head_dim)))),
        keys_(p_.head_dim) {
    walk_path();
    load_queries();
  }

  // Routes, or takes the blocks of `given`, a row of [N, G, n].
  void run(const std::int32_t* given) {
    attend_compressed();
    if (given != nullptr) {
      std::copy_n(given, p_.nsa.sel_count, p_.indices + index_row());
    } else {
      route();
    }
    OnlineAttention<T> selected(work_.q.data(), rows_, p_.head_dim, scale_);
    attend_selected(selected);
    OnlineAttention<T> window(work_.q.data(), rows_, p_.head_dim, scale_);
    attend_window(window);
    combine(selected, window);
  }

 private:
  std::int64_t index_row() const { return index_offset(p_, node_, g_); }
  std::int64_t query_head(std::int64_t h) const { return g_ * rows_ + h; }

  void walk_path() {
    work_.path.clear();
    for (std::int32_t i = static_cast<std::int32_t>(node_); i >= 0; i = p_.parent[i]) {
      work_.path.push_back(i);
    }
    std::reverse(work_.path.begin(), work_.path.end());
    VERSIEVE_ASSERT(t_ == p_.context_len + static_cast<std::int64_t>(work_.path.size()) - 1,
                    "a node's position is L + depth");
    const std::int64_t visible = compressed_count(p_.nsa, t_ + 1);
    work_.cmp_row.assign(at(std::max<std::int64_t>(0, visible - p_.num_compressed)), -1);
    for (const std::int32_t ancestor : work_.path) {
      const std::int32_t row = call_.owned_row[at(ancestor)];
      if (row >= 0) {
        const std::int64_t index =
            (p_.position[ancestor] + 1 - p_.nsa.cmp_block) / p_.nsa.cmp_stride;
        work_.cmp_row[at(index - p_.num_compressed)] = row;
      }
    }
  }

  void load_queries() {
    work_.q.assign(at(rows_ * row_size_), 0);
    for (std::int64_t h = 0; h < rows_; ++h) {
      const T* q = p_.q + (node_ * p_.num_heads + query_head(h)) * p_.head_dim;
      for (std::int64_t e = 0; e < p_.head_dim; ++e) {
        work_.q[at(h * row_size_ + e)] = to_sum(q[e]);
      }
    }
  }

  // Compressed tokens [64 c, 64 c + 64) that the node sees, by index.
  void gather_compressed(std::int64_t chunk, std::int64_t count) {
    keys_.clear();
    const std::int64_t end = std::min(count, (chunk + 1) * kChunkKeys);
    for (std::int64_t i = chunk * kChunkKeys; i < end; ++i) {
      const bool committed = i < p_.num_compressed;
      const std::int64_t row =
          committed ? p_.compressed_pages.row(i) : work_.cmp_row[at(i - p_.num_compressed)];
      if (row >= 0) {
        const std::int64_t offset = (row * p_.num_kv_heads + g_) * p_.head_dim;
        keys_.add(static_cast<int>(i % kChunkKeys), (committed ? p_.k_cmp : p_.k_cmp_tree) + offset,
                  (committed ? p_.v_cmp : p_.v_cmp_tree) + offset);
      }
    }
  }

  // Two passes, because importance needs probabilities under the final maximum and sum.
  void attend_compressed() {
    const std::int64_t count = p_.num_compressed + static_cast<std::int64_t>(work_.cmp_row.size());
    const std::int64_t chunks = (count + kChunkKeys - 1) / kChunkKeys;
    const std::int64_t stride = chunks * kChunkKeys;
    std::vector<S> scores(at(rows_ * kChunkKeys));
    work_.probability.resize(at(rows_ * stride));
    std::vector<S> maximum(at(rows_), -std::numeric_limits<S>::infinity());
    for (std::int64_t c = 0; c < chunks; ++c) {
      gather_compressed(c, count);
      chunk_scores(work_.q.data(), rows_, keys_, scale_, scores.data());
      for (std::int64_t h = 0; h < rows_; ++h) {
        const S* from = scores.data() + h * kChunkKeys;
        std::copy_n(from, kChunkKeys, work_.probability.data() + h * stride + c * kChunkKeys);
        maximum[at(h)] = std::max(maximum[at(h)], chunk_max(from));
      }
    }
    std::vector<S> sum(at(rows_), 0);
    work_.compressed.assign(at(rows_ * row_size_), 0);
    for (std::int64_t c = 0; c < chunks; ++c) {
      gather_compressed(c, count);
      for (std::int64_t h = 0; h < rows_; ++h) {
        S* scored = work_.probability.data() + h * stride + c * kChunkKeys;
        const bool any = maximum[at(h)] > -std::numeric_limits<S>::infinity();
        sum[at(h)] += chunk_weights(scored, any ? maximum[at(h)] : S{0}, scored);
        std::copy_n(scored, kChunkKeys, scores.data() + h * kChunkKeys);
      }
      add_chunk_values(scores.data(), rows_, keys_, work_.compressed.data());
    }
    normalise(sum, stride);
  }

  // Divides by the sums; probability_sum is the sum over heads, in their order. No visible key: 0.
  void normalise(const std::vector<S>& sum, std::int64_t stride) {
    work_.probability_sum.assign(at(stride), 0);
    for (std::int64_t h = 0; h < rows_; ++h) {
      const S inverse = sum[at(h)] > 0 ? 1 / sum[at(h)] : S{0};
      for (std::int64_t e = 0; e < row_size_; ++e) {
        work_.compressed[at(h * row_size_ + e)] *= inverse;
      }
      for (std::int64_t i = 0; i < stride && inverse > 0; ++i) {
        work_.probability_sum[at(i)] += work_.probability[at(h * stride + i)] * inverse;
      }
    }
  }

  void route() {
    const std::int64_t per_block = p_.nsa.sel_block / p_.nsa.cmp_stride;
    const std::int64_t offsets = static_cast<std::int64_t>(call_.weights.weight.size());
    const std::int64_t count = static_cast<std::int64_t>(work_.probability_sum.size());
    work_.importance.assign(at(own_ + 1), 0);
    for (std::int64_t block = 0; block <= own_; ++block) {
      const std::int64_t first = per_block * block + call_.weights.first_offset;
      S sum = 0;
      for (std::int64_t o = std::max<std::int64_t>(0, -first); o < offsets && first + o < count;
           ++o) {
        sum += static_cast<S>(call_.weights.weight[at(o)]) * work_.probability_sum[at(first + o)];
      }
      work_.importance[at(block)] = sum;
    }
    select();
    if (p_.importance != nullptr) {
      S* row = p_.importance + (node_ * p_.num_kv_heads + g_) * p_.num_blocks;
      std::copy_n(work_.importance.data(), own_ + 1, row);
      std::fill(row + own_ + 1, row + p_.num_blocks, S{0});
    }
  }

  void select() {
    std::int32_t* indices = p_.indices + index_row();
    if (p_.topk == TopkVariant::kSort) {
      select_blocks(p_.nsa, work_.importance.data(), own_, work_.order, indices);
      return;
    }
    const std::int32_t* hint =
        call_.hint.empty() ? nullptr : call_.hint.data() + g_ * p_.nsa.sel_count;
    select_blocks_by(p_.topk, p_.nsa, work_.importance.data(), own_, hint, work_.ranked,
                     work_.values, indices);
  }

  // Tokens [first, last] of the node's path, wherever they lie.
  void stream_tokens(KeyStream<T>& stream, std::int64_t first, std::int64_t last) {
    for (std::int64_t position = first; position <= last; ++position) {
      const bool committed = position < p_.context_len;
      const std::int64_t row =
          committed ? p_.pages.row(position) : work_.path[at(position - p_.context_len)];
      const std::int64_t offset = (row * p_.num_kv_heads + g_) * p_.head_dim;
      stream.add(position, (committed ? p_.k : p_.k_tree) + offset,
                 (committed ? p_.v : p_.v_tree) + offset);
    }
  }

  void attend_selected(OnlineAttention<T>& attention) {
    KeyStream<T> stream(attention, keys_);
    for (std::int64_t i = 0; i < p_.nsa.sel_count; ++i) {
      const std::int64_t block = p_.indices[index_row() + i];
      if (block < 0) {
        break;
      }
      const std::int64_t first = block * p_.nsa.sel_block;
      stream_tokens(stream, first, std::min(first + p_.nsa.sel_block - 1, t_));
    }
    stream.finish();
  }

  void attend_window(OnlineAttention<T>& attention) {
    KeyStream<T> stream(attention, keys_);
    stream_tokens(stream, std::max<std::int64_t>(0, t_ - p_.nsa.window + 1), t_);
    stream.finish();
  }

  void combine(const OnlineAttention<T>& selected, const OnlineAttention<T>& window) {
    for (std::int64_t h = 0; h < rows_; ++h) {
      const std::int64_t row = node_ * p_.num_heads + query_head(h);
      const S gate_compressed = to_sum(p_.gates[row * 3]);
      const S gate_selected = to_sum(p_.gates[row * 3 + 1]);
      const S gate_window = to_sum(p_.gates[row * 3 + 2]);
      for (std::int64_t e = 0; e < p_.head_dim; ++e) {
        const S sum = gate_compressed * work_.compressed[at(h * row_size_ + e)] +
                      gate_selected * selected.result(h, e) + gate_window * window.result(h, e);
        p_.out[row * p_.head_dim + e] = from_sum<T>(sum);
      }
    }
  }

  const Call<T>& call_;
  const NsaVerifyParams<T>& p_;
  Workspace<S>& work_;
  std::int64_t node_;
  std::int64_t g_;
  std::int64_t t_;         // the node's position
  std::int64_t own_;       // its block
  std::int64_t rows_;      // H/G
  std::int64_t row_size_;  // padded d
  S scale_;
  ChunkKeys<T> keys_;
};

// With counts in memory the sizes that follow from them; num_tree_compressed 0 stays 0.
template <class T>
NsaVerifyParams<T> counted(NsaVerifyParams<T> p) {
  if (p.counts != nullptr) {
    p.context_len = p.counts->context_len;
    p.num_compressed = compressed_count(p.nsa, p.context_len);
    p.num_tree_compressed =
        std::min<std::int64_t>(p.num_tree_compressed, p.counts->tree_compressed);
    p.num_blocks = *std::max_element(p.position, p.position + p.num_queries) / p.nsa.sel_block + 1;
  }
  return p;
}

// Rows [first, end) and one KV head. The representative goes first: the others repeat its blocks.
template <class T>
void attend_group(const Call<T>& call, std::int64_t first, std::int64_t end, std::int64_t g) {
  thread_local Workspace<SumOf<T>> work;
  const NsaVerifyParams<T>& p = call.p;
  const std::int64_t router = representative(p.position, first, end);
  NodeAttention<T>(call, work, router, g).run(nullptr);
  for (std::int64_t node = first; node < end; ++node) {
    if (node != router) {
      NodeAttention<T>(call, work, node, g).run(p.indices + index_offset(p, router, g));
    }
  }
}

// One node and KV head that routes for itself or was given its blocks.
template <class T>
void attend_node(const Call<T>& call, std::int64_t node, std::int64_t g) {
  thread_local Workspace<SumOf<T>> work;
  const NsaVerifyParams<T>& p = call.p;
  const std::int32_t* given =
      p.indices_in == nullptr ? nullptr : p.indices_in + index_offset(p, node, g);
  NodeAttention<T>(call, work, node, g).run(given);
}

}  // namespace

template <class T>
void nsa_verify_cpu(const NsaVerifyParams<T>& params, int threads) {
  const NsaVerifyParams<T> p = counted(params);
  VERSIEVE_ASSERT(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, "G divides H");
  VERSIEVE_ASSERT(geometry_error(p.nsa).empty(), "the geometry was checked");
  VERSIEVE_ASSERT(p.num_compressed == compressed_count(p.nsa, p.context_len), "Lc follows from L");
  VERSIEVE_ASSERT(p.group_size >= 1, "a group has a row");
  const Call<T> call(p);
  // Exact groups share loads, of which a CPU's caches take care, and never an answer.
  const bool shares = p.group_mode == GroupMode::kApprox && p.indices_in == nullptr;
  const std::int64_t size = shares ? std::min(p.group_size, p.num_queries) : 1;
  const std::int64_t groups = (p.num_queries + size - 1) / size;
  parallel_for(p.num_kv_heads * groups, threads, [&](std::int64_t i) {
    const std::int64_t first = i % groups * size;
    const std::int64_t g = i / groups;
    if (shares) {
      attend_group(call, first, std::min(first + size, p.num_queries), g);
    } else {
      attend_node(call, first, g);
    }
  });
}

template void nsa_verify_cpu<double>(const NsaVerifyParams<double>&, int);
template void nsa_verify_cpu<float>(const NsaVerifyParams<float>&, int);
template void nsa_verify_cpu<Bf16>(const NsaVerifyParams<Bf16>&, int);

}  // namespace versieve::kernels
