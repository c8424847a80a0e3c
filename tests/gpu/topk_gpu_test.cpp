// topk on CUDA, one cluster a row: every variant, shape over the chip, spread of scores and hint
// gives the bits of the CPU's full sort.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "kernels/common/parallel_for.h"
#include "kernels/cpu.h"
#include "kernels/launch.h"
#include "kernels/topk/bins.h"
#include "kernels/topk/select.h"
#include "kernels/topk/short_rows.h"
#include "tests/gpu/device.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/gpu/topk_rows.h"

namespace versieve::kernels {
namespace {

using test::FastRandom;
using test::HintForm;
using test::RowForm;
using testing::DeviceArray;
using testing::no_gpu;
using Ints = std::vector<std::int32_t>;

constexpr int kHostThreads = 12;

// Under a checker that slows kernels a hundredfold.
bool reduced() {
  return std::getenv("VERSIEVE_TEST_REDUCED") != nullptr;
}

template <class T>
struct Rows {
  std::int64_t rows = 0;
  std::int64_t length = 0;
  std::int64_t k = 0;
  std::vector<T> scores = {};  // [R, Lp]
  Ints indices = {};           // [R, k], of the CPU's sort
  std::vector<T> values = {};  // [R, k]
};

template <class T>
void append_row(Rows<T>& set, const std::vector<float>& row) {
  for (const float score : row) {
    set.scores.push_back(test::narrow<T>(score));
  }
  ++set.rows;
}

template <class T>
void sort_on_cpu(Rows<T>& set) {
  const std::size_t count = static_cast<std::size_t>(set.rows * set.k);
  set.indices.resize(count);
  set.values.resize(count);
  topk_cpu(TopkParams<T>{.rows = set.rows,
                         .length = set.length,
                         .k = set.k,
                         .scores = set.scores.data(),
                         .indices = set.indices.data(),
                         .values = set.values.data()},
           kHostThreads);
}

// One row a form of scores.
template <class T>
Rows<T> rows_of_all_forms(std::int64_t length, std::int64_t k, std::uint64_t seed) {
  Rows<T> set{.length = length, .k = k};
  for (const RowForm form : test::kRowForms) {
    append_row(set, test::make_row(form, length, seed));
  }
  sort_on_cpu(set);
  return set;
}

template <class T>
Ints hints_of(const Rows<T>& set, HintForm form, std::uint64_t seed) {
  Ints hints;
  if (form == HintForm::kNone) {
    return hints;
  }
  for (std::int64_t row = 0; row < set.rows; ++row) {
    const Ints chosen(set.indices.begin() + row * set.k, set.indices.begin() + (row + 1) * set.k);
    const Ints hint =
        test::make_hint(form, chosen, set.length, seed + static_cast<std::uint64_t>(row));
    hints.insert(hints.end(), hint.begin(), hint.end());
  }
  return hints;
}

// The scores on the device, `offset` elements behind an aligned address.
template <class T>
class DeviceRows {
 public:
  DeviceRows(const Rows<T>& set, std::size_t offset)
      : set_(&set),
        offset_(offset),
        scores_(set.scores.size() + offset),
        hint_(set.indices.size()),
        indices_(set.indices.size()),
        values_(set.indices.size()) {
    std::vector<T> shifted(offset);
    shifted.insert(shifted.end(), set.scores.begin(), set.scores.end());
    scores_.write(shifted);
  }

  // Null text if the launch gives the CPU's bits, else where it does not.
  std::string mistake(TopkVariant variant, const Ints& hint, const SelectShape& shape) {
    if (!hint.empty()) {
      hint_.write(hint);
    }
    TopkParams<T> p = params(variant);
    p.hint = hint.empty() ? nullptr : hint_.data();
    poison();
    launch_select(p, shape, {});
    return difference();
  }
  // The same of the form that keeps a row in registers, in every layout that holds it.
  std::string short_mistake() {
    for (const int items : {8, 16}) {
      if (!short_rows_hold(params(TopkVariant::kRadix), items)) {
        continue;
      }
      poison();
      launch_short_rows(params(TopkVariant::kRadix), items, {});
      const std::string mistake = difference();
      if (!mistake.empty()) {
        return std::to_string(items) + " scores a thread: " + mistake;
      }
    }
    return {};
  }
  bool fits(const SelectShape& shape) const {
    return select_fits(params(TopkVariant::kRadix), shape);
  }

 private:
  TopkParams<T> params(TopkVariant variant) const {
    return {.variant = variant,
            .rows = set_->rows,
            .length = set_->length,
            .k = set_->k,
            .scores = scores_.data() + offset_,
            .indices = indices_.data(),
            .values = values_.data()};
  }
  void poison() {
    const std::size_t count = set_->indices.size();
    indices_.write(Ints(count, -77));
    values_.write(std::vector<T>(count, test::narrow<T>(-12345.0F)));
  }
  std::string difference() {
    check(cudaDeviceSynchronize());
    const std::size_t count = set_->indices.size();
    Ints indices(count);
    std::vector<T> values(count);
    indices_.read(indices);
    values_.read(values);
    for (std::size_t i = 0; i < count; ++i) {
      if (indices[i] != set_->indices[i] ||
          std::memcmp(&values[i], &set_->values[i], sizeof(T)) != 0) {
        return "row " + std::to_string(i / static_cast<std::size_t>(set_->k)) + " place " +
               std::to_string(i % static_cast<std::size_t>(set_->k)) + " has index " +
               std::to_string(indices[i]) + ", wanted " + std::to_string(set_->indices[i]);
      }
    }
    return {};
  }

  const Rows<T>* set_;
  std::size_t offset_;
  DeviceArray<T> scores_;
  DeviceArray<std::int32_t> hint_, indices_;
  DeviceArray<T> values_;
};

std::vector<SelectShape> all_shapes() {
  std::vector<SelectShape> shapes;
  if (reduced()) {
    return {{1, 8}, {4, 8}, {16, 32}};
  }
  for (const int cluster : {1, 2, 4, 8, 16}) {
    for (const int items : {4, 8, 16, 32}) {
      shapes.push_back({cluster, items});
    }
  }
  return shapes;
}

// Every shape that holds the rows, every variant and hint.
template <class T>
void check_set(const Rows<T>& set, std::size_t offset) {
  DeviceRows<T> device(set, offset);
  {
    INFO("Lp " << set.length << " k " << set.k << " offset " << offset << ", in registers");
    REQUIRE(device.short_mistake() == "");
  }
  std::vector<Ints> hints;
  for (const HintForm form : test::kHintForms) {
    hints.push_back(hints_of(set, form, 5));
  }
  for (const SelectShape& shape : all_shapes()) {
    if (!device.fits(shape)) {
      continue;
    }
    INFO("Lp " << set.length << " k " << set.k << " cluster " << shape.cluster << " items "
               << shape.items << " offset " << offset);
    REQUIRE(device.mistake(TopkVariant::kRadix, {}, shape) == "");
    for (std::size_t form = 0; form < hints.size(); ++form) {
      INFO("hint form " << form);
      REQUIRE(device.mistake(TopkVariant::kGvr, hints[form], shape) == "");
    }
  }
}

}  // namespace

// Needs no GPU.
TEMPLATE_TEST_CASE("the shape that topk chooses takes the rows and fits an SM", "[topk][shape]",
                   float, Bf16) {
  constexpr std::size_t kBlockBytes = 227 * 1024;
  for (const std::int64_t rows : {1, 6, 24, 128, 1000}) {
    for (const std::int64_t length : {1, 100, 8192, 32769, 131072, 262144, 1 << 21}) {
      for (const std::int64_t k : {1, 16, 2048, 5000, 300000}) {
        for (const TopkVariant variant : {TopkVariant::kRadix, TopkVariant::kGvr}) {
          const TopkParams<TestType> p{.variant = variant, .rows = rows, .length = length, .k = k};
          const SelectShape shape = select_shape(p);
          CAPTURE(rows, length, k, shape.cluster, shape.items);
          CHECK(select_fits(p, shape));
          CHECK(select_shared_bytes(p, shape) <= kBlockBytes);
        }
      }
    }
  }
  CHECK(!select_takes(TopkParams<TestType>{.rows = 1, .length = kSelectScores + 1, .k = 1}));
}

TEMPLATE_TEST_CASE("CUDA topk selects exactly from short rows", "[topk][small]", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  const std::vector<std::int64_t> lengths =
      reduced() ? std::vector<std::int64_t>{1025}
                : std::vector<std::int64_t>{1, 2, 7, 33, 300, 1025, 2999};
  for (const std::int64_t length : lengths) {
    for (const std::int64_t k : {std::int64_t{1}, length / 3 + 1, length - 1, length, length + 5}) {
      if (k >= 1 && (!reduced() || k == length / 3 + 1)) {
        check_set(rows_of_all_forms<TestType>(length, k, 3), static_cast<std::size_t>(length % 5));
      }
    }
  }
}

// For checkers that slow kernels a thousandfold: one set, three launches.
TEST_CASE("CUDA topk selects exactly from a few rows in one shape", "[topk][race]") {
  if (no_gpu()) {
    return;
  }
  const SelectShape shape{4, 8};
  const Rows<float> set = rows_of_all_forms<float>(1025, 60, 3);
  DeviceRows<float> device(set, 1);
  REQUIRE(device.fits(shape));
  REQUIRE(device.mistake(TopkVariant::kRadix, {}, shape) == "");
  for (const HintForm form : {HintForm::kNone, HintForm::kMostly}) {
    REQUIRE(device.mistake(TopkVariant::kGvr, hints_of(set, form, 5), shape) == "");
  }
  REQUIRE(device.short_mistake() == "");
}

// Every layout.
TEMPLATE_TEST_CASE("CUDA topk selects exactly from rows that stay in registers", "[topk][block]",
                   float, Bf16) {
  if (no_gpu()) {
    return;
  }
  for (const std::int64_t length : {31, 4093, 8185, 8192, 12345, 16384, 32761, 32768, 65529}) {
    for (const std::int64_t k : {std::int64_t{1}, std::int64_t{64}, std::int64_t{2048}, length / 3,
                                 length - 1, length, length + 70}) {
      const Rows<TestType> set = rows_of_all_forms<TestType>(length, k, 6);
      for (const std::size_t offset : {0, 3}) {
        DeviceRows<TestType> device(set, offset);
        INFO("Lp " << length << " k " << k << " offset " << offset);
        REQUIRE(device.short_mistake() == "");
      }
    }
  }
}

// All scores within a few parts in a million, around large, tiny and opposite values.
TEST_CASE("CUDA topk selects exactly from narrow and from wide ranges of scores", "[topk][block]") {
  if (no_gpu()) {
    return;
  }
  for (const std::int64_t length : {8192, 32768}) {
    Rows<float> set{.length = length, .k = 700};
    for (const auto& [middle, width] : std::vector<std::pair<float, float>>{{1.0F, 1e-6F},
                                                                            {1e30F, 1e24F},
                                                                            {1e-40F, 1e-42F},
                                                                            {0.0F, 1e-44F},
                                                                            {-3e38F, 1e38F},
                                                                            {0.0F, 3.4e38F},
                                                                            {100.0F, 1e-3F}}) {
      FastRandom random(static_cast<std::uint64_t>(length));
      std::vector<float> row;
      for (std::int64_t i = 0; i < length; ++i) {
        row.push_back(middle + width * (2.0F * random.uniform() - 1.0F));
      }
      append_row(set, row);
    }
    sort_on_cpu(set);
    DeviceRows<float> device(set, 0);
    REQUIRE(device.short_mistake() == "");
  }
}

TEMPLATE_TEST_CASE("CUDA topk selects exactly from long rows", "[topk][large]", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  for (const std::int64_t length : {8192, 30001, 65536, 262144}) {
    for (const std::int64_t k : {std::int64_t{16}, std::int64_t{2048}, length / 2}) {
      check_set(rows_of_all_forms<TestType>(length, k, 4), 0);
    }
  }
}

TEMPLATE_TEST_CASE("CUDA topk goes through Ops in every variant, too long rows included", "[topk]",
                   float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const auto& [length, k] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {500, 40}, {20000, 2048}, {600001, 3000}, {kSelectScores + 1, 100}}) {
    const Rows<TestType> set = rows_of_all_forms<TestType>(length, k, 9);
    const OpsBuffer<TestType> scores(*ops, set.scores);
    const OpsBuffer<TestType, std::int32_t> hint(*ops, hints_of(set, HintForm::kMostly, 2));
    for (const TopkVariant variant : {TopkVariant::kSort, TopkVariant::kRadix, TopkVariant::kGvr}) {
      OpsBuffer<TestType, std::int32_t> indices(*ops, Ints(set.indices.size(), -7));
      OpsBuffer<TestType> values =
          test::poisoned<TestType>(*ops, static_cast<std::int64_t>(set.values.size()));
      ops->topk({.variant = variant,
                 .rows = set.rows,
                 .length = length,
                 .k = k,
                 .scores = scores.data(),
                 .hint = hint.data(),
                 .indices = indices.data(),
                 .values = values.data()});
      INFO("Lp " << length << " variant " << static_cast<int>(variant));
      REQUIRE(indices.read() == set.indices);
      const std::vector<TestType> got = values.read();
      REQUIRE(std::memcmp(got.data(), set.values.data(), got.size() * sizeof(TestType)) == 0);
    }
  }
}

// 1,000,000 rows in sets of one length and k, with every form of scores and a mix of hints; radix
// and gvr each in a random shape. VERSIEVE_TEST_REDUCED: 20,000.
TEMPLATE_TEST_CASE("CUDA topk has no difference in a million random rows", "[.][long][topk]", float,
                   Bf16) {
  if (no_gpu()) {
    return;
  }
  const std::int64_t wanted = reduced() ? 10000 : 500000;  // a type
  FastRandom random(sizeof(TestType));
  std::int64_t done = 0;
  while (done < wanted) {
    const std::int64_t most = random() % 16 == 0 ? 6000 : 700;
    Rows<TestType> set{.length = 1 + static_cast<std::int64_t>(random()) % most};
    set.k = 1 + static_cast<std::int64_t>(random()) % (random() % 4 == 0 ? set.length + 2 : 64);
    set.rows = std::min<std::int64_t>(wanted - done, most > 700 ? 500 : 4000);
    set.scores.resize(static_cast<std::size_t>(set.rows * set.length));
    const std::uint64_t seed = random();
    parallel_for(set.rows, kHostThreads, [&](std::int64_t row) {
      const RowForm form = test::kRowForms[static_cast<std::size_t>(row) % 10];
      const std::vector<float> scores =
          test::make_row(form, set.length, seed + static_cast<std::uint64_t>(row));
      for (std::size_t i = 0; i < scores.size(); ++i) {
        set.scores[static_cast<std::size_t>(row * set.length) + i] =
            test::narrow<TestType>(scores[i]);
      }
    });
    sort_on_cpu(set);
    DeviceRows<TestType> device(set, random() % 8);
    const HintForm form = test::kHintForms[random() % 8];
    for (const TopkVariant variant : {TopkVariant::kRadix, TopkVariant::kGvr}) {
      SelectShape shape{16, 32};
      for (int tries = 0; tries < 40; ++tries) {
        const SelectShape other = all_shapes()[random() % all_shapes().size()];
        if (device.fits(other) && other.cluster < shape.cluster) {
          shape = other;
        }
      }
      INFO("Lp " << set.length << " k " << set.k << " cluster " << shape.cluster << " items "
                 << shape.items << " hint form " << static_cast<int>(form) << " seed " << seed);
      REQUIRE(device.mistake(variant, hints_of(set, form, seed), shape) == "");
    }
    INFO("Lp " << set.length << " k " << set.k << " in registers, seed " << seed);
    REQUIRE(device.short_mistake() == "");
    done += set.rows;
  }
  std::printf("%lld random rows of %zu-byte scores, radix, gvr, in registers: no difference\n",
              static_cast<long long>(done), sizeof(TestType));
}

}  // namespace versieve::kernels
