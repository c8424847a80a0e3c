// The fused bf16 launches against plain loops in double, against themselves in other forms of the
// same problem, and against themselves with other groups: exact groups may not change a bit.
#include <catch2/catch.hpp>
#include <numeric>
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
  shape.nodes =
      1 + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(pick(rng, {1, 5, 20, 70})));
  shape.tree = static_cast<TreeForm>(rng() % 3);
  return shape;
}

NsaCaseShape long_shape(std::int64_t context_len, std::int64_t nodes, TreeForm tree) {
  NsaCaseShape shape;
  shape.nsa = {32, 16, 64, 16, 1, 2, 512};
  shape.heads = 4;
  shape.kv_heads = 1;
  shape.head_dim = 64;
  shape.context_len = context_len;
  shape.nodes = nodes;
  shape.tree = tree;
  return shape;
}

// Enough queries and KV heads that CTAs run several parts one after the other: spans of 512
// compressed tokens are added up on the chip, and finishing CTAs take several nodes.
NsaCaseShape wide_shape(std::int64_t context_len, std::int64_t nodes, TreeForm tree) {
  NsaCaseShape shape = long_shape(context_len, nodes, tree);
  shape.heads = 32;
  shape.kv_heads = 8;
  return shape;
}

constexpr NsaChoice kFused{NsaForm::kFused};

NsaCase grouped(NsaCase c, std::int64_t size, GroupMode mode = GroupMode::kExact) {
  c.shape.group_size = size;
  c.shape.group_mode = mode;
  return c;
}

template <class T>
std::vector<T> head_of(const std::vector<T>& rows, std::int64_t count, std::int64_t all) {
  return {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(rows.size()) / all * count};
}
// The first `count` rows, without the others; in a reuse layer with their blocks.
NsaResult first_rows(const NsaCase& c, std::int64_t count) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  NsaCase few = reordered(c, order);
  few.indices_in = head_of(c.indices_in, count, c.shape.nodes);  // of none: none
  return run_nsa<Bf16>(few, kFused);
}

void check_case(const NsaCaseShape& shape, std::mt19937_64& rng) {
  const NsaCase c = rounded<Bf16>(make_nsa_case(shape, rng));
  CAPTURE(shape.text(), test_seed());
  const NsaResult one = run_nsa<Bf16>(c, kFused);
  CHECK(disagreement(c, one, tolerance_of<Bf16>()) == "");
  for (const std::int64_t group : {2, 4, 8}) {
    const NsaResult other = run_nsa<Bf16>(grouped(c, group), kFused);
    CHECK(other.indices == one.indices);
    CHECK(other.importance == one.importance);
    CHECK(other.out == one.out);
  }
  const NsaResult counted = run_nsa<Bf16>(grouped(c, 4), {NsaForm::kFused, true});
  CHECK(counted.indices == one.indices);
  CHECK(counted.out == one.out);
  NsaCase given = c;
  given.indices_in = one.indices;
  const NsaResult reused = run_nsa<Bf16>(given, kFused);
  CHECK(disagreement(given, reused, tolerance_of<Bf16>()) == "");
  CHECK(reused.indices == one.indices);
  CHECK(run_nsa<Bf16>(grouped(given, 8), kFused).out == reused.out);
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
        {5, 256, TreeForm::kRandom},  // all that a part has may be a slice of the tail
        {69, 200, TreeForm::kChain},
        {31, 2, TreeForm::kChain},
        {0, 40, TreeForm::kChain}}) {
    check_case(long_shape(context, nodes, tree), rng);
  }
  // All rows of the tree lie on the chip at once: two to four units of 64, and the committed ones.
  for (const std::int64_t nodes : {65, 130, 256}) {
    NsaCaseShape shape = long_shape(1003, nodes, TreeForm::kRandom);
    shape.head_dim = 128;
    check_case(shape, rng);
  }
  const NsaCase c = rounded<Bf16>(make_nsa_case(long_shape(262144, 2, TreeForm::kChain), rng));
  CHECK(disagreement(c, run_nsa<Bf16>(c, kFused), tolerance_of<Bf16>()) == "");
}

TEST_CASE("fused nsa_verify takes a short path", "[race]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  check_case(long_shape(300, 9, TreeForm::kRandom), rng);
  check_case(long_shape(2100, 5, TreeForm::kChain), rng);
  for (const int context : {0, 47, 2095}) {  // the last two complete a compressed token
    check_case(long_shape(context, 1, TreeForm::kChain), rng);
  }
}

// A refresh and a reuse layer of many queries against the same with few: other cuts, the same bits.
void check_wide(const NsaCase& c, bool plain) {
  CAPTURE(c.shape.text(), test_seed());
  const NsaResult one = run_nsa<Bf16>(c, kFused);
  NsaCase given = c;
  given.indices_in = one.indices;
  const NsaResult reused = run_nsa<Bf16>(given, kFused);
  constexpr std::int64_t kFew = 7;
  CHECK(first_rows(given, kFew).out == head_of(reused.out, kFew, c.shape.nodes));
  given.indices_in.clear();
  const NsaResult few = first_rows(given, kFew);
  CHECK(few.out == head_of(one.out, kFew, c.shape.nodes));
  CHECK(few.indices == head_of(one.indices, kFew, c.shape.nodes));
  // Their rows of importance are shorter: blocks that only the others reach are left out.
  const std::size_t rows = static_cast<std::size_t>(kFew * c.shape.kv_heads);
  const std::size_t pitch = few.importance.size() / rows;
  const std::size_t wide_pitch =
      one.importance.size() / static_cast<std::size_t>(c.shape.nodes * c.shape.kv_heads);
  std::size_t differing = 0;
  for (std::size_t i = 0; i < rows * pitch; ++i) {
    const std::size_t at = i / pitch * wide_pitch + i % pitch;
    differing += few.importance[i] == one.importance[at] ? 0U : 1U;
  }
  CHECK(differing == 0);
  if (plain) {
    given.indices_in = one.indices;
    CHECK(disagreement(c, one, tolerance_of<Bf16>()) == "");
    CHECK(disagreement(given, reused, tolerance_of<Bf16>()) == "");
  }
}

TEST_CASE("fused nsa_verify takes more parts than the chip holds CTAs", "[many]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  check_wide(rounded<Bf16>(make_nsa_case(wide_shape(2100, 66, TreeForm::kRandom), rng)), false);
  NsaCaseShape heads_of_128 = wide_shape(1100, 66, TreeForm::kRandom);  // a part a CTA, in waves
  heads_of_128.head_dim = 128;
  check_wide(rounded<Bf16>(make_nsa_case(heads_of_128, rng)), true);
}

// Spans and window have more units than a ring has places here, so that teams follow each other
// through places that all of them use.
TEST_CASE("fused nsa_verify of 128 nodes at 64K gives one answer", "[many][large]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  NsaCase c = rounded<Bf16>(make_nsa_case(wide_shape(65536, 128, TreeForm::kRandom), rng));
  CAPTURE(test_seed());
  c.indices_in = run_nsa<Bf16>(grouped(c, 4), kFused).indices;
  const NsaChoice often{.form = NsaForm::kFused, .launches = 20};
  constexpr std::int64_t kFew = 7;
  const std::vector<double> few = first_rows(c, kFew).out;
  for (const std::int64_t group : {1, 4, 8}) {
    CAPTURE(group);
    CHECK(head_of(run_nsa<Bf16>(grouped(c, group), often).out, kFew, c.shape.nodes) == few);
  }
  CHECK(run_nsa<Bf16>(grouped(c, 4), often).out == run_nsa<Bf16>(grouped(c, 8), often).out);
}

TEST_CASE("fused nsa_verify joins spans on the chip as finishing CTAs do", "[wide]") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (const int most : {3000, 40000, 20000, 17000, 12000, 9000}) {
    NsaCaseShape shape =
        wide_shape(most - static_cast<std::int64_t>(rng() % 3000), pick(rng, {63, 70, 128, 140}),
                   static_cast<TreeForm>(rng() % 3));
    if (most == 12000) {  // a row tile a query
      shape.heads = 128;
      shape.head_dim = 16;
    }
    if (most == 9000) {  // rows of 128, two heads a KV head
      shape.heads = 16;
      shape.head_dim = 128;
    }
    check_wide(grouped(rounded<Bf16>(make_nsa_case(shape, rng)), pick(rng, {1, 2, 4, 8})),
               most == 3000);
  }
  const NsaCase c = rounded<Bf16>(make_nsa_case(wide_shape(9000, 80, TreeForm::kRandom), rng));
  CHECK(invariance_failure(
            grouped(c, 4), [&](const NsaCase& x) { return run_nsa<Bf16>(x, kFused); }, rng) == "");
}

TEST_CASE("fused nsa_verify of a node alone, at every place of a block and of a compressed token") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 40; ++i) {
    NsaCaseShape shape = random_fused_shape(rng);
    shape.nodes = 1;
    check_case(shape, rng);
    check_case(long_shape(1024 + 2 * i, 1, TreeForm::kChain), rng);
  }
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
    CHECK(disagreement(c, run_nsa<Bf16>(grouped(c, 8), kFused), tolerance_of<Bf16>()) == "");
  }
}

TEST_CASE("a node's bits in the fused form depend on its path alone") {
  if (no_gpu()) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 35; ++i) {
    const NsaCaseShape shape = i < 30    ? random_fused_shape(rng)
                               : i == 30 ? long_shape(20000, 6, TreeForm::kRandom)
                               : i == 31 ? long_shape(4090, 60, TreeForm::kRandom)
                               : i == 32 ? long_shape(2047, 40, TreeForm::kChain)
                               : i == 33 ? long_shape(1003, 140, TreeForm::kRandom)
                                         : long_shape(16384 + 15, 33, TreeForm::kRandom);
    CAPTURE(i, shape.text(), test_seed());
    const NsaCase c = grouped(rounded<Bf16>(make_nsa_case(shape, rng)), pick(rng, {1, 2, 4, 8}));
    CHECK(invariance_failure(
              c, [&](const NsaCase& x) { return run_nsa<Bf16>(x, kFused); }, rng) == "");
  }
}
