// No driver, an old driver and no device are three sentences, though CUDA has one error for two.
#include "model/words/gpu_absence.h"

#include <catch2/catch.hpp>

#include "model/words/hardware.h"

using namespace versieve;

TEST_CASE("no driver is not an old driver") {
  const std::string cuda_says = "CUDA driver version is insufficient for CUDA runtime version";
  CHECK(gpu_absent_because(
            {.driver_insufficient = true, .error = cuda_says, .runtime_version = 13000}) ==
        "This machine has no NVIDIA driver.");
  CHECK(gpu_absent_because({.driver_insufficient = true,
                            .error = cuda_says,
                            .driver_version = 12040,
                            .runtime_version = 13000}) ==
        "The NVIDIA driver of this machine serves CUDA up to 12.4; this program needs 13.0: update "
        "the driver.");
}

TEST_CASE("a driver without a device is said, and a device is no absence") {
  CHECK(gpu_absent_because({.error = "no CUDA-capable device is detected",
                            .driver_version = 13000,
                            .runtime_version = 13000}) ==
        "The NVIDIA driver of this machine shows no GPU (no CUDA-capable device is detected).");
  CHECK(gpu_absent_because({.driver_version = 13000, .runtime_version = 13000}) ==
        "The NVIDIA driver of this machine shows no GPU.");
  CHECK(gpu_absent_because({.device_count = 1,
                            .error = "system not yet initialized",
                            .driver_version = 13000,
                            .runtime_version = 13000}) ==
        "No NVIDIA GPU answers on this machine (system not yet initialized).");
  CHECK(gpu_absent_because(
            {.device_count = 2, .driver_version = 13020, .runtime_version = 13000}) == "");
}

TEST_CASE("a GPU of another compute capability is named with what it has and what is needed") {
  CHECK(kernels_cannot_run_because("NVIDIA A100-SXM4-80GB", 8, 0) ==
        "NVIDIA A100-SXM4-80GB has compute capability 8.0; the kernels need 9.0 (H100, H200, "
        "GH200).");
  CHECK(!kernels_cannot_run_because("NVIDIA B200", 10, 0).empty());
  CHECK(!kernels_cannot_run_because("of later revision", 9, 1).empty());
  CHECK(kernels_cannot_run_because("NVIDIA H200", 9, 0).empty());
}
