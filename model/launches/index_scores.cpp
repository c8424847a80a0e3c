#include "model/launches/index_scores.h"

#include "model/launches/launch_parts.h"

namespace versieve::traffic {

Traffic index_scores(std::int64_t rows, std::int64_t length, const IndexHeads& index,
                     std::int64_t element_bytes) {
  const double products = number(rows * length) * number(index.heads) * number(index.dim);
  Traffic t = moved(TrafficTerm::kCompressedCache, length * index.dim * element_bytes, 0,
                    2.0 * products + 3.0 * number(rows * length * index.heads));
  t.read(TrafficTerm::kQueryOutput,
         number(rows * index.heads * (index.dim * element_bytes + kF32Bytes)));
  t.write(TrafficTerm::kScores, number(rows * length * element_bytes));
  return t;
}

}  // namespace versieve::traffic
