#include "engine/measure/door/door.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "engine/measure/door/family.h"
#include "engine/measure/door/paged_keys.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr std::array<const DoorFamily*, 8> kFamilies = {
    &kNsaVerifyDoor, &kTopkDoor, &kSpecSampleDoor, &kTreeSampleDoor,
    &kLayerMapDoor,  &kTopPDoor, &kBlockKeysDoor,  &kResaDecodeDoor};

const DoorFamily* family_of(const std::string& name) {
  for (const DoorFamily* family : kFamilies) {
    if (name == family->name) {
      return family;
    }
  }
  std::string known;
  for (const DoorFamily* family : kFamilies) {
    known += std::string(known.empty() ? "" : ", ") + family->name;
  }
  throw Error(ExitCode::kUsage, "unknown kernel family '" + name + "'; known are " + known);
}

std::string variant_of(const DoorFamily& family, const std::string& name) {
  if (name.empty()) {
    return family.variants.front();
  }
  std::string known;
  for (const char* variant : family.variants) {
    if (name == variant) {
      return name;
    }
    known += std::string(known.empty() ? "" : ", ") + variant;
  }
  throw Error(ExitCode::kUsage,
              "unknown variant '" + name + "' of " + family.name + "; known are " + known);
}

DoorBackend backend_of(const std::string& name) {
  if (name == "cpu") {
    return DoorBackend::kCpu;
  }
  if (name == "cuda") {
    return DoorBackend::kCuda;
  }
  throw Error(ExitCode::kUsage, "unknown backend '" + name + "'; known are cpu and cuda");
}

kernels::Dtype dtype_of(const std::string& name) {
  for (const kernels::Dtype dtype :
       {kernels::Dtype::kF64, kernels::Dtype::kF32, kernels::Dtype::kBf16, kernels::Dtype::kF16}) {
    if (name == kernels::name_of(dtype)) {
      return dtype;
    }
  }
  throw Error(ExitCode::kUsage, "unknown dtype '" + name + "'; known are f64, f32, bf16 and f16");
}

std::vector<std::string> variant_names(const DoorFamily& family) {
  return {family.variants.begin(), family.variants.end()};
}

std::string bracketed(const DoorTensor& tensor) {
  return std::string("[") + tensor.shape + "]";
}

template <class T, std::size_t N>
std::vector<T> with_pages(const DoorFamily& family, std::span<const T> own,
                          const std::array<T, N>& paged) {
  std::vector<T> all(own.begin(), own.end());
  if (takes_pages(family)) {
    all.insert(all.end(), paged.begin(), paged.end());
  }
  return all;
}
std::vector<DoorTensor> inputs_of(const DoorFamily& family) {
  return with_pages(family, family.inputs, kPagedInputs);
}
std::vector<DoorKey> keys_of(const DoorFamily& family) {
  return with_pages(family, family.metadata, kPagedKeys);
}

json tensors_json(std::span<const DoorTensor> tensors) {
  json list = json::array();
  for (const DoorTensor& tensor : tensors) {
    list.push_back({{"name", tensor.name},
                    {"type", tensor.type},
                    {"shape", bracketed(tensor)},
                    {"required", tensor.required}});
  }
  return list;
}

json family_json(const DoorFamily& family) {
  json keys = json::array();
  for (const DoorKey& key : keys_of(family)) {
    keys.push_back({{"name", key.name}, {"meaning", key.meaning}});
  }
  return {{"family", family.name},
          {"variants", variant_names(family)},
          {"tensors", tensors_json(inputs_of(family))},
          {"metadata", keys},
          {"outputs", tensors_json(family.outputs)}};
}

std::string tensors_text(const char* title, std::span<const DoorTensor> tensors) {
  std::string text = std::string("  ") + title + ":";
  for (const DoorTensor& tensor : tensors) {
    text += std::string(" ") + tensor.name + bracketed(tensor) + (tensor.required ? "" : "?");
  }
  return text + "\n";
}

std::string family_text(const DoorFamily& family) {
  std::string text = std::string(family.name) + ":";
  for (const std::string& name : variant_names(family)) {
    text += " " + name;
  }
  text += "\n" + tensors_text("in", inputs_of(family)) + "  metadata:";
  for (const DoorKey& key : keys_of(family)) {
    text += std::string(" ") + key.name;
  }
  return text + "\n" + tensors_text("out", family.outputs);
}

}  // namespace

DoorRequest door_request(const std::string& family, const std::string& variant,
                         const std::string& backend, const std::string& dtype) {
  DoorRequest request;
  request.family = family_of(family);
  request.backend = backend_of(backend);
  request.dtype = dtype_of(dtype);
  if (request.dtype == kernels::Dtype::kF16 && request.family != &kSpecSampleDoor &&
      request.family != &kTreeSampleDoor) {
    throw Error(ExitCode::kUsage, "dtype f16 is for logits: spec_sample and tree_sample take it, " +
                                      family + " does not");
  }
  request.variant = variant_of(*request.family, variant);
  if (request.backend == DoorBackend::kCuda && request.dtype == kernels::Dtype::kF64) {
    throw Error(ExitCode::kAnswerNo,
                "CUDA computes in f32 and 16-bit types; f64 runs on the cpu backend");
  }
  return request;
}

TensorSet door_results(SafetensorsFile file, const DoorRequest& request) {
  if (takes_pages(*request.family)) {
    file = with_contiguous_keys(std::move(file), *request.family);
  }
  DoorInput input(std::move(file));
  return request.family->run(input, request);
}

json run_door(const DoorRequest& request) {
  const TensorSet results = door_results(SafetensorsFile::read(request.in), request);
  write_safetensors(request.out, results);
  json outputs = json::object();
  for (const auto& [name, tensor] : results.tensors) {
    outputs[name] = {{"dtype", name_of(tensor.type)}, {"shape", tensor.shape}};
  }
  return {{"family", request.family->name},
          {"variant", request.variant},
          {"backend", request.backend == DoorBackend::kCpu ? "cpu" : "cuda"},
          {"dtype", kernels::name_of(request.dtype)},
          {"out", request.out.string()},
          {"outputs", outputs}};
}

json door_list_json() {
  json families = json::array();
  for (const DoorFamily* family : kFamilies) {
    families.push_back(family_json(*family));
  }
  return {{"families", families}};
}

std::string door_list_text() {
  std::string text;
  for (const DoorFamily* family : kFamilies) {
    text += family_text(*family);
  }
  return text;
}

}  // namespace versieve::engine
