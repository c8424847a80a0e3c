// A schedule that the guard's tests follow.
#pragma once

#include <catch2/catch.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/measure/door/guard/serving_guard.h"
#include "engine/measure/door/guard/serving_guard_c.h"

namespace versieve::test {

// Two contexts; a tree at one request, a chain to 8, none above, up to 64.
inline const std::vector<versieve_guard_row> kGuardRows = {
    {4096, 1, 6, 4, 32, 4.0, 1.5}, {4096, 1, 3, 1, 4, 2.6, 1.2}, {4096, 1, 0, 0, 1, 1.0, 1.0},
    {4096, 8, 3, 1, 4, 2.6, 1.4},  {4096, 8, 0, 0, 1, 1.0, 1.0}, {4096, 64, 0, 0, 1, 1.0, 1.0},
    {4096, 64, 3, 1, 4, 2.6, 3.0}, {8192, 1, 3, 1, 4, 2.2, 1.2}, {8192, 1, 0, 0, 1, 1.0, 1.0},
    {8192, 64, 0, 0, 1, 1.0, 1.0},
};

inline versieve_serving::Table table_of(const std::vector<versieve_guard_row>& rows) {
  std::string fault;
  versieve_serving::Table out =
      versieve_serving::Table::of(std::span<const versieve_guard_row>(rows), fault);
  CAPTURE(fault);
  REQUIRE(fault.empty());
  return out;
}

}  // namespace versieve::test
