// The guard that a server embeds: it follows requests, context and acceptance, takes no time worth
// the name, and survives whatever it is told.
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>

#define VERSIEVE_GUARD_IMPLEMENTATION
#include "engine/measure/door/guard/serving_guard.h"
#include "engine/measure/door/guard/serving_guard_c.h"
#include "tests/end_to_end/command.h"
#include "tests/engine/measure/door/guard_case.h"
#include "tests/support/sanitized.h"

using versieve::test::kGuardRows;
using versieve::test::table_of;
using versieve_serving::Guard;
using versieve_serving::Table;
using Row = versieve_guard_row;

namespace {

std::string fault_of(const std::vector<Row>& rows) {
  std::string fault;
  CHECK(Table::of(std::span<const Row>(rows), fault).cell_count() == 0);
  return fault;
}

}  // namespace

TEST_CASE("the guard follows a crowd and the context at once, and a lull some steps later") {
  const Table table = table_of(kGuardRows);
  CHECK(table.cell_count() == 5);
  Guard guard(table);
  CHECK(guard.next(100, 1).nodes == 32);
  CHECK(guard.next(100, 2).nodes == 4);
  CHECK(guard.next(100, 9).nodes == 1);
  for (int step = 1; step < versieve_serving::kPatience; ++step) {
    CHECK(guard.next(100, 1).nodes == 1);
  }
  CHECK(guard.next(100, 1).nodes == 32);
  CHECK(guard.next(4096, 1).nodes == 32);
  CHECK(guard.next(4097, 1).nodes == 4);
  CHECK(guard.next(4097, 2).nodes == 1);
  // Beyond the last context its own cells, beyond the most requests nothing is drafted.
  Guard another(table);
  CHECK(another.next(1 << 20, 1).nodes == 4);
  CHECK(guard.next(100, 65).nodes == 1);
}

TEST_CASE("a request that accepts little goes to a shorter draft, then to none, and tries again") {
  const Table table = table_of(kGuardRows);
  Guard guard(table);
  bool shorter = false, none = false, again = false;
  for (int step = 0; step < 600; ++step) {
    const versieve_serving::Choice choice = guard.next(100, 1);
    shorter = shorter || choice.nodes == 4;
    again = again || (none && choice.nodes > 1);
    none = none || choice.nodes == 1;
    CHECK(guard.observe(1.0));
  }
  CHECK(shorter);
  CHECK(none);
  CHECK(again);
}

TEST_CASE("a request as expected stays with the schedule's choice, and so does a lucky one") {
  const Table table = table_of(kGuardRows);
  for (const double tokens : {4.0, 7.0}) {
    Guard guard(table);
    for (int step = 0; step < 300; ++step) {
      CHECK(guard.next(100, 1).nodes == 32);
      CHECK(guard.observe(tokens));
    }
  }
  // One bad step of four does not move it.
  Guard guard(table);
  for (int step = 0; step < 300; ++step) {
    CHECK(guard.next(100, 1).nodes == 32);
    CHECK(guard.observe(step % 4 == 0 ? 1.0 : 5.0));
  }
}

TEST_CASE("what no step can yield is not learnt") {
  const Table table = table_of(kGuardRows);
  Guard guard(table);
  guard.next(100, 1);
  const double before = guard.share();
  for (const double tokens : {0.0, -1.0, 7.5, std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity()}) {
    CHECK(!guard.observe(tokens));
  }
  CHECK(guard.share() == before);
  CHECK(guard.next(-5, -5).nodes == 32);
}

TEST_CASE("rows that are no schedule are refused with the row") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(fault_of({}) == "a schedule has at least one row");
  CHECK(fault_of({{4096, 1, 3, 1, 4, nan, 1.2}}).find("row 0: no draft") == 0);
  CHECK(fault_of({{4096, 1, 3, 1, 4, 2.0, 0.0}}).find("row 0: no draft") == 0);
  CHECK(fault_of({{4096, 1, 3, 1, 0, 2.0, 1.0}}).find("row 0: no draft") == 0);
  CHECK(
      fault_of({{4096, 8, 3, 1, 4, 2.0, 1.0}, {4096, 1, 3, 1, 4, 2.0, 1.0}}).find("row 1: cells") ==
      0);
  char why[16];
  CHECK(versieve_guard_table_make(nullptr, 4, why, sizeof why) == nullptr);
  CHECK(std::string(why) == "a schedule has ");
  CHECK(versieve_guard_make(nullptr) == nullptr);
}

TEST_CASE("where there was too little memory for a guard a server decodes plainly") {
  CHECK(versieve_guard_next(nullptr, 100, 1).nodes == 1);
  CHECK(versieve_guard_observe(nullptr, 2.0) == 0);
  versieve_guard_free(nullptr);
  CHECK(versieve_engine_guard_make(nullptr, 4) == nullptr);
  CHECK(versieve_engine_guard_begin(nullptr, 0) == 0);
  CHECK(versieve_engine_guard_next(nullptr, 0, 100, 1).depth == 0);
  CHECK(versieve_engine_guard_observe(nullptr, 0, 2.0) == 0);
  versieve_engine_guard_free(nullptr);
}

TEST_CASE("a step of the guard takes less than a microsecond") {
  // A large schedule: 8 contexts, 9 ranges of requests, 12 choices each.
  std::vector<Row> rows;
  for (std::int64_t context = 1024; context <= 131072; context *= 2) {
    for (std::int64_t requests = 1; requests <= 256; requests *= 2) {
      for (int depth = 0; depth < 12; ++depth) {
        rows.push_back({context, requests, depth, 1, depth + 1, 1.0 + 0.3 * depth,
                        1.0 + 0.02 * depth * static_cast<double>(requests)});
      }
    }
  }
  versieve_guard_table* table = versieve_guard_table_make(rows.data(), rows.size(), nullptr, 0);
  REQUIRE(table != nullptr);
  versieve_guard* guard = versieve_guard_make(table);
  REQUIRE(guard != nullptr);
  double best = 1e9;
  std::int64_t nodes = 0;
  for (int round = 0; round < 20; ++round) {  // the least disturbed round counts
    const auto begin = std::chrono::steady_clock::now();
    constexpr int kSteps = 20000;
    for (int step = 0; step < kSteps; ++step) {
      nodes += versieve_guard_next(guard, 120000 + step % 7, 1 + (step / 50) % 200).nodes;
      nodes += versieve_guard_observe(guard, 1.0 + (step % 2));
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count() / kSteps);
  }
  std::printf("a step of the guard: %.0f ns (%zu rows, %lld)\n", best, rows.size(),
              static_cast<long long>(nodes));
  CHECK(best < 1000.0 * versieve::test::kSanitized);
  versieve_guard_free(guard);
  versieve_guard_table_free(table);
}

TEST_CASE("the example of C builds from its folder and goes down with acceptance and crowds") {
  const versieve::test::TempFolder folder;
  const std::string guard = VERSIEVE_SOURCE_DIR "/engine/measure/door/guard/";
  const std::string out = folder.path().string();
  const versieve::test::CommandResult built =
      versieve::test::run_line("cd " + out + " && cc -std=c11 -Wall -Wextra -Werror -c " + guard +
                               "example.c && c++ -std=c++20 -Wall -Wextra -Werror -c " + guard +
                               "guard.cpp && c++ example.o guard.o -o example");
  INFO(built.err);
  REQUIRE(built.code == 0);
  {
    std::ofstream csv(folder / "schedule.csv");
    csv << "context_low,context_high,requests_low,requests_high,rank,depth,width,nodes,tokens,"
           "tokens_low,tokens_high,break_even,break_even_low,break_even_high,loses,tokens_source,"
           "times\n"
           "0,4096,1,8,1,3,1,4,2.6,2.4,2.8,1.2,1.1,1.3,0,counted,timed\n"
           "0,4096,1,8,2,1,1,2,1.7,1.6,1.8,1.05,1,1.1,0,cut,between\n"
           "0,4096,1,8,3,0,0,1,1,1,1,1,1,1,0,counted,timed\n"
           "0,4096,9,64,1,0,0,1,1,1,1,1,1,1,0,counted,timed\n";
  }
  const versieve::test::CommandResult run =
      versieve::test::run_line(out + "/example " + out + "/schedule.csv");
  INFO(run.out << run.err);
  CHECK(run.code == 0);
  CHECK(run.out.find("step 0: context 902, 1 at a time: depth 3") != std::string::npos);
  CHECK(run.out.find("step 119: context 1032, 1 at a time: depth 1") != std::string::npos);
  CHECK(run.out.find("64 at a time: depth 0") != std::string::npos);
  CHECK(versieve::test::run_line(out + "/example " + out + "/example.o").code == 3);
  CHECK(versieve::test::run_line(out + "/example").code == 2);
}
