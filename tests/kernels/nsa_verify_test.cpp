// nsa_verify on the CPU against the plain answer, and bit for bit against itself in other forms.
#include <catch2/catch.hpp>
#include <string>

#include "kernels/cpu.h"
#include "kernels/nsa_verify/input_check.h"
#include "kernels/nsa_verify/routing.h"
#include "tests/support/nsa_case.h"

using namespace versieve;
using namespace versieve::testing;
using kernels::TopkVariant;

namespace {

template <class T>
NsaResult run(const NsaCase& c, int threads = 1) {
  NsaBuffers<T> buffers(c);
  kernels::nsa_verify_cpu<T>(buffers.params(), threads);
  return buffers.result();
}

template <class T>
void check_shape(const NsaCaseShape& shape, std::mt19937_64& rng) {
  CAPTURE(shape.text(), test_seed());
  const NsaCase c = rounded<T>(make_nsa_case(shape, rng));
  CHECK(disagreement(c, run<T>(c), tolerance_of<T>()) == "");
}

}  // namespace

TEMPLATE_TEST_CASE("nsa_verify agrees with the plain answer on random shapes", "", double, float,
                   Bf16) {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 60; ++i) {
    check_shape<TestType>(random_nsa_shape(rng, false), rng);
  }
}

TEMPLATE_TEST_CASE("nsa_verify agrees with the plain answer on adversarial shapes", "", double,
                   float, Bf16) {
  std::mt19937_64 rng(test_seed());
  for (const NsaCaseShape& shape : adversarial_nsa_shapes()) {
    check_shape<TestType>(shape, rng);
  }
}

TEMPLATE_TEST_CASE("a node's bits depend on its path alone", "", double, float, Bf16) {
  std::mt19937_64 rng(test_seed());
  for (int i = 0; i < 40; ++i) {
    const NsaCaseShape shape = random_nsa_shape(rng, i % 2 == 0);
    CAPTURE(shape.text(), test_seed());
    const NsaCase c = rounded<TestType>(make_nsa_case(shape, rng));
    CHECK(invariance_failure(
              c, [](const NsaCase& x) { return run<TestType>(x); }, rng) == "");
  }
}

TEST_CASE("threads never show in a result of nsa_verify") {
  std::mt19937_64 rng(test_seed());
  const NsaCase c = make_nsa_case({{4, 2, 8, 4, 1, 2, 6}, 6, 3, 20, 333, 30}, rng);
  const NsaResult one = run<float>(c, 1);
  for (const int threads : {2, 3, 8}) {
    const NsaResult many = run<float>(c, threads);
    CHECK(one.out == many.out);
    CHECK(one.indices == many.indices);
    CHECK(one.importance == many.importance);
  }
}

TEST_CASE("equal scores go to the lower blocks beside the forced ones") {
  std::mt19937_64 rng(test_seed());
  NsaCaseShape shape{{32, 16, 64, 6, 1, 2, 96}, 4, 2, 64, 1000, 1};
  shape.zero_keys = true;
  const NsaResult got = run<float>(make_nsa_case(shape, rng));
  // Blocks 1 to 13 hold 5 equal probabilities by their weights, block 0 one less, so ties decide.
  const std::vector<std::int32_t> expected = {0, 1, 2, 3, 14, 15, 0, 1, 2, 3, 14, 15};
  CHECK(got.indices == expected);
}

TEMPLATE_TEST_CASE("whatever ranks the blocks, the bits are the same", "", double, float, Bf16) {
  std::mt19937_64 rng(test_seed());
  std::vector<NsaCaseShape> shapes = adversarial_nsa_shapes();
  for (int i = 0; i < 20; ++i) {
    shapes.push_back(random_nsa_shape(rng, false));
  }
  for (const NsaCaseShape& shape : shapes) {
    CAPTURE(shape.text(), test_seed());
    const NsaCase c = rounded<TestType>(make_nsa_case(shape, rng));
    const NsaResult sorted = run<TestType>(c);
    for (const TopkVariant variant : {TopkVariant::kSort, TopkVariant::kRadix, TopkVariant::kGvr}) {
      for (const bool hinted : {false, true}) {
        NsaBuffers<TestType> buffers(c);
        kernels::NsaVerifyParams<TestType> p = buffers.params();
        p.topk = variant;
        if (hinted) {  // where the answer goes, and partly wrong: another query's blocks, or none
          const std::size_t row = static_cast<std::size_t>(shape.kv_heads * shape.nsa.sel_count);
          std::copy_n(sorted.indices.end() - static_cast<std::ptrdiff_t>(row), row,
                      buffers.indices.begin());
          buffers.indices[row / 2] = rng() % 2 == 0 ? -1 : 1 << 30;
          p.hint = buffers.indices.data();
        }
        kernels::nsa_verify_cpu<TestType>(p, 2);
        const NsaResult got = buffers.result();
        CHECK(got.indices == sorted.indices);
        CHECK(got.out == sorted.out);
        CHECK(got.importance == sorted.importance);
      }
    }
  }
}

TEMPLATE_TEST_CASE("given indices are used as they are and routing leaves no importance", "",
                   double, float) {
  std::mt19937_64 rng(test_seed());
  NsaCase c = rounded<TestType>(make_nsa_case({{4, 2, 8, 4, 1, 2, 6}, 4, 2, 16, 100, 3}, rng));
  c.indices_in = {0,  3,  12, -1, 1, 2,  3,  4,  5, -1, -1, -1,
                  -1, -1, -1, -1, 0, 11, 12, 13, 7, 9,  12, -1};
  CHECK(disagreement(c, run<TestType>(c), tolerance_of<TestType>()) == "");
}

TEST_CASE("the same blocks give the same output whether chosen or given") {
  std::mt19937_64 rng(test_seed());
  NsaCase c = make_nsa_case({{8, 4, 16, 5, 1, 2, 30}, 8, 2, 32, 500, 17}, rng);
  const NsaResult chosen = run<float>(c);
  c.indices_in = chosen.indices;
  CHECK(run<float>(c).out == chosen.out);
}

TEST_CASE("importance weights are the multiplicities of the double sum") {
  const kernels::ImportanceWeights usual = kernels::importance_weights({});
  CHECK(usual.first_offset == -1);
  CHECK(usual.weight == std::vector<int>{1, 2, 2, 2, 1});
  const kernels::ImportanceWeights wide =
      kernels::importance_weights({.cmp_block = 64, .cmp_stride = 16, .sel_block = 32});
  CHECK(wide.first_offset == -3);
  CHECK(wide.weight == std::vector<int>{1, 2, 2, 2, 1});
}

TEST_CASE("the input check names what is wrong with a problem") {
  std::mt19937_64 rng(test_seed());
  const NsaCase good = make_nsa_case({{4, 2, 8, 4, 1, 2, 6}, 4, 2, 16, 100, 5}, rng);
  const auto error_of = [](const NsaCase& c) {
    return kernels::nsa_verify_input_error(NsaBuffers<float>(c).params());
  };
  const auto changed = [&](auto change) {
    NsaCase c = good;
    change(c);
    return error_of(c);
  };
  CHECK(error_of(good) == "");
  CHECK(changed([](NsaCase& c) { c.parent[2] = 2; }).find("parent[2]") == 0);
  CHECK(changed([](NsaCase& c) { c.parent[0] = 0; }).find("row 0") == 0);
  CHECK(changed([](NsaCase& c) { c.position[3] += 1; }).find("position[3]") == 0);
  CHECK(changed([](NsaCase& c) { c.owner[0] += 1; }).find("cmp_tree_owner") == 0);
  CHECK(changed([](NsaCase& c) { c.owner.clear(); }) == "");
  CHECK(changed([](NsaCase& c) { c.shape.nsa.sel_count = 2; }).find("sel_count") == 0);
  CHECK(changed([](NsaCase& c) { c.shape.nsa.cmp_stride = 3; }).find("cmp_stride") == 0);
  CHECK(changed([](NsaCase& c) { c.indices_in.assign(5 * 2 * 4, 1); }).find("indices_in") == 0);
}
