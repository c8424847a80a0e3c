// The fused bf16 launches against plain loops in double, against themselves in other forms of the
// same problem, and against themselves with other groups: exact groups may not change a bit.
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "kernels/nsa_verify/fused.h"
#include "tests/gpu/device.h"
#include "tests/gpu/nsa_run.h"
#include "tests/support/nsa_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

using kernels::NsaForm;

std::int64_t pick(std::mt19937_64& rng, std::initializer_list<std::int64_t> values) {
  return *(values.begin() + rng() % values.size());
}

// Shapes that the fused launches take: odd context lengths, every H/G, both head widths.
NsaCaseShape random_fused_shape(std::mt19937_64& rng) {
  NsaCaseShape shape;
  const std::int64_t stride = pick(rng, {8, 16, 16, 16});
  shape.nsa = {.cmp_block = stride * pick(rng, {1, 2, 2, 2, 4}),
               .cmp_stride = stride,
               .sel_block = pick(rng, {16, 32, 64, 64, 64, 128}),
               .sel_count = pick(rng, {3, 5, 8, 16, 16, 20}),
               .init_blocks = pick(rng, {0, 1, 1}),
               .local_blocks = pick(rng, {1, 2, 2}),
               .window = pick(rng, {1, 17, 100, 512})};
  if (shape.nsa.sel_block % stride != 0 || shape.nsa.cmp_block > shape.nsa.sel_block + stride) {
    shape.nsa.sel_block = stride * 4;
  }
  shape.kv_heads = pick(rng, {1, 2, 3});
  shape.heads = shape.kv_heads * pick(rng, {1, 2, 3, 4, 4, 4, 8, 16});
  shape.head_dim = pick(rng, {16, 48, 64, 64, 64, 80, 128});
  shape.context_len = static_cast<std::int64_t>(rng() % pick(rng, {40, 300, 3000, 9000}));
  shape.nodes = 1 + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(pick(rng, {1, 5, 20, 70})));
  shape.tree = static_cast<TreeForm>(rng() % 3);
  return shape;
}

NsaCaseShape long_shape(std::int64_t context_len, std::int64_t nodes, TreeForm tree) {
  return {{32, 16, 64, 16, 1, 2, 512}, 4, 1, 64, context_len, nodes, tree, 1.0, false, false};
}

NsaChoice fused(std::int64_t group_size = 1, GroupMode mode = GroupMode::kExact) {
  return {NsaForm::kFused, mode, group_size};
}

void check_case(const NsaCaseShape& shape, std::mt19937_64& rng) {
  const NsaCase c = rounded<Bf16>(make_nsa_case(shape, rng));
  CAPTURE(shape.text(), test_seed());
  const NsaResult one = run_nsa<Bf16>(c, fused());
  CHECK(disagreement(c, one, tolerance_of<Bf16>()) == "");
  for (const std::int64_t group : {2, 4, 8}) {
    const NsaResult grouped = run_nsa<Bf16>(c, fused(group));
    CHECK(grouped.indices == one.indices);
    CHECK(grouped.importance == one.importance);
    CHECK(grouped.out == one.out);
  }
  NsaChoice from_memory = fused(4);
  from_memory.counts_from_memory = true;
  const NsaResult counted = run_nsa<Bf16>(c, from_memory);
  CHECK(counted.indices == one.indices);
  CHECK(counted.out == one.out);
  NsaCase given = c;
  given.indices_in = one.indices;
  const NsaResult reused = run_nsa<Bf16>(given, fused());
  CHECK(disagreement(given, reused, tolerance_of<Bf16>()) == "");
  CHECK(reused.indices == one.indices);
  CHECK(run_nsa<Bf16>(given, fused(8)).out == reused.out);
}

}  // namespace

TEST_CASE("fused nsa_verify agrees with the plain answer, and groups change no bit") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 40; ++i) {
    check_case(random_fused_shape(rng), rng);
  }
}

TEST_CASE("fused nsa_verify takes long contexts, one query and 256 nodes", "[long]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const auto& [context, nodes, tree] :
       {std::tuple<int, int, TreeForm>{20000, 6, TreeForm::kRandom},
        {16390, 1, TreeForm::kChain},
        {700, 256, TreeForm::kRandom},
        {500, 256, TreeForm::kChain},
        {31, 2, TreeForm::kChain},
        {0, 40, TreeForm::kChain}}) {
    check_case(long_shape(context, nodes, tree), rng);
  }
  const NsaCase c = rounded<Bf16>(make_nsa_case(long_shape(262144, 2, TreeForm::kChain), rng));
  CHECK(disagreement(c, run_nsa<Bf16>(c, fused()), tolerance_of<Bf16>()) == "");
}

TEST_CASE("fused nsa_verify agrees with the plain answer on adversarial shapes") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (NsaCaseShape shape : adversarial_nsa_shapes()) {
    shape.nsa = {32, 16, 64, 16, 1, 2, 512};
    const NsaCase c = rounded<Bf16>(make_nsa_case(shape, rng));
    CAPTURE(shape.text(), test_seed());
    CHECK(disagreement(c, run_nsa<Bf16>(c, fused(8)), tolerance_of<Bf16>()) == "");
  }
}

TEST_CASE("a node's bits in the fused form depend on its path alone") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 34; ++i) {
    const NsaCaseShape shape = i < 30    ? random_fused_shape(rng)
                               : i == 30 ? long_shape(20000, 6, TreeForm::kRandom)
                               : i == 31 ? long_shape(4090, 60, TreeForm::kRandom)
                               : i == 32 ? long_shape(2047, 40, TreeForm::kChain)
                                         : long_shape(16384 + 15, 33, TreeForm::kRandom);
    CAPTURE(i, shape.text(), test_seed());
    const NsaCase c = rounded<Bf16>(make_nsa_case(shape, rng));
    const std::int64_t group = pick(rng, {1, 2, 4, 8});
    CHECK(invariance_failure(
              c, [&](const NsaCase& x) { return run_nsa<Bf16>(x, fused(group)); }, rng) == "");
  }
}

TEST_CASE("approximate groups share their representative's blocks") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 12; ++i) {
    const NsaCaseShape shape = random_fused_shape(rng);
    CAPTURE(shape.text(), test_seed());
    const NsaCase c = rounded<Bf16>(make_nsa_case(shape, rng));
    const std::int64_t size = pick(rng, {2, 3, 4, 8});
    const NsaResult exact = run_nsa<Bf16>(c, fused());
    const NsaResult approx = run_nsa<Bf16>(c, fused(size, GroupMode::kApprox));
    const std::int64_t row = shape.kv_heads * shape.nsa.sel_count;
    for (std::int64_t node = 0; node < shape.nodes; ++node) {
      const std::int64_t first = node / size * size;
      std::int64_t leader = first;
      for (std::int64_t j = first; j < std::min(first + size, shape.nodes); ++j) {
        if (c.position[static_cast<std::size_t>(j)] > c.position[static_cast<std::size_t>(leader)]) {
          leader = j;
        }
      }
      CHECK(std::equal(approx.indices.begin() + node * row, approx.indices.begin() + (node + 1) * row,
                       exact.indices.begin() + leader * row));
    }
    NsaCase given = c;
    given.indices_in = approx.indices;
    CHECK(disagreement(given, {approx.out, approx.indices, {}}, tolerance_of<Bf16>()) == "");
  }
}
