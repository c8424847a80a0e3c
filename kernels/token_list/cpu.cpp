#include "kernels/cpu.h"

#include <algorithm>

#include "kernels/common/parallel_for.h"
#include "model/words/assert.h"

namespace versieve::kernels {

void token_list_cpu(const TokenListParams& p, int threads) {
  VERSIEVE_ASSERT(p.chunk >= 1, "a chunk holds a token");
  VERSIEVE_ASSERT(p.length < INT32_MAX && p.stride() >= p.length, "every token has room");
  const std::int64_t length = p.counts == nullptr ? p.length : p.counts->context_len;
  VERSIEVE_ASSERT(length <= p.length, "a length on the device is below its bound");
  parallel_for(p.lists, threads, [&](std::int64_t list) {
    const std::int32_t* mask = p.mask + list * p.between_masks();
    std::int32_t* token = p.token + list * p.stride();
    std::int32_t count = 0;
    for (std::int64_t base = 0; base < length; base += p.chunk) {
      const std::int64_t end = std::min(length, base + p.chunk);
      if (std::any_of(mask + base, mask + end, [](std::int32_t m) { return m != 0; })) {
        for (std::int64_t t = base; t < end; ++t) {
          token[count++] = static_cast<std::int32_t>(t);
        }
      }
    }
    p.count[list] = count;
    if (p.total != nullptr) {
      p.total[list] += count;
    }
  });
}

}  // namespace versieve::kernels
