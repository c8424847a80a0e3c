#include "kernels/common/launch_range.h"

#ifdef VERSIEVE_HAS_CUDA
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#endif

#include <cstddef>
#include <cstdint>

namespace versieve::kernels {
#ifdef VERSIEVE_HAS_CUDA
namespace {

struct Prediction {
  double read_bytes;
  double write_bytes;
  double flops;
};

struct NvtxDomain {
  nvtxDomainHandle_t handle = nvtxDomainCreateA("versieve");
  std::uint64_t schema = 0;

  NvtxDomain() {
    const nvtxPayloadSchemaEntry_t entries[] = {
        {0, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "predicted read bytes", nullptr, 0,
         offsetof(Prediction, read_bytes), nullptr, nullptr},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "predicted write bytes", nullptr, 0,
         offsetof(Prediction, write_bytes), nullptr, nullptr},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "predicted flops", nullptr, 0,
         offsetof(Prediction, flops), nullptr, nullptr}};
    nvtxPayloadSchemaAttr_t attributes{};
    attributes.fieldMask =
        NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
        NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
        NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    attributes.name = "prediction";
    attributes.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    attributes.entries = entries;
    attributes.numEntries = 3;
    attributes.payloadStaticSize = sizeof(Prediction);
    schema = nvtxPayloadSchemaRegister(handle, &attributes);
  }
};

// Registered once a process, as NVTX wants it.
const NvtxDomain& nvtx_domain() {
  static const NvtxDomain domain;
  return domain;
}

void push_range(const char* name, const Traffic& traffic) {
  const Prediction prediction{traffic.total_read(), traffic.total_write(), traffic.flops};
  const nvtxPayloadData_t data{nvtx_domain().schema, sizeof(Prediction), &prediction};
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  event.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  event.reserved0 = 1;
  event.payload.ullValue = reinterpret_cast<std::uintptr_t>(&data);
  nvtxDomainRangePushEx(nvtx_domain().handle, &event);
}

void pop_range() {
  nvtxDomainRangePop(nvtx_domain().handle);
}

}  // namespace
#else
namespace {

void push_range(const char*, const Traffic&) {}
void pop_range() {}

}  // namespace
#endif

LaunchRange::LaunchRange(const char* name, const Traffic& traffic, LaunchObserver* observer)
    : name_(name), observer_(observer) {
  push_range(name, traffic);
  if (observer_ != nullptr) {
    observer_->launch_begins(name, traffic);
  }
}

LaunchRange::~LaunchRange() {
  if (observer_ != nullptr) {
    observer_->launch_ends(name_);
  }
  pop_range();
}

}  // namespace versieve::kernels
