#include "model/words/gpu_absence.h"

namespace versieve {

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string gpu_absent_because(const GpuAnswer& answer) {
  if (answer.error.empty() && answer.device_count > 0) {
    return {};
  }
  if (answer.driver_version == 0) {
    return "This machine has no NVIDIA driver.";
  }
  if (answer.driver_insufficient) {
    return "The NVIDIA driver of this machine serves CUDA up to " +
           cuda_version_text(answer.driver_version) + "; this program needs " +
           cuda_version_text(answer.runtime_version) + ": update the driver.";
  }
  if (answer.error.empty() || answer.device_count == 0) {
    return "The NVIDIA driver of this machine shows no GPU" +
           (answer.error.empty() ? std::string() : " (" + answer.error + ")") + ".";
  }
  return "No NVIDIA GPU answers on this machine (" + answer.error + ").";
}

}  // namespace versieve
