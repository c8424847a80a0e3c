#include "kernels/common/tensor_map.h"

#include <cudaTypedefs.h>

#include "kernels/common/cuda_check.h"
#include "kernels/common/paired_map.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::kernels {
namespace {

constexpr cuuint32_t kBoxColumns = 64;

// The driver's encoder, asked of the runtime: the library links no driver.
PFN_cuTensorMapEncodeTiled_v12000 encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    throw Error(ExitCode::kEnvironment, "the CUDA driver has no tensor maps: it must know CUDA 12");
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

// `sizes` from the innermost dimension; `strides` in bytes, from the second on.
CUtensorMap encode_map(cuuint32_t rank, const Bf16* data, const cuuint64_t* sizes,
                       const cuuint64_t* strides, const cuuint32_t* box,
                       CUtensorMapL2promotion promotion) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = encoder();
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  CUtensorMap map{};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rank, const_cast<Bf16*>(data), sizes, strides,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, promotion,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  VERSIEVE_ASSERT(status == CUDA_SUCCESS, "data on 16 bytes with rows of 16-byte words");
  return map;
}

}  // namespace

CUtensorMap matrix_map(const Bf16* matrix, std::int64_t rows, std::int64_t columns, int box_rows) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes = static_cast<cuuint64_t>(columns) * sizeof(Bf16);
  const cuuint32_t box[2] = {kBoxColumns, static_cast<cuuint32_t>(box_rows)};
  return encode_map(2, matrix, sizes, &row_bytes, box, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

CUtensorMap sliced_matrix_map(const Bf16* matrix, std::int64_t rows, std::int64_t columns,
                              int box_rows, int slices) {
  const cuuint64_t parts = static_cast<cuuint64_t>(slices);
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(columns) / parts,
                               static_cast<cuuint64_t>(rows), parts};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(columns) * sizeof(Bf16),
                                 sizes[0] * sizeof(Bf16)};
  const cuuint32_t box[3] = {kBoxColumns, static_cast<cuuint32_t>(box_rows),
                             static_cast<cuuint32_t>(slices)};
  return encode_map(3, matrix, sizes, strides, box, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

CUtensorMap paired_matrix_map(const Bf16* matrix, std::int64_t half_rows, std::int64_t columns,
                              int box_eights) {
  const cuuint64_t rows = static_cast<cuuint64_t>(half_rows);
  const cuuint64_t sizes[4] = {static_cast<cuuint64_t>(columns), 8, 2, rows / 8};
  const cuuint64_t row_bytes = sizes[0] * sizeof(Bf16);
  const cuuint64_t strides[3] = {row_bytes, rows * row_bytes, 8 * row_bytes};
  const cuuint32_t box[4] = {kBoxColumns, 8, 2, static_cast<cuuint32_t>(box_eights)};
  return encode_map(4, matrix, sizes, strides, box, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

CUtensorMap cache_map(const Bf16* cache, std::int64_t rows, std::int64_t kv_heads,
                      std::int64_t head_dim, int box_rows) {
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(head_dim), static_cast<cuuint64_t>(kv_heads),
                               static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[2] = {sizes[0] * sizeof(Bf16), sizes[0] * sizes[1] * sizeof(Bf16)};
  const cuuint32_t box[3] = {kBoxColumns, 1, static_cast<cuuint32_t>(box_rows)};
  return encode_map(3, cache, sizes, strides, box, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

}  // namespace versieve::kernels
