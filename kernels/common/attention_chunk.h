// Attention of a few query rows (the H/G heads of one KV head) over keys that arrive in ascending
// position: the one order in which every CPU kernel here reduces keys.
//
// Batch invariance rests on two rules. Keys are taken in chunks of 64 positions, aligned to
// positions, and a key's lane is its position within the chunk; so neither the buffer a key lies in
// nor the other rows of a call can move it. And a lane without a key adds exact zeros, so work on
// it may be skipped or done.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/common/rounded.h"
#include "kernels/common/simd.h"

namespace versieve::kernels {

inline constexpr int kChunkKeys = 64;

// Head size rounded up to whole registers; rows are padded with zeros.
template <class S>
std::int64_t padded(std::int64_t head_dim) {
  constexpr std::int64_t lanes = Simd<S>::kLanes;
  return (head_dim + lanes - 1) / lanes * lanes;
}

// Up to 64 keys and values of one chunk, by lane.
template <class T>
class ChunkKeys {
 public:
  using S = SumOf<T>;

  explicit ChunkKeys(std::int64_t head_dim)
      : head_dim_(head_dim),
        padded_(padded<S>(head_dim)),
        direct_(std::is_same_v<T, S> && padded_ == head_dim),
        zero_(static_cast<std::size_t>(padded_)),
        converted_(direct_ ? 0 : static_cast<std::size_t>(2 * kChunkKeys * padded_)) {
    clear();
  }

  void clear() {
    for (int lane = 0; lane < kChunkKeys; ++lane) {
      keys_[lane] = values_[lane] = zero_.data();
    }
    begin_ = kChunkKeys;
    end_ = 0;
    visible_ = 0;
  }
  void add(int lane, const T* key, const T* value) {
    keys_[lane] = row(key, 2 * lane);
    values_[lane] = row(value, 2 * lane + 1);
    begin_ = std::min(begin_, lane);
    end_ = std::max(end_, lane + 1);
    visible_ |= std::uint64_t{1} << lane;
  }

  bool empty() const { return visible_ == 0; }
  bool visible(int lane) const { return (visible_ >> lane & 1U) != 0; }
  const S* key(int lane) const { return keys_[lane]; }      // [padded d]
  const S* value(int lane) const { return values_[lane]; }  // [padded d]
  int begin() const { return begin_ / 8 * 8; }              // lanes in use, in groups of eight
  int end() const { return (end_ + 7) / 8 * 8; }
  std::int64_t row_size() const { return padded_; }

 private:
  const S* row(const T* source, int slot) {
    if constexpr (std::is_same_v<T, S>) {
      if (direct_) {
        return source;
      }
    }
    S* copy = converted_.data() + slot * padded_;
    for (std::int64_t e = 0; e < head_dim_; ++e) {
      copy[e] = to_sum(source[e]);
    }
    return copy;
  }

  std::int64_t head_dim_;
  std::int64_t padded_;
  bool direct_;
  std::vector<S> zero_;       // [padded d]
  std::vector<S> converted_;  // [64, 2, padded d]
  const S* keys_[kChunkKeys];
  const S* values_[kChunkKeys];
  int begin_ = 0;
  int end_ = 0;
  std::uint64_t visible_ = 0;
};

// scores[h, lane] of kRows heads from `head` on and 8 / kRows lanes at a time: one register of
// partial sums a score.
template <int kRows, class T, class S>
void score_rows(const S* q, const ChunkKeys<T>& keys, S* scores) {
  using V = Simd<S>;
  constexpr int kCols = 8 / kRows;
  const std::int64_t d = keys.row_size();
  for (int lane = keys.begin(); lane < keys.end(); lane += kCols) {
    typename V::Vec sums[8];
    for (typename V::Vec& sum : sums) {
      sum = V::broadcast(0);
    }
    for (std::int64_t e = 0; e < d; e += V::kLanes) {
      typename V::Vec column[kCols];
      for (int c = 0; c < kCols; ++c) {
        column[c] = V::load(keys.key(lane + c) + e);
      }
      for (int r = 0; r < kRows; ++r) {
        const typename V::Vec row = V::load(q + r * d + e);
        for (int c = 0; c < kCols; ++c) {
          sums[r * kCols + c] = V::fma(row, column[c], sums[r * kCols + c]);
        }
      }
    }
    S total[8];
    V::sums_of(sums, total);
    for (int o = 0; o < 8; ++o) {
      scores[(o / kCols) * kChunkKeys + lane + o % kCols] = total[o];
    }
  }
}

// scores[h, lane] = q[h] . key[lane] * scale; -inf where no key is.
template <class T, class S>
void chunk_scores(const S* q, std::int64_t rows, const ChunkKeys<T>& keys, S scale, S* scores) {
  const std::int64_t d = keys.row_size();
  std::int64_t h = 0;
  for (; h + 4 <= rows; h += 4) {
    score_rows<4>(q + h * d, keys, scores + h * kChunkKeys);
  }
  if (h + 2 <= rows) {
    score_rows<2>(q + h * d, keys, scores + h * kChunkKeys);
    h += 2;
  }
  if (h < rows) {
    score_rows<1>(q + h * d, keys, scores + h * kChunkKeys);
  }
  for (h = 0; h < rows; ++h) {
    for (int lane = 0; lane < kChunkKeys; ++lane) {
      S& score = scores[h * kChunkKeys + lane];
      score = keys.visible(lane) ? score * scale : -std::numeric_limits<S>::infinity();
    }
  }
}

template <int kRows, int kVecs, class T, class S>
void add_values_tile(const S* weights, const ChunkKeys<T>& keys, std::int64_t e, S* out) {
  using V = Simd<S>;
  typename V::Vec sums[kRows][kVecs];
  for (auto& row : sums) {
    for (typename V::Vec& sum : row) {
      sum = V::broadcast(0);
    }
  }
  for (int lane = keys.begin(); lane < keys.end(); ++lane) {
    typename V::Vec value[kVecs];
    for (int c = 0; c < kVecs; ++c) {
      value[c] = V::load(keys.value(lane) + e + c * V::kLanes);
    }
    for (int r = 0; r < kRows; ++r) {
      const typename V::Vec weight = V::broadcast(weights[r * kChunkKeys + lane]);
      for (int c = 0; c < kVecs; ++c) {
        sums[r][c] = V::fma(weight, value[c], sums[r][c]);
      }
    }
  }
  const std::int64_t d = keys.row_size();
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVecs; ++c) {
      S* at = out + r * d + e + c * V::kLanes;
      V::store(at, V::add(V::load(at), sums[r][c]));
    }
  }
}

template <int kRows, class T, class S>
void add_values_rows(const S* weights, const ChunkKeys<T>& keys, S* out) {
  constexpr int kVecs = 2;
  constexpr std::int64_t lanes = Simd<S>::kLanes;
  const std::int64_t d = keys.row_size();
  std::int64_t e = 0;
  for (; e + kVecs * lanes <= d; e += kVecs * lanes) {
    add_values_tile<kRows, kVecs>(weights, keys, e, out);
  }
  for (; e < d; e += lanes) {
    add_values_tile<kRows, 1>(weights, keys, e, out);
  }
}

// out[h] += sum over lanes of weights[h, lane] * value[lane]: the chunk's own sum first.
template <class T, class S>
void add_chunk_values(const S* weights, std::int64_t rows, const ChunkKeys<T>& keys, S* out) {
  const std::int64_t d = keys.row_size();
  std::int64_t h = 0;
  for (; h + 4 <= rows; h += 4) {
    add_values_rows<4>(weights + h * kChunkKeys, keys, out + h * d);
  }
  for (; h < rows; ++h) {
    add_values_rows<1>(weights + h * kChunkKeys, keys, out + h * d);
  }
}

template <class S>
S chunk_max(const S* scores) {
  using V = Simd<S>;
  typename V::Vec most = V::load(scores);
  for (int lane = V::kLanes; lane < kChunkKeys; lane += V::kLanes) {
    most = V::max(most, V::load(scores + lane));
  }
  S lanes[V::kLanes];
  V::store(lanes, most);
  return *std::max_element(lanes, lanes + V::kLanes);
}

// weights = exp(scores - offset); returns their sum over the chunk. May be in place.
template <class S>
S chunk_weights(const S* scores, S offset, S* weights) {
  using V = Simd<S>;
  typename V::Vec sum = V::broadcast(0);
  for (int lane = 0; lane < kChunkKeys; lane += V::kLanes) {
    const typename V::Vec weight = V::exp_below(V::load(scores + lane), offset);
    V::store(weights + lane, weight);
    sum = V::add(sum, weight);
  }
  return V::sum(sum);
}

// Softmax attention that absorbs chunk after chunk, in ascending order.
template <class T>
class OnlineAttention {
 public:
  using S = SumOf<T>;

  OnlineAttention(const S* q, std::int64_t rows, std::int64_t head_dim, S scale)
      : q_(q), rows_(rows), row_size_(padded<S>(head_dim)), scale_(scale) {
    max_.assign(static_cast<std::size_t>(rows), -std::numeric_limits<S>::infinity());
    sum_.assign(static_cast<std::size_t>(rows), 0);
    out_.assign(static_cast<std::size_t>(rows * row_size_), 0);
    scores_.resize(static_cast<std::size_t>(rows * kChunkKeys));
  }

  void absorb(const ChunkKeys<T>& keys) {
    if (keys.empty()) {
      return;
    }
    chunk_scores(q_, rows_, keys, scale_, scores_.data());
    for (std::int64_t h = 0; h < rows_; ++h) {
      S* scores = scores_.data() + h * kChunkKeys;
      rescale(h, chunk_max(scores));
      sum_[at(h)] += chunk_weights(scores, max_[at(h)], scores);
    }
    add_chunk_values(scores_.data(), rows_, keys, out_.data());
  }

  // out[h, e] of the softmax so far; 0 if no key was visible.
  S result(std::int64_t h, std::int64_t e) const {
    return sum_[at(h)] > 0 ? out_[at(h * row_size_ + e)] / sum_[at(h)] : S{0};
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  void rescale(std::int64_t h, S chunk_maximum) {
    if (!(chunk_maximum > max_[at(h)])) {
      return;
    }
    const S factor = std::exp(max_[at(h)] - chunk_maximum);
    max_[at(h)] = chunk_maximum;
    sum_[at(h)] *= factor;
    for (std::int64_t e = 0; e < row_size_; ++e) {
      out_[at(h * row_size_ + e)] *= factor;
    }
  }

  const S* q_;  // [rows, padded d]
  std::int64_t rows_;
  std::int64_t row_size_;
  S scale_;
  std::vector<S> max_;     // [rows]
  std::vector<S> sum_;     // [rows]
  std::vector<S> out_;     // [rows, padded d]
  std::vector<S> scores_;  // [rows, 64]
};

// Collects keys by ascending position and hands each full chunk to an OnlineAttention.
template <class T>
class KeyStream {
 public:
  KeyStream(OnlineAttention<T>& attention, ChunkKeys<T>& keys)
      : attention_(attention), keys_(keys) {
    keys_.clear();
  }
  void add(std::int64_t position, const T* key, const T* value) {
    const std::int64_t chunk = position / kChunkKeys;
    if (chunk != chunk_) {
      finish();
      chunk_ = chunk;
    }
    keys_.add(static_cast<int>(position % kChunkKeys), key, value);
  }
  // Hands over what is left.
  void finish() {
    attention_.absorb(keys_);
    keys_.clear();
  }

 private:
  OnlineAttention<T>& attention_;
  ChunkKeys<T>& keys_;
  std::int64_t chunk_ = -1;
};

}  // namespace versieve::kernels
