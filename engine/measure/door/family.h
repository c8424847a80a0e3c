// What one family of the door is: its variants, what it reads and writes, and how it runs.
#pragma once

#include <span>

#include "engine/io/safetensors.h"
#include "engine/measure/door/door.h"
#include "engine/measure/door/input.h"

namespace versieve::engine {

struct DoorTensor {
  const char* name;
  const char* type;   // "float" (F32 or F64), "I32"
  const char* shape;  // letters of the contract
  bool required = true;
};
struct DoorKey {
  const char* name;
  const char* meaning;
};

struct DoorFamily {
  const char* name;
  std::span<const char* const> variants;
  std::span<const DoorTensor> inputs;
  std::span<const DoorKey> metadata;
  std::span<const DoorTensor> outputs;
  TensorSet (*run)(DoorInput& input, const DoorRequest& request);
};

extern const DoorFamily kNsaVerifyDoor;
extern const DoorFamily kTopkDoor;
extern const DoorFamily kSpecSampleDoor;
extern const DoorFamily kTreeSampleDoor;
extern const DoorFamily kLayerMapDoor;
extern const DoorFamily kTopPDoor;
extern const DoorFamily kBlockKeysDoor;
extern const DoorFamily kResaDecodeDoor;

}  // namespace versieve::engine
