// What a server drafts in a request's next step, by what it knows just then: how many requests run,
// how long the context is, and what this request's steps yielded. Header-only C++20, nothing else
// of this project is needed; serving_guard_c.h is the same for C. Rows are those of a serving
// schedule
// (`versieve export --format cpp` or csv). A step is a few comparisons, without allocation.
//
// Of each cell of the schedule the guard takes the choice that promises most tokens a plain step:
// (1 + share x (tokens - 1)) / break_even, where `share` is what this request's drafts accepted
// against what the schedule expects, over the last some fifty steps and kPriorSteps steps as
// expected. It moves only when another choice promises kMargin more for kPatience steps in a row;
// but a smaller draft, or none, is taken at once where the requests or the context enter another
// cell: a crowd that comes costs every request, one that goes is seen again a few steps later, and
// requests that come and go around a switch point do not make it flap. Plain steps say nothing of
// drafts: what is known fades, and the schedule's own choice is tried again.
//
// Threads: a Table is never changed and serves any number of them. A Guard is of one request and of
// one thread at a time. An EngineGuard is of all requests of an engine and of any number of
// threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace versieve_serving {

inline constexpr double kPriorSteps = 17.0;  // as model/plan/runtime_guard.h, of measured texts
inline constexpr double kFade = 0.98;        // of what a step said, each step later
inline constexpr double kMargin = 0.03;      // by which another choice must promise more
inline constexpr int kPatience = 5;          // steps in a row that it must

struct Choice {
  int depth = 0;
  int width = 0;
  int nodes = 1;            // with the root; 1: no draft
  double tokens = 1.0;      // a step, bonus counted, as the schedule expects
  double break_even = 1.0;  // its step's time in plain steps
};

struct Cell {
  std::int64_t context_high = 0;     // contexts up to this, above the cell before
  std::int64_t requests_high = 0;    // likewise
  std::size_t first = 0, count = 0;  // its choices
};

// The schedule, shared by all requests of a server.
class Table {
 public:
  // Rows of any type with the fields of an exported schedule. `fault`: why they are no schedule,
  // and then the table is empty and answers plain decoding.
  template <class Row>
  static Table of(std::span<const Row> rows, std::string& fault) {
    Table out;
    fault.clear();
    for (std::size_t i = 0; i < rows.size() && fault.empty(); ++i) {
      fault = out.add(rows[i], i);
    }
    if (fault.empty() && rows.empty()) {
      fault = "a schedule has at least one row";
    }
    if (!fault.empty()) {
      out.cells_.clear();
      out.choices_.clear();
    }
    return out;
  }

  // The cell of so long a context and so many requests. Beyond the last context the last one's
  // cells stand in; beyond the most requests nothing is known: none.
  const Cell* find(std::int64_t context, std::int64_t requests) const {
    if (cells_.empty()) {
      return nullptr;
    }
    const std::int64_t most = cells_.back().context_high;
    const auto found = std::find_if(cells_.begin(), cells_.end(), [&](const Cell& cell) {
      return std::min(context, most) <= cell.context_high && requests <= cell.requests_high;
    });
    const auto bucket = std::find_if(cells_.begin(), cells_.end(), [&](const Cell& cell) {
      return std::min(context, most) <= cell.context_high;
    });
    return found != cells_.end() && found->context_high == bucket->context_high ? &*found : nullptr;
  }
  std::span<const Choice> choices(const Cell& cell) const {
    return std::span<const Choice>(choices_).subspan(cell.first, cell.count);
  }
  std::size_t cell_count() const { return cells_.size(); }

 private:
  template <class Row>
  std::string add(const Row& row, std::size_t index) {
    const std::string place = "row " + std::to_string(index) + ": ";
    const double tokens = static_cast<double>(row.tokens);
    const double break_even = static_cast<double>(row.break_even);
    const bool is_choice = row.nodes >= 1 && row.depth >= 0 && row.width >= 0 && tokens >= 1.0 &&
                           tokens <= 1e6 && break_even > 0.0 && break_even <= 1e6;
    if (!is_choice || row.context_high < 1 || row.requests_high < 1) {
      return place + "no draft of at least one token a step that takes some time";
    }
    const bool same = !cells_.empty() && cells_.back().context_high == row.context_high &&
                      cells_.back().requests_high == row.requests_high;
    if (!same) {
      const bool ascends = cells_.empty() || row.context_high > cells_.back().context_high ||
                           (row.context_high == cells_.back().context_high &&
                            row.requests_high > cells_.back().requests_high);
      if (!ascends) {
        return place + "cells ascend by context, then by requests";
      }
      cells_.push_back({row.context_high, row.requests_high, choices_.size(), 0});
    }
    choices_.push_back({static_cast<int>(row.depth), static_cast<int>(row.width),
                        static_cast<int>(row.nodes), tokens, break_even});
    cells_.back().count += 1;
    return "";
  }

  std::vector<Cell> cells_;
  std::vector<Choice> choices_;
};

// Of one request. REQUIRES: the table outlives it.
class Guard {
 public:
  Guard() = default;  // of no schedule: plain decoding
  explicit Guard(const Table& table) : table_(&table) {}

  // What the next step drafts. Plain decoding where nothing is known.
  Choice next(std::int64_t context, std::int64_t requests) {
    const Cell* cell = table_ == nullptr ? nullptr : table_->find(context, requests);
    if (cell == nullptr) {
      cell_ = nullptr;
      return take({});
    }
    const std::span<const Choice> choices = table_->choices(*cell);
    const Choice* best = &choices[0];
    const Choice* own = nullptr;      // the active one, of this cell
    const Choice* smaller = nullptr;  // the best that drafts no more than the active one
    for (const Choice& choice : choices) {
      best = promise(choice) > promise(*best) ? &choice : best;
      own = is_same(choice, active_) ? &choice : own;
      if (choice.nodes <= active_.nodes &&
          (smaller == nullptr || promise(choice) > promise(*smaller))) {
        smaller = &choice;
      }
    }
    const bool enters = cell != cell_;
    cell_ = cell;
    if (!started_ || (own == nullptr && smaller == nullptr)) {
      return take(*best);
    }
    if (own == nullptr) {
      own = smaller;
    }
    const double bar = (1.0 + kMargin) * promise(*own);
    if (enters && smaller != nullptr && smaller->nodes < own->nodes && promise(*smaller) > bar) {
      own = smaller;
    }
    active_ = *own;
    if (promise(*best) > (1.0 + kMargin) * promise(active_)) {
      wishes_ = is_same(*best, wished_) ? wishes_ + 1 : 1;
      wished_ = *best;
    } else {
      wishes_ = 0;
    }
    return wishes_ >= kPatience ? take(*best) : active_;
  }

  // The step that next() chose yielded so many tokens, bonus counted. False: no number of tokens
  // that it can have yielded, and nothing was learnt.
  bool observe(double tokens) {
    if (!(tokens >= 1.0 && tokens <= static_cast<double>(active_.depth) + 1.0)) {
      return false;
    }
    const bool drafted = active_.nodes > 1;
    const double forgotten = (1.0 - kFade) * kPriorSteps;
    got_ = kFade * got_ + (drafted ? tokens - 1.0 : forgotten);
    expected_ = kFade * expected_ + (drafted ? active_.tokens - 1.0 : forgotten);
    return true;
  }

  // What this request's drafts accept against what the schedule expects; 1: as much.
  double share() const { return got_ / std::max(expected_, kLeastExpected); }

 private:
  static constexpr double kLeastExpected = 1e-6;  // of a draft that nobody expects anything of

  static bool is_same(const Choice& a, const Choice& b) {
    return a.depth == b.depth && a.width == b.width && a.nodes == b.nodes;
  }
  Choice take(const Choice& choice) {
    started_ = true;
    wishes_ = 0;
    active_ = choice;
    return active_;
  }
  double promise(const Choice& c) const {
    const double most = static_cast<double>(c.depth) + 1.0;
    return std::min(most, 1.0 + share() * (c.tokens - 1.0)) / c.break_even;
  }

  const Table* table_ = nullptr;
  const Cell* cell_ = nullptr;
  Choice active_;
  // Tokens beyond the bonus, faded; at first those of kPriorSteps steps as expected, of one each.
  double got_ = kPriorSteps, expected_ = kPriorSteps;
  Choice wished_;   // the one that promised more
  int wishes_ = 0;  // steps in a row that it did
  bool started_ = false;
};

// The guards of all requests that an engine runs at once, by the slot that each has in it. Any
// thread may ask and tell of any slot: two that meet at one slot wait for each other for less than
// a step of the guard, and those at different slots never do. REQUIRES: the table outlives it.
class EngineGuard {
 public:
  EngineGuard(const Table& table, std::size_t slots) : table_(&table), slots_(slots) {
    for (Slot& slot : slots_) {
      slot.guard = Guard(table);
    }
  }

  std::size_t slots() const { return slots_.size(); }
  // A new request has this slot. This and the next two do nothing, and answer false or plain
  // decoding, of a slot that is not there.
  bool begin(std::size_t slot) {
    if (slot >= slots_.size()) {
      return false;
    }
    const Hold hold(slots_[slot]);
    slots_[slot].guard = Guard(*table_);
    return true;
  }
  Choice next(std::size_t slot, std::int64_t context, std::int64_t requests) {
    if (slot >= slots_.size()) {
      return {};
    }
    const Hold hold(slots_[slot]);
    return slots_[slot].guard.next(context, requests);
  }
  bool observe(std::size_t slot, double tokens) {
    if (slot >= slots_.size()) {
      return false;
    }
    const Hold hold(slots_[slot]);
    return slots_[slot].guard.observe(tokens);
  }

 private:
  struct alignas(64) Slot {  // a cache line of its own
    std::atomic_flag taken = ATOMIC_FLAG_INIT;
    Guard guard;
  };
  class Hold {
   public:
    explicit Hold(Slot& slot) : slot_(slot) {
      while (slot_.taken.test_and_set(std::memory_order_acquire)) {
        std::this_thread::yield();
      }
    }
    ~Hold() { slot_.taken.clear(std::memory_order_release); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Slot& slot_;
  };

  const Table* table_;
  std::vector<Slot> slots_;
};

}  // namespace versieve_serving
