// Lists that grow by lists.
#pragma once

#include <vector>

namespace versieve::engine {

template <class E, class Range>
void append(std::vector<E>& out, const Range& values) {
  out.insert(out.end(), values.begin(), values.end());
}

}  // namespace versieve::engine
