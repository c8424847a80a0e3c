// Uploads that the host does not wait for: two blocks of memory that the device reads by itself
// take turns, so that one is filled while what the other held may still be on its way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "kernels/ops.h"

namespace versieve::kernels {

// Enqueues a copy to `ops`'s memory. `source`: of allocate_host, left alone until the copy has run.
// T = double, float or Bf16.
template <class T>
void enqueue_upload(Ops<T>& ops, void* destination, const void* source, std::size_t bytes);

// Waits where nothing may be thrown, as whoever used the device ends. That work behind the mark
// failed is told by the call that finds it first; of a device that is lost nothing is left to wait
// for.
inline void wait_at_end(Marker& marker) noexcept {
  try {
    marker.wait();
  } catch (...) {
  }
}

template <class T>
class StagedUpload {
 public:
  StagedUpload() = default;
  StagedUpload(StagedUpload&& other) noexcept { swap(other); }
  StagedUpload& operator=(StagedUpload&& other) noexcept {
    swap(other);
    return *this;
  }
  StagedUpload(const StagedUpload&) = delete;
  StagedUpload& operator=(const StagedUpload&) = delete;
  ~StagedUpload() {
    for (Block& block : blocks_) {
      if (block.data != nullptr) {
        wait_at_end(*block.copied);
        ops_->release_host(block.data);
      }
    }
  }

  // A block to fill. Waits until its last copy has run, that before the newest one.
  void* block(Ops<T>& ops, std::size_t bytes) {
    ops_ = &ops;
    std::swap(blocks_[0], blocks_[1]);
    Block& own = blocks_[0];
    if (own.copied == nullptr) {
      own.copied = ops.make_marker();
    }
    own.copied->wait();
    if (own.bytes < bytes) {
      if (own.data != nullptr) {
        ops.release_host(own.data);
        own.data = nullptr;
      }
      own.bytes = std::max(bytes, 2 * own.bytes);
      own.data = ops.allocate_host(own.bytes);
    }
    return own.data;
  }
  // Enqueues the copy of the newest block's first bytes.
  void send(void* destination, std::size_t bytes) {
    enqueue_upload(*ops_, destination, blocks_[0].data, bytes);
    blocks_[0].copied->mark();
  }

 private:
  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;
    std::unique_ptr<Marker> copied;
  };

  void swap(StagedUpload& other) noexcept {
    std::swap(ops_, other.ops_);
    std::swap(blocks_, other.blocks_);
  }

  Ops<T>* ops_ = nullptr;
  Block blocks_[2];
};

}  // namespace versieve::kernels
