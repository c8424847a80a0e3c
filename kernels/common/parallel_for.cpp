#include "kernels/common/parallel_for.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// Spins before sleeping: about the time between two ops of a decode step on one core.
constexpr int kSpins = 4000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` is no longer `old`, spinning first; returns what it became.
int wait_change(const std::atomic<int>& value, int old) {
  for (int i = 0; i < kSpins; ++i) {
    const int now = value.load(std::memory_order_acquire);
    if (now != old) {
      return now;
    }
    relax();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

// The helpers of one calling thread. A helper sleeps on its own ticket, so a call wakes exactly
// those it uses and a late riser can never see another call's work.
class HelperPool {
 public:
  HelperPool() = default;
  HelperPool(const HelperPool&) = delete;
  HelperPool& operator=(const HelperPool&) = delete;
  ~HelperPool() {
    for (const std::unique_ptr<Helper>& helper : helpers_) {
      helper->ticket.store(kStop, std::memory_order_release);
      helper->ticket.notify_one();
    }
  }

  void run(const ParallelWork& work, int helper_count) {
    grow(helper_count);
    work_ = work;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(helper_count, std::memory_order_relaxed);
    for (int i = 0; i < helper_count; ++i) {
      Helper& helper = *helpers_[static_cast<std::size_t>(i)];
      const int ticket = helper.ticket.load(std::memory_order_relaxed);
      helper.ticket.store(ticket == kLastTicket ? 1 : ticket + 1, std::memory_order_release);
      helper.ticket.notify_one();
    }
    take_pieces();
    for (int left = busy_.load(std::memory_order_acquire); left != 0;) {
      left = wait_change(busy_, left);
    }
  }

 private:
  static constexpr int kStop = -1;
  static constexpr int kLastTicket = 1 << 30;
  struct alignas(64) Helper {
    std::atomic<int> ticket{0};
    std::jthread thread;  // last member: joined before the ticket goes
  };

  void grow(int helper_count) {
    while (static_cast<int>(helpers_.size()) < helper_count) {
      Helper& helper = *helpers_.emplace_back(std::make_unique<Helper>());
      helper.thread = std::jthread([this, &helper] { serve(helper); });
    }
  }

  void serve(const Helper& helper) {
    for (int ticket = wait_change(helper.ticket, 0); ticket != kStop;
         ticket = wait_change(helper.ticket, ticket)) {
      take_pieces();
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        busy_.notify_one();
      }
    }
  }

  void take_pieces() {
    for (;;) {
      const std::int64_t begin = next_.fetch_add(work_.piece, std::memory_order_relaxed);
      if (begin >= work_.count) {
        return;
      }
      work_.run(work_.body, begin, std::min(begin + work_.piece, work_.count));
    }
  }

  ParallelWork work_;
  alignas(64) std::atomic<std::int64_t> next_{0};
  alignas(64) std::atomic<int> busy_{0};
  std::vector<std::unique_ptr<Helper>> helpers_;
};

}  // namespace

void run_parallel(const ParallelWork& work, int threads) {
  VERSIEVE_ASSERT(threads >= 2, "one thread needs no helpers");
  thread_local HelperPool pool;  // of the calling thread; its helpers end with it
  pool.run(work, threads - 1);
}

}  // namespace versieve::kernels
