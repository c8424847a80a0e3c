// A prompt read in one forward beside the same tokens in chains, on any device: caches, captured
// streams, the last token's logits, and what is decoded from there.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine::tiny {

template <class T>
std::vector<T> rows_of(kernels::Ops<T>& ops, const T* from, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  ops.download(values.data(), from, values.size() * sizeof(T));
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Of pieces that are verified and committed one after the other; the captured rows of all.
template <class T>
std::vector<T> read_in_chains(kernels::Ops<T>& ops, Target<T>& target,
                              const std::vector<std::int32_t>& tokens, std::int64_t piece) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  std::vector<T> captured;
  for (std::int64_t at = 0; at < count; at += piece) {
    const std::int64_t end = std::min(count, at + piece);
    std::vector<std::int32_t> path(static_cast<std::size_t>(end - at));
    std::iota(path.begin(), path.end(), 0);
    target.verify(chain_tree({tokens.begin() + at, tokens.begin() + end}),
                  {.last_logits_only = true});
    target.commit(path);
    const std::vector<T> rows =
        rows_of(ops, target.captured(), (end - at) * 3 * target.shape().hidden);
    captured.insert(captured.end(), rows.begin(), rows.end());
  }
  return captured;
}

template <class T>
void check_caches(kernels::Ops<T>& ops, const Target<T>& a_of, KvCache<T>& a, KvCache<T>& b) {
  REQUIRE(a.length() == b.length());
  const std::int64_t width = a_of.shape().kv_width();
  for (std::int64_t layer = 0; layer < a_of.shape().layers; ++layer) {
    CAPTURE(layer);
    const auto same = [&](const T* x, const T* y, std::int64_t rows) {
      return same_bits(rows_of(ops, x, rows * width), rows_of(ops, y, rows * width));
    };
    CHECK(same(a.k(layer), b.k(layer), a.length()));
    CHECK(same(a.v(layer), b.v(layer), a.length()));
    if (a.keeps_raw_keys()) {
      CHECK(same(a.k_raw(layer), b.k_raw(layer), a.length()));
    }
    if (const std::int64_t compressed = a.compressed_length(); compressed > 0) {
      CHECK(same(a.k_cmp(layer), b.k_cmp(layer), compressed));
      CHECK(same(a.v_cmp(layer), b.v_cmp(layer), compressed));
    }
  }
}

template <class T>
using MakeOps = std::function<std::unique_ptr<kernels::Ops<T>>()>;

// Reads `tokens` of them, `chunk` at a time, and in chains of `piece`.
template <class T>
void check_read_prompt(const MakeOps<T>& make_ops, const LlmShape& shape, std::int64_t count,
                       std::int64_t chunk, std::int64_t piece) {
  CAPTURE(static_cast<int>(shape.attention), chunk, piece);
  Engine<T> whole(make_ops(), shape), chains(make_ops(), shape);
  const std::vector<std::int32_t> tokens = prompt(count);
  const std::vector<T> captured = read_in_chains(*chains.ops, chains.target, tokens, piece);
  const std::int64_t hidden = 3 * shape.hidden;
  for (std::int64_t at = 0; at < count; at += chunk) {
    const std::int64_t end = std::min(count, at + chunk);
    whole.target.read_prompt(std::span(tokens).subspan(static_cast<std::size_t>(at),
                                                       static_cast<std::size_t>(end - at)));
    const std::vector<T> own = rows_of(*whole.ops, whole.target.captured(), (end - at) * hidden);
    CHECK(same_bits(
        own, std::vector<T>(captured.begin() + at * hidden, captured.begin() + end * hidden)));
  }
  check_caches(*whole.ops, whole.target, whole.target.cache(), chains.target.cache());
  for (std::int32_t token = 0; token < 3; ++token) {
    CHECK(same_bits(rows_of(*whole.ops, whole.target.logits(), shape.vocab),
                    rows_of(*chains.ops, chains.target.logits(), shape.vocab)));
    for (Target<T>* target : {&whole.target, &chains.target}) {
      target->verify(chain_tree({token}), {});
      target->commit(std::vector<std::int32_t>{0});
    }
  }
}

}  // namespace versieve::engine::tiny
