// Each rule of the format, once kept and once broken, in literal bytes; then the round trip.
#include "engine/io/safetensors.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tests/engine/io/safetensors_literal.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

// The sentence that refuses these bytes.
std::string refusal(const FileBytes& bytes) {
  const Error error = error_of([&] { parse(bytes); });
  CHECK(error.code() == ExitCode::kBadInput);
  return error.what();
}

std::string refusal(const std::string& header, std::size_t data_bytes) {
  return refusal(file_bytes(header, data_bytes));
}

std::string one(const std::string& fields) {
  return "{\"a\":{" + fields + "}}";
}

}  // namespace

TEST_CASE("a file of two tensors reads as it was written by hand") {
  const SafetensorsFile file = parse(
      file_bytes(R"({"__metadata__":{"k":"3"},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},)"
                 R"("a":{"dtype":"I16","shape":[1,2],"data_offsets":[0,4]}}   )",
                 8));
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.metadata().at("k") == "3");
  CHECK(file.find("a")->shape == Shape{1, 2});
  CHECK(values_as<std::int32_t>(*file.find("a"), "a") == std::vector<std::int32_t>{0x100, 0x302});
  CHECK(values_as<std::int32_t>(*file.find("b"), "b") == std::vector<std::int32_t>{4, 5, 6, 7});
  CHECK(file.find("c") == nullptr);
}

TEST_CASE("scalars, empty tensors and files without tensors are valid") {
  const SafetensorsFile file =
      parse(file_bytes(R"({"e":{"dtype":"F32","shape":[3,0],"data_offsets":[4,4]},)"
                       R"("s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                       4));
  CHECK(file.find("s")->count() == 1);
  CHECK(file.find("e")->count() == 0);
  CHECK(values_as<float>(*file.find("e"), "e").empty());
  CHECK(parse(file_bytes("{}", 0)).tensors().empty());
  CHECK(parse(file_bytes("{}      ", 0)).tensors().empty());
}

TEST_CASE("every dtype of the format is known with its width") {
  const std::pair<const char*, int> types[] = {
      {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
      {"I64", 64},        {"U64", 64}};
  for (const auto& [name, bits] : types) {
    CAPTURE(name);
    const std::string header =
        one("\"dtype\":\"" + std::string(name) + "\",\"shape\":[8],\"data_offsets\":[0," +
            std::to_string(bits) + "]");
    const SafetensorsFile file = parse(file_bytes(header, static_cast<std::size_t>(bits)));
    CHECK(std::string(name_of(file.find("a")->type)) == name);
  }
}

TEST_CASE("a wrong header length is refused") {
  CHECK(contains(refusal(file_bytes(0, "", 0)), "no JSON object"));
  CHECK(contains(refusal(file_bytes(3, "{}", 0)), "file ends before"));
  CHECK(contains(refusal(file_bytes(100'000'001, "{}", 0)), "100,000,000"));
  CHECK(contains(refusal(file_bytes(~std::uint64_t{0}, "{}", 0)), "100,000,000"));
  CHECK(contains(refusal(file_bytes(~std::uint64_t{0} - 7, "{}", 0)), "100,000,000"));
  CHECK(contains(refusal(FileBytes(7)), "too short"));
  CHECK(contains(refusal(FileBytes()), "too short"));
}

TEST_CASE("what Git LFS leaves in a file's place is told apart from a header") {
  const std::string text = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
  FileBytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  CHECK(contains(error_of([&] { parse(bytes); }).what(), "`git lfs pull`"));
}

TEST_CASE("a header that is no JSON object is refused") {
  CHECK(contains(refusal("[]", 0), "no JSON object"));
  CHECK(contains(refusal("\xef\xbb\xbf{}", 0), "begins with a byte order mark"));
  CHECK(contains(refusal("   ", 0), "no JSON object"));
  CHECK(contains(refusal("{", 0), "not valid JSON"));
  CHECK(contains(refusal("{} {}", 0), "not valid JSON"));
  CHECK(contains(refusal(std::string("{}\0", 3), 0), "zero byte"));
  CHECK(contains(refusal("{\"\xff\":1}", 0), "not valid JSON"));
  CHECK(contains(refusal("{\"a\":\"\xc3\"}", 0), "not valid JSON"));
  CHECK(contains(refusal("{\"a\":1e999}", 0), "not valid JSON"));
  CHECK(contains(refusal("{\"a\":" + std::string(100000, '[') + "}", 0), "nested deeper"));
  CHECK(contains(refusal("{\"a\":" + std::string(100000, '{'), 0), "not valid JSON"));
}

TEST_CASE("a name that stands twice is refused, at any level") {
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  CHECK(contains(refusal("{" + a + "," + a + "}", 1), "'a' stands twice"));
  CHECK(contains(refusal(one(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])"), 1),
                 "'dtype' stands twice"));
  CHECK(contains(refusal(R"({"__metadata__":{"k":"1","k":"1"}})", 0), "'k' stands twice"));
}

TEST_CASE("tensors that overlap, leave holes or miss the end are refused") {
  const auto two = [](int begin, int end) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],)"
           R"("data_offsets":[)" +
           std::to_string(begin) + "," + std::to_string(end) + "]}}";
  };
  CHECK(parse(file_bytes(two(4, 8), 8)).tensors().size() == 2);
  CHECK(contains(refusal(two(3, 7), 8), "overlaps"));
  CHECK(contains(refusal(two(0, 4), 8), "overlaps"));
  CHECK(contains(refusal(two(5, 9), 9), "hole"));
  CHECK(contains(refusal(two(4, 8), 9), "the file holds 9"));
  CHECK(contains(refusal(two(4, 8), 7), "the file holds 7"));
  CHECK(contains(refusal(one(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2), "hole"));
  CHECK(contains(refusal("{}", 1), "the file holds 1"));
}

TEST_CASE("offsets that do not match dtype and shape are refused") {
  const char* wrong[] = {
      R"("dtype":"F32","shape":[2],"data_offsets":[0,4])",
      R"("dtype":"F32","shape":[1],"data_offsets":[4,0])",
      R"("dtype":"F4","shape":[3],"data_offsets":[0,2])",
      R"("dtype":"F6_E2M3","shape":[2],"data_offsets":[0,2])",
      R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])",
      R"("dtype":"U8","shape":[9223372036854775807,3],"data_offsets":[0,4])",
      R"("dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0])",
      R"("dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0])",
  };
  for (const char* fields : wrong) {
    CAPTURE(fields);
    CHECK(contains(refusal(one(fields), 4), "tensor 'a'"));
  }
}

TEST_CASE("numbers that are no unsigned integers are refused") {
  const char* wrong[] = {
      R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])",
      R"("dtype":"U8","shape":[4.0],"data_offsets":[0,4])",
      R"("dtype":"U8","shape":[4e0],"data_offsets":[0,4])",
      R"("dtype":"U8","shape":["4"],"data_offsets":[0,4])",
      R"("dtype":"U8","shape":[null],"data_offsets":[0,4])",
      R"("dtype":"U8","shape":4,"data_offsets":[0,4])",
      R"("dtype":"U8","shape":[4],"data_offsets":[-0,4])",
      R"("dtype":"U8","shape":[4],"data_offsets":[0,4.5])",
      R"("dtype":"U8","shape":[4],"data_offsets":[0])",
      R"("dtype":"U8","shape":[4],"data_offsets":[0,4,4])",
      R"("dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615])",
      R"("dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551616])",
      R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,4])",
  };
  for (const char* fields : wrong) {
    CAPTURE(fields);
    CHECK(contains(refusal(one(fields), 4), "tensor 'a'"));
  }
}

TEST_CASE("unknown dtypes and wrong entries are refused") {
  const char* wrong[] = {
      R"("dtype":"F12","shape":[4],"data_offsets":[0,4])",
      R"("dtype":"u8","shape":[4],"data_offsets":[0,4])",
      R"("dtype":8,"shape":[4],"data_offsets":[0,4])",
      R"("shape":[4],"data_offsets":[0,4])",
      R"("dtype":"U8","data_offsets":[0,4])",
      R"("dtype":"U8","shape":[4])",
      R"("dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1)",
  };
  for (const char* fields : wrong) {
    CAPTURE(fields);
    CHECK(contains(refusal(one(fields), 4), "tensor 'a'"));
  }
  CHECK(contains(refusal(R"({"a":3})", 0), "tensor 'a'"));
  CHECK(contains(refusal(R"({"a":[]})", 0), "tensor 'a'"));
}

TEST_CASE("metadata holds strings only") {
  CHECK(contains(refusal(R"({"__metadata__":{"k":3}})", 0), "no string"));
  CHECK(contains(refusal(R"({"__metadata__":{"k":{}}})", 0), "no string"));
  CHECK(contains(refusal(R"({"__metadata__":[]})", 0), "no object"));
  CHECK(contains(refusal(R"({"__metadata__":"pt"})", 0), "no object"));
  CHECK(contains(refusal(R"({"__metadata__":{"format":"pt","step":null}})", 0),
                 "holds 'step', which is no string but null"));
}

TEST_CASE("metadata that is null, absent or empty is none") {
  for (const char* metadata : {"", R"("__metadata__":null,)", R"("__metadata__":{},)"}) {
    CAPTURE(metadata);
    const SafetensorsFile file = parse(file_bytes(
        "{" + std::string(metadata) + R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
        2));
    CHECK(file.metadata().empty());
    CHECK(file.tensors().size() == 1);
  }
}

TEST_CASE("white space around a header is passed over, as the format's own reader does") {
  for (const char* header : {" {}", "\n\t {}", "{}\n", "{ }  \r\n"}) {
    CHECK(parse(file_bytes(header, 0)).tensors().empty());
  }
}

TEST_CASE("a header that is no JSON is refused by place and key") {
  const std::string sentence =
      refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,]}})", 1);
  CHECK(contains(sentence, "at or after the key 'a.data_offsets': ']' is wrong"));
  CHECK(contains(refusal(one(R"("dtype":"U8","shape":[1)"), 0), "'a.shape'"));
}

TEST_CASE("a missing file, a folder and a cut file are refused by name") {
  const TempFolder folder;
  CHECK(contains(error_of([&] { SafetensorsFile::read(folder / "no.safetensors"); }).what(),
                 "no.safetensors"));
  CHECK(contains(error_of([&] { SafetensorsFile::read(folder.path()); }).what(), "regular file"));
  CHECK(contains(error_of([&] { SafetensorsFile::read("/dev/zero"); }).what(), "regular file"));
}

TEST_CASE("what is written reads back bit for bit, data at a multiple of 8") {
  const TempFolder folder;
  TensorSet set;
  set.metadata = {{"k", "16"}, {"text", "a \"quoted\" line"}};
  set.tensors["wide"] = tensor_of(std::vector<double>{1.0, -0.0, 1e-310}, {3});
  set.tensors["a"] = tensor_of(std::vector<Bf16>{{0x3f80}, {0xffff}, {0x0001}}, {3, 1});
  set.tensors["ids"] = tensor_of(std::vector<std::int64_t>{INT64_MIN, 7}, {2});
  set.tensors["none"] = tensor_of(std::vector<float>{}, {0, 5});
  write_safetensors(folder / "f.safetensors", set);
  const SafetensorsFile file = SafetensorsFile::read(folder / "f.safetensors");
  CHECK(file.metadata() == set.metadata);
  REQUIRE(file.tensors().size() == set.tensors.size());
  for (const auto& [name, tensor] : set.tensors) {
    const TensorView* view = file.find(name);
    REQUIRE(view != nullptr);
    CHECK(view->type == tensor.type);
    CHECK(view->shape == tensor.shape);
    CHECK(std::equal(view->bytes.begin(), view->bytes.end(), tensor.bytes.begin(),
                     tensor.bytes.end()));
  }
  std::uint64_t length = 0;
  const std::string text = [&] {
    FILE* raw = std::fopen((folder / "f.safetensors").c_str(), "rb");
    std::string first(8, '\0');
    REQUIRE(std::fread(first.data(), 1, 8, raw) == 8);
    std::fclose(raw);
    return first;
  }();
  std::memcpy(&length, text.data(), 8);
  CHECK(length % 8 == 0);
}

TEST_CASE("stored numbers convert with one rounding to nearest even") {
  const auto view = [](const Tensor& tensor) {
    return TensorView{tensor.type, tensor.shape, tensor.bytes};
  };
  // 1 + 2^-8 lies between two bf16 values: the even one is 1. With 2^-40 more the upper one is
  // nearer, but a rounding through float would lose the 2^-40 and fall back to 1.
  const Tensor f64 = tensor_of(std::vector<double>{1.0 + 0x1p-8, 1.0 + 0x1p-8 + 0x1p-40}, {2});
  const std::vector<Bf16> bf16 = values_as<Bf16>(view(f64), "x");
  CHECK(bf16[0].bits == 0x3f80);
  CHECK(bf16[1].bits == 0x3f81);
  Tensor half{.type = StorageType::kF16, .shape = {6}, .bytes = {}};
  const std::uint16_t halves[6] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00, 0x8000};
  half.bytes.resize(sizeof(halves));
  std::memcpy(half.bytes.data(), halves, sizeof(halves));
  const std::vector<float> floats = values_as<float>(view(half), "x");
  CHECK(floats[0] == 1.0f);
  CHECK(floats[1] == -2.0f);
  CHECK(floats[2] == 0x1p-24f);
  CHECK(floats[3] == 65504.0f);
  CHECK(floats[4] == std::numeric_limits<float>::infinity());
  CHECK(std::signbit(floats[5]));
  const Tensor big = tensor_of(std::vector<std::int64_t>{std::int64_t{1} << 40}, {1});
  CHECK_THROWS_AS(values_as<std::int32_t>(view(big), "x"), Error);
  CHECK_THROWS_AS(values_as<float>(view(big), "x"), Error);
  CHECK_THROWS_AS(values_as<std::int32_t>(view(f64), "x"), Error);
}
