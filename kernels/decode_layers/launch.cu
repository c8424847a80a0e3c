#include "kernels/decode_layers/launch.h"

#include "model/assert.h"

namespace versieve::kernels {

class DecodeWorkspace {};
std::shared_ptr<DecodeWorkspace> make_decode_workspace() {
  return std::make_shared<DecodeWorkspace>();
}
bool decode_layers_takes(const DecodeLayersParams<Bf16>&) {
  return false;
}
void prepare_decode_layers(DecodeWorkspace&, const DecodeLayersParams<Bf16>&,
                           const LaunchContext&) {}
void launch_decode_layers(DecodeWorkspace&, const DecodeLayersParams<Bf16>&, const LaunchContext&) {
  VERSIEVE_ASSERT(false, "there is no such launch yet");
}

}  // namespace versieve::kernels
