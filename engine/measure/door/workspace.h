// Where a family of the door runs: the CPU kernels on the caller's own vectors, or the CUDA engine
// on copies of them. T = double (CPU only), float, Bf16 or, of samplers alone, F16.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "engine/measure/door/door.h"
#include "kernels/cpu.h"
#include "kernels/ops.h"
#include "model/words/assert.h"

namespace versieve::engine {

struct DoorDevice {
  std::shared_ptr<kernels::Ops<float>> f32;  // null until they are asked for
  std::shared_ptr<kernels::Ops<Bf16>> bf16;

  template <class T>
  const std::shared_ptr<kernels::Ops<T>>& ops() {
    std::shared_ptr<kernels::Ops<T>>& of_type = [this]() -> auto& {
      if constexpr (std::is_same_v<T, float>) {
        return f32;
      } else {
        return bf16;
      }
    }
    ();
    if (of_type == nullptr) {
      of_type = kernels::make_cuda_ops<T>();
    }
    return of_type;
  }
};

template <class T>
class DoorWorkspace {
  using Engine = std::conditional_t<std::is_same_v<T, F16>, float, T>;

 public:
  // Throws Error(kEnvironment) for CUDA without a GPU.
  explicit DoorWorkspace(const DoorRequest& request) : threads_(request.threads) {
    if (request.backend == DoorBackend::kCuda) {
      if constexpr (std::is_same_v<T, double>) {
        VERSIEVE_ASSERT(false, "door_request refuses f64 on CUDA");
      } else {
        DoorDevice own;
        ops_ = (request.device != nullptr ? request.device : &own)->template ops<Engine>();
      }
    }
  }

  // The values where the kernel reads them. REQUIRES: `values` lives until finish().
  template <class E>
  const E* in(const std::vector<E>& values) {
    if (values.empty()) {
      return nullptr;
    }
    if (ops_ == nullptr) {
      return values.data();
    }
    return hold(values)->data();
  }
  // Room of the vector's size where the kernel writes; the vector holds the result after finish().
  template <class E>
  E* out(std::vector<E>& values) {
    if (values.empty()) {
      return nullptr;
    }
    if (ops_ == nullptr) {
      return values.data();
    }
    const std::shared_ptr<kernels::OpsBuffer<Engine, E>> buffer = hold(values);
    downloads_.push_back([buffer, &values] { values = buffer->read(); });
    return buffer->data();
  }

  void run(const kernels::NsaVerifyParams<T>& p) {
    ops_ ? ops_->nsa_verify(p) : kernels::nsa_verify_cpu(p, threads_);
  }
  void run(const kernels::TopkParams<T>& p) {
    ops_ ? ops_->topk(p) : kernels::topk_cpu(p, threads_);
  }
  void run(const kernels::SpecSampleParams<T>& p) {
    if (ops_ == nullptr) {
      kernels::spec_sample_cpu(p, threads_);
    } else if constexpr (std::is_same_v<T, F16>) {
      ops_->spec_sample_f16(p);
    } else {
      ops_->spec_sample(p);
    }
  }
  void run(const kernels::TreeSampleParams<T>& p) {
    if (ops_ == nullptr) {
      kernels::tree_sample_cpu(p, threads_);
    } else if constexpr (std::is_same_v<T, F16>) {
      ops_->tree_sample_f16(p);
    } else {
      ops_->tree_sample(p);
    }
  }

  void run(const kernels::LayerMapParams& p) {
    ops_ ? ops_->layer_map(p) : kernels::layer_map_cpu(p);
  }
  void run(const kernels::TopPParams<kernels::SumOf<T>>& p) {
    ops_ ? ops_->top_p(p) : kernels::top_p_cpu(p, threads_);
  }
  void run(const kernels::BlockKeysParams<T>& p) {
    ops_ ? ops_->block_keys(p) : kernels::block_keys_cpu(p, threads_);
  }
  void run(const kernels::ResaDecodeParams<T>& p) {
    ops_ ? ops_->resa_decode(p) : kernels::resa_decode_cpu(p, threads_);
  }

  void finish() {
    if (ops_ != nullptr) {
      ops_->synchronize();
    }
    for (const std::function<void()>& download : downloads_) {
      download();
    }
  }

 private:
  template <class E>
  std::shared_ptr<kernels::OpsBuffer<Engine, E>> hold(const std::vector<E>& values) {
    const auto buffer = std::make_shared<kernels::OpsBuffer<Engine, E>>(*ops_, values);
    held_.push_back(buffer);
    return buffer;
  }

  int threads_;
  std::shared_ptr<kernels::Ops<Engine>> ops_;  // null: the CPU
  std::vector<std::shared_ptr<void>> held_;    // freed before ops_
  std::vector<std::function<void()>> downloads_;
};

// call.template operator()<T>() for the request's T, which door_request lets be f16 for samplers
// alone (sampling.h).
template <class Call>
TensorSet with_dtype(kernels::Dtype dtype, const Call& call) {
  switch (dtype) {
    case kernels::Dtype::kF64:
      return call.template operator()<double>();
    case kernels::Dtype::kF32:
      return call.template operator()<float>();
    case kernels::Dtype::kBf16:
    case kernels::Dtype::kF16:
      break;
  }
  return call.template operator()<Bf16>();
}

// Results leave as F64 under f64, else as F32.
template <class T>
Tensor float_result(const std::vector<T>& values, Shape shape) {
  if constexpr (std::is_same_v<T, Bf16>) {
    std::vector<float> wide(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      wide[i] = to_float(values[i]);
    }
    return tensor_of(wide, std::move(shape));
  } else {
    return tensor_of(values, std::move(shape));
  }
}

}  // namespace versieve::engine
