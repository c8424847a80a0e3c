// Which memory of an Ops has gone since when: a recording may name what was there when it was made,
// and nothing that came later, wherever that lay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace versieve::kernels {

template <class T>
class Ops;

class MemoryLog {
 public:
  MemoryLog() { gone_.reserve(kMost + 1); }

  void allocated(const void* memory) { since_[memory] = ++time_; }
  // Of memory that is not known, too; null: nothing.
  void released(const void* memory) noexcept;

  // Later than all that was allocated or released so far.
  std::int64_t now() const { return time_; }
  // All memory that was there then is there still. Of times long past it may say no falsely.
  bool keeps(std::int64_t then) const;

 private:
  static constexpr std::size_t kMost = 256;

  // Memory that was there from `from` to `to`.
  struct Gone {
    std::int64_t from = 0, to = 0;
  };
  std::int64_t time_ = 0;
  std::unordered_map<const void*, std::int64_t> since_;
  std::vector<Gone> gone_;  // both ascend: one that another one spans says nothing more
};

// Who has a log; each Ops is one.
struct MemoryLogOwner {
  MemoryLogOwner() = default;
  MemoryLogOwner(const MemoryLogOwner&) = delete;
  MemoryLogOwner& operator=(const MemoryLogOwner&) = delete;
  virtual ~MemoryLogOwner() = default;

  MemoryLog memory_log;
};

// T = double, float or Bf16.
template <class T>
const MemoryLog& memory_log(const Ops<T>& ops);

}  // namespace versieve::kernels
