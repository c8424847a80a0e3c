// A step's shared launches name scratch memory in arguments that were uploaded before its first
// layer. A call of the step that runs apart may need more scratch, and what they named is freed:
// do they follow?
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>

#include "kernels/context_launch.h"
#include "kernels/ops_together.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/support/paged_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

using Rows = kernels::OpsBuffer<Bf16>;
using Ints = kernels::OpsBuffer<Bf16, std::int32_t>;

struct Scratch {
  const char* data = nullptr;
  std::size_t bytes = 0;
};

Scratch scratch_of(kernels::Ops<Bf16>& ops) {
  Scratch scratch;
  kernels::launch_with_scratch<Bf16>(ops, 0, [&](const kernels::LaunchContext& context) {
    scratch = {static_cast<const char*>(context.scratch), context.scratch_bytes};
  });
  return scratch;
}

// Other people's memory where freed scratch lay: blocks of its size and of parts of it.
class Neighbours {
 public:
  Neighbours(kernels::Ops<Bf16>& ops, const Scratch& freed) {
    for (const std::size_t part : {1, 2, 4, 8}) {
      const std::size_t count = freed.bytes / part / sizeof(std::int32_t);
      for (std::size_t i = 0; i < 4 * part; ++i) {
        blocks_.emplace_back(ops, std::vector<std::int32_t>(count, kMark));
        const char* const at = reinterpret_cast<const char*>(blocks_.back().data());
        took_over_ = took_over_ || (at >= freed.data && at < freed.data + freed.bytes);
      }
    }
  }
  bool took_over() const { return took_over_; }
  bool untouched() const {
    for (const Ints& block : blocks_) {
      for (const std::int32_t value : block.read()) {
        if (value != kMark) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  static constexpr std::int32_t kMark = 0x5A5A5A5A;
  std::vector<Ints> blocks_;
  bool took_over_ = false;
};

bool same(const std::vector<Bf16>& a, const std::vector<Bf16>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Bf16)) == 0;
}

// The step's only layer twice: in the first run a call of the step makes scratch grow.
template <class RunLayer>
void check_follows(kernels::Ops<Bf16>& ops, Rows& shared, const std::vector<Bf16>& expected,
                   const RunLayer& run_layer) {
  const Scratch before = scratch_of(ops);
  REQUIRE(before.bytes > 0);
  run_layer();
  ops.synchronize();
  CHECK(same(shared.read(), expected));
  REQUIRE(scratch_of(ops).bytes > before.bytes);
  const Neighbours neighbours(ops, before);
  shared.write(std::vector<Bf16>(expected.size(), to_bf16(-12345.0F)));
  run_layer();
  ops.synchronize();
  CHECK(same(shared.read(), expected));
  CHECK(neighbours.untouched());
  std::printf("scratch of %zu bytes freed, %s\n", before.bytes,
              neighbours.took_over() ? "and taken by others" : "and by nobody taken");
}

// What an op answers alone, on other ops than the step's.
template <class Call>
std::vector<Bf16> alone(kernels::Ops<Bf16>& ops, const Rows& out, const Call& call) {
  const auto other_ops = test::try_gpu_ops<Bf16>();
  ops.synchronize();
  call(*other_ops);
  other_ops->synchronize();
  return out.read();
}

// A chain by the vanilla form, and its first nodes by the fused one.
struct NsaProblem {
  static constexpr std::int64_t kFew = 5;

  NsaProblem(kernels::Ops<Bf16>& ops, const NsaCase& c)
      : host(c),
        q(ops, host.q),
        k(ops, host.k),
        v(ops, host.v),
        k_cmp(ops, host.k_cmp),
        v_cmp(ops, host.v_cmp),
        k_tree(ops, of_step(c, host.k_tree)),
        v_tree(ops, of_step(c, host.v_tree)),
        k_cmp_tree(ops, of_step(c, host.k_cmp_tree)),
        v_cmp_tree(ops, of_step(c, host.v_cmp_tree)),
        gates(ops, host.gates),
        whole_out(ops, host.out),
        out(ops, kFew * c.shape.heads * c.shape.head_dim),
        parent(ops, c.parent),
        position(ops, c.position),
        owner(ops, c.owner),
        whole_indices(ops, host.indices),
        indices(ops, host.indices) {}

  // A step's buffers have a row a node, of compressed tokens too.
  static std::vector<Bf16> of_step(const NsaCase& c, std::vector<Bf16> rows) {
    rows.resize(static_cast<std::size_t>(c.shape.nodes * c.shape.kv_heads * c.shape.head_dim));
    return rows;
  }

  kernels::NsaVerifyParams<Bf16> whole() {
    kernels::NsaVerifyParams<Bf16> p = host.params();
    p.form = kernels::NsaForm::kVanilla;
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
    p.out = whole_out.data();
    p.indices = whole_indices.data();
    p.importance = nullptr;
    return p;
  }
  kernels::NsaVerifyParams<Bf16> few() {
    const NsaCase& c = host.source;
    kernels::NsaVerifyParams<Bf16> p = whole();
    p.form = kernels::NsaForm::kFused;
    p.num_queries = kFew;
    p.num_tree_compressed = std::count_if(c.owner.begin(), c.owner.end(),
                                          [](std::int32_t node) { return node < kFew; });
    p.num_blocks = c.position[kFew - 1] / c.shape.nsa.sel_block + 1;
    p.out = out.data();
    p.indices = indices.data();
    return p;
  }
  kernels::NsaStepParams<Bf16> step() {
    const kernels::NsaVerifyParams<Bf16> p = whole();
    return {.layers = 1,
            .cache_rows = p.context_len,
            .compressed_rows = p.num_compressed,
            .tree_rows = p.num_queries,
            .k = p.k,
            .v = p.v,
            .k_cmp = p.k_cmp,
            .v_cmp = p.v_cmp,
            .k_tree = p.k_tree,
            .v_tree = p.v_tree,
            .k_cmp_tree = p.k_cmp_tree,
            .v_cmp_tree = p.v_cmp_tree,
            .indices_stride = indices.count(),
            .calls = {{few(), {}}, {p, {}}}};
  }

  NsaBuffers<Bf16> host;
  Rows q, k, v, k_cmp, v_cmp, k_tree, v_tree, k_cmp_tree, v_cmp_tree, gates, whole_out, out;
  Ints parent, position, owner, whole_indices, indices;
};

}  // namespace

TEST_CASE("NSA's shared launches follow scratch that another call of the step makes grow",
          "[step_scratch][race]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  std::mt19937_64 rng(test_seed());
  NsaCaseShape shape{.nsa = {32, 16, 64, 8, 1, 2, 100},
                     .heads = 8,
                     .kv_heads = 2,
                     .head_dim = 64,
                     .context_len = 6000,
                     .nodes = 96,
                     .tree = TreeForm::kChain};
  NsaProblem problem(*ops, make_nsa_case(shape, rng));
  const std::vector<Bf16> expected =
      alone(*ops, problem.out, [&](auto& other) { other.nsa_verify(problem.few()); });
  const kernels::NsaStepParams<Bf16> step = problem.step();
  kernels::prepare_nsa_step<Bf16>(*ops, step);
  check_follows(*ops, problem.out, expected,
                [&] { kernels::nsa_verify_layer<Bf16>(*ops, step, 0); });
}

TEST_CASE("dense shared launches follow scratch that another call of the step makes grow",
          "[step_scratch][race]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  constexpr std::int64_t kWhole = 150, kFew = 5;  // more queries than shared launches take
  std::mt19937_64 rng(test_seed());
  const TreeAttentionCase c = dense_case(3000, kWhole, 64, true, rng);
  TreeAttentionBuffers<Bf16> host(c);
  const Rows q(*ops, host.q), k(*ops, host.k), v(*ops, host.v), k_tree(*ops, host.k_tree),
      v_tree(*ops, host.v_tree), whole_out(*ops, host.out);
  const Ints parent(*ops, c.parent), position(*ops, c.position);
  Rows out(*ops, kFew * c.heads * c.head_dim);
  kernels::TreeAttentionParams<Bf16> whole = host.params();
  whole.query_node = nullptr;
  whole.splits_chain = true;
  whole.parent = parent.data();
  whole.position = position.data();
  whole.q = q.data();
  whole.k = k.data();
  whole.v = v.data();
  whole.k_tree = k_tree.data();
  whole.v_tree = v_tree.data();
  whole.out = whole_out.data();
  kernels::TreeAttentionParams<Bf16> few = whole;
  few.num_queries = few.num_nodes = kFew;
  few.out = out.data();
  const std::vector<Bf16> expected =
      alone(*ops, out, [&](auto& other) { other.tree_attention(few); });
  const kernels::DenseStepParams<Bf16> step{.layers = 1,
                                            .cache_rows = c.context_len,
                                            .tree_rows = kWhole,
                                            .k = k.data(),
                                            .v = v.data(),
                                            .windows = {},
                                            .calls = {few, whole}};
  kernels::prepare_dense_step<Bf16>(*ops, step);
  check_follows(*ops, out, expected, [&] { kernels::dense_attention_layer<Bf16>(*ops, step, 0); });
}
