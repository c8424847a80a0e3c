// Groups of queries in nsa_verify on the CPU: against the plain rule, and bit for bit against C
// = 1.
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/cpu.h"
#include "kernels/nsa_verify/routing.h"
#include "tests/support/nsa_group_case.h"

using namespace versieve;
using namespace versieve::testing;

namespace {

template <class T>
NsaResult run(const NsaCase& c, int threads = 1) {
  NsaBuffers<T> buffers(c);
  kernels::nsa_verify_cpu<T>(buffers.params(), threads);
  return buffers.result();
}

}  // namespace

TEMPLATE_TEST_CASE("approximate groups agree with the plain rule", "", double, float, Bf16) {
  std::mt19937_64 rng(test_seed());
  const auto check = [&](const NsaCaseShape& shape) {
    CAPTURE(shape.text(), test_seed());
    const NsaCase c = rounded<TestType>(make_nsa_case(shape, rng));
    CHECK(disagreement(c, run<TestType>(c), tolerance_of<TestType>()) == "");
  };
  for (int i = 0; i < 40; ++i) {
    check(with_random_groups(random_nsa_shape(rng, false), rng));
  }
  for (const NsaCaseShape& shape : adversarial_nsa_shapes()) {
    check(with_random_groups(shape, rng));
  }
}

TEMPLATE_TEST_CASE("exact groups never change a bit, approximate ones are reuse of one row", "",
                   double, float, Bf16) {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 25; ++i) {
    const NsaCaseShape shape = random_nsa_shape(rng, i % 2 == 0);
    CAPTURE(shape.text(), test_seed());
    const NsaCase c = rounded<TestType>(make_nsa_case(shape, rng));
    CHECK(group_failure(c, [](const NsaCase& x) { return run<TestType>(x); }) == "");
  }
}

TEST_CASE("an approximate group shares blocks that its rows would not choose themselves") {
  std::mt19937_64 rng(test_seed());
  NsaCaseShape shape{{4, 2, 8, 4, 1, 2, 6}, 4, 2, 16, 300, 24};
  const NsaCase exact = make_nsa_case(shape, rng);
  NsaCase approximate = exact;
  approximate.shape.group_mode = GroupMode::kApprox;
  approximate.shape.group_size = 4;
  CHECK(run<float>(exact).indices != run<float>(approximate).indices);
}

TEST_CASE("only a representative's row of importance is written") {
  std::mt19937_64 rng(test_seed());
  NsaCaseShape shape{{4, 2, 8, 4, 1, 2, 6}, 4, 2, 16, 100, 7, TreeForm::kChain};
  shape.group_mode = GroupMode::kApprox;
  shape.group_size = 3;
  const NsaCase c = make_nsa_case(shape, rng);
  const NsaResult got = run<double>(c);
  const std::int64_t width = c.shape.kv_heads * c.num_blocks();
  for (std::int64_t node = 0; node < shape.nodes; ++node) {
    // In a chain the last row of a group is the newest: 2, 5 and, of the short group, 6.
    const bool routes = node == 2 || node == 5 || node == 6;
    CHECK(std::isnan(got.importance[static_cast<std::size_t>(node * width)]) == !routes);
  }
}

TEST_CASE("threads never show in a result of an approximate group") {
  std::mt19937_64 rng(test_seed());
  NsaCaseShape shape{{4, 2, 8, 4, 1, 2, 6}, 6, 3, 20, 333, 30};
  shape.group_mode = GroupMode::kApprox;
  shape.group_size = 4;
  const NsaCase c = make_nsa_case(shape, rng);
  const NsaResult one = run<float>(c, 1);
  for (const int threads : {2, 3, 8}) {
    const NsaResult many = run<float>(c, threads);
    CHECK(one.out == many.out);
    CHECK(one.indices == many.indices);
  }
}

TEST_CASE("a group's representative is its newest row, the lowest on a tie") {
  const std::int32_t position[] = {9, 10, 10, 11, 11, 9, 9};
  CHECK(kernels::representative(position, 0, 3) == 1);
  CHECK(kernels::representative(position, 3, 6) == 3);
  CHECK(kernels::representative(position, 5, 7) == 5);
  CHECK(kernels::representative(position, 6, 7) == 6);
}
