// The kernel door: one kernel family on tensors from a safetensors file, results into another.
// Anyone can bring conformance cases; names, shapes and exact readings are in README.md.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/io/safetensors.h"
#include "kernels/common/element.h"

namespace versieve::engine {

enum class DoorBackend { kCpu, kCuda };

struct DoorFamily;  // family.h
struct DoorDevice;  // workspace.h

struct DoorRequest {
  const DoorFamily* family = nullptr;
  std::string variant;
  DoorBackend backend = DoorBackend::kCpu;
  kernels::Dtype dtype = kernels::Dtype::kF32;
  std::filesystem::path in, out;
  int threads = 1;  // of the CPU; results do not depend on it
  // A GPU that stays open from request to request, or null: each opens it for itself.
  DoorDevice* device = nullptr;
};

// Names to a request; an empty variant is the family's first. Throws Error(kUsage) for an unknown
// name.
DoorRequest door_request(const std::string& family, const std::string& variant,
                         const std::string& backend, const std::string& dtype);

// Checks and computes. Throws as run_door.
TensorSet door_results(SafetensorsFile file, const DoorRequest& request);

// Reads, checks, computes, writes all or nothing. The answer says what was written. Throws Error:
// kBadInput for what the contract refuses, kAnswerNo for a geometry that the backend does not
// take, kEnvironment without a GPU or when the output cannot be written.
nlohmann::json run_door(const DoorRequest& request);

// Every family with its variants, tensors and metadata.
nlohmann::json door_list_json();
std::string door_list_text();

}  // namespace versieve::engine
