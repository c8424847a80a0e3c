// Why the CUDA runtime finds no GPU, in one sentence: it reports a machine without any driver and
// one with an old driver as the same error.
#pragma once

#include <string>

namespace versieve {

// What the runtime answered; versions as it writes them (13020 is 13.2), 0: no driver.
struct GpuAnswer {
  int device_count = 0;
  bool driver_insufficient = false;  // cudaErrorInsufficientDriver
  std::string error;                 // its text; empty: none
  int driver_version = 0;
  int runtime_version = 0;
};

std::string cuda_version_text(int version);  // "13.2"
// Empty if a GPU answers.
std::string gpu_absent_because(const GpuAnswer& answer);

}  // namespace versieve
