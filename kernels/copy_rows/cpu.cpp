#include "kernels/cpu.h"

#include <algorithm>

#include "kernels/common/parallel_for.h"
#include "kernels/common/small_work.h"

namespace versieve::kernels {

template <class T>
void copy_rows_cpu(const CopyRowsParams<T>& p, int threads) {
  const std::int64_t src_stride = p.src_stride == 0 ? p.width : p.src_stride;
  const std::int64_t dst_stride = p.dst_stride == 0 ? p.width : p.dst_stride;
  parallel_for(p.rows, p.rows * p.width < kSmallElements ? 1 : threads, [&](std::int64_t i) {
    const std::int64_t from = p.src_row == nullptr ? i : p.src_row[i];
    const std::int64_t to = p.dst_row == nullptr ? i : p.dst_row[i];
    std::copy_n(p.src + from * src_stride, p.width, p.dst + to * dst_stride);
  });
}

template void copy_rows_cpu<double>(const CopyRowsParams<double>&, int);
template void copy_rows_cpu<float>(const CopyRowsParams<float>&, int);
template void copy_rows_cpu<Bf16>(const CopyRowsParams<Bf16>&, int);

}  // namespace versieve::kernels
