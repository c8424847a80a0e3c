// Neighbouring elements that one thread moves at once.
#pragma once

namespace versieve::kernels {

// kUnit elements: 16-byte words, or a single element where sizes or addresses allow no more.
template <class T, int kUnit>
struct alignas(kUnit == 1 ? sizeof(T) : 16) Unit {
  T value[kUnit];
};

template <class T, int kUnit>
__device__ inline Unit<T, kUnit> load_unit(const T* from) {
  return *reinterpret_cast<const Unit<T, kUnit>*>(from);
}
template <class T, int kUnit>
__device__ inline void store_unit(T* to, const Unit<T, kUnit>& unit) {
  *reinterpret_cast<Unit<T, kUnit>*>(to) = unit;
}

}  // namespace versieve::kernels
