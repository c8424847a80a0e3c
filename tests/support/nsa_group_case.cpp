#include "tests/support/nsa_group_case.h"

#include <algorithm>
#include <cmath>

#include "tests/support/rounding.h"

namespace versieve::testing {
namespace {

NsaCase grouped(const NsaCase& c, GroupMode mode, std::int64_t size) {
  NsaCase r = c;
  r.shape.group_mode = mode;
  r.shape.group_size = size;
  return r;
}

std::string any_row_difference(const NsaCase& c, const NsaResult& a, const NsaResult& b) {
  for (std::int64_t row = 0; row < c.shape.nodes; ++row) {
    const std::string what = row_difference(c, a, row, b, row);
    if (!what.empty()) {
      return "row " + std::to_string(row) + ": " + what;
    }
  }
  return {};
}

// The rows that route have the bits of C = 1, the others their representative's blocks.
std::string approximate_failure(const NsaCase& c, const NsaResult& alone, const NsaResult& got) {
  const std::int64_t width = c.shape.kv_heads * c.shape.nsa.sel_count;
  for (std::int32_t row = 0; row < c.shape.nodes; ++row) {
    const std::int32_t router = routing_row(c, row);
    const std::string what = router == row ? row_difference(c, alone, row, got, row) : "";
    if (!what.empty()) {
      return "representative " + std::to_string(row) + ": " + what;
    }
    if (!std::equal(got.indices.begin() + row * width, got.indices.begin() + (row + 1) * width,
                    alone.indices.begin() + router * width)) {
      return "row " + std::to_string(row) + " has not its representative's blocks";
    }
  }
  return {};
}

bool agree(const std::vector<double>& a, const std::vector<double>& b, ReuseOutput reuse) {
  if (reuse == ReuseOutput::kSameBits) {
    return a == b;
  }
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return std::abs(x - y) <= std::ldexp(std::abs(x), -7) + 1e-6;  // sums of about 1, in f32
  });
}

}  // namespace

std::string group_failure(const NsaCase& c, const NsaRunner& run, ReuseOutput reuse_output) {
  const NsaResult alone = run(grouped(c, GroupMode::kExact, 1));
  const auto said = [](const char* kind, std::int64_t size, const std::string& what) {
    return std::string(kind) + " groups of " + std::to_string(size) + ", " + what;
  };
  for (const std::int64_t size :
       {std::int64_t{2}, std::int64_t{3}, std::int64_t{4}, std::int64_t{8}, c.shape.nodes + 5}) {
    std::string what = any_row_difference(c, alone, run(grouped(c, GroupMode::kExact, size)));
    if (!what.empty()) {
      return said("exact", size, what);
    }
    const NsaCase approximate = grouped(c, GroupMode::kApprox, size);
    const NsaResult got = run(approximate);
    what = approximate_failure(approximate, alone, got);
    if (!what.empty()) {
      return said("approximate", size, what);
    }
    NsaCase reuse = approximate;
    reuse.indices_in = got.indices;
    if (!agree(got.out, run(reuse).out, reuse_output)) {
      return said("approximate", size, "reuse of the same blocks gives another output");
    }
  }
  const std::string what = any_row_difference(c, alone, run(grouped(c, GroupMode::kApprox, 1)));
  return what.empty() ? what : said("approximate", 1, what);
}

NsaCaseShape with_random_groups(NsaCaseShape shape, std::mt19937_64& rng) {
  shape.group_mode = GroupMode::kApprox;
  shape.group_size = pick(rng, 1, std::min<std::int64_t>(shape.nodes + 3, 12));
  return shape;
}

}  // namespace versieve::testing
