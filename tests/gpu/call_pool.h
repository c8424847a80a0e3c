// Sequences in a pool of scattered pages, some of which share pages, and what calls over them write
// alone and together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/ops.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/support/nsa_case.h"

namespace versieve::test {

using kernels::kPageRows;
using kernels::Ops;
using kernels::OpsBuffer;
using kernels::PageTable;

struct Heads {
  std::int64_t query = 8, kv = 2, dim = 64;
  std::int64_t width() const { return kv * dim; }
};

// Even values between -2 and 2: many of them in little time.
template <class T>
std::vector<T> even_elements(std::int64_t count, std::mt19937_64& rng) {
  std::vector<T> values(static_cast<std::size_t>(count));
  std::uint64_t state = rng();
  for (T& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = narrow<T>(static_cast<float>(state >> 40) * 0x1p-22F - 2.0F);
  }
  return values;
}

// Sequences in one pool; every third begins with the pages of the one before it.
template <class T>
struct Pool {
  Heads heads;
  std::int64_t layers = 0;
  std::int64_t pages = 0;
  OpsBuffer<T> k, v;  // [layers, pages * 64, G, d]
  std::vector<std::int64_t> lengths;
  std::vector<OpsBuffer<T, std::int32_t>> tables;

  Pool(Ops<T>& ops, Heads of, const std::vector<std::int64_t>& all, std::mt19937_64& rng,
       std::int64_t of_layers = 2)
      : heads(of), layers(of_layers), lengths(all) {
    for (const std::int64_t length : lengths) {
      pages += length / kPageRows + 2;
    }
    std::vector<std::int32_t> free(static_cast<std::size_t>(pages));
    std::iota(free.begin(), free.end(), 0);
    std::shuffle(free.begin(), free.end(), rng);
    std::vector<std::int32_t> before;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      std::vector<std::int32_t> own;
      while (std::ssize(own) < lengths[i] / kPageRows + 1) {
        own.push_back(free.back());
        free.pop_back();
      }
      for (std::size_t p = 0; i % 3 == 2 && p < std::min(own.size(), before.size()) / 2; ++p) {
        own[p] = before[p];
      }
      tables.emplace_back(ops, own);
      before = own;
    }
    const std::int64_t count = layers * rows() * heads.width();
    k = {ops, even_elements<T>(count, rng)};
    v = {ops, even_elements<T>(count, rng)};
  }
  std::int64_t rows() const { return pages * kPageRows; }
  PageTable table(std::size_t i) const { return {.page = tables[i].data(), .count = pages}; }
};

// Two copies of what calls write: alone, and together.
template <class T, class E>
struct Twice {
  OpsBuffer<T, E> alone, together;

  Twice(Ops<T>& ops, const std::vector<E>& values) : alone(ops, values), together(ops, values) {}
  E* at(bool both) const { return (both ? together : alone).data(); }
  bool same() const {
    const std::vector<E> a = alone.read(), b = together.read();
    if constexpr (!std::is_same_v<E, Bf16>) {
      return a == b;
    } else {
      return widen_all(a) == widen_all(b);
    }
  }
};

template <class T>
Twice<T, T> unwritten(Ops<T>& ops, std::int64_t count) {
  return {ops, std::vector<T>(static_cast<std::size_t>(count), narrow<T>(-12345.0F))};
}
template <class T>
Twice<T, std::int32_t> numbers(Ops<T>& ops, std::int64_t count, std::int32_t value = -7) {
  return {ops, std::vector<std::int32_t>(static_cast<std::size_t>(count), value)};
}

}  // namespace versieve::test
