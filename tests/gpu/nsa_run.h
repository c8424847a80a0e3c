// One nsa_verify problem through the CUDA launches: uploads, poisons scratch, runs, downloads.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/launch.h"
#include "tests/gpu/blank_parts.h"
#include "tests/gpu/device.h"
#include "tests/support/nsa_case.h"

namespace versieve::testing {

struct NsaChoice {
  kernels::NsaForm form = kernels::NsaForm::kVanilla;
  bool counts_from_memory = false;
  kernels::TopkVariant topk = kernels::TopkVariant::kSort;
  std::vector<std::int32_t> hint = {};  // [G, n], or empty; handed over where the answer goes
  int launches = 1;                     // of the same problem, whose outputs must be the same
};

template <class T>
NsaResult run_nsa(const NsaCase& c, const NsaChoice& choice = {}) {
  NsaBuffers<T> host(c);
  std::vector<std::int32_t> owners = c.owner;
  kernels::NsaVerifyParams<T> p = host.params();
  p.form = choice.form;
  p.topk = choice.topk;
  std::copy(choice.hint.begin(), choice.hint.end(), host.indices.begin());
  DeviceArray<kernels::StepCounts> counts(
      std::vector<kernels::StepCounts>{{static_cast<std::int32_t>(p.context_len),
                                        static_cast<std::int32_t>(p.num_tree_compressed)}});
  if (choice.counts_from_memory) {  // the params hold bounds
    p.older_lists = p.older_blocks = true;
    p.counts = counts.data();
    p.context_len += 1000;
    p.num_compressed = compressed_count(p.nsa, p.context_len);
    p.num_tree_compressed = p.num_queries;
    const std::size_t width = static_cast<std::size_t>(p.num_kv_heads * p.head_dim);
    T finite{};  // rows past the counts: anything finite
    if constexpr (std::is_same_v<T, Bf16>) {
      finite = to_bf16(30000.0F);
    } else {
      finite = static_cast<T>(30000.0);
    }
    for (std::vector<T>* const cache : {&host.k, &host.v}) {
      cache->resize(static_cast<std::size_t>(p.context_len) * width, finite);
    }
    for (std::vector<T>* const cache : {&host.k_cmp, &host.v_cmp}) {
      cache->resize(static_cast<std::size_t>(p.num_compressed) * width, finite);
    }
    for (std::vector<T>* const rows : {&host.k_cmp_tree, &host.v_cmp_tree}) {
      rows->resize(static_cast<std::size_t>(p.num_tree_compressed) * width, finite);
    }
    owners.resize(static_cast<std::size_t>(p.num_tree_compressed));
  }
  // What has no rows has room for one, as the engine's caches have: launches' tensor maps name it.
  for (std::vector<T>* const rows :
       {&host.k, &host.v, &host.k_cmp, &host.v_cmp, &host.k_cmp_tree, &host.v_cmp_tree}) {
    rows->resize(std::max(rows->size(), static_cast<std::size_t>(p.num_kv_heads * p.head_dim)));
  }
  const DeviceArray<T> q(host.q), k(host.k), v(host.v), k_cmp(host.k_cmp), v_cmp(host.v_cmp),
      k_tree(host.k_tree), v_tree(host.v_tree), k_cmp_tree(host.k_cmp_tree),
      v_cmp_tree(host.v_cmp_tree), gates(host.gates), out(host.out);
  const DeviceArray<std::int32_t> parent(c.parent), position(c.position), owner(owners),
      indices_in(c.indices_in), indices(host.indices);
  const DeviceArray<float> importance(host.importance);
  p.q = q.data();
  p.k = k.data();
  p.v = v.data();
  p.k_cmp = k_cmp.data();
  p.v_cmp = v_cmp.data();
  p.k_tree = k_tree.data();
  p.v_tree = v_tree.data();
  p.k_cmp_tree = k_cmp_tree.data();
  p.v_cmp_tree = v_cmp_tree.data();
  p.gates = gates.data();
  p.parent = parent.data();
  p.position = position.data();
  p.cmp_tree_owner = owner.data();
  p.indices_in = c.indices_in.empty() ? nullptr : indices_in.data();
  p.out = out.data();
  p.indices = indices.data();
  p.hint = choice.hint.empty() ? nullptr : indices.data();
  p.importance = importance.data();
  const std::size_t bytes = kernels::nsa_verify_scratch_bytes(p);
  const DeviceArray<unsigned char> scratch(std::vector<unsigned char>(bytes, 0xFF));  // poison: NaN
  kernels::LaunchContext context;
  context.scratch = scratch.data();
  context.scratch_bytes = bytes;
  const DeviceArray<std::int32_t> counters(std::vector<std::int32_t>(kernels::kLaunchCounters));
  context.counters = reinterpret_cast<unsigned*>(counters.data());
  context.parts = blank_parts().data();
  kernels::launch_nsa_verify(p, context);
  kernels::check(cudaDeviceSynchronize());
  out.read(host.out);
  blank_parts().check_blank();
  for (int i = 1; i < choice.launches; ++i) {
    kernels::launch_nsa_verify(p, context);
    kernels::check(cudaDeviceSynchronize());
    std::vector<T> again(host.out.size());
    out.read(again);
    CHECK(std::memcmp(again.data(), host.out.data(), again.size() * sizeof(T)) == 0);
  }
  indices.read(host.indices);
  importance.read(host.importance);
  return host.result();
}

}  // namespace versieve::testing
