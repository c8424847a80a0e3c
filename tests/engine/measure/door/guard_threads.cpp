// Threads that share one guard, alone in a program, as a server has it: built with
// -fsanitize=thread by guard_threads_test.cpp. Without a word all threads share an engine's guard;
// with "request" two of them share a request's, which is of one thread at a time: the race that
// must be reported.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "serving_guard.h"

namespace {

struct Row {
  long long context_high, requests_high;
  int depth, width, nodes;
  double tokens, break_even;
};
constexpr Row kRows[] = {{4096, 8, 3, 1, 4, 2.6, 1.4},
                         {4096, 8, 0, 0, 1, 1.0, 1.0},
                         {4096, 64, 0, 0, 1, 1.0, 1.0},
                         {4096, 64, 3, 1, 4, 2.6, 3.0}};
constexpr int kThreads = 4, kSteps = 5000;

// Slots are shared by all: each thread asks and tells of every one.
long long share_an_engine(const versieve_serving::Table& table) {
  versieve_serving::EngineGuard guard(table, 3);
  std::atomic<long long> nodes = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int step = 0; step < kSteps; ++step) {
        const std::size_t slot = static_cast<std::size_t>(step + t) % guard.slots();
        if (step % 1000 == 0) {
          guard.begin(slot);
        }
        nodes += guard.next(slot, 100 + step % 8000, 1 + step % 70).nodes;
        guard.observe(slot, 1.0 + step % 2);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return nodes;
}

long long share_a_request(const versieve_serving::Table& table) {
  versieve_serving::Guard guard(table);
  std::atomic<long long> nodes = 0;
  const auto play = [&] {
    for (int step = 0; step < kSteps; ++step) {
      nodes += guard.next(100, 1 + step % 70).nodes;
      guard.observe(1.0);
    }
  };
  std::thread one(play), other(play);
  one.join();
  other.join();
  return nodes;
}

}  // namespace

int main(int argc, char** argv) {
  std::string fault;
  const versieve_serving::Table table =
      versieve_serving::Table::of(std::span<const Row>(kRows), fault);
  const bool of_request = argc == 2 && std::strcmp(argv[1], "request") == 0;
  const long long nodes = of_request ? share_a_request(table) : share_an_engine(table);
  std::printf("%lld nodes\n", nodes);
  return fault.empty() && nodes > 0 ? 0 : 1;
}
