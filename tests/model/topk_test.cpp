// How top-k lays rows over the chip, and what that costs.
#include "model/launches/topk.h"

#include <catch2/catch.hpp>

#include "model/cost/cost_model.h"

using namespace versieve;

namespace {

TopkLayout radix(std::int64_t rows, std::int64_t length) {
  return topk_layout({.length = length, .rows = rows});
}
TopkLayout gvr(std::int64_t rows, std::int64_t length) {
  return topk_layout({.length = length, .rows = rows, .guesses = true});
}

LaunchWork work_of(const char* text, std::int64_t length, std::int64_t rows) {
  StepWork work;
  add_topk(TopkCase::parse(text), length, rows, 4, true, work);
  return work.work[0];
}

double read_bytes(const LaunchWork& work) {
  const CostParameters parameters = initial_parameters();
  return cost_of(work, hardware_by_key("h200-sxm"), parameters, {}).read_bytes -
         parameters[index_of(work.kind, KindParameter::kFixedRead)];
}

}  // namespace

TEST_CASE("rows of scores take as many blocks as their registers or the chip allow") {
  CHECK(radix(1, 8192).cluster == 4);
  CHECK(radix(128, 8192).cluster == 1);
  CHECK(radix(1, 262144).cluster == 16);
  CHECK(radix(32, 262144).cluster == 16);
  CHECK(radix(32, 262144).registers);
  CHECK(radix(128, 262144).cluster == 2);  // 2,048 blocks of registers would be too many
  CHECK_FALSE(radix(128, 262144).registers);
  CHECK(gvr(1, 131072).cluster == 8);
  CHECK(gvr(128, 32768).cluster == 1);
  CHECK(gvr(128, 131072).cluster == 2);
  CHECK(gvr(1, 131072).most_items == 16);
}

TEST_CASE("short rows are counted whatever the variant") {
  CHECK(topk_is_short(16384, 128));
  CHECK(topk_is_short(32768, 32));
  CHECK_FALSE(topk_is_short(32768, 33));
  CHECK(work_of("topk:gvr/k256/hint0.75", 32768, 32).kind == LaunchKind::kTopkRadix);
  CHECK(work_of("topk:gvr/k256/hint0.75", 131072, 32).kind == LaunchKind::kTopkGvr);
}

TEST_CASE("one block takes short rows, and no hint of theirs is read") {
  CHECK(topk_takes_one_block(8192, 1, 64));
  CHECK(topk_takes_one_block(16384, 1, 2048));
  CHECK_FALSE(topk_takes_one_block(16384, 31, 1024));
  CHECK(topk_takes_one_block(16384, 32, 1024));
  CHECK_FALSE(topk_takes_one_block(16384, 32, 1023));
  CHECK_FALSE(topk_takes_one_block(16385, 32, 16385));
  for (const char* text : {"topk:radix/k256", "topk:gvr/k256/hint0.75"}) {
    const LaunchWork work = work_of(text, 8192, 32);
    CHECK(work.kind == LaunchKind::kTopkShort);
    CHECK(work.unique.total_read() == 32.0 * 8192 * 4);
  }
  CHECK(work_of("topk:sort/k256", 8192, 32).kind == LaunchKind::kTopkSort);
}

TEST_CASE("rows that no registers hold come from memory for every pass that L2 does not serve") {
  const double scores = 128.0 * 262144.0 * 4.0;
  const double streamed = read_bytes(work_of("topk:radix/k256", 262144, 128));
  CHECK(streamed > 3.0 * scores);  // 417 MB were counted of 134
  CHECK(streamed < 3.3 * scores);
  const double kept = 32.0 * 262144.0 * 4.0;
  CHECK(read_bytes(work_of("topk:radix/k256", 262144, 32)) == Approx(kept).epsilon(0.01));
  const double once = read_bytes(work_of("topk:gvr/k256/hint0.75", 262144, 128));
  CHECK(once > 1.1 * scores);
  CHECK(once < 1.25 * scores);
  // Small enough for L2: read from memory once.
  const double few = 32.0 * 8192.0 * 4.0;
  CHECK(read_bytes(work_of("topk:sort/k256", 8192, 32)) == Approx(few).epsilon(0.01));
}

TEST_CASE("large clusters come in waves, long rows are sorted one after the other") {
  const double one = work_of("topk:radix/k256", 262144, 8).steps;
  const double four = work_of("topk:radix/k256", 262144, 32).steps;  // 8 clusters of 16 at once
  CHECK(four > 2.5 * one);
  CHECK(work_of("topk:sort/k256", 131072, 32).steps == Approx(32.0));
  CHECK(work_of("topk:sort/k256", 8192, 32).steps < 2.0);
}
