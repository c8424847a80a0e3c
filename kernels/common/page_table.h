// Where rows of a sequence's committed tokens lie that come in pages of 64, anywhere among those of
// buffers which many sequences share. A tile of 64 keys whose first is a multiple of 64 is a page.
#pragma once

#include <cstdint>

#include "kernels/common/host_device.h"

namespace versieve::kernels {

inline constexpr int kPageRows = 64;

// Row `row` >= 0 of a sequence; page null: its rows lie side by side.
template <class Row>
VERSIEVE_HOST_DEVICE inline Row row_in_page(const std::int32_t* page, Row row) {
  return page == nullptr ? row
                         : static_cast<Row>(page[row / kPageRows]) * kPageRows + row % kPageRows;
}

struct PageTable {
  // [ceil(rows / 64)], memory of an Ops, which CUDA reads as early as lists that are older: row i
  // of the sequence is row page[i / 64] * 64 + i % 64 of the buffers. Null: it is row i.
  const std::int32_t* page = nullptr;
  std::int64_t count = 0;  // pages that the buffers hold

  VERSIEVE_HOST_DEVICE std::int64_t row(std::int64_t i) const { return row_in_page(page, i); }
  // Rows of the buffers, of which a sequence has `own`.
  std::int64_t rows(std::int64_t own) const { return page == nullptr ? own : count * kPageRows; }
};

}  // namespace versieve::kernels
