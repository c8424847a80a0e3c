#include "tests/support/door_fuzz.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "model/words/error.h"
#include "tests/support/door_fuzz_cases.h"

namespace versieve::testing {
namespace {

using engine::DoorBackend;
using engine::SafetensorsFile;
using engine::TensorSet;

using Named = std::pair<const std::string, engine::Tensor>;

// A safetensors file of the set in memory.
SafetensorsFile file_of(const TensorSet& set) {
  std::vector<const Named*> order;
  for (const Named& named : set.tensors) {
    order.push_back(&named);
  }
  std::stable_sort(order.begin(), order.end(), [](const Named* a, const Named* b) {
    return engine::bits_of(a->second.type) > engine::bits_of(b->second.type);
  });
  nlohmann::json header = nlohmann::json::object();
  header["__metadata__"] = set.metadata;
  std::size_t end = 0;
  for (const Named* named : order) {
    const std::size_t begin = end;
    end += named->second.bytes.size();
    header[named->first] = {{"dtype", engine::name_of(named->second.type)},
                            {"shape", named->second.shape},
                            {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  std::vector<std::byte> bytes;
  const auto append = [&bytes](std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  append(std::as_bytes(std::span(&length, 1)));
  append(std::as_bytes(std::span(text)));
  for (const Named* named : order) {
    append(named->second.bytes);
  }
  return SafetensorsFile::parse(bytes, "a random case");
}

struct Generator {
  const char* family;
  DoorCase (*make)(std::mt19937_64& rng);
};
constexpr Generator kGenerators[] = {
    {"nsa_verify", &random_nsa_door},   {"topk", &random_topk_door},
    {"spec_sample", &random_spec_door}, {"tree_sample", &random_tree_door},
    {"layer_map", &random_layer_map},   {"top_p", &random_top_p_door},
    {"block_keys", &random_block_keys}, {"resa_decode", &random_resa_door},
};

}  // namespace

std::string DoorCase::text() const {
  std::ostringstream text;
  text << family << " --variant " << variant << " --dtype " << dtype << ":";
  for (const auto& [name, tensor] : input.tensors) {
    text << " " << name << engine::text_of(tensor.shape);
  }
  for (const auto& [key, value] : input.metadata) {
    text << " " << key << "=" << value;
  }
  return text.str();
}

std::span<const char* const> door_fuzz_families() {
  static const auto names = [] {
    std::array<const char*, std::size(kGenerators)> all{};
    std::transform(std::begin(kGenerators), std::end(kGenerators), all.begin(),
                   [](const Generator& g) { return g.family; });
    return all;
  }();
  return names;
}

DoorCase random_door_case(const std::string& family, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  for (const Generator& generator : kGenerators) {
    if (family == generator.family) {
      DoorCase c = generator.make(rng);
      c.family = family;
      return c;
    }
  }
  throw Error(ExitCode::kUsage, "no generator of the family " + family);
}

DoorAnswer answer_of(const DoorCase& c, const std::string& backend, const std::string& dtype,
                     engine::DoorDevice* device) {
  engine::DoorRequest request = engine::door_request(c.family, c.variant, backend, dtype);
  request.device = device;
  try {
    return {.results = engine::door_results(file_of(c.input), request)};
  } catch (const Error& error) {
    return {.code = error.code(), .sentence = error.what()};
  }
}

std::string door_fault(const DoorCase& c, DoorBackend backend, engine::DoorDevice* device) {
  const bool cuda = backend == DoorBackend::kCuda;
  const DoorAnswer got = answer_of(c, cuda ? "cuda" : "cpu", c.dtype, device);
  const bool refusable = cuda && !c.cuda_takes;
  if (refusable && got.code == ExitCode::kDone) {
    return "CUDA answered a shape that it does not take";
  }
  if (refusable) {
    return got.code == ExitCode::kAnswerNo ? "" : "refused otherwise: " + got.sentence;
  }
  if (got.code == ExitCode::kDone) {
    return c.compare(c, got.results);
  }
  const bool answer_is_no =
      got.code == ExitCode::kAnswerNo && answer_of(c, "cpu", c.dtype).code == ExitCode::kAnswerNo;
  return answer_is_no && c.family == "layer_map"
             ? ""
             : "exit " + std::to_string(static_cast<int>(got.code)) + ": " + got.sentence;
}

}  // namespace versieve::testing
