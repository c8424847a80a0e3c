// The random cases of the door's GPU fuzz (tests/gpu/door_fuzz_gpu_test.cpp) are legal: the door
// takes each of them, and the CPU answers. And what compares answers notices a wrong one.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <set>

#include "engine/measure/door/door.h"
#include "tests/support/door_fuzz.h"
#include "tests/support/door_fuzz_cases.h"
#include "tests/support/nsa_case.h"

using namespace versieve;
using testing::DoorAnswer;
using testing::DoorCase;

namespace {

constexpr int kCases = 200;

// Another first value.
void spoil(engine::Tensor& tensor) {
  if (tensor.type == engine::StorageType::kI32) {
    std::int32_t value = 0;
    std::memcpy(&value, tensor.bytes.data(), sizeof(value));
    ++value;
    std::memcpy(tensor.bytes.data(), &value, sizeof(value));
  } else {
    float value = 0.0F;
    std::memcpy(&value, tensor.bytes.data(), sizeof(value));
    value = std::abs(value) < 1e6F ? value + 1.0F : 0.0F;
    std::memcpy(tensor.bytes.data(), &value, sizeof(value));
  }
}

}  // namespace

TEST_CASE("the door takes each random case, and the CPU answers it") {
  const std::uint64_t seed = testing::test_seed();
  for (const char* family : testing::door_fuzz_families()) {
    for (std::uint64_t i = 0; i < kCases; ++i) {
      const DoorCase c = testing::random_door_case(family, seed + i);
      CAPTURE(family, seed + i, c.text());
      REQUIRE(testing::door_fault(c, engine::DoorBackend::kCpu) == "");
    }
  }
}

TEST_CASE("every family and variant of the door has random cases, in both dtypes CUDA takes") {
  std::set<std::string> tried;
  for (const char* family : testing::door_fuzz_families()) {
    for (std::uint64_t i = 0; i < kCases; ++i) {
      const DoorCase c = testing::random_door_case(family, i);
      tried.insert(c.family + " " + c.variant + " " + c.dtype);
    }
  }
  std::set<std::string> all;
  const nlohmann::json list = engine::door_list_json();
  for (const nlohmann::json& family : list.at("families")) {
    for (const nlohmann::json& variant : family.at("variants")) {
      for (const char* dtype : {" f32", " bf16"}) {
        all.insert(family.at("family").get<std::string>() + " " + variant.get<std::string>() +
                   dtype);
      }
    }
  }
  CHECK(tried == all);
}

TEST_CASE("an answer with one wrong value is noticed, whichever tensor holds it") {
  for (const char* family : testing::door_fuzz_families()) {
    int noticed = 0;
    int tried = 0;
    for (std::uint64_t i = 0; i < 40; ++i) {
      const DoorCase c = testing::random_door_case(family, i);
      const DoorAnswer right = testing::answer_of(c, "cpu", c.dtype);
      for (const auto& [name, tensor] : right.results.tensors) {
        if (tensor.bytes.empty()) {
          continue;
        }
        DoorAnswer wrong = right;
        spoil(wrong.results.tensors.at(name));
        CAPTURE(family, i, name, c.text());
        const std::string fault = c.compare(c, wrong.results);
        ++tried;
        noticed += fault.empty() ? 0 : 1;
      }
    }
    CAPTURE(family, noticed, tried);
    CHECK(noticed > tried * 9 / 10);
  }
}
